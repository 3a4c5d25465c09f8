"""Who saw what, once for all settings whose parties saw the same kinds of things: picture, sequence, tables."""

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from leakledger.audit.records import AuditRecord, CaseRecord, Observation
from leakledger.reports import charts
from leakledger.reports.observations import exchanges, folded, parties, seen, topics
from leakledger.reports.picture import Sum, arrows, picture, sums
from leakledger.reports.sequence import sequence


@dataclass(frozen=True)
class Flow:
    """What happened in the settings with these numbers, from the first case of the first of them."""

    numbers: tuple[int, ...]
    case: CaseRecord
    picture: Markup
    sums: tuple[Sum, ...]
    tables: tuple[tuple[str, tuple[Observation, ...]], ...]  # by observer
    matrix: charts.Figure | None
    diagram: Markup

    @property
    def number(self) -> int:
        """Of the setting that is shown."""
        return self.numbers[0]


def flows(firsts: Mapping[int, CaseRecord], record: AuditRecord) -> list[Flow]:
    """One for each protocol that ran: settings that differ in defense or weights alone show their parties the same
    messages.
    """
    alike: dict[tuple[object, ...], list[int]] = {}
    for number, case in firsts.items():
        if case.observations:
            alike.setdefault(_kinds(case), []).append(number)
    # A protocol that a federation can run stands before one that serves as reference.
    ordered = sorted(alike.values(), key=lambda numbers: firsts[numbers[0]].setting.reference)
    return [_flow(tuple(numbers), firsts[numbers[0]], record) for numbers in ordered]


def _kinds(case: CaseRecord) -> tuple[object, ...]:
    """What its parties saw, without how large it was."""
    rows = ((o.observer, o.step, o.topic, o.sender, o.role, o.form, o.messages) for o in case.observations)
    return case.setting.reference, case.setting.partition, *rows


def _flow(numbers: tuple[int, ...], case: CaseRecord, record: AuditRecord) -> Flow:
    holders = record.run.data.party_rows.get(case.setting.partition, {})
    rows = folded(case.observations, holders)
    everyone = parties(rows, holders)
    observers = [p for p in everyone if any(o.observer == p for o in rows)]
    reached, order = seen(rows), list(dict.fromkeys(topic for _, topic in topics(rows)))
    made, own = arrows(rows), numbers[0]
    below = [p for p in everyone if p in holders or " … " in p]  # parties together are holders: servers are few
    return Flow(
        numbers,
        case,
        picture(made, everyone, below, f"picture-{own}"),
        tuple(sums(made)),
        tuple((p, tuple(o for o in rows if o.observer == p)) for p in observers),
        charts.matrix(reached, order, observers, f"matrix-{own}") if any(s.size for s in reached) else None,
        sequence(exchanges(rows), everyone, f"sequence-{own}"),
    )
