"""What nobody can undercut: the narrowest intervals with the level, of someone who knows the cell, and how many hold.

Sizes are whole, so an interval that holds at least 90 % of a posterior may hold far more of it, and where all parties
are of one size it is certain. `ring_size` does not know the cell: neither values nor how far parties are apart. What it
holds beyond this share is that; what this share is beyond the level is the price of whole numbers.

The law of a party's size comes from `DRAWS` parties that are drawn as the cell's are (of identifiers exactly), the
posterior given a sum is that of `attacks.transcript.ring_size.posterior`. Only where a view has sums alone: not for
`dh-psi`, whose lengths tell more, nor where a dictionary is granted.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from leakledger.attacks.transcript.ring_size.posterior import given_sums, interval, normalised
from leakledger.audit.benchmarks.posteriors_federations import (
    CANDIDATES,
    FEWEST,
    OUTLYING,
    RingCell,
    ring_tables,
    value_chances,
)

Floats = NDArray[np.float64]

DRAWS = 20_000
UNSEEN = 1e-9  # of a size that no draw has


def knows(cell: RingCell) -> bool:
    """Whether the figures are of this cell."""
    return cell.encoder != "dh-psi" and not cell.granted


def held_by_who_knows(cell: RingCell, seed: int) -> list[bool]:
    """Of one federation, party by party and feature by feature, whether the interval of who knows the cell holds."""
    sizes = [{f: len(set(t.values(f))) for f in CANDIDATES} for t in ring_tables(cell, seed).values()]
    held = []
    for places in segments(cell):
        for f in CANDIDATES if len(places) > 1 else ():
            found = interval(_posterior(cell, f, len(places), sum(sizes[i][f] for i in places)))
            held += [found.low <= sizes[i][f] <= found.high for i in places]
    return held


def segments(cell: RingCell) -> list[list[int]]:
    """The places in the ring of the parties of which the observers know one sum."""
    outside = [i for i in range(cell.parties) if f"P{i + 1}" not in cell.observers]
    if cell.encoder == "mod-norm" or len(outside) == cell.parties:
        return [outside]
    own = next(i for i in range(cell.parties) if i not in outside)
    return [part for part in ([i for i in outside if i < own], [i for i in outside if i > own]) if part]


def _posterior(cell: RingCell, feature: str, parties: int, total: int) -> Floats:
    """(up to total + 1,) of the size of one of `parties`, one of which may be the outlying one."""
    usual = _law(cell, feature, 1, total)
    if not cell.outlying:
        return normalised(given_sums([usual], parties, [total])[0])
    far = _law(cell, feature, OUTLYING, total)
    others = sum(map(len, segments(cell)))
    without = given_sums([usual], parties, [total])[0]
    rest = _sum(usual, parties - 1)[: total + 1]  # the others', if it is this one
    with_far = np.convolve(far, _sum(usual, parties - 2))[: total + 1]
    itself = far * rest[::-1]
    another = usual * with_far[::-1]
    return normalised((others - parties) * without + itself + (parties - 1) * another)


def _sum(law: Floats, times: int) -> Floats:
    found: Floats = np.eye(1, len(law))[0]
    for _ in range(times):
        found = np.convolve(found, law)[: len(law)]
    return found


def _law(cell: RingCell, feature: str, times: int, longest: int) -> Floats:
    """(longest + 1,) of the size of a party with so many times the usual rows."""
    if cell.values == "identifier":
        return _rows(cell, times, longest)
    drawn = _drawn(cell, feature, times)
    law = np.full(longest + 1, UNSEEN)
    law[: len(drawn)] += drawn[: longest + 1]
    return law


def _rows(cell: RingCell, times: int, longest: int) -> Floats:
    ends = np.log(np.maximum(np.arange(longest + 2) - 0.5, 1e-9) / (times * cell.rows))
    below = ndtr(ends / cell.spread) if cell.spread else (ends > 0).astype(np.float64)
    law: Floats = np.diff(below)
    law[:FEWEST], law[FEWEST : FEWEST + 1] = 0.0, below[FEWEST + 1 : FEWEST + 2]
    return law


@cache
def _drawn(cell: RingCell, feature: str, times: int) -> Floats:
    coins = np.random.default_rng((3, times))
    rows = times * cell.rows * np.exp(cell.spread * coins.normal(size=DRAWS))
    occurs = coins.multinomial(np.maximum(FEWEST, np.rint(rows)).astype(int), value_chances(cell, CANDIDATES[feature]))
    found: Floats = np.bincount((occurs > 0).sum(axis=1)) / DRAWS
    return found
