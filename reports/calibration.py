"""Entropy calibration: is an attack right where it is sure? All cases' cells, summed per bucket of its uncertainty."""

from collections.abc import Iterable
from dataclasses import dataclass

from audit.records import CaseRecord

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Bucket:
    """Cells of one range of entropy: how many, and how many of them the attack has right."""

    low: float
    high: float
    cells: int
    correct: int

    @property
    def accuracy(self) -> float:
        return self.correct / self.cells


@dataclass(frozen=True)
class Curve:
    """The buckets of one attack and one kind of cell, surest first. Empty buckets are left out."""

    attack: str
    kind: str
    buckets: tuple[Bucket, ...]

    @property
    def unit(self) -> str:
        return "of its maximum" if self.kind == "categorical" else "nats"


def curves(cases: Iterable[CaseRecord]) -> list[Curve]:
    """One curve per attack and kind, in the order of the record."""
    sums: dict[tuple[str, str], dict[Bounds, list[int]]] = {}
    for row in (row for case in cases for row in case.calibration if row.cells):
        total = sums.setdefault((row.attack, row.kind), {}).setdefault((row.low, row.high), [0, 0])
        total[0] += row.cells
        total[1] += row.correct
    return [
        Curve(attack, kind, tuple(Bucket(*bounds, *found[bounds]) for bounds in sorted(found)))
        for (attack, kind), found in sums.items()
    ]
