"""What the adversary expects of another party's size, and what the sums of stretches of the ring make of it."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.own_rows import Counts, pooled_counts
from leakledger.attacks.observed.ring import Contradiction, Unreadable
from leakledger.attacks.transcript.ring_size.arrangement import Arrangement, Stretch, divisions
from leakledger.attacks.transcript.ring_size.occupancy import WIDEST, Laws, Occupancy, known_of, unlike_parties
from leakledger.attacks.transcript.ring_size.posterior import Padding, check_size, normalised, size_posteriors
from leakledger.attacks.transcript.ring_size.worlds import Worlds, worlds

Floats = NDArray[np.float64]
Posteriors = dict[tuple[str, str], Floats]  # party, feature -> posterior of its size
Sums = tuple[int, Sequence[int]]  # so many parties, and of each feature what their ranges add up to

ROUNDED = 1e-12  # a smaller chance of a sum may be the rounding of its transform
FAINT = 1e-9  # a sum that the prior gives a smaller chance is taken as by an adversary without one
CELLS = 1024  # longer laws are of cells of several sizes


class Impossible(Unreadable):
    """Sums that so many parties cannot have: another order of the ring may."""


class Prior:
    """Laws of another party's size, feature by feature; worked out when the first sum is not certain."""

    def __init__(
        self, own: Mapping[str, Counts], knowledge: AuxiliaryKnowledge, features: Sequence[str], spread: float
    ) -> None:
        self.own, self.knowledge, self.features, self.spread = own, knowledge, tuple(features), spread
        self.candidates = {f: len(set(v)) for f, v in knowledge.dictionaries.items()}
        self._kept: dict[tuple[str, int], Laws] = {}

    @property
    def informed(self) -> bool:
        """Whether there are own rows to learn from."""
        return any(held.total() for counts in self.own.values() for held in counts.values())

    @cached_property
    def worlds(self) -> Worlds:
        rows = [max((held.total() for held in counts.values()), default=0) for counts in self.own.values()]
        return worlds(np.array([n for n in rows if n], np.float64), self.spread)

    @cached_property
    def occupancies(self) -> dict[str, Occupancy]:
        """By feature."""
        chances = {f: np.asarray(p, np.float64) for f, (_, p) in self.knowledge.marginals.items()}
        known = known_of(pooled_counts(self.own), self.candidates, chances, self.features)
        return {f: Occupancy(k, self.worlds) for f, k in zip(self.features, known, strict=True)}

    def laws(self, feature: str, most: int, step: int = 1) -> Laws:
        """Of sizes up to `most`, on cells of `step` sizes."""
        length, kept = most // step + 1, self._kept.get((feature, step))
        if kept is None or kept.sizes.shape[1] < length:
            kept = self._kept[feature, step] = self.occupancies[feature].laws(length, step)
        return Laws(kept.sizes[:, :length], kept.weights, kept.populations, step)

    def posteriors(self, parties: int, totals: Sequence[int], padding: Padding) -> list[Floats]:
        """For each feature (up to total + 1,): the posterior of one of the parties whose ranges add up to its total."""
        return self.together([(parties, totals)], padding)[0]

    def together(self, sums: Sequence[Sums], padding: Padding) -> list[list[Floats]]:
        """The posteriors of each of several groups of parties: what is known of all tells which world it is.

        Worlds are weighed by the chances of the sums of one feature, the one with most values: the rows of a party are
        behind all its features, so that many say little more than the one that tells rows best, and what is known of
        one is a posterior as it stands. (Weighed by the product over features, as if they were independent, intervals
        are too narrow: on identifiers with parties of log-sd 1, 78 in place of 92 %. The geometric mean over features
        lets those with few values thin out what the others say: of zipf with an outlying party 91 in place of 95 %.)
        """
        for _, totals in sums:
            self._check(totals)
        if all(parties == 1 and padding.none for parties, _ in sums):
            return [[np.eye(1, t + 1, t)[0] for t in totals] for _, totals in sums]
        if not self.informed:
            return [self.weighed(parties, totals, padding)[0] for parties, totals in sums]
        joint = [self._joint(parties, totals, padding) for parties, totals in sums]
        worlds = [self._weights([group[k] for group in joint]) for k in range(len(self.features))]
        telling = _telling(joint, [totals for _, totals in sums])
        return [
            [
                self._mixed(group[k], _of_all(worlds, k, telling), feature, parties, total, padding)
                for k, (feature, total) in enumerate(zip(self.features, totals, strict=True))
            ]
            for group, (parties, totals) in zip(joint, sums, strict=True)
        ]

    def alone(self, parties: int, totals: Sequence[int], padding: Padding) -> list[Floats]:
        """The posteriors from these sums alone."""
        self._check(totals)
        if parties == 1 and padding.none:
            return [np.eye(1, t + 1, t)[0] for t in totals]
        return self.weighed(parties, totals, padding)[0]

    def _check(self, totals: Sequence[int]) -> None:
        for feature, total in zip(self.features, totals, strict=True):
            if total < 0:
                raise Contradiction(f"the observers' own values of {feature} are more than the range that holds them")
            check_size(feature, total)

    def weighed(self, parties: int, totals: Sequence[int], padding: Padding) -> tuple[list[Floats], float]:
        """The posteriors from these sums alone, and the logarithm of their chance: 0 without own rows, if possible.
        Raises Impossible where so many parties cannot have them.
        """
        if not parties:
            return [], -np.inf if any(totals) else 0.0
        if not self.informed:
            alike = [self._without_rows(f, parties, t, padding) for f, t in zip(self.features, totals, strict=True)]
            return alike, 0.0
        joint = self._joint(parties, totals, padding)
        found = [
            self._mixed(one, one.prior * one.evidence, feature, parties, total, padding)
            for one, feature, total in zip(joint, self.features, totals, strict=True)
        ]
        return found, float(sum(np.log(max(one.chance, FAINT)) for one in joint))

    def _joint(self, parties: int, totals: Sequence[int], padding: Padding) -> list["_Joint"]:
        """For each feature what its sum makes of each world."""
        steps = [1 if not padding.none else -(-(total + 1) // CELLS) for total in totals]
        cells = [_in_cells(total, parties, step) for total, step in zip(totals, steps, strict=True)]
        laws = [self.laws(f, cell * step, step) for f, cell, step in zip(self.features, cells, steps, strict=True)]
        each = size_posteriors([law.sizes for law in laws], parties, cells, padding)
        return [_Joint(law, chances) for law, chances in zip(laws, each, strict=True)]

    def _mixed(
        self, joint: "_Joint", weights: Floats, feature: str, parties: int, total: int, padding: Padding
    ) -> Floats:
        """(up to total + 1,) the posterior of a size, by the weights (worlds,) of what each world makes of the sum."""
        if joint.chance <= FAINT:
            return self._without_rows(feature, parties, total, padding)
        if parties == 1 and padding.none:
            sure: Floats = np.eye(1, total + 1, total)[0]
            return sure
        return normalised(_in_sizes(weights @ joint.posteriors, joint.laws.step, total))

    @staticmethod
    def _weights(groups: Sequence["_Joint"]) -> tuple[Floats, Floats]:
        """Of one feature (worlds, populations): prior weights, and the logarithm of the chance of its sums in each."""
        likely = [g for g in groups if g.chance > FAINT]
        laws = groups[0].laws
        logs = sum((np.log(np.maximum(g.evidence, 1e-300)) for g in likely), np.zeros(len(laws.weights)))
        return laws.weights.reshape(-1, laws.populations), logs.reshape(-1, laws.populations)

    def _without_rows(self, feature: str, parties: int, total: int, padding: Padding) -> Floats:
        """(up to total + 1,) the posterior of a size from the sum alone: sizes are as unlike as numbers of rows are in
        `worlds`, around a centre of which nothing is known. Raises Impossible where no sizes have that sum.
        """
        step = 1 if not padding.none else -(-(total + 1) // CELLS)
        cells, granted = _in_cells(total, parties, step), self.candidates.get(feature, 0)
        laws = unlike_parties(total / parties, padding.mean, self.spread, cells + 1, step, granted or WIDEST)
        joint = size_posteriors([laws.sizes], parties, [cells], padding)[0]
        by_spread = joint.reshape(len(laws.weights), laws.populations, -1).sum(axis=1)
        evidence = by_spread.sum(axis=1)
        possible = evidence > ROUNDED
        if not possible.any():
            raise Impossible(f"{parties} ranges of {feature} cannot add up to {total}; set the options of the ring")
        # The chance of a sum is alike at all spreads, up to what the grid of centres makes of it.
        posterior = laws.weights[possible] @ (by_spread[possible] / evidence[possible, None])
        return normalised(_in_sizes(posterior, step, total))


@dataclass(frozen=True)
class _Joint:
    """The law of one feature in each world, and `chances` (worlds, cells) of a size together with the sum."""

    laws: Laws
    chances: Floats = field(repr=False)

    @property
    def prior(self) -> Floats:
        return self.laws.weights

    @cached_property
    def evidence(self) -> Floats:
        """(worlds,) the chance of the sum."""
        total: Floats = self.chances.sum(axis=1)
        return total

    @property
    def chance(self) -> float:
        """Of the sum, over all worlds."""
        return float(self.prior @ self.evidence)

    @property
    def posteriors(self) -> Floats:
        """(worlds, cells) of a size given the sum."""
        posteriors: Floats = self.chances / np.maximum(self.evidence, 1e-300)[:, None]
        return posteriors


def _telling(joint: Sequence[Sequence["_Joint"]], sums: Sequence[Sequence[int]]) -> int:
    """The feature whose sums are largest, of those that the prior gives a chance."""
    likely = [[g.chance > FAINT for g in group] for group in joint]  # (groups, features)
    return int((np.array(sums) * likely).sum(axis=0).argmax())


def _of_all(worlds: Sequence[tuple[Floats, Floats]], feature: int, telling: int) -> Floats:
    """(worlds * populations,) the weights for one feature: of a world by what the sums of the feature `telling` say, of
    a population in that world by the feature's own.
    """
    prior, logs = worlds[feature]
    logs = logs + (_over_populations(*worlds[telling]) - _over_populations(prior, logs))[:, None]
    weights = (prior * np.exp(logs - logs.max())).ravel()
    normal: Floats = weights / weights.sum()
    return normal


def _over_populations(prior: Floats, logs: Floats) -> Floats:
    """(worlds,) the logarithm of the chance of the sums, whatever the population."""
    share = prior / prior.sum(axis=1, keepdims=True)
    most = logs.max(axis=1, keepdims=True)
    total: Floats = np.log((share * np.exp(logs - most)).sum(axis=1)) + most[:, 0]
    return total


def _in_cells(total: int, parties: int, step: int) -> int:
    """The sum of the numbers of cells, of parties who are each half a cell above theirs."""
    return total if step == 1 else max(round((total - parties * (step - 1) / 2) / step), 0)


def _in_sizes(law: Floats, step: int, total: int) -> Floats:
    """(up to total + 1,) the chances of sizes from those of cells."""
    sizes: Floats = np.repeat(law / step, step)[: total + 1]
    return sizes


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
    if not u:
        told = [s for s in found.stretches if s.known]
        wanted = [any(p not in observers for p in s.known) for s in told]
        all_laws = prior.together([(len(s.known), s.sums) for s, w in zip(told, wanted, strict=True) if w], padding)
        yield from ((s, [(1.0, laws)], []) for s, laws in zip(compress(told, wanted), all_laws, strict=True))
        return
    for s in (s for s in found.stretches if not s.open):
        if any(p not in observers for p in s.known):
            yield s, [(1.0, prior.alone(len(s.known), s.sums, padding))], []
    stretches = [s for s in found.stretches if s.open]
    weighed = [[_if_possible(prior, len(s.known) + m, s, padding) for m in range(u + 1)] for s in stretches]
    logs = [np.array([w for _, w in each]) for each in weighed]
    numbers = divisions([np.exp(w - np.nan_to_num(w.max(), neginf=0.0)) for w in logs], u)
    for s, each, chances in zip(stretches, weighed, numbers, strict=True):
        likely = [(m, float(p)) for m, p in enumerate(chances) if p > 0]
        known = [(p, each[m][0]) for m, p in likely] if s.known else []
        yield s, known, [(p * m / u, each[m][0]) for m, p in likely if m]


def _if_possible(prior: Prior, parties: int, stretch: Stretch, padding: Padding) -> tuple[list[Floats], float]:
    """What `weighed` makes of so many parties in a stretch of the ring; no chance where they cannot have its sums."""
    try:
        return prior.weighed(parties, stretch.sums, padding)
    except Impossible:
        return [], -np.inf


def _mixture(weighed: Sequence[tuple[float, Floats]]) -> Floats:
    if len(weighed) == 1:
        return weighed[0][1]
    law = np.zeros(max(len(one) for _, one in weighed))
    for weight, one in weighed:
        law[: len(one)] += weight * one
    return normalised(law)
