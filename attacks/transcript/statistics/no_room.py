"""What the clients outside have together, where it leaves none of them any room.

A sum over several clients says nothing of one of them, but at its ends. Over all rows outside, with their mean m,

    Q = sum (x - m)^2 = sum_v n_v (s_v^2 + (m_v - m)^2)

so no row is further than sqrt(Q) from m, and no client's deviation larger: where a column varies in the observers' rows
alone, Q is 0, and each of the others has the same number in all its rows. A value that none of the rows
outside has, or all of them, is in none or all of each one's. No sharing and no route prevents it, as it is in the sum.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import sqrt

from leakledger.attacks.base import Statistic, StatisticClaim
from leakledger.attacks.observed.secure_sums import Slot
from leakledger.attacks.transcript.statistics.claims import Entry, exact, spread_around
from leakledger.attacks.transcript.statistics.differences import Round
from leakledger.attacks.transcript.statistics.exact import Group
from leakledger.attacks.transcript.statistics.own import OwnTable
from leakledger.attacks.transcript.statistics.quartiles import LEVELS

PLACES: tuple[Statistic, ...] = ("mean", "minimum", "maximum")
NEAR = 0.01  # deviations of the own rows: more room says less


def room_claims(rounds: Iterable[Round], tables: Mapping[str, OwnTable]) -> Iterator[StatisticClaim]:
    """Statistics of columns and frequencies of each client of a group whose sums leave it none."""
    for found in rounds:
        groups: dict[Group, dict[Slot, Entry]] = {}
        for fact in (f for f in found.facts if len(f.group) > 1):
            groups.setdefault(fact.group, {}).update({slot: (x, fact) for slot, x in fact.values.items()})
        for group, known in groups.items():
            for claim in _of_group(known, tables):
                yield from (replace(claim, party=party) for party in sorted(group))


def _of_group(known: Mapping[Slot, Entry], tables: Mapping[str, OwnTable]) -> Iterator[StatisticClaim]:
    total, counted = known.get(Slot("count"), (0.0, None))
    if counted is None or (rows := round(total)) < 1:
        return
    for slot, (x, fact) in known.items():
        if slot.kind != "sum":
            continue
        if slot.value:
            if (share := all_or_none(x, rows)) is not None:
                yield exact("", slot.feature, "frequency", share, 0.0, counted, fact, value=slot.value)
            continue
        around = spread_around(slot.feature, x / rows, rows, known, fact)
        if around is not None:
            variance, lost, third = around
            room = sqrt(rows * (variance + lost))
            if room <= NEAR * _spread(slot.feature, list(tables.values())):
                yield replace(exact("", slot.feature, "std", 0.0, room, counted, fact, third), low=0.0)
                for statistic in PLACES:
                    yield exact("", slot.feature, statistic, x / rows, room, counted, fact, third)
                for name in LEVELS:
                    yield exact("", slot.feature, "quantile", x / rows, room, counted, fact, third, value=name)


def all_or_none(count: float, rows: float) -> float | None:
    """The share of rows that has a value, in every part of them, where none or all of them have; None elsewhere."""
    return {0: 0.0, round(rows): 1.0}.get(round(count))


def _spread(feature: str, tables: Sequence[OwnTable]) -> float:
    """The largest deviation of an observer's own rows; 0 without any."""
    return max((float(t.column(feature).std()) for t in tables if t.rows), default=0.0)
