"""Reads tables: CSV, Parquet, a frame in memory or an embedded table; one for all, or one file per party."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pandas as pd

from leakledger.preprocess.data.basis import Basis
from leakledger.preprocess.data.clean import Missing, clean, require_variation
from leakledger.preprocess.data.columns import as_text, plain_frame
from leakledger.preprocess.data.csv_file import read_csv
from leakledger.preprocess.data.embedded import EMBEDDED
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.file_format import FileFormat, format_of, with_points
from leakledger.preprocess.data.inference import basis_of, category_orders, infer
from leakledger.preprocess.data.parties import named
from leakledger.preprocess.data.readers import read_typed
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.schema_file import Declared, find_schema, read_schema, stem
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.data.table import Table

__all__ = ["DataError", "read_table", "read_tables"]

Source = str | Path | pd.DataFrame


@dataclass(frozen=True)
class Loaded:
    """A source's plain columns. `typed`: its text is text, not numbers that wait to be parsed."""

    source: str
    name: str
    frame: pd.DataFrame
    declared: Declared
    typed: bool


def read_table(
    source: Source,
    schema: Schema | Declared | str | Path | None = None,
    target: str | None = None,
    missing: Missing = "error",
    *,
    na_values: Collection[str] | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    carried: Collection[str] = (),
    declared: Declared | None = None,
) -> Table:
    """The table of a CSV file (.csv, .csv.gz), a Parquet file, a frame, or an embedded name (`embedded.EMBEDDED`).

    `schema`: a schema, a declaration, or a schema file; None takes the one beside the file, and what is not declared is
    inferred (`inference.infer_schema`; the table's `basis` says what). Declared categorical columns are read as text,
    so the code "01" stays "01".
    `target` takes the place of the declared target, which is then no feature, its task and classes void.
    Missing is the empty field, and any text in `na_values`; `missing` says what becomes of it (`clean.clean`). How the
    file is written (`file_format`) is as given, else as the schema says. Columns that are `carried` are no features:
    they stay beside them as text, whatever the schema makes of them. `declared`: ranges and domains beside those of the
    schema, which they replace. The index of a frame is no column.

    Raises DataError, one line, for anything that cannot be used.
    """
    given = {"na_values": na_values, "encoding": encoding, "separator": separator, "decimal": decimal}
    schema = _schema_of([source], schema)
    loaded = _load(source, schema, given)
    whole = _carrying(with_bounds(_declaration([loaded], schema, target), declared), carried)
    frame, full, basis = _settle(whole, loaded.frame, loaded.source, loaded.typed)
    table = clean(frame, full, loaded.source, loaded.name, missing, basis)
    require_variation([table], loaded.source)
    return table


def read_tables(
    sources: str | Path | Sequence[Source],
    schema: Schema | Declared | str | Path | None = None,
    target: str | None = None,
    missing: Missing = "error",
    *,
    na_values: Collection[str] | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    carried: Collection[str] = (),
    declared: Declared | None = None,
) -> dict[str, Table]:
    """One table per party, by party name: the file's name without its kind. `sources` is a list, or a pattern (a*.csv).

    Options as for `read_table`. All parties share one schema: the given one, else the one beside the first file that
    has one; what it leaves open is inferred from all rows together. Imputation uses a party's own rows only. Raises
    DataError where columns differ, for fewer than two parties, and for a file that is listed twice.
    """
    paths = _expand(sources)
    if len(paths) < 2:
        what = sources if isinstance(sources, str | Path) else "sources"  # never the rows of a frame
        raise DataError(f"{what}: found {len(paths)}; a federation needs at least two parties, one file each")
    _refuse_twice(paths)
    given = {"na_values": na_values, "encoding": encoding, "separator": separator, "decimal": decimal}
    schema = _schema_of(paths, schema)
    parts = [_load(p, schema, given) for p in paths]
    _check_columns(parts)
    whole = _carrying(with_bounds(_declaration(parts, schema, target), declared), carried)
    typed = all(p.typed for p in parts)
    together, full, basis = _settle(whole, _stack(parts), f"{len(parts)} files", typed)
    tables = [clean(p.frame[list(together.columns)], full, p.source, p.name, missing, basis) for p in parts]
    require_variation(tables, f"{len(parts)} files")
    return dict(zip(named([p.name for p in parts]), tables, strict=True))


def raw_rows(
    sources: str | Path | Sequence[Source], schema: Schema | Declared | str | Path | None = None, **form: Any
) -> tuple[pd.DataFrame, Schema | Declared | None]:
    """All rows of the sources as they stand in them, nothing checked, dropped or filled: plain columns, numbers still
    text where a file has no types; and the schema they are to be read with. `form`: `file_format`'s, None if not given.
    """
    paths: list[Source] = [sources] if isinstance(sources, str | Path) else list(sources)
    found = _schema_of(paths, schema)
    return _stack([_load(p, found, form) for p in paths]), found


def _expand(sources: str | Path | Sequence[Source]) -> list[Source]:
    if not isinstance(sources, str | Path):
        return list(sources)
    if not has_magic(str(sources)):
        return [sources]
    return sorted(glob(str(sources)))


def _refuse_twice(sources: Sequence[Source]) -> None:
    """Raises DataError for a file that two parties would have: whoever knows the one's rows knows the other's, so that
    guessing would get what an attack gets, and a leak look small.
    """
    files: set[Path] = set()
    for source in (s for s in sources if not isinstance(s, pd.DataFrame)):
        if (file := Path(source).resolve()) in files:
            raise DataError(f"{source}: is listed twice; give each party a file of its own")
        files.add(file)


def _schema_of(sources: Sequence[Source], schema: Schema | Declared | str | Path | None) -> Schema | Declared | None:
    """The schema given, else the one in the first file beside one of the sources; None where there is none."""
    if schema is None:
        paths = [Path(s) for s in sources if not isinstance(s, pd.DataFrame) and str(s) not in EMBEDDED]
        schema = next((found for p in paths if (found := find_schema(p))), None)
    return read_schema(schema) if isinstance(schema, str | Path) else schema


def _load(source: Source, schema: Schema | Declared | None, given: Mapping[str, Any]) -> Loaded:
    form = format_of(schema, given)
    if isinstance(source, pd.DataFrame):
        if source.empty:
            raise DataError("table: the frame has no rows or no columns")
        declared = Declared(orders=category_orders(source))
        return Loaded("table", "table", plain_frame(source, form.missing, "table"), declared, typed=True)
    if str(source) in EMBEDDED:
        frame, declared = EMBEDDED[str(source)]()
        return Loaded(str(source), str(source), plain_frame(frame, form.missing, str(source)), declared, typed=True)
    path = Path(source)
    raw, typed = _read_file(path, form)
    if form.decimal == "," and not typed:
        leave = (*(getattr(schema, "categorical", None) or ()), *getattr(schema, "drop", ()))
        raw = with_points(raw, str(path), leave)
    declared = Declared(orders=category_orders(raw))
    return Loaded(str(path), stem(path), plain_frame(raw, form.missing, str(path)), declared, typed)


def _read_file(path: Path, form: FileFormat) -> tuple[pd.DataFrame, bool]:
    """The file's cells, and whether they have types."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path}: is a device or a pipe, which is not read: name a file")
    try:
        typed = read_typed(path)
        return (read_csv(path, form.encoding, form.separator), False) if typed is None else (typed, True)
    except FileNotFoundError:
        known = [*EMBEDDED, *(str(p) for p in path.parent.glob("*") if p.is_file())]
        raise DataError(f"{path}: no such file or embedded table{closest(str(path), known)}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or type(error).__name__}") from None


def _declaration(parts: Sequence[Loaded], schema: Schema | Declared | None, target: str | None) -> Schema | Declared:
    """What is declared of the parts: by the schema, else the columns."""
    return _retarget(parts[0].declared if schema is None else schema, target)


def _carrying(declared: Schema | Declared, columns: Collection[str]) -> Schema | Declared:
    """The declaration with these columns beside the features, but the target, which is none of them."""
    aside = [c for c in columns if c != declared.target]
    if not aside:
        return declared
    lists = {key: getattr(declared, key) for key in ("categorical", "numeric", "integer", "sensitive")}
    tables = {key: getattr(declared, key).items() for key in ("orders", "ranges", "domains")}
    kept: dict[str, Any] = {
        **{key: None if names is None else tuple(c for c in names if c not in aside) for key, names in lists.items()},
        **{key: {c: v for c, v in table if c not in aside} for key, table in tables.items()},
    }
    if isinstance(declared, Schema):
        return replace(declared, **kept)
    drop = tuple(c for c in declared.drop if c not in aside)
    return declared.model_copy(update={**kept, "drop": drop, "carried": (*declared.carried, *aside)})


def with_bounds(declared: Schema | Declared, more: Declared | None) -> Schema | Declared:
    """The declaration with the ranges and domains of `more`. Raises DataError, as they are no part of a whole schema
    that is given.
    """
    if more is None or not (more.ranges or more.domains):
        return declared
    if isinstance(declared, Schema):
        raise DataError("ranges and domains are those of the schema that is given; set them there")
    bounds = {"ranges": {**declared.ranges, **more.ranges}, "domains": {**declared.domains, **more.domains}}
    return declared.model_copy(update=bounds)


def _retarget(declared: Schema | Declared, target: str | None) -> Schema | Declared:
    """The declaration with another target; the declared one is dropped with all that was said about it."""
    if target is None or target == declared.target:
        return declared
    if isinstance(declared, Schema):
        raise DataError(f"target {target!r} is not the schema's target {declared.target!r}; name one of them")
    gone = (*declared.drop, *((declared.target,) if declared.target else ()))
    lists = {key: getattr(declared, key) for key in ("categorical", "numeric", "integer")}
    kept = {key: None if names is None else tuple(c for c in names if c != target) for key, names in lists.items()}
    void = dict.fromkeys(("task", "positive_class", "classes") if declared.target else ())
    bounds = {key: {c: v for c, v in getattr(declared, key).items() if c != target} for key in ("ranges", "domains")}
    return declared.model_copy(update={**kept, **void, **bounds, "target": target, "drop": gone})


def _settle(
    declared: Schema | Declared, frame: pd.DataFrame, source: str, typed: bool
) -> tuple[pd.DataFrame, Schema, Basis]:
    """The frame without what is dropped, the complete schema, and what it rests on."""
    if isinstance(declared, Schema):
        return frame, declared, Basis(declared.declaration(), tuple(frame.columns), source=source)
    basis = basis_of(declared, frame, source, typed)
    return frame.drop(columns=list(declared.drop)), infer(basis, frame), basis


def _check_columns(parts: Sequence[Loaded]) -> None:
    first = parts[0]
    for part in parts[1:]:
        for one, other in ((first, part), (part, first)):
            if lacking := [c for c in one.frame.columns if c not in other.frame]:
                near = closest(lacking[0], other.frame.columns.difference(one.frame.columns))
                raise DataError(f"{other.source}: no column {lacking[0]!r}{near}, unlike {one.source}; make them agree")


def _stack(parts: Sequence[Loaded]) -> pd.DataFrame:
    """All rows, a column as text where not every part holds it as numbers."""
    frames = [p.frame for p in parts]
    mixed = [c for c in frames[0].columns if len({str(f[c].dtype) for f in frames}) > 1]
    return pd.concat([f.assign(**{c: as_text(f[c]) for c in mixed}) for f in frames], ignore_index=True)
