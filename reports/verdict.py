"""The audit at a glance: a few counts, and what stands in the way of a verdict."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from leakledger.audit.records import AuditRecord, CaseRecord, Score, speaks
from leakledger.reports import text
from leakledger.reports.controls import ControlSum, controls
from leakledger.reports.findings import by_bound
from leakledger.reports.unread import unread

MOST_ABORTED = 8  # cases that are named one by one
SYMBOLS = {"leaks": "▲", "no leak": "●", "inconclusive": "◆"}


def facts(record: AuditRecord) -> list[tuple[str, str]]:
    """The figures under the verdict, as (name, value)."""
    scored = [s for s in record.scores if s.status == "scored"]
    reference = {c.setting.id for c in record.cases if c.setting.reference}
    played = controls(record.cases)
    passed, runs = sum(c.passed for c in played), sum(c.runs for c in played)
    lost = {c.setting.id for c in record.aborted} - {c.setting.id for c in record.cases}
    return [
        ("settings", text.count(len({c.setting.id for c in (*record.cases, *record.aborted)}))),
        *([("settings not judged", text.count(len(lost)))] if lost else []),
        ("cases", text.count(len(record.cases))),
        *([("aborted cases", text.count(len(record.aborted)))] if record.aborted else []),
        ("scored findings", text.count(len(scored))),
        ("worst advantage", _worst(s for s in scored if s.setting not in reference and speaks(s.asset, s.metric))),
        ("controls passed", f"{passed:,} of {runs:,}" if runs else "none played"),
    ]


def _worst(scored: Iterable[Score]) -> str:
    """The worst finding of a setting that a federation can run."""
    for s in by_bound(scored):
        return f"{text.number(s.advantage)} {text.interval(s.advantage_low, s.advantage_high)}"
    return text.BLANK


def doubts(record: AuditRecord) -> list[str]:
    """What keeps parts of the audit from a conclusion, one sentence each; empty when nothing does."""
    failed = [c for c in controls(record.cases) if c.passed < c.runs]
    unseen = {u.topic for u in unread(record.cases)}
    without_reason = "a control of their attack failed" if failed else "no reason was recorded"
    reasons = Counter(s.reason or without_reason for s in record.scores if s.status == "inconclusive")
    return [
        *([f"{text.plural(record.missing, 'case has', 'cases have')} not run yet."] if record.missing else []),
        *_aborted(record.aborted),
        *(
            f"The {kind} control of {attack} failed in {runs - passed} of {text.plural(runs, 'run')}."
            for (kind, attack), (passed, runs) in _by_attack(failed).items()
        ),
        *([f"{_kinds(unseen)}; see “What was not tested”."] if unseen else []),
        *(f"{text.plural(n, 'score is', 'scores are')} inconclusive: {reason}." for reason, n in reasons.items()),
    ]


def _aborted(cases: Sequence[CaseRecord]) -> list[str]:
    """One sentence for each abort of the first cases, and one for those of all further cases."""
    named = [
        f"Case {c.id} was aborted and not attacked: {a.text}. Its transcript has what was sent until then."
        for c in cases[:MOST_ABORTED]
        for a in c.aborts
    ]
    more = text.plural(len(cases) - MOST_ABORTED, "more case was", "more cases were")
    return [*named, *([f"{more} aborted; results.json names them."] if cases[MOST_ABORTED:] else [])]


def _by_attack(failed: Iterable[ControlSum]) -> dict[tuple[str, str], tuple[int, int]]:
    """Kind and attack -> the runs that passed and all, of the controls that failed somewhere."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for c in failed:
        passed, runs = found.get((c.kind, c.attack), (0, 0))
        found[c.kind, c.attack] = passed + c.passed, runs + c.runs
    return found


def _kinds(topics: Collection[str]) -> str:
    kinds = text.plural(len(topics), "kind of message", "kinds of message")
    return f"{kinds} reached somebody and no attack read {'it' if len(topics) == 1 else 'them'}"
