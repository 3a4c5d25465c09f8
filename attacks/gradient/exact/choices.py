"""What a row can have in its categorical columns: the choices of each feature, or of features that determine others.

A dependency that the adversary knows ties a feature to the category of a determining one. Of two categorical features
it leaves the pairs that fit. A number that a category determines is one more column of its code, so the categories of a
row settle it.

Under narrow codes (labels, hashes) that column tells rows apart that the codes alone do not. Under one-hot columns it
is a linear function of theirs: every combination in the row space obeys the dependency, known or not, and to know it
saves combinations to try, no more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Dependencies
from leakledger.attacks.gradient.exact.rows import plain_columns
from leakledger.attacks.observed.affine import Array
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

ANY = -1  # a category of which the dependency says nothing
# A one-hot column of the row space shorter than this is of a category that does not occur. Too small: rounding keeps
# categories to search that no row has; too large: the category of a faint row is ruled out.
OCCURS = 1e-3


@dataclass(frozen=True, eq=False)
class Choices:
    """What some categorical blocks, by number, can have together: `picks` (m, k) of their candidates.

    `codes` (m, w) is what each choice has in `columns` (r, w) of the row space.
    """

    blocks: tuple[int, ...]
    picks: NDArray[np.int64]
    codes: Array = field(repr=False)
    columns: Array = field(repr=False)

    def __len__(self) -> int:
        return len(self.picks)

    def of(self, block: int) -> NDArray[np.int64]:
        """(m,) the candidate of one of the blocks."""
        return self.picks[:, self.blocks.index(block)]

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> "Choices":
        return replace(self, picks=self.picks[chosen], codes=self.codes[chosen])

    def first_of_each(self) -> "Choices":
        """One choice per code."""
        return self.where(np.sort(np.unique(self.codes, axis=0, return_index=True)[1]))


def possible_choices(layout: FeatureLayout, right: Array, dependencies: Dependencies, most: int) -> list[Choices]:
    """The choices of the blocks of `layout` for rows of the row space `right` (r, d+1), each block in one of them.

    A dependency is of use where the layout names the determining values and what they determine: the names of the
    other feature's values, or a number whose scaling is public. One that would leave over `most` pairs is not used.
    """
    choices = [alone(k, block, right) for k, block in enumerate(layout.categorical)]
    named = {block.feature: k for k, block in enumerate(layout.categorical) if block.values is not None}
    numeric = {block.feature: block for block in layout.numeric if block.scaled}
    usable = [(named[by], feature, values) for (by, feature), values in dependencies.items() if by in named]
    for by, feature, values in usable:
        if feature in named:
            fits = fitting(layout.categorical[by], layout.categorical[named[feature]], values)
            choices = tied(choices, by, named[feature], fits, most)
    for by, feature, values in usable:
        if feature in numeric:
            numbers = encoded_numbers(layout.categorical[by], numeric[feature], values)
            column = right[:, [numeric[feature].start]]
            choices = [with_number(c, by, numbers, column) for c in choices]
    return choices


def alone(number: int, block: CategoricalBlock, right: Array) -> Choices:
    """The choices of one block: those of its candidates that may occur."""
    columns = plain_columns(block, right)
    allowed = occurring(block, columns)
    return Choices((number,), allowed[:, None], block.plain_codes()[allowed], columns)


def occurring(block: CategoricalBlock, columns: Array) -> NDArray[np.int64]:
    """The candidates of `block` that a row of the batch may have: a one-hot column of zeros rules one out."""
    if block.codes is not None:
        return np.arange(block.size)
    return np.flatnonzero(np.linalg.norm(columns, axis=0) > OCCURS)


def fitting(block: CategoricalBlock, other: CategoricalBlock, values: Mapping[str, str | float]) -> NDArray[np.int64]:
    """(candidates,) the candidate of `other` that each of `block` goes with, ANY where that is not known."""
    place: dict[str | float, int] = {value: k for k, value in enumerate(other.values or ())}
    return np.array([place.get(values[v], ANY) if v in values else ANY for v in block.values or ()], np.int64)


def encoded_numbers(block: CategoricalBlock, other: NumericBlock, values: Mapping[str, str | float]) -> Array:
    """(candidates,) the number that each candidate of `block` goes with, as encoded; NaN where that is not known."""
    raw = [values.get(v) for v in block.values or ()]
    return other.encoded(np.array([np.nan if n is None or isinstance(n, str) else n for n in raw], np.float64))


def tied(choices: Sequence[Choices], by: int, block: int, fits: NDArray[np.int64], most: int) -> list[Choices]:
    """`choices` with those of the blocks `by` and `block` in one, as far as `fits` (candidates of `by`) allows them."""
    one = next(c for c in choices if by in c.blocks)
    other = next(c for c in choices if block in c.blocks)
    wanted = fits[one.of(by)]
    if one is other:
        kept = one.where((wanted == ANY) | (wanted == one.of(block)))
    else:
        order = np.argsort(other.of(block), kind="stable")
        low, high = (np.searchsorted(other.of(block)[order], wanted, side) for side in ("left", "right"))
        low, high = np.where(wanted == ANY, 0, low), np.where(wanted == ANY, len(other), high)
        if (high - low).sum() > most:
            return list(choices)
        left = np.repeat(np.arange(len(one)), high - low)
        right = order[np.arange(len(left)) - np.repeat(np.cumsum(high - low) - high, high - low)]
        kept = Choices(
            one.blocks + other.blocks,
            np.hstack([one.picks[left], other.picks[right]]),
            np.hstack([one.codes[left], other.codes[right]]),
            np.hstack([one.columns, other.columns]),
        )
    return [kept if c is one else c for c in choices if c is one or c is not other]


def with_number(choices: Choices, by: int, numbers: Array, column: Array) -> Choices:
    """`choices` with a numeric column (r, 1) that the block `by` determines; `numbers` (candidates of `by`), encoded.

    As they were where they are not of that block, or where the number of one of them is not known.
    """
    if by not in choices.blocks or np.isnan(numbers[choices.of(by)]).any():
        return choices
    codes = np.column_stack([choices.codes, numbers[choices.of(by)]])
    return replace(choices, codes=codes, columns=np.hstack([choices.columns, column]))
