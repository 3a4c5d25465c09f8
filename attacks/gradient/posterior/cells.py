"""What a cell of a row may hold, and how likely that is before the update is seen.

Every cell is discrete: a categorical feature has its candidates, a number the whole numbers between its bounds, or a
fine grid of them. The prior of a candidate is its share in the client's rows where the client told its means of one-hot
columns, else the granted share of its value, else its public frequency where scaled one-hot columns show it, else that
among known rows (`row_facts`), else even. Of a number it is the distribution of greatest entropy with what is known:
the client's own mean and deviation where it told them, else mean 0 and deviation 1 between the bounds where numbers are
standardised (Jaynes 1957: a normal distribution where bounds are far, an exponential one where a skewed column begins
at its bound), else the even one. Known rows are mixed in, and what they show is tilted to the client's own moments (the
least change that does it, Kullback 1959).

What a client said it does not hold is not ruled out but next to it (`UNSEEN`): an update can contradict a statement,
and then counts for more.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim
from leakledger.attacks.observed.labels import public_frequencies
from leakledger.attacks.observed.own_terms import numbered
from leakledger.attacks.observed.row_facts import NOTHING, RowFacts
from leakledger.attacks.observed.tabular import encoded_bounds
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
# Values of a number without whole raw values: steps of 0.001 deviations over the eight of an unknown range, which is
# what makes a recovered number identical.
GRID = 8193
MOST_VALUES = 2**20  # whole numbers in a range; a wider one has a grid
# Of a candidate that is never met: such a share of one row more than there is keeps every candidate possible.
UNSEEN = 1e-5
LARGEST_CHOICE = 64  # candidates that are all weighed at each visit; of more, some
# Rows that the prior without known rows is worth, and its least share where these rows are an observer's own.
BASE_ROWS, BASE_SHARE = 10.0, 0.5
KERNELS = 512  # of values that occur once, so many are smoothed, which is enough for their shape
STANDARD = ("deviation", "noised deviation", "quartiles")  # units of columns about 0 that moments describe
QUARTILES = 1.349  # deviations between the quartiles of a normal column
SAME = 1e-9  # relative: a variance this near to that of two values is theirs


@dataclass(frozen=True, eq=False)
class Link:
    """How much likelier, in logarithms, two cells of a row are together than each on its own: `ratio` (bins, bins of
    the other) by the bin of each value, `own` (n,), and of each value of the cell number `other`, `others` (n',).
    """

    other: int
    own: Tensor
    others: Tensor
    ratio: Tensor


@dataclass(frozen=True, eq=False)
class Cell:
    """One feature of a row: `codes` (n, width) in the columns from `start` on, `log_prior` (n,), of each of n values.

    `raw` (n,): the numbers in the units of a claim; None of a categorical feature. `links`: the cells that its values
    go together with, a tree over the F cells of a row and its label, which counts as cell number F (`dependence`).
    """

    feature: str
    start: int
    codes: Tensor
    log_prior: Tensor
    raw: Array | None
    links: tuple[Link, ...] = ()

    @property
    def size(self) -> int:
        return len(self.codes)

    @property
    def columns(self) -> slice:
        return slice(self.start, self.start + self.codes.shape[1])

    @property
    def small(self) -> bool:
        return self.size <= LARGEST_CHOICE

    def drawn(self, rows: int, number: int, coins: torch.Generator) -> Tensor:
        """(rows, number) values drawn from the prior, whatever the other cells hold."""
        shares = self.log_prior.exp()
        return torch.multinomial(shares, rows * number, replacement=True, generator=coins).view(rows, number)

    def strides(self, rows: int, number: int, coins: torch.Generator) -> Tensor:
        """(rows, number) steps from one value to others, as often of each order of size up to a quarter of all."""
        device = self.codes.device
        reach = torch.rand(rows, number, generator=coins, device=device) * math.log(self.size / 4)
        return torch.randn(rows, number, generator=coins, device=device) * reach.exp()

    def together(self, index: Tensor, candidates: Tensor | None = None) -> Tensor:
        """(n, size) what the other cells of rows `index` (n, F), and their labels where these follow (n, F + 1), add to
        the log prior of each value, or (n, m) of `candidates` (m,) or (n, m).
        """
        total = torch.zeros((), device=index.device)
        for link in self.links:
            if link.other == index.shape[1]:
                continue  # the label, which is not given
            ratio = link.ratio[:, link.others[index[:, link.other]]].T  # (n, bins)
            bins = link.own if candidates is None else link.own[candidates]
            total = total + (ratio[:, bins] if bins.dim() == 1 else ratio.gather(1, bins))
        return total


def cells_of(
    layout: FeatureLayout, knowledge: AuxiliaryKnowledge, device: str, facts: RowFacts = NOTHING
) -> tuple[list[Cell], list[Cell]]:
    """The categorical and the numeric cells of a row. Raises ValueError, naming the feature, where facts contradict."""
    categorical = [_categorical(b, knowledge, facts, device) for b in layout.categorical]
    return categorical, [_numeric(b, knowledge, facts, device) for b in layout.numeric]


def nearest(claim: RecordsClaim, categorical: Sequence[Cell], numeric: Sequence[Cell], device: str) -> Tensor:
    """(B, F) the values of all cells that are nearest to claimed rows."""
    columns = [claim.categories[:, k] for k in range(len(categorical))]
    for k, cell in enumerate(numeric):
        assert cell.raw is not None
        above = np.searchsorted(cell.raw, claim.numbers[:, k]).clip(1, max(cell.size - 1, 1))
        nearer_below = claim.numbers[:, k] - cell.raw[above - 1] < cell.raw[above % cell.size] - claim.numbers[:, k]
        columns.append(np.where(nearer_below, above - 1, above % cell.size))
    return torch.tensor(np.stack(columns, -1), dtype=torch.int64, device=device)


def _categorical(block: CategoricalBlock, knowledge: AuxiliaryKnowledge, facts: RowFacts, device: str) -> Cell:
    shares = facts.shares.get(block.feature)
    shares = _granted(block, knowledge) if shares is None else shares
    if shares is None:
        public = public_frequencies(block)
        shares = np.full(block.size, 1 / block.size) if public is None else public
        if public is None or facts.rows_of == "client":
            shares = _counted(block, facts, shares)
    shares = _stated(block, facts, shares)
    return _cell(
        block.feature, block.start, block.codebook(), np.log((shares + UNSEEN) / (shares + UNSEEN).sum()), None, device
    )


def _granted(block: CategoricalBlock, knowledge: AuxiliaryKnowledge) -> Array | None:
    """(candidates,) the granted shares of named candidates; None where none are granted."""
    if block.values is None or block.feature not in knowledge.marginals:
        return None
    values, shares = knowledge.marginals[block.feature]
    known: Mapping[str, float] = dict(zip(values, shares, strict=True))
    return np.array([known.get(v, 0.0) for v in block.values])


def _counted(block: CategoricalBlock, facts: RowFacts, base: Array) -> Array:
    """(candidates,) their shares of known rows, with half a row more for each in proportion to `base`."""
    known = places(block, facts)
    if known is None:
        return base
    counts = np.bincount(known[known >= 0], minlength=block.size)
    return np.asarray((counts + block.size / 2 * base) / (counts.sum() + block.size / 2))


def _stated(block: CategoricalBlock, facts: RowFacts, shares: Array) -> Array:
    """The shares of what the client says that it holds; all where it holds none of the candidates."""
    if block.values is not None and block.feature in facts.held:
        occurs = np.array([v in facts.held[block.feature] for v in block.values])
    elif block.values is None and block.codes is None and block.feature in facts.sizes:
        occurs = np.arange(block.size) < facts.sizes[block.feature]
    else:
        return shares
    left = np.where(occurs, shares, 0.0)
    return left / left.sum() if left.sum() > 0 else shares


def places(block: CategoricalBlock | NumericBlock, facts: RowFacts, values: Array | None = None) -> Ints | None:
    """(n,) which candidate, or which of the `values` of a number, each known row has; -1 for none. None where rows say
    nothing of the feature.
    """
    column = facts.rows.get(block.feature)
    if column is None:
        return None
    if isinstance(block, CategoricalBlock):
        if column.dtype.kind == "i":
            held = column.astype(np.int64)
            return np.where(held < block.size, held, -1)
        if block.values is None:
            return None
        return numbered(column, block.values)
    if values is None or column.dtype.kind != "f":
        return None
    middles = (values[1:] + values[:-1]) / 2
    nearest = np.searchsorted(middles, column)
    return np.where(np.isfinite(column), nearest, -1)


def _numeric(block: NumericBlock, knowledge: AuxiliaryKnowledge, facts: RowFacts, device: str) -> Cell:
    low, high = encoded_bounds(_two_valued(block), knowledge.bounds.get(block.feature))
    encoded = _values(block, low, high)
    raw = block.raw(encoded)
    raw = np.round(raw) if block.integer and block.scaled else raw
    standardised = block.unit in STANDARD and low < 0 < high
    unit = QUARTILES if block.unit == "quartiles" else 1.0
    shares = np.exp(most_uncertain(encoded * unit)) if standardised else np.full(len(raw), 1 / len(raw))
    shares = _like_known_rows(shares, raw, places(block, facts, raw), facts.rows_of == "observers")
    if block.feature in facts.moments and facts.rows_of != "client":
        shares = tilted(shares, raw, *facts.moments[block.feature])
    if block.feature in facts.extremes:
        least, most = facts.extremes[block.feature]
        slack = SAME * max(abs(least), abs(most), 1.0) + (raw[-1] - raw[0]) / len(raw)
        within = shares * ((raw >= least - slack) & (raw <= most + slack))
        shares = within / within.sum() if within.sum() > 0 else shares
    shares = (1 - UNSEEN) * shares + UNSEEN / len(raw)
    return _cell(block.feature, block.start, encoded[:, None], np.log(shares), raw, device)


def _two_valued(block: NumericBlock) -> NumericBlock:
    """The block with bounds 0 and 1 where its public moments betray that it has no other values.

    Whole numbers have x² >= x, so E x² >= E x, and both are equal only where every x is 0 or 1. How often it is 1 is
    then the mean.
    """
    if not block.integer or block.shift is None or block.scale is None or block.low is not None:
        return block
    if block.unit != "deviation" or block.power is not None:  # then these are no moments
        return block
    variance = block.shift * (1 - block.shift)
    alike = variance > 0 and abs(block.scale**2 - variance) <= SAME * variance
    return replace(block, low=0.0, high=1.0) if alike else block


def _like_known_rows(shares: Array, raw: Array, known: Ints | None, others: bool) -> Array:
    """The prior (n,) of numbers with known ones mixed in. A value that none of them has comes as often as values among
    them that occur once (Good 1953), and is like these: near them, by Silverman's rule of thumb.
    """
    known = known[known >= 0] if known is not None else np.zeros(0, np.int64)
    if len(known) < 2:
        return shares
    counts = np.bincount(known, minlength=len(raw))
    once = np.flatnonzero(counts == 1)
    new = (len(once) + 1) / (len(known) + 1)
    like = once if len(once) else np.flatnonzero(counts)
    like = like[:: -(-len(like) // KERNELS)]
    width = max(1.06 * raw[like].std() * len(like) ** -0.2, (raw[-1] - raw[0]) / len(raw) / 2, 1e-300)
    smooth = sum((np.exp(-(((raw - raw[k]) / width) ** 2) / 2) for k in like), np.zeros(len(raw)))
    base = BASE_ROWS / (BASE_ROWS + len(known))
    base = max(base, BASE_SHARE) if others else base
    return np.asarray(base * shares + (1 - base) * ((1 - new) * counts / len(known) + new * smooth / smooth.sum()))


def _values(block: NumericBlock, low: float, high: float) -> Array:
    """(n,) the encoded values that a number may have, ascending."""
    if high <= low:
        return np.array([low])
    if block.integer and block.scaled:
        first, last = (round(float(block.raw(v))) for v in (low, high))
        if 0 <= last - first < MOST_VALUES:
            return block.encoded(np.arange(first, last + 1))
    return np.linspace(low, high, GRID)


def tilted(shares: Array, values: Array, mean: float, std: float) -> Array:
    """(n,) the probabilities on `values` (n,) with this mean and standard deviation that are nearest to `shares`; all
    on the nearest value where there is no deviation.
    """
    gap = (values[-1] - values[0]) / max(len(values) - 1, 1)
    if std <= gap / 100:
        return np.asarray(np.arange(len(values)) == np.abs(values - mean).argmin(), np.float64)
    return np.asarray(np.exp(most_uncertain((values - mean) / std, np.log(shares + UNSEEN / len(values)))))


def most_uncertain(values: Array, reference: Array | float = 0.0) -> Array:
    """(n,) log probabilities of greatest entropy with mean 0 and variance 1 on `values` (n,): exp(a v + b v²), times a
    `reference` given in logarithms.

    By Newton's method on the dual, which is convex; where no distribution on these values has these moments, the
    nearest that it comes to. Damped steps, so that it ends in any case.
    """
    moments = np.stack([values, values**2], 1)
    slope = np.array([0.0, -0.5 if np.isscalar(reference) else 0.0])
    for _ in range(200):
        log_p = _normalised(reference + moments @ slope)
        p = np.exp(log_p)
        mean = p @ moments
        off = np.array([0.0, 1.0]) - mean
        if np.abs(off).max() < 1e-9:
            break
        spread = (moments - mean).T @ ((moments - mean) * p[:, None]) + 1e-9 * np.eye(2)
        step = np.linalg.solve(spread, off)
        slope = slope + step * min(1.0, 0.5 / np.abs(step).max())
    return _normalised(reference + moments @ slope)


def _normalised(log_weights: Array) -> Array:
    top = log_weights.max()
    return np.asarray(log_weights - top - np.log(np.exp(log_weights - top).sum()))


def _cell(feature: str, start: int, codes: Array, log_prior: Array, raw: Array | None, device: str) -> Cell:
    return Cell(
        feature,
        start,
        torch.tensor(codes, dtype=torch.float32, device=device),
        torch.tensor(log_prior, dtype=torch.float32, device=device),
        raw,
    )
