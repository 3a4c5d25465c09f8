"""Schema files: what a TOML or JSON file beside a table declares about its columns."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from leakledger.preprocess import strict_json
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.suggest import closest, shown

Task = Literal["binary", "multiclass", "regression"]
TABLE_SUFFIXES = (".csv.gz", ".csv", ".parquet")


class Declared(BaseModel):
    """What is declared of a schema: public input. None: not said, hence found in the rows, and agreed on by messages
    (`preprocess.agreement`). Keys that nothing interprets are in `model_extra`.

    `classes` (or `target_classes`) lists all values of the target; `integer` names the numeric columns that hold whole
    numbers. `orders` (or `ordinal`) lists the values of ordinal columns, lowest first, or the target's classes in label
    order; `ranges` has the (low, high) of numeric columns, `domains` the possible values of categorical ones; `drop`
    names columns to leave out of the table, `carried` those to keep that are no features, such as one whose values are
    the parties.

    `separator`, `encoding`, `decimal` and `na_values` say how a file is written (`file_format`). They are for whoever
    reads it, and no part of what parties agree on. Of an encoding, what stands behind a comma is a remark.
    """

    model_config = ConfigDict(frozen=True, extra="allow", coerce_numbers_to_str=True)

    target: str | None = None
    positive_class: str | None = None
    categorical: tuple[str, ...] | None = None
    numeric: tuple[str, ...] | None = None
    task: Task | None = None
    classes: tuple[str, ...] | None = Field(None, validation_alias=AliasChoices("classes", "target_classes"))
    integer: tuple[str, ...] | None = None
    sensitive: tuple[str, ...] = ()
    orders: dict[str, tuple[str, ...]] = Field(default={}, validation_alias=AliasChoices("orders", "ordinal"))
    ranges: dict[str, tuple[float, float]] = {}
    domains: dict[str, tuple[str, ...]] = {}
    drop: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    separator: str | None = Field(None, exclude=True)
    encoding: Annotated[str | None, AfterValidator(lambda text: text and text.split(",")[0].strip())] = Field(
        None, exclude=True
    )
    decimal: Literal[".", ","] | None = Field(None, exclude=True)
    na_values: tuple[str, ...] | None = Field(None, exclude=True)

    @property
    def not_interpreted(self) -> tuple[str, ...]:
        """The keys that nothing reads, in order."""
        return tuple(self.model_extra or ())


SPELLINGS = (("orders", "ordinal"), ("classes", "target_classes"))
KEYS = (*Declared.model_fields, *(second for _, second in SPELLINGS))
NEAR = 0.75  # how alike a key must be to one that is not there to be taken for a slip


def stem(path: Path) -> str:
    """A table file's name without its kind: x for x.csv.gz."""
    end = next((s for s in TABLE_SUFFIXES if path.name.lower().endswith(s)), path.suffix)
    return path.name[: len(path.name) - len(end)]


def find_schema(path: str | Path) -> Path | None:
    """The schema file beside a table: x.schema.json or x.schema.toml for x.csv.gz, x.csv or x.parquet; None without.

    Raises DataError when both are there.
    """
    path = Path(path)
    found = [p for end in ("json", "toml") if (p := path.with_name(f"{stem(path)}.schema.{end}")).is_file()]
    if len(found) > 1:
        raise DataError(f"{path}: has two schemas, {found[0].name} and {found[1].name}; remove one, or name one")
    return found[0] if found else None


def read_schema(path: str | Path) -> Declared:
    """What a schema file declares; nothing is required of it. Raises DataError with the file and the key."""
    path = Path(path)
    return declared_of(_parse(path), str(path))


def declared_of(given: Mapping[str, Any], where: str, *, strict: bool = False) -> Declared:
    """What plain `given` declares; None is what is not said. Raises DataError with `where`, if any, and the key.

    A key that looks like a misspelt one is an error; another that nothing interprets is kept (a schema file may hold
    remarks), unless `strict`.
    """
    values, at = {key: value for key, value in given.items() if value is not None}, f"{where}: " if where else ""
    for one, other in SPELLINGS:
        if {one, other} <= values.keys():
            raise DataError(f"{at}{one} and {other} are the same key; write one of them")
    for key in values.keys() - set(KEYS):
        near = closest(key, KEYS) if strict else closest(key, set(KEYS) - values.keys(), NEAR)
        if near or strict:
            raise DataError(f"{at}{shown(key)}: unknown key{near}; known here: {', '.join(sorted(KEYS))}")
    try:
        return Declared.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(shown(str(part)) for part in problem["loc"])
        raise DataError(f"{at}{key}: {' '.join(problem['msg'].split())}") from None


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = tomllib.loads(text) if path.suffix.lower() == ".toml" else strict_json.loads(text)
    except FileNotFoundError:
        near = closest(path.name, (p.name for p in path.parent.glob("*.schema.*")))
        raise DataError(f"{path}: no such schema file{near}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, not JSON, nested too deeply
        raise DataError(f"{path}: not a schema in TOML or JSON: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise DataError(f"{path}: a schema is a table of keys, such as target and categorical")
    return values
