"""Whether the 90 % intervals of `ring_size` and `statistics` hold, over a grid of federations, and how wide they are.

A cell is one kind of federation (`posteriors_federations`); each federation is drawn anew and goes through the real
protocol. Up to five figures for each cell and statistic:

* "coverage": of the claims that are not exact, the share with the truth inside. Claims of a federation are not
  independent of each other, so the interval is that of Korn and Graubard (1998): Clopper and Pearson's binomial one for
  the number of claims over the design effect, the variance of the share over federations in units of the binomial one;
* "width": the median width, relative to that of the interval that holds 90 % of the true figures of the cell (both in
  units of the federation's mean size, mean rows or pooled deviation). That is the prior of someone who knows the cell:
  below 1, messages said something. Not given where all true figures are alike;
* "exact and wrong": the share of the claims without a width that are not right, of all that have none;
* "who knows the cell": for `ring_size`, the coverage of the narrowest intervals that anyone could claim
  (`posteriors_known`): above the level where sizes are few or certain;
* "time": seconds for the attack on one federation, in processor time.

A claim has no width where its ends are within a relative 1e-6 of the unit. `n` are federations; in `setting`, "claims"
are those behind a figure.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import beta

from leakledger.attacks.base import StatisticClaim, claims_in
from leakledger.audit.benchmarks.base import Options, Row, table_line, with_interval
from leakledger.audit.benchmarks.gradients import figure
from leakledger.audit.benchmarks.posteriors_federations import Cell, RingCell, StatisticsCell, federation
from leakledger.audit.benchmarks.posteriors_known import held_by_who_knows, knows
from leakledger.audit.intervals import CONFIDENCE
from leakledger.audit.pool import each

FEDERATIONS, QUICK = 60, 1
NOMINAL, TOLERATED = 0.90, (0.85, 0.96)
NO_WIDTH, ROUNDING = 1e-6, 1e-9
COVERAGE, WIDTH, WRONG, KNOWN, TIME = "coverage", "width", "exact and wrong", "who knows the cell", "time"

RING = (
    *(
        RingCell(values=v, spread=s)
        for v in ("zipf", "uniform", "disjoint", "identifier")
        for s in (0.0, 0.5, 1.0, 2.0)
    ),
    *(RingCell(parties=p, spread=s) for p in (3, 10, 20) for s in (0.5, 2.0)),
    *(RingCell(values="identifier", parties=p, spread=2.0) for p in (3, 20)),
    *(RingCell(values=v, spread=0.5, outlying=True) for v in ("zipf", "identifier")),
    *(RingCell(values=v, spread=2.0, granted=True) for v in ("zipf", "disjoint")),
    *(RingCell("zipf", s, encoder=e) for e in ("mod-norm", "dh-psi") for s in (0.5, 2.0)),
    *(RingCell("identifier", s, encoder="mod-norm") for s in (0.5, 2.0)),
    *(RingCell(v, s, server=True) for v in ("zipf", "identifier") for s in (0.0, 0.5, 1.0, 2.0)),
    RingCell("identifier", 0.5, encoder="dh-psi"),  # further apart, its group elements take minutes
)
STATISTICS = (
    *(StatisticsCell(numbers=x, spread=s) for x in ("normal", "binary", "skewed", "heavy") for s in (0.0, 1.0, 2.0)),
    *(StatisticsCell(x, s, parties=p) for x in ("normal", "binary") for p in (3, 10, 20) for s in (0.5, 2.0)),
    *(StatisticsCell(x, 0.5, outlying=True) for x in ("normal", "binary", "skewed", "heavy")),
    *(StatisticsCell(x, 0.5, observers=("P5",), outlying=True) for x in ("normal", "binary", "skewed")),
    *(StatisticsCell(x, 1.0, rows=8) for x in ("normal", "binary", "skewed")),
    *(StatisticsCell(x, s, observers=("P1", "P2")) for x in ("normal", "binary", "skewed") for s in (0.5, 2.0)),
    *(StatisticsCell(x, 1.0, passes=1) for x in ("normal", "binary")),
    *(StatisticsCell(spread=0.5, parties=p, apart=a) for p in (3, 5, 20) for a in (3.0, 30.0)),
    StatisticsCell(spread=0.5, observers=("P1", "P2"), apart=30.0),
    StatisticsCell(spread=0.5, passes=1, apart=30.0),
    StatisticsCell(route="relay"),
    StatisticsCell(route="relay", observers=("server",)),
)
GRID: tuple[Cell, ...] = (*RING, *STATISTICS)


@dataclass(frozen=True)
class Judged:
    """One claim in units of its federation: which statistic, the truth, the width, and whether it holds the truth."""

    statistic: str
    truth: float
    width: float
    holds: bool

    @property
    def exact(self) -> bool:
        return self.width <= NO_WIDTH


@dataclass(frozen=True)
class Played:
    """The claims about one federation, and the seconds that they took."""

    claims: tuple[Judged, ...]
    seconds: float


def run(options: Options) -> Iterator[Row]:
    """Rows of each cell, in the order of the grid."""
    count = options.seeds or (QUICK if options.quick else FEDERATIONS)
    for cell in GRID:
        yield from cell_rows(cell, list(each(partial(play, cell), range(count), options.jobs or 1)))
        if isinstance(cell, RingCell) and knows(cell):
            yield known_row(cell, range(count))


def play(cell: Cell, seed: int) -> Played:
    """One federation, attacked and judged."""
    drawn = federation(cell, seed)
    start = time.process_time()
    claims = claims_in(drawn.attack.run(drawn.view, drawn.knowledge))
    seconds = time.process_time() - start
    return Played(tuple(judged(c, *drawn.truth(c)) for c in claims if isinstance(c, StatisticClaim)), seconds)


def judged(claim: StatisticClaim, truth: float, unit: float) -> Judged:
    """A claim beside the truth; `unit` is what both are measured in. Rounding is forgiven, a relative 1e-9."""
    unit = unit or 1.0
    slack = ROUNDING * (abs(truth) + unit)
    holds = claim.low - slack <= truth <= claim.high + slack
    return Judged(claim.statistic, truth / unit, (claim.high - claim.low) / unit, holds)


def cell_rows(cell: Cell, played: Sequence[Played]) -> Iterator[Row]:
    """The figures of one cell: for each statistic that is claimed, then the time."""
    where = setting(cell)
    for statistic in dict.fromkeys(c.statistic for p in played for c in p.claims):
        mine = [[c for c in p.claims if c.statistic == statistic] for p in played]
        yield from _statistic_rows({**where, "statistic": statistic}, mine)
    if not any(p.claims for p in played):
        yield Row("posteriors", "made up", {**where, "claims": 0}, "nothing", 0.0, None, None, None, "claims", 0)
    yield figure("posteriors", "made up", where, TIME, [p.seconds for p in played], None, "s")


def known_row(cell: RingCell, seeds: Iterable[int]) -> Row:
    """The coverage of who knows the cell."""
    held = [held_by_who_knows(cell, seed) for seed in seeds]
    share, (low, high) = coverage(held)
    where = {**setting(cell), "statistic": "size", "claims": sum(map(len, held))}
    return Row("posteriors", "made up", where, KNOWN, 100 * share, 100 * low, 100 * high, None, "%", len(held))


def _statistic_rows(where: dict[str, Any], federations: Sequence[Sequence[Judged]]) -> Iterator[Row]:
    def row(metric: str, claims: int, value: float, ends: tuple[float, float] | None, unit: str) -> Row:
        low, high = ends or (None, None)
        counted = sum(map(bool, federations))
        return Row("posteriors", "made up", {**where, "claims": claims}, metric, value, low, high, None, unit, counted)

    ranged = [[c for c in mine if not c.exact] for mine in federations]
    open_, sure = [c for mine in ranged for c in mine], [c for mine in federations for c in mine if c.exact]
    if open_:
        share, ends = coverage([[c.holds for c in mine] for mine in ranged if mine])
        yield row(COVERAGE, len(open_), 100 * share, (100 * ends[0], 100 * ends[1]), "%")
        usual = np.quantile([c.truth for mine in federations for c in mine], [0.05, 0.95])
        wide = float(np.median([c.width for c in open_]))
        if np.ptp(usual) > 0:
            yield row(WIDTH, len(open_), wide / float(np.ptp(usual)), None, "of the prior")
    if sure:
        yield row(WRONG, len(sure), 100 * float(np.mean([not c.holds for c in sure])), None, "%")


def coverage(held: Sequence[Sequence[bool]]) -> tuple[float, tuple[float, float]]:
    """The share that hold, of claims in clusters, and its interval (Korn and Graubard 1998)."""
    total = sum(map(len, held))
    share = sum(map(sum, held)) / total
    effective = float(total)
    if 0 < share < 1 and len(held) > 1:
        off = np.array([sum(mine) - share * len(mine) for mine in held])
        variance = len(held) / (len(held) - 1) * float((off**2).sum()) / total**2
        effective = total / max(variance * total / (share * (1 - share)), 1.0)
    else:
        effective = float(len(held))  # nothing says how far claims of one federation go together
    hits, rest = share * effective, (1 - share) * effective
    low = float(beta.ppf((1 - CONFIDENCE) / 2, hits, rest + 1)) if hits > 0 else 0.0
    high = float(beta.ppf((1 + CONFIDENCE) / 2, hits + 1, rest)) if rest > 0 else 1.0
    return share, (low, high)


def setting(cell: Cell) -> dict[str, Any]:
    """What sets a cell apart, for a row."""
    return {
        "attack": cell.attack,
        "federation": cell.text,
        "parties": cell.parties,
        "spread": cell.spread,
        "outlying": cell.outlying,
        "observers": "+".join(cell.observers),
    }


def markdown(rows: Sequence[Row]) -> str:
    """A table for each attack: a line for each cell, with coverage and relative width of each statistic."""
    return "\n\n".join(_table([r for r in rows if r.setting["attack"] == a]) for a in ("ring_size", "statistics"))


def _table(rows: Sequence[Row]) -> str:
    kinds = list(dict.fromkeys(str(r.setting["statistic"]) for r in rows if "statistic" in r.setting))
    lines = [table_line(["federation", "parties", "log-sd", *kinds]), table_line(["---"] * (len(kinds) + 3))]
    cells: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for r in rows:
        cells[_named(r)].append(r)
    for named, mine in cells.items():
        lines.append(
            table_line([*named, *(_entry([r for r in mine if r.setting.get("statistic") == k]) for k in kinds)])
        )
    return "\n".join(lines)


def _named(row: Row) -> tuple[str, ...]:
    where = row.setting
    more = " and an outlying party" if where["outlying"] else ""
    who = f", seen by {where['observers']}" if where["attack"] == "statistics" else ""
    return f"{where['federation']}{more}{who}", str(where["parties"]), f"{where['spread']:g}"


def _entry(rows: Sequence[Row]) -> str:
    by = {r.metric: r for r in rows}
    found = []
    if (share := by.get(COVERAGE)) is not None:
        width = f", width {by[WIDTH].measured:.2f}" if WIDTH in by else ""
        width += f", {by[KNOWN].measured:.0f} of who knows the cell" if KNOWN in by else ""
        found.append(with_interval(share, 0) + width)
    if (wrong := by.get(WRONG)) is not None:
        found.append(f"{wrong.setting['claims']} exact" + (f", {wrong.measured:.1f} % wrong" if wrong.measured else ""))
    return "; ".join(found) or "–"
