"""Columns of few digits under masks: the last digits of what was sent leave few candidates.

A mask is drawn as one of 2^53 float64 numbers, which lie apart, and what is sent is rounded: that f + m, or f m, comes
to exactly these digits for some mask m excludes most candidates f. A factor between 1/100 and 100 leaves one candidate
in six, a summand between -100 and 100 some seven in ten; fresh masks of one column multiply. Columns of float64 numbers
have as many candidates as masks, those of whole numbers, tenths or hundredths have few.

Nothing says that a column is of these but that records keep a candidate, where of numbers between them many keep none.
A few others, like means in place of missing values, may keep none, and are left open, as are as many of the unlikeliest
values as such records will have kept one by chance. Then shares of values are fitted
to all records (expectation and maximisation), and of each record the likeliest candidate is the estimate.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from leakledger.attacks.transcript.feature_exchange.equations import Column
from leakledger.attacks.transcript.feature_exchange.exchanged import SUMS

BITS = 53  # of a mask's place between its bounds
NEAR = 4  # places beside the nearest: it was worked out with rounding
BETWEEN = 0.6180339887498949  # whole numbers moved by this are the candidates that chance leaves
EMPTY, FEWEST = 0.05, 10  # of the records of a sample, and so many, must lose all of these: else it may be chance
SAMPLE = 200
OTHERS = 0.25  # of the records that chance would take, at most: so many may be of more digits
CHANCE = 1e-4  # that chance takes no more, at most
MOST = 8_000_000  # candidates of all records: some four seconds
PAIRS = 1 << 20  # candidates that are looked at together
LEFT = {True: 0.4, False: 0.05}  # of candidates by a summand, and by a factor: at least
HOPELESS = 30.0  # candidates that chance leaves of a record at least: no record would lose all
TENS = (1, 10, 100)
ROUNDS = 100


class Masked(NamedTuple):
    """A column as it was sent: T(f, m) (n,) of the transformation `how`."""

    how: str
    values: Column


class Left(NamedTuple):
    """Candidates that are left, each with the record that it is of."""

    records: NDArray[np.int64]
    candidates: Column


def few_digits(sent: Sequence[Masked], size: float, signs: bool) -> Column | None:
    """(n,) the likeliest numbers of at most two decimals behind one column under several masks of a public `size`, of
    factors with `signs` alone the magnitudes; None where nothing shows that the column has so few digits.
    """
    least = 0 if all(s.how in SUMS for s in sent) else 1
    alike = len({s.values.shape for s in sent}) == 1
    if not least < size < np.inf or not alike or not all(np.isfinite(s.values).all() for s in sent):
        return None
    nearly: Column | None = None
    for tens in TENS:
        found = _in_steps(sent, size, signs, tens)
        if found is not None and np.isfinite(found).all():
            return found
        nearly = found if nearly is None else nearly
    return nearly


def _in_steps(sent: Sequence[Masked], size: float, signs: bool, tens: int) -> Column | None:
    """The same of multiples of 1 / tens, NaN where a record has more digits."""
    low, high = _bounds(sent, size, signs, tens)
    by_chance = np.median(high - low) * np.prod([LEFT[s.how in SUMS] for s in sent])
    if (high - low).sum() > MOST or by_chance > HOPELESS:
        return None
    sample = [Masked(s.how, s.values[:SAMPLE]) for s in sent]
    records = len(sample[0].values)
    between = _lost(_left(sample, size, signs, tens, BETWEEN), records)
    if between < max(FEWEST, EMPTY * records):
        return None
    left = _left(sent, size, signs, tens, 0.0)
    others = _others(sent, _lost(left, len(sent[0].values)), between)
    return None if others is None else _likeliest(left, len(sent[0].values), tens, others)


def _others(sent: Sequence[Masked], lost: int, between: int) -> int | None:
    """How many records of more digits will have kept a candidate, if so many are `lost`, and `between` of a sample by
    chance; None where these are too many. A zero under a factor says nothing of others: by chance it is always lost.
    """
    if not lost:
        return 0
    told = np.all([(s.values != 0) | (s.how in SUMS) for s in sent], axis=0)
    seen = told[:SAMPLE]
    records, rate = int(told.sum()), float((between - np.sum(~seen)) / max(np.sum(seen), 1))
    if lost > OTHERS * rate * records or bdtr(lost, records, rate) > CHANCE:
        return None
    return round(lost * (1 - rate) / rate)


def _lost(left: Left, records: int) -> int:
    """How many records have no candidate."""
    return records - len(np.unique(left.records))


def _bounds(sent: Sequence[Masked], size: float, signs: bool, tens: int) -> tuple[Column, Column]:
    """Least and largest number (n,), in steps of 1 / tens, that masks of this size leave possible."""
    low, high = np.full((2, len(sent[0].values)), -np.inf), np.full((2, len(sent[0].values)), np.inf)
    for how, values in sent:
        if how in SUMS:
            low[0], high[0] = np.maximum(low[0], values - size), np.minimum(high[0], values + size)
        else:
            with np.errstate(over="ignore"):
                least, most = np.abs(values) / size, np.abs(values) * size
            negative = (values < 0) & (not signs)
            low[1] = np.maximum(low[1], np.where(negative, -most, least))
            high[1] = np.minimum(high[1], np.where(negative, -least, most))
    if signs and np.isfinite(low[0]).all() and np.isfinite(low[1]).all():  # sums know signs, factors do not
        low[1] = -high[1]
    near = 1e-9 * size  # bounds were rounded
    return np.floor(tens * (low.max(0) - near)), np.ceil(tens * (high.min(0) + near))


def _left(sent: Sequence[Masked], size: float, signs: bool, tens: int, offset: float) -> Left:
    """The candidates that some mask turns into what was sent, message by message."""
    low, high = _bounds(sent, size, signs, tens)
    counts = np.maximum(high - low + 1, 0).astype(np.int64)
    found = [Left(np.zeros(0, np.int64), np.zeros(0))]
    chunks = np.cumsum(counts) // PAIRS
    for chunk in np.unique(chunks):
        of = np.flatnonzero(chunks == chunk)
        records = np.repeat(of, counts[of])
        first = np.repeat(np.cumsum(counts[of]) - counts[of], counts[of])
        candidates = (low[records] + (np.arange(len(records)) - first) + offset) / tens
        for how, values in sorted(sent, key=lambda s: s.how in SUMS):  # factors exclude the most
            kept = _reaches(how, candidates, values[records], size)
            records, candidates = records[kept], candidates[kept]
        found.append(Left(records, candidates))
    return Left(np.concatenate([f.records for f in found]), np.concatenate([f.candidates for f in found]))


def _reaches(how: str, candidates: Column, sent: Column, size: float) -> NDArray[np.bool_]:
    """Whether the transformation of a candidate (k,) and some mask is what was sent (k,), digit by digit."""
    apply, undo = _WITH_MASK[how]
    additive, log = how in SUMS, np.log(size)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        needed = undo(candidates, sent)
        negative = (needed < 0) & (not additive)
        place = needed / size if additive else np.log(np.abs(needed)) / log
        whole = np.round((place + 1) / 2 * 2.0**BITS)
        found = (candidates == 0) & (sent == 0) & (not additive)
        for step in range(-NEAR, NEAR + 1):
            share = (whole + step) * 2.0**-BITS
            mask = size * (2 * share - 1) if additive else np.exp(log * (2 * share - 1))
            mask = np.where(negative, -mask, mask)
            found |= (share >= 0) & (share < 1) & (apply(candidates, mask) == sent)
    return np.asarray(found)


_Operation = Callable[[Column, Column], Column]
_WITH_MASK: Mapping[str, tuple[_Operation, _Operation]] = {
    "sum": (np.add, lambda f, sent: sent - f),
    "difference": (np.subtract, np.subtract),
    "product": (np.multiply, lambda f, sent: sent / f),
    "quotient": (np.divide, np.divide),
}


def _likeliest(left: Left, records: int, tens: int, others: int) -> Column:
    """(n,) of each record the candidate that most likely is its value, given how often values are; NaN without any, and
    of so many `others` with the rarest ones.

    Shares of values are half those of the values themselves and half those of wider cells (`_smooth`): of a value that
    one record has, only its neighbours tell it from what chance left far away.
    """
    values, which = np.unique(left.candidates, return_inverse=True)
    shares = np.zeros(len(which))
    weights = 1 / np.bincount(left.records, minlength=records)[left.records]
    for _ in range(ROUNDS):
        mass = np.bincount(which, weights, len(values)).astype(np.float64)
        shares = (mass + _smooth(np.round(tens * values), mass))[which]
        weights = shares / np.bincount(left.records, shares, records)[left.records]
    found, share = np.full((2, records), np.nan)
    order = np.argsort(weights, kind="stable")  # the likeliest of a record is written last
    found[left.records[order]], share[left.records[order]] = left.candidates[order], shares[order]
    found[np.argsort(share)[:others]] = np.nan
    return found


def _smooth(values: Column, mass: Column) -> Column:
    """(v,) the mass of sorted whole numbers, even within cells of the width of Freedman and Diaconis (1981)."""
    total = np.cumsum(mass)
    lower, upper = values[np.searchsorted(total, [total[-1] / 4, total[-1] * 3 / 4])]
    width = max(1.0, np.ceil(2 * (upper - lower) / np.cbrt(total[-1])))
    _, cell = np.unique(values // width, return_inverse=True)  # numbered without gaps, which may be wide
    return np.asarray(np.bincount(cell, mass)[cell] / width)
