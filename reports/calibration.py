"""Entropy calibration: is an attack right where it is sure? By bucket of entropy, and for the cells it is surest of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leakledger.audit.records import BucketScore, Score, Setting, SurestScore

KINDS = ("categorical", "numeric")


@dataclass(frozen=True)
class Curve:
    """The buckets of one kind of cell under one attack, surest first."""

    attack: str
    kind: str
    buckets: tuple[BucketScore, ...]
    surest: tuple[SurestScore, ...]

    @property
    def unit(self) -> str:
        return "of its maximum" if self.kind == "categorical" else "nats"

    @property
    def cells(self) -> int:
        """Claimed cells with an entropy."""
        return sum(b.cells for b in self.buckets)


@dataclass(frozen=True)
class Ranking:
    """One row of the table of surest cells: `cells` by share, None where a share was not measured."""

    score: Score
    kind: str
    cells: tuple[SurestScore | None, ...]


@dataclass(frozen=True)
class Calibrated:
    """One attack: its curves in `shown`, the setting where it gets most, and its surest cells in all settings."""

    attack: str
    shown: Score
    curves: tuple[Curve, ...]
    shares: tuple[float, ...]
    rankings: tuple[Ranking, ...]


def calibrated(settings: Mapping[int, Setting], scores: Iterable[Score]) -> list[Calibrated]:
    """Every attack that stated how sure it is of cells, in the order of the record."""
    attacks: dict[str, list[Score]] = {}
    for s in scores:
        if s.detail is not None and s.detail.buckets:
            attacks.setdefault(s.attack, []).append(s)
    reference = {s.id for s in settings.values() if s.reference}
    return [_of_attack(attack, found, reference) for attack, found in attacks.items()]


def _of_attack(attack: str, found: list[Score], reference: set[str]) -> Calibrated:
    """A federated setting is shown before the pooled reference, a sound score before an inconclusive one."""
    ordered = sorted(found, key=lambda s: (s.setting in reference, s.status != "scored", -(s.advantage or 0.0)))
    shown = ordered[0]
    shares = tuple(sorted({c.share for s in found if s.detail for c in s.detail.surest}))
    rankings = tuple(r for s in ordered for kind in KINDS if any((r := _ranking(s, kind, shares)).cells))
    return Calibrated(attack, shown, tuple(c for kind in KINDS if (c := _curve(shown, kind)).buckets), shares, rankings)


def _curve(score: Score, kind: str) -> Curve:
    assert score.detail is not None
    buckets = tuple(b for b in score.detail.buckets if b.kind == kind)
    return Curve(score.attack, kind, buckets, tuple(c for c in score.detail.surest if c.kind == kind))


def _ranking(score: Score, kind: str, shares: tuple[float, ...]) -> Ranking:
    assert score.detail is not None
    by_share = {c.share: c for c in score.detail.surest if c.kind == kind}
    return Ranking(score, kind, tuple(by_share.get(share) for share in shares))
