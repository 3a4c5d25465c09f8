"""What one source tells of one party's values of one feature, and how several sources are put together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Key = tuple[str, str]  # party, feature
DOUBT = 1e-6  # how near a guess may come to certainty


@dataclass(frozen=True)
class Finding:
    """`scores`: value -> chance that the party holds it; 1 and 0 are certain, a value that is missing is not spoken of.
    `counts`: value -> in how many of its rows (or in which share of them), where the source tells. `proven`: values of
    which messages prove that the party holds them.
    """

    party: str
    feature: str
    scores: Mapping[str, float] = field(repr=False)
    counts: Mapping[str, float] = field(default_factory=dict, repr=False)
    evidence: frozenset[int] = frozenset()
    proven: frozenset[str] = frozenset()


def held_by_one(count: float, parties: int) -> float:
    """The chance that one of some parties has at least one of `count` rows, each of which is at any of them. Of several
    parties it is no certainty, however many rows there are: all may be at another.
    """
    if parties == 1 or count <= 0:
        return float(count > 0)
    return min(1 - float((1 - 1 / parties) ** count), 1 - DOUBT)


def exactly(
    party: str,
    feature: str,
    scores: Mapping[str, float],
    evidence: Iterable[int],
    counts: Mapping[str, float] | None = None,
) -> Finding:
    """The finding of a source that proves what it scores with 1 and 0."""
    proven = frozenset(v for v, score in scores.items() if score == 1)
    return Finding(party, feature, scores, counts or {}, frozenset(evidence), proven)


def guessed(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances (n,) that rest on a guess, kept off 0 and 1: certainty overrules every other source."""
    kept: NDArray[np.float64] = np.clip(chances, DOUBT, 1 - DOUBT)
    return kept


def together(findings: Iterable[Finding]) -> dict[Key, Finding]:
    """One finding per party and feature: what is certain stays so, else the likelier of two chances."""
    joined: dict[Key, Finding] = {}
    for f in findings:
        key = f.party, f.feature
        joined[key] = _join(joined[key], f) if key in joined else f
    return joined


def _join(one: Finding, other: Finding) -> Finding:
    scores = {**one.scores, **other.scores}
    scores |= {v: _decide(one.scores[v], other.scores[v]) for v in one.scores.keys() & other.scores.keys()}
    evidence = one.evidence | other.evidence
    counts, proven = {**other.counts, **one.counts}, one.proven | other.proven
    return Finding(one.party, one.feature, scores, counts, evidence, proven)


def _decide(one: float, other: float) -> float:
    if 1.0 in (one, other):
        return 1.0
    return 0.0 if 0.0 in (one, other) else max(one, other)
