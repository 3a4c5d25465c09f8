"""Checks against a ceiling, quoted from `audit.verdicts`.

A cell of the verdict table fails where its hypotheses hold with the ceiling in place of the floor: the mean over
clusters, a party's mean or a single cluster lies above it, at alpha over the whole gate. It passes where the library
would say "no leak above" that ceiling: every series bounded below it without assumptions on its shape, nothing unread,
every control held. Everything else is inconclusive.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leakledger.audit.bounds import above_bounds
from leakledger.audit.clusters import mean_interval
from leakledger.audit.gate.policy import Gate, LeakageGate
from leakledger.audit.gate.snapshot import Cell
from leakledger.audit.gate_records import Status
from leakledger.audit.records import CaseRecord, failed_controls
from leakledger.audit.verdicts.ceilings import fewest
from leakledger.audit.verdicts.evidence import CHECKS, Series, cells
from leakledger.audit.verdicts.missing import doubts_of, too_much_open
from leakledger.audit.verdicts.policy import Policy as Rule
from leakledger.audit.verdicts.rulings import Failures, Test, gets_most, hypotheses, shown_to_get_most
from leakledger.audit.verdicts.significance import of_any


@dataclass(frozen=True)
class Ceiling:
    """One cell, its hypotheses, the p-value that one of them holds (before Holm), and what keeps it from a pass, the
    numbers aside as `doubts`.

    `series` is the one that gets most, whether it is above the ceiling or not.
    """

    cell: Cell
    gate: LeakageGate
    tests: tuple[Test, ...]
    series: Series | None
    doubts: tuple[str, ...]
    missing: tuple[str, ...]
    by_column: bool = False  # whether columns are bounded one by one

    @property
    def p(self) -> float | None:
        return of_any([t.p for t in self.tests]) if self.tests else None

    def speaks(self, p: float | None, alpha: float) -> Series | None:
        """The series that is quoted: of what is above the ceiling at `alpha`, `p` being corrected, the one that gets
        most.
        """
        above = shown_to_get_most(self.tests, p, alpha)
        return above.series if above else self.series

    def most(self, alpha: float) -> float:
        """The highest advantage, of a series, a party or a batch, that by itself is above the ceiling at alpha."""
        return max((t.advantage for t in self.tests if t.p <= alpha), default=0.0)


def measured(series: Series | None) -> tuple[float | None, float | None, float | None]:
    """The mean advantage of a series, with its 95 % interval."""
    if series is None:
        return None, None, None
    values = series.advantages
    low, high = mean_interval(values, series.seeds, (min(0.0, float(values.min())), 1.0)) or (None, None)
    return float(values.mean()), low, high


def ceilings(records: Sequence[CaseRecord], gates: Sequence[LeakageGate], gate: Gate) -> Iterator[Ceiling]:
    """One for each cell that a gate with a ceiling judges."""
    broken = Failures(failed_controls(records) | above_bounds(records))
    for key, cell in cells(records).items():
        judge = next((g for g in gates if key[2] != CHECKS and g.judges(key[1], key[2])), None)
        if judge is None or judge.ceiling is None:
            continue
        rule = Rule(floor=judge.ceiling, ceiling=judge.ceiling, alpha=gate.alpha)
        usable = [s for s in cell.series if broken.trusts(key[0], s.attack)]
        tests = tuple(t for s in usable for t in hypotheses(s, rule))
        doubts = tuple(doubts_of(records, key, cell, usable))
        missing = (*doubts, *too_much_open(key, usable, rule))
        by_column = any(s.column for s in usable)
        yield Ceiling(Cell(*key), judge, tests, gets_most(key[2], cell, usable), doubts, missing, by_column)


def answer(c: Ceiling, p: float | None, gate: Gate) -> tuple[Status, tuple[str, ...]]:
    """Status and reasons; `p` is corrected for all hypotheses of the gate."""
    limit = c.gate.ceiling
    if (best := shown_to_get_most(c.tests, p, gate.alpha)) is not None:
        where = f" {best.where}" if best.where else ""
        return "fail", (f"{best.series.attack} by {'+'.join(best.series.observers)} gets more than {limit:g}{where}",)
    if c.missing:
        return "inconclusive", c.missing
    where = "for each party and in each column" if c.by_column else "and for each party"
    return "pass", (f"below {limit:g} in the mean, {where}",)


def needed(ceiling: float, gate: Gate) -> int:
    """Seeds without any gain from which on a ceiling can be certified."""
    return fewest(ceiling, gate.alpha)
