"""What the adversary expects of another party's size, and what the sums of stretches of the ring make of it."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.own_rows import Counts, pooled_counts
from leakledger.attacks.observed.ring import Unreadable
from leakledger.attacks.transcript.ring_size.arrangement import Arrangement, Stretch, divisions
from leakledger.attacks.transcript.ring_size.occupancy import Laws, equal_parties, known_of, size_priors
from leakledger.attacks.transcript.ring_size.posterior import Padding, normalised, size_posteriors

Floats = NDArray[np.float64]
Posteriors = dict[tuple[str, str], Floats]  # party, feature -> posterior of its size

GRID = 12
FAINT = 1e-9  # a sum that the prior gives a smaller chance is taken as by an adversary without one


class Prior:
    """Laws of another party's size, feature by feature; worked out when the first sum is not certain."""

    def __init__(
        self, own: Mapping[str, Counts], knowledge: AuxiliaryKnowledge, features: Sequence[str], spread: float
    ) -> None:
        self.own, self.knowledge, self.features, self.spread = own, knowledge, tuple(features), spread
        self.candidates = {f: len(set(v)) for f, v in knowledge.dictionaries.items()}

    @cached_property
    def laws(self) -> dict[str, Laws]:
        """By feature; none without own rows."""
        if not any(held.total() for counts in self.own.values() for held in counts.values()):
            return {}
        chances = {f: np.asarray(p, np.float64) for f, (_, p) in self.knowledge.marginals.items()}
        known = known_of(pooled_counts(self.own), self.candidates, chances, self.features)
        return dict(zip(self.features, size_priors(known, len(self.own), self.spread), strict=True))

    def posteriors(self, parties: int, totals: Sequence[int], padding: Padding) -> list[Floats]:
        """For each feature (up to total + 1,): the posterior of one of the parties whose ranges add up to its total."""
        for feature, total in zip(self.features, totals, strict=True):
            if total < 0:
                raise Unreadable(f"the observers' own values of {feature} are more than the range that holds them")
        if parties == 1 and padding.none:
            return [np.eye(1, total + 1, total)[0] for total in totals]
        return self.weighed(parties, totals, padding)[0]

    def weighed(self, parties: int, totals: Sequence[int], padding: Padding) -> tuple[list[Floats], float]:
        """The posteriors, and the logarithm of the chance of the totals: 0 without own rows, if possible."""
        if not parties:
            return [], -np.inf if any(totals) else 0.0
        joint = [np.zeros(1)] * len(totals)
        if self.laws:
            laws = [self.laws[f] for f in self.features]
            each = size_posteriors([law.sizes for law in laws], parties, totals, padding)
            joint = [law.weights @ j for law, j in zip(laws, each, strict=True)]
        found = [
            normalised(law) if law.sum() > FAINT else self._alike(feature, parties, total, padding)
            for law, feature, total in zip(joint, self.features, totals, strict=True)
        ]
        return found, float(sum(np.log(max(law.sum(), FAINT)) for law in joint)) if self.laws else 0.0

    def _alike(self, feature: str, parties: int, total: int, padding: Padding) -> Floats:
        fewest = max(-(-total // parties), 1)
        grid = [max(fewest, k) for k in [self.candidates.get(feature, 0)] if k]
        grid = grid or sorted({round(k) for k in np.geomspace(fewest, max(total, 1), GRID)})
        laws = [equal_parties(k, total / (parties * k) * (1 - 1e-9), total + 1) for k in grid]
        each = size_posteriors(laws, parties, [total] * len(laws), padding)
        return normalised(np.sum([normalised(law) for law in each], axis=0))


Weighed = list[tuple[float, list[Floats]]]  # chances, and under each the law of every feature


def sizes_of(
    found: Arrangement, prior: Prior, padding: Padding, observers: Collection[str]
) -> tuple[Posteriors, dict[str, set[int]]]:
    """The posteriors of every party outside, and the messages that they rest on."""
    mixtures: dict[str, Weighed] = defaultdict(list)
    evidence: dict[str, set[int]] = defaultdict(set)
    for stretch, known, others in _stretch_laws(found, prior, padding, observers):
        members = [(p, known) for p in stretch.known] + [(p, others) for p in found.unplaced if others]
        for party, weighed in members:
            if party not in observers:
                mixtures[party] += weighed
                evidence[party] |= stretch.evidence
    laws = {
        (party, feature): _mixture([(w, each[k]) for w, each in mixture])
        for party, mixture in mixtures.items()
        for k, feature in enumerate(found.features)
    }
    return laws, dict(evidence)


def _stretch_laws(
    found: Arrangement, prior: Prior, padding: Padding, observers: Collection[str]
) -> Iterator[tuple[Stretch, Weighed, Weighed]]:
    """Each stretch with the laws of the parties known there, and of one without a place (chances add up to that of
    being there).
    """
    u = len(found.unplaced)
    closed = [s for s in found.stretches if not (s.open and u)]
    for s in closed:
        if any(p not in observers for p in s.known):
            yield s, [(1.0, prior.posteriors(len(s.known), s.sums, padding))], []
    stretches = [s for s in found.stretches if s.open and u]
    weighed = [[prior.weighed(len(s.known) + m, s.sums, padding) for m in range(u + 1)] for s in stretches]
    logs = [np.array([w for _, w in each]) for each in weighed]
    numbers = divisions([np.exp(w - w.max()) for w in logs], u)
    for s, each, chances in zip(stretches, weighed, numbers, strict=True):
        likely = [(m, float(p)) for m, p in enumerate(chances) if p > 0]
        known = [(p, each[m][0]) for m, p in likely] if s.known else []
        yield s, known, [(p * m / u, each[m][0]) for m, p in likely if m]


def _mixture(weighed: Sequence[tuple[float, Floats]]) -> Floats:
    if len(weighed) == 1:
        return weighed[0][1]
    law = np.zeros(max(len(one) for _, one in weighed))
    for weight, one in weighed:
        law[: len(one)] += weight * one
    return normalised(law)
