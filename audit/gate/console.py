"""What the gate prints on a terminal: the outcome, then every check, the gravest first."""

from collections.abc import Iterator, Sequence
from typing import Any

from leakledger.audit.gate.baseline import Baseline
from leakledger.audit.gate_records import Check, GateOutcome, worst_first
from leakledger.audit.records import at_least, at_most, plural

MOST_PASSED = 10  # of what passed; the rest is in the exports
MOST_FAILED = 10  # fingerprints beside one setting; the table has all


def rows(outcome: GateOutcome, *, every: bool = False) -> list[dict[str, Any]]:
    """A table of the checks: `every` one, or of those that passed a few."""
    checks = worst_first(outcome.checks)
    passed = [c for c in checks if c.status == "pass"]
    shown = passed if every else passed[:MOST_PASSED]
    return [_row(c) for c in [*(c for c in checks if c.status != "pass"), *shown]]


def _row(c: Check) -> dict[str, Any]:
    figures = c.kind not in ("finding", "precondition")
    return {
        "": c.status,
        "check": c.gate,
        "of": c.subject,
        "severity": f"{c.severity.word} {c.severity.score:.1f}"
        if c.severity and c.status in ("fail", "waived")
        else "",
        "now": _number(c.observed) if figures else "",
        "before": _number(c.before) if figures else "",
        "lost": _number(c.lost),
        "bounds": _bounds(c) if figures else "",
        "limit": _number(c.limit) if figures else "",
        "why": "; ".join(c.reasons) + (f" [{c.fingerprint}{_beside(c)}]" if c.status == "fail" else ""),
    }


def _beside(c: Check) -> str:
    """What a waiver would have to cover, where that is more than what stands under "now"."""
    return f", {at_most(c.cost, 3)} at most" if c.most is not None and c.cost > abs(c.observed or 0.0) else ""


def _bounds(c: Check) -> str:
    """The interval, rounded outwards."""
    return "" if c.low is None else f"{at_least(c.low, 3)} to {'' if c.high is None else at_most(c.high, 3)}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def lines(outcome: GateOutcome) -> Iterator[str]:
    """What stands below the table."""
    b = outcome.baseline
    if b is not None:
        moved = f", by {b.author} on {b.created} ({b.reason})"
        yield f"Before: {b.path}, run {b.run}" if b.of_run else f"Baseline: {b.path}, run {b.run}{moved}"
        yield f"Changed since: {b.changed_words}"
    for w in outcome.waivers:
        yield f"Waiver {w.id}, {w.words}"
    yield from outcome.notes
    yield from _scopes(outcome)
    if outcome.power_sentence:
        yield outcome.power_sentence
    yield f"False alarms: at most {outcome.alpha:g} over {plural(outcome.family, 'hypothesis', 'hypotheses')}."
    yield f"Head of the record: {outcome.head}"


def _scopes(outcome: GateOutcome) -> Iterator[str]:
    """What a waiver of a failed check has for its scope: the table has settings in words."""
    failed: dict[str, list[str]] = {}
    for c in outcome.checks:
        if c.status == "fail" and c.setting:
            failed.setdefault(c.setting, []).append(c.fingerprint)
    for setting, fingerprints in failed.items():
        shown, more = fingerprints[:MOST_FAILED], len(fingerprints) - MOST_FAILED
        yield f'Scope of a waiver of {", ".join(shown)}{f" and {more} more" if more > 0 else ""}: "{setting}"'


def about(baseline: Baseline) -> list[str]:
    """A baseline in lines: what it holds, and who moved it."""
    s = baseline.snapshot
    numbers = plural(sum(len(m.clusters) for m in s.measures), "number")
    found = [
        f"Run {s.run}, begun {s.created}, seeds {', '.join(map(str, s.seeds))}",
        f"Data: {s.data['name']}, {plural(s.data['rows'], 'row')}; versions: leakledger {s.versions.get('leakledger')}",
        f"{len(s.measures)} series, {numbers}, {plural(len(s.facts), 'fact')}",
        *(f"Setting {x.id}: {x.words}" for x in s.subjects),
    ]
    return [*found, *_moves(baseline.history)]


def _moves(history: Sequence[Any]) -> list[str]:
    return [
        f"{m.created} {m.author}: {m.reason} (run {m.run}, record {m.record_head[:16]}"
        f"{'' if m.policy is None else ', with its policy'})"
        for m in history
    ]
