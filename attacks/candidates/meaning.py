"""What recovered codes mean: the values that each row may have, and a claim that says how sure that is.

Several values can have one code, and features that share columns can swap theirs. Then a row's values are one of
several assignments, and nothing in the code tells which: the adversary's confidence is shared among them, by the shares
of values that it knows, else evenly. The claim names the likeliest assignment (among equals, one drawn at random), its
entropy says how far that is certain, and a row with more than one assignment is never verified.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import RecordsClaim
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
UNKNOWN = -1  # no candidate: the claim names no value
TIED = 1e-9  # relative: weights this close are equal; too small, and rounding decides what is a draw among equals


@dataclass(frozen=True, eq=False)
class Assignments:
    """What some features of one row may be together: value numbers `choices` (m, F) of `features`, F places in the
    claim's layout. `UNKNOWN` stands for a value that is not among the candidates.

    `weights` (m,): how well each fits where it need not be one of them at all, so that nothing is proven; else None.
    """

    features: tuple[int, ...]
    choices: Ints
    weights: Array | None = None


Decoder = Callable[[RecordsClaim], Iterable[Sequence[Assignments]]]
"""From a claim about codes to what each group of features may be, row by row."""


@dataclass(frozen=True, eq=False)
class Meaning:
    """`layout`: what the claim speaks of, its categorical blocks with the candidates' names. `decode` reads it.

    `behind` (K,): the categorical blocks of the codes whose entropies each claimed cell inherits; where there are none
    a cell is as sure as its row is proven. `numbers`: which numeric columns of the codes are numbers in `layout` too.
    `shares`: feature -> value -> share.
    """

    layout: FeatureLayout
    decode: Decoder
    behind: Sequence[Sequence[int]]
    numbers: Sequence[int]
    shares: Mapping[str, Mapping[str, float]]

    def of(self, claim: RecordsClaim) -> RecordsClaim:
        """The claim about recovered codes, in values."""
        blocks, rng = self.layout.categorical, np.random.default_rng([claim.round, *claim.victim.encode()])
        categories = np.full((len(claim.categories), len(blocks)), UNKNOWN, np.int64)
        spreads = np.zeros(categories.shape)
        single = np.ones(len(categories), bool)
        for i, groups in enumerate(self.decode(claim)):
            for some in groups:
                weights = np.prod([self._weights(blocks[f], c) for f, c in _columns(some)], axis=0)
                weights = weights if some.weights is None else weights * some.weights
                weights = weights if weights.any() else np.ones(len(weights))
                top = np.flatnonzero(weights >= weights.max() * (1 - TIED))
                categories[i, list(some.features)] = some.choices[rng.choice(top) if len(top) > 1 else top[0]]
                for f, chosen in _columns(some):
                    spreads[i, f] = spread(chosen, weights, blocks[f].size)
                single[i] &= len(some.choices) == 1 and some.weights is None and bool((some.choices >= 0).all())
        unproven = np.ones(len(single)) if claim.verified is None else 1.0 - claim.verified
        own = [claim.category_entropy[:, list(b)].max(1) if len(b) else unproven for b in self.behind]
        entropy = spreads + (1 - spreads) * np.stack(own, -1) if own else spreads
        return replace(
            claim,
            categories=categories,
            numbers=claim.numbers[:, list(self.numbers)],
            category_entropy=np.where(categories < 0, np.nan, entropy),
            number_entropy=claim.number_entropy[:, list(self.numbers)],
            verified=None if claim.verified is None else claim.verified & single,
            probability=None,  # which was that of codes
            layout=self.layout,
        )

    def _weights(self, block: CategoricalBlock, chosen: Ints) -> Array:
        known = self.shares.get(block.feature, {})
        if block.values is None or not known:
            return np.ones(len(chosen))
        least = min(known.values()) / 2
        return np.array([known.get(block.values[v], least) if v >= 0 else least for v in chosen.tolist()])


def _columns(some: Assignments) -> list[tuple[int, Ints]]:
    return list(zip(some.features, some.choices.T, strict=True))


def spread(chosen: Ints, weights: Array, size: int) -> float:
    """In [0, 1]: the entropy of the value of a cell, over log(size), where it is one of `chosen` (m,) by `weights`, not
    all zero.
    """
    distinct, which = np.unique(chosen, return_inverse=True)
    if len(distinct) == 1 or size < 2:
        return 0.0
    share = np.bincount(which.reshape(-1), weights) / weights.sum()
    share = share[share > 0]
    return float(np.clip(-(share * np.log(share)).sum() / np.log(size), 0.0, 1.0))
