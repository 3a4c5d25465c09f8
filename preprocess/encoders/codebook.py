"""What the encoders have in common whose code of a value follows from its text alone: no dictionary, no unseen value.

Such an encoder needs no list of values, and publishes none. Anyone can compute the code of a value that they can think
of, so what the server knows of a column depends on which values it can list. `dictionary` states that: for a feature in
it, the values are public (an official list of codes, say), and the block names them with their codes. For any other
feature the block says only what the method itself makes public. A value of a row that is not in the dictionary is
encoded like any other.

Text becomes bytes as UTF-8, as it is: the same word in two normal forms of Unicode is two values. `normal_form` brings
values to one form first. Case and surrounding spaces are kept unless the method says otherwise.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import Encoder, Style, Unseen, distinct, positions
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import CategoricalBlock, NumericBlock

NormalForm = Literal["as-is", "NFC", "NFD", "NFKC", "NFKD"]
Candidates = Literal["private", "public"]
Codes = NDArray[np.float64]
Book = NDArray[np.floating[Any]]  # (values, width)


@dataclass(frozen=True)
class TextEncoder(Encoder):
    """Options of these encoders. `style` must stay "one-hot", and no value is unseen: neither is an option here.

    `dictionary` has the public values of features; what it lists makes `candidates` "public".
    """

    learns: ClassVar[bool] = True  # False: a code is a public function of the row's own value, and nothing is sent

    style: Style = "one-hot"
    unseen: Unseen = "ignore"
    dictionary: Mapping[str, Sequence[str]] = field(default_factory=dict)
    normal_form: NormalForm = option("as-is", help="the Unicode form that values are brought to first")
    candidates: Candidates = option("private", help='"public": every value is in a list that everyone has')

    def __post_init__(self) -> None:
        if self.dictionary:
            object.__setattr__(self, "candidates", "public")
        if self.style != "one-hot":
            raise ValueError(f"{self.name} has codes of its own; style {self.style!r} does not apply, leave it out")
        check_options(self)

    @property
    def unprotected(self) -> str:
        if type(self).learns:
            return super().unprotected
        listed = f"{self.name} (candidates public) takes the list of all values that parties hold for known"
        return listed if self.candidates == "public" else ""

    def known_values(self, schema: Schema, feature: str) -> tuple[str, ...] | None:
        """The public values of a feature, each once. Raises ValueError for a dictionary of something else."""
        if other := [f for f in self.dictionary if f not in schema.categorical]:
            raise ValueError(f"the dictionary names {other[0]!r}, which is no categorical feature")
        return tuple(dict.fromkeys(self.dictionary[feature])) if feature in self.dictionary else None


@dataclass(frozen=True)
class CodeEncoding:
    """One party's encoding: `code_(feature, value)` (widths_[feature],) of each value, side by side.

    `dtype_` is that of the columns: float32 where they are many, since that is what the model reads. Where candidates
    are public by number only, `number_(feature, value)` is the number of a value.
    """

    code_: Callable[[str, str], Codes]
    widths_: Mapping[str, int]
    dtype_: type[np.floating[Any]] = np.float64
    number_: Callable[[str, str], int] | None = None

    def transform(self, table: Table) -> NDArray[np.floating[Any]]:
        """(rows, columns of all features in order). Raises ValueError as `code_` does."""
        columns = np.empty((len(table), sum(self.widths_.values())), self.dtype_)
        start = 0
        for feature, width in self.widths_.items():
            numbers, values = distinct(table, feature)
            codes = np.array([self.code_(feature, v) for v in values], self.dtype_).reshape(len(values), width)
            columns[:, start : start + width] = codes[numbers]
            start += width
        return columns

    def candidates(self, table: Table, block: CategoricalBlock) -> NDArray[np.int64]:
        """Raises ValueError for a block that names no values, where candidates have no numbers."""
        if block.values is not None:
            return positions(table, block.feature, block.values)
        if self.number_ is None:
            raise ValueError(f"{block.feature}: the public block lists no values, and this encoding numbers none")
        numbers, values = distinct(table, block.feature)
        found: NDArray[np.int64] = np.array([self.number_(block.feature, v) for v in values], np.int64)[numbers]
        return found


def in_form(value: str, form: NormalForm) -> str:
    """A value in a normal form of Unicode."""
    return value if form == "as-is" else unicodedata.normalize(form, value)


def as_bytes(value: str, form: NormalForm = "as-is") -> bytes:
    """UTF-8 of a value in a normal form; half of a surrogate pair, which has no UTF-8, becomes three bytes too."""
    return in_form(value, form).encode("utf-8", "surrogatepass")


def numeric_blocks(
    feature: str, start: int, width: int, low: float | None = None, high: float | None = None
) -> tuple[NumericBlock, ...]:
    """The columns of a feature of which no candidate is public: numbers, "feature[k]" where there are several."""
    names = [feature] if width == 1 else [f"{feature}[{k}]" for k in range(width)]
    return tuple(NumericBlock(n, start + k, 0.0, 1.0, low, high) for k, n in enumerate(names))


def named_block(
    feature: str, start: int, values: Sequence[str], codes: Sequence[Codes] | Book, width: int
) -> CategoricalBlock:
    """The columns of a feature whose candidates and their codes are public. An array of codes is kept as it is."""
    book = codes if isinstance(codes, np.ndarray) else np.array(codes, np.float64)
    book = book.reshape(len(values), width)
    return CategoricalBlock(feature, start, len(values), tuple(values), book)
