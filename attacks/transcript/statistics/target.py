"""What the shared exchange of target encoding says: rows, and per value of a feature how often and with which target.

`target.local` tells the server each client's own tallies. `target.global` tells everyone their sum: less the observers'
own tallies it is the tallies of the clients outside, and exact about one of them where it is alone; of several, about
each of them where none or all of their rows have a value (`no_room`). A value that exists, as granted knowledge or
another tally says, and that a tally does not list, is in none of its rows. Rates are of the positive class of a binary
target; other targets give counts and frequencies only.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge, Statistic, StatisticClaim
from leakledger.attacks.transcript.statistics.no_room import all_or_none
from leakledger.attacks.transcript.statistics.own import OwnTable
from leakledger.preprocess.messages import TargetTally, TargetTotals
from leakledger.preprocess.views import View

Tally = tuple[float, float]  # rows, and of them with the positive class


def target_claims(
    view: View, tables: Mapping[str, OwnTable], knowledge: AuxiliaryKnowledge
) -> Iterable[StatisticClaim]:
    """Claims about senders of local tallies, and about the one client outside. Raises Unreadable as tables do."""
    binary = view.public.schema.get("task") == "binary"
    own = [(m, _read(m.payload)) for m in view.received(TargetTally)]
    told = next(view.readable(TargetTotals), None)
    totals = {} if told is None else _read(told.payload)
    existing = dict.fromkeys((f, v) for f, values in knowledge.dictionaries.items() for v in values)
    existing.update(dict.fromkeys(key for tallies in (totals, *(t for _, t in own)) for key in tallies))
    for m, tallies in own:
        yield from _claims(m.sender, _of_all(existing, tallies), binary, (m.sequence,))
    outside = [c for c in view.public.clients if c not in view.observers]
    if told is not None and outside and tables:
        left = totals
        for table in tables.values():
            left = {key: _less(rows, positive, table, *key, view=view) for key, (rows, positive) in left.items()}
        of_all = _of_all(existing, left)
        if len(outside) == 1:
            yield from _claims(outside[0], of_all, binary, (told.sequence,))
            return
        for party in outside:
            yield from _of_several(party, of_all, binary, (told.sequence,))


def _of_several(
    party: str, tallies: Mapping[tuple[str, str], Tally], binary: bool, evidence: tuple[int, ...]
) -> Iterable[StatisticClaim]:
    """What tallies of several clients together say of each: of values in none or all of their rows, and of a target
    that is the same in all of them.
    """
    rows, positive = tallies["", ""]
    if binary and rows > 0 and (share := all_or_none(positive, rows)) is not None:
        yield StatisticClaim(party, "", "target_rate", share, share, share, evidence)
    for (feature, value), (count, _) in tallies.items():
        if feature and rows > 0 and (share := all_or_none(count, rows)) is not None:
            yield StatisticClaim(party, feature, "frequency", share, share, share, evidence, value)


def _of_all(
    existing: Iterable[tuple[str, str]], tallies: Mapping[tuple[str, str], Tally]
) -> dict[tuple[str, str], Tally]:
    """The tallies, with none of what exists and is not listed, of each feature that they tell of."""
    features = {feature for feature, _ in tallies}
    return {**{key: (0.0, 0.0) for key in existing if key[0] in features}, **tallies}


def _read(told: TargetTally | TargetTotals) -> dict[tuple[str, str], Tally]:
    """(feature, value) -> tally; ("", "") is of all rows."""
    found = {("", ""): (float(told.rows), float(told.sums[0]))}
    for feature, of in told.features.items():
        for value, count, sums in zip(of.values, of.counts, of.sums, strict=True):
            found[feature, value] = (float(count), float(sums[0]))
    return found


def _less(rows: float, positive: float, table: OwnTable, feature: str, value: str, *, view: View) -> Tally:
    inside = table.column(feature, value) if feature else np.ones(table.rows)
    schema = view.public.schema
    if schema.get("task") != "binary":
        return rows - float(inside.sum()), 0.0
    labels = table.column(schema["target"], schema["classes"][1])
    return rows - float(inside.sum()), positive - float((inside * labels).sum())


def _claims(
    party: str, tallies: Mapping[tuple[str, str], Tally], binary: bool, evidence: tuple[int, ...]
) -> Iterable[StatisticClaim]:
    def claim(feature: str, statistic: Statistic, x: float, value: str = "") -> StatisticClaim:
        return StatisticClaim(party, feature, statistic, x, x, x, evidence, value)

    rows = tallies["", ""][0]
    yield claim("", "count", rows)
    for (feature, value), (count, positive) in tallies.items():
        if feature and rows > 0:
            yield claim(feature, "frequency", count / rows, value)
        if binary and count > 0:
            yield claim(feature, "target_rate", positive / count, value)
