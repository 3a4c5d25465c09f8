"""Single parties and single columns: what one of them leaks more may not show in the mean over all.

Of twelve parties one goes from nothing to everything while the others tell a little less: the mean falls. So beside
each series its *parts* are compared: each party's clusters, each column, and each column of each party. Of a part as of
a series one number per cluster counts, L (`audit.gate.levels`), paired or as two samples.

Parts are many, and few of them ever grow. So they share a fifth of the level of their cell (`SHARE`), by Bonferroni
among themselves; the series have the rest, which costs them less than a seed. Over cells Holm corrects both at once.
A pass bounds the growth of means by the margin and that of no part: it says that none was seen to grow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from leakledger.audit.gate.snapshot import Measure

SHARE = 0.2  # of the level of a cell, for its parts where it has any


class Part(NamedTuple):
    """What of a series is compared by itself: "" for all parties, or all columns."""

    victim: str = ""
    column: str = ""

    @property
    def words(self) -> str:
        """In a sentence; "" of a whole series."""
        return " ".join([f"of {self.victim}"] * bool(self.victim) + [f"in column {self.column}"] * bool(self.column))


WHOLE = Part()
Sides = tuple[Measure | None, Measure | None]
"""Of the candidate and of the baseline."""
Columns = Mapping[str, Measure]


def parts(series: Sides, columns: Columns, its_columns: Columns) -> Iterator[tuple[Part, Sides]]:
    """The parts of a series of two runs, each with what it is in both: None where a run made no claim of it.

    Columns are the candidate's and the baseline's of this series. Of one party alone the series is that party's.
    """
    yield from _parties(series, "")
    for column in sorted({*columns, *its_columns}):
        sides = columns.get(column), its_columns.get(column)
        yield Part("", column), sides
        yield from _parties(sides, column)


def _parties(sides: Sides, column: str) -> Iterator[tuple[Part, Sides]]:
    victims = sorted({c.victim for m in sides if m for c in m.clusters})
    for victim in victims if len(victims) > 1 else ():
        now, before = (_of(m, victim) for m in sides)
        yield Part(victim, column), (now, before)


def _of(measure: Measure | None, victim: str) -> Measure | None:
    own = tuple(c for c in measure.clusters if c.victim == victim) if measure else ()
    return replace(measure, clusters=own) if measure and own else None


def by_series(columns: Sequence[Measure]) -> dict[tuple[object, ...], Columns]:
    """The columns of each series, by its setting and name."""
    found: dict[tuple[object, ...], dict[str, Measure]] = {}
    for m in columns:
        found.setdefault((m.cell.setting, *replace(m, column="").name), {})[m.column] = m
    return dict(found)


def weighted(series: Sequence[float], single: Sequence[float]) -> list[float]:
    """The p-values of series, then of single parts, each adjusted for all others of their cell: their smallest is the
    p-value of the cell.
    """
    share = SHARE if single else 0.0
    return [
        *(min(1.0, len(series) * p / (1 - share)) for p in series),
        *(min(1.0, len(single) * p / share) for p in single),
    ]
