"""A configuration for one's own table: what `leakledger init --data` writes after a look at the file.

Reading guesses nothing; this does, and writes its guesses down where they can be seen and corrected: how the file is
written, what each column is, which columns name rows or hold dates and are left out at first. The schema stands in the
configuration, and is public input: whoever takes part knows it.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from leakledger.audit.config_file import config_of
from leakledger.audit.config_template import TWO_METHODS, chooses_methods, config_text
from leakledger.audit.records import plural
from leakledger.audit.table_account import remark_of, role_of
from leakledger.audit.terminal import printable
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.inference import basis_of, infer
from leakledger.preprocess.data.profile import kind_of
from leakledger.preprocess.data.read import raw_rows
from leakledger.preprocess.data.readers import READERS
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.schema_file import Declared, find_schema, read_schema
from leakledger.preprocess.data.sniff import sniffed
from leakledger.preprocess.data.suggest import closest, listed
from leakledger.preprocess.data.survey import MANY_LEVELS, ColumnSurvey, survey

LEFT_OUT = ("identifier", "date", "thousands")
FORM = ("separator", "encoding", "decimal", "na_values")
YES = frozenset({"yes", "y", "true", "t", "ja", "j", "oui", "si", "sí", "sim", "tak", "da", "positive", "positiv"})
USUAL = {"separator": ",", "encoding": "utf-8", "decimal": ".", "na_values": ()}


def starter_for(data: Path, target: str | None, overrides: Sequence[str], folder: Path) -> str:
    """The text of a configuration in `folder` for the table in `data`, under `overrides` ("section.key=value").

    Raises ValueError for a file that cannot be read, a target that it does not have, and overrides that cannot be.
    """
    told = config_of({}, overrides).data
    beside = find_schema(data)
    given = {n: getattr(told, n) for n in FORM}
    said = read_schema(beside) if beside else Declared()
    form = sniffed(data, {n: given[n] if given[n] is not None else getattr(said, n) for n in FORM})
    written = {n: getattr(form, n) for n in FORM}
    frame, _ = raw_rows(str(data), said, **written)
    columns = survey(frame)
    named = _target(frame, target or told.target or said.target, data)
    if beside is None:
        _check_classes(next(c for c in columns if c.name == named), len(frame), data)
    section: dict[str, Any] = {"source": os.path.relpath(data, folder)}
    section |= {n: v for n, v in written.items() if v != USUAL[n] and getattr(said, n) is None}
    section["missing"] = _missing(frame, named, columns, said)
    if beside is None:
        schema = _schema(frame, named, columns, data)
        section["schema"] = _keys(schema, columns)
    elif named != said.target:
        section["target"] = named
    values = {"data": section} if chooses_methods(overrides) else {"data": section, "preprocessing": TWO_METHODS}
    text = config_text(config_of(values, overrides))
    return text if beside is not None else text.replace("[data.schema]\n", _head(frame, columns, schema), 1)


def _target(frame: pd.DataFrame, target: str | None, data: Path) -> str:
    if target is None:
        raise DataError(f"{data}: name the column to predict with --target, one of {listed(frame.columns)}")
    if target not in frame:
        raise DataError(f"{data}: no column {target!r}{closest(target, frame.columns)}; correct --target")
    return target


def _check_classes(target: ColumnSurvey, rows: int, data: Path) -> None:
    """Classes are written down as they are, so names of rows, free text and dates are none, nor are very many words."""
    if target.kind != "text" or (target.remark not in LEFT_OUT and target.levels <= MANY_LEVELS):
        return
    what = {
        "identifier": "looks like an identifier or free text",
        "date": "looks like dates",
        "thousands": "looks like numbers with separators of thousands, which are not read",
    }
    raise DataError(
        f"{data}: {target.name!r} {what.get(target.remark, 'has very many classes')} ({plural(target.levels, 'value')} "
        f"in {plural(rows, 'row')}), and each would be written down as a class; name another column with --target, or "
        "declare its classes in a schema beside it"
    )


def _schema(frame: pd.DataFrame, target: str, columns: Sequence[ColumnSurvey], data: Path) -> Schema:
    """The schema that the rows give, identifiers, dates and empty columns aside."""
    drop = [c.name for c in columns if c.name != target and (c.remark in LEFT_OUT or c.kind == "empty")]
    declared = Declared(target=target, drop=tuple(drop), positive_class=_positive(frame[target]))
    basis = basis_of(declared, frame, str(data), typed=data.suffix.lower() in READERS)
    return infer(basis, frame.drop(columns=drop))


def _positive(target: pd.Series) -> str | None:
    """Which of two words for classes is looked for: the one that says yes, else the rarer one; None for other targets.

    With the common one instead, F1 would be high for a model that knows nothing.
    """
    counts = target.dropna().value_counts()
    if len(counts) != 2 or kind_of(target) != "text":
        return None
    words = [str(word) for word in counts.index]  # by falling frequency
    yes = [word for word in words if word.strip().casefold() in YES]
    return yes[0] if len(yes) == 1 else words[-1]


def _keys(schema: Schema, columns: Sequence[ColumnSurvey]) -> dict[str, Any]:
    """The keys of [data.schema], in the order in which they are written."""
    used = {*schema.features, schema.target}
    keys: dict[str, Any] = {"target": schema.target, "task": schema.task}
    if schema.classes:
        keys["classes"] = list(schema.classes)
    if schema.positive_class is not None:
        keys["positive_class"] = schema.positive_class
    keys |= {n: list(getattr(schema, n)) for n in ("categorical", "numeric", "integer", "sensitive")}
    return keys | {"drop": [c.name for c in columns if c.name not in used]}


def _missing(frame: pd.DataFrame, target: str, columns: Sequence[ColumnSurvey], said: Declared) -> str:
    """What the configuration does about missing values: a target cannot be filled in."""
    if frame[target].isna().any():
        return "drop"
    left_out = {*said.drop, *(c.name for c in columns if c.remark in LEFT_OUT)}
    return "impute" if any(c.missing for c in columns if c.name not in left_out) else "error"


def _head(frame: pd.DataFrame, columns: Sequence[ColumnSurvey], schema: Schema) -> str:
    """The account of the columns as comments, and the line that begins the table."""
    lines = [
        f"What the columns of {plural(len(frame), 'row')} seem to hold; examples are masked (9: a digit, a or A: a "
        "letter).",
        "Correct the lists below where this is wrong: they are public input, known to all who take part. `drop`",
        "leaves columns out: what names rows tells nothing of them, and each date would be an input of its own.",
        "Name in `sensitive` what would harm people if it were told, as a diagnosis: a table does not say that itself.",
        "",
        *_table([_row(c, schema) for c in columns]),
    ]
    return "\n".join([*(f"# {line}".rstrip() for line in lines), "[data.schema]\n"])


def _row(c: ColumnSurvey, schema: Schema) -> Mapping[str, str]:
    role = role_of(c.name, schema, [])
    what = {"column": c.name, "role and type": role, "levels": str(c.levels), "missing": str(c.missing)}
    return what | {"example": c.example, "remark": remark_of(c)}


def _table(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The rows in aligned columns; names of columns that would break a line are shown as codes."""
    cells = [list(rows[0]), *([printable(v, kept="") for v in row.values()] for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
