"""The parts that observers hold of others' numbers, in the arrays that inference reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.secure_sums import Run, Slot
from leakledger.attacks.transcript.statistics.differences import Round
from leakledger.attacks.transcript.statistics.exact import Means, own_figures
from leakledger.attacks.transcript.statistics.own import OwnTable
from leakledger.attacks.transcript.statistics.proportions import Weights, weights_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sharing:
    """One number of V parties, split once: sum and maximum (V,) of the k magnitudes seen of its n parts."""

    parties: int
    observed: int
    total: Floats = field(repr=False)
    largest: Floats = field(repr=False)


@dataclass(frozen=True)
class Seen:
    """Of `victims`: per slot the times that it was shared, its sign (V,), and all messages behind it."""

    victims: tuple[str, ...]
    sharings: dict[Slot, list[Sharing]] = field(repr=False)
    signs: dict[Slot, Floats] = field(repr=False)
    evidence: dict[str, tuple[int, ...]] = field(repr=False)


def seen_parts(rounds: Sequence[Round], victims: Sequence[str], holders: frozenset[str]) -> Seen | None:
    """The parts of `victims` that reached `holders`, over all rounds; None where sharing hides or no part was seen."""
    sharings: dict[Slot, list[Sharing]] = {}
    signs: dict[Slot, Floats] = {}
    evidence: dict[str, set[int]] = {v: set() for v in victims}
    for run in (run for r in rounds for run in r.runs if not run.ring):
        inside = [c for c in run.clients if c in holders]
        if not inside or not set(victims) <= set(run.clients):
            continue
        parts = np.array([[run.parts[v, c] for c in inside] for v in victims])  # (V, k, slots)
        total, largest = np.abs(parts).sum(axis=1), np.abs(parts).max(axis=1)
        for i, slot in enumerate(run.slots):
            if slot.kind in ("count", "sum", "square", "deviation", "size"):
                one = Sharing(len(run.clients), len(inside), total[:, i], largest[:, i])
                sharings.setdefault(slot, []).append(one)
                signs.setdefault(slot, np.sign(parts[:, 0, i]))
        told = {run.evidence[c] for c in run.clients if c in run.partials}
        for v in victims:
            evidence[v] |= {run.evidence[v, c] for c in inside} | told
    return (
        Seen(tuple(victims), sharings, signs, {v: tuple(sorted(e)) for v, e in evidence.items()}) if sharings else None
    )


def own_weights(rounds: Sequence[Round], tables: Mapping[str, OwnTable]) -> Weights:
    """The distribution behind the proportions, from the observers' own numbers, whose parts they know all."""
    return weights_of([f for r in rounds for run in r.runs if not run.ring for f in _fractions(run, r.means, tables)])


def _fractions(run: Run, means: Means, tables: Mapping[str, OwnTable]) -> list[Floats]:
    """(n,) what share of an own number went to each party; the part that was kept is what is left of it."""
    found: list[Floats] = []
    for c in (c for c in run.clients if c in tables):
        sent = np.array([run.parts[c, other] for other in run.clients if other != c])  # (n - 1, slots)
        values = own_figures(run, tables[c], means)
        shares = np.vstack([sent, values - sent.sum(axis=0)]) / np.where(values == 0, 1.0, values)
        found += list(shares.T[(values != 0) & (shares > 0).all(axis=0)])
    return found
