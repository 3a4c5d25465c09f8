"""A record as text, in one of the three formats of FedLLM-Align (section 3.2, equation 1).

`structured` and `compact` are word for word the paper's: "Feature1: value1, Feature2: value2, ..." and
"Feature1=value1; Feature2=value2; ...". Of `natural` it gives an example, "The patient is 45 years old. Blood pressure
is 140/90.", and no rule that makes such a sentence from a name and a value; here each feature is a sentence "The NAME
is VALUE.".
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.alignment.parties import PartySchema
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.data.table import Table

Cells = Sequence[tuple[str, str]]
"""A record: name and value of each of its features, in order."""


def structured(cells: Cells) -> str:
    return ", ".join(f"{name}: {value}" for name, value in cells)


def natural(cells: Cells) -> str:
    return " ".join(f"The {name} is {value}." for name, value in cells)


def compact(cells: Cells) -> str:
    return "; ".join(f"{name}={value}" for name, value in cells)


FORMATS: Mapping[str, Callable[[Cells], str]] = {"structured": structured, "natural": natural, "compact": compact}


def serialise(cells: Cells, format: str) -> str:
    """The text of a record. Raises ValueError for an unknown format."""
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise ValueError(f"serialisation {format!r} is unknown{closest(format, FORMATS)}; choose one of {known}")
    return FORMATS[format](cells)


def texts_of(table: Table, schema: PartySchema, format: str) -> list[str]:
    """The text of every row of a complete table, in order, with the features and names of `schema`."""
    columns = [values_of(table, feature) for feature in schema.features]
    rows = zip(*columns, strict=True)
    return [serialise(list(zip(schema.names, row, strict=True)), format) for row in rows]


def values_of(table: Table, feature: str) -> list[str]:
    """A feature's values as texts: a number in the fewest digits that tell it from any other, 106 for 106.0."""
    column = table.frame[feature]
    if feature in table.schema.numeric:
        return as_texts(column.to_numpy(np.float64))
    return [str(v) for v in column]


def as_texts(numbers: NDArray[np.float64]) -> list[str]:
    return [repr(v).removesuffix(".0") for v in numbers.tolist()]
