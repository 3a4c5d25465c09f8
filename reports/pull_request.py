"""A gate's outcome for the people of a pull request: Markdown for the summary, annotations for the lines.

Names in it come from data and configurations: in Markdown every sign is spelled out, so that nothing is a link, a
mention or markup; in annotations, what ends a command of GitHub's is escaped.
"""

from collections.abc import Iterator, Sequence

from leakledger.audit.gate_records import Check, GateOutcome, worst_first
from leakledger.reports.sarif import Source
from leakledger.reports.text import interval, number, plural, visible
from leakledger.reports.wording import markdown as safe
from leakledger.reports.wording import said, title

MARKS = {"pass": "✅ pass", "fail": "❌ fail", "inconclusive": "❔ inconclusive", "waived": "⚠️ waived"}
BEGINS = "### LeakLedger: "  # every summary
MOST = 50  # rows; GitHub cuts a long summary off


def summary(outcome: GateOutcome) -> str:
    """The outcome as Markdown: a sentence, a table of what is not plainly passed, waivers, what was compared."""
    lines = [f"{BEGINS}{safe(outcome.sentence)}", ""]
    open_ones = [c for c in worst_first(outcome.checks) if c.status != "pass"]
    lines += _first(open_ones)
    passed = [c for c in outcome.checks if c.status == "pass"]
    if passed:
        lines += ["<details><summary>What passed</summary>", "", *_first(passed), "</details>", ""]
    lines += [f"* {text}" for text in _notes(outcome)]
    return "\n".join(lines) + "\n"


def _first(checks: Sequence[Check]) -> list[str]:
    """A table of as many as there is room for, and how many there are beside."""
    left = len(checks) - MOST
    return _table(checks[:MOST]) + (
        [f"{plural(left, 'more is', 'more are')} in the full output.\n"] if left > 0 else []
    )


def _table(checks: Sequence[Check]) -> list[str]:
    if not checks:
        return []
    head = ["| | check | severity | now | before | lost | bounds of the change | limit | why |", f"|{'---|' * 9}"]
    return [*head, *(_row(c) for c in checks), ""]


def _row(c: Check) -> str:
    severity = f"{c.severity.word} {c.severity.score:.1f}" if c.severity else ""
    figures = c.kind not in ("finding", "precondition")
    cells = [
        MARKS[c.status],
        f"{safe(title(c))}<br>`{c.fingerprint}`",
        severity,
        number(c.observed) if figures else "",
        number(c.before) if figures else "",
        number(c.lost) if c.kind == "utility" else "",
        interval(c.low, c.high) if figures else "",
        number(c.limit) if figures else "",
        safe("; ".join(c.reasons)),
    ]
    return f"| {' | '.join(cells)} |"


def _notes(outcome: GateOutcome) -> Iterator[str]:
    """What a reader must know to judge the table."""
    b = outcome.baseline
    if b is not None:
        yield f"Baseline {safe(b.path)}: run {safe(b.run)}, by {safe(b.author)} on {safe(b.created)}: {safe(b.reason)}"
        yield f"Changed since: {safe(b.changed_words)}"
        yield from (f"**Stale**: {safe(s)}" for s in b.stale)
    for w in outcome.waivers:
        yield f"Waiver {safe(w.id)}, {safe(w.words)}"
    yield from (safe(n) for n in outcome.notes)
    if outcome.power_sentence:
        yield safe(outcome.power_sentence)
    family = plural(outcome.family, "hypothesis", "hypotheses")
    yield f"Head of the record: `{outcome.head}`. False alarms: {outcome.alpha:g} over {family}."


def annotations(outcome: GateOutcome, source: Source) -> Iterator[str]:
    """Workflow commands of GitHub: errors for failed checks and void waivers, warnings for open checks, notices of
    other waivers, of what a reader must know, and of how many clusters would decide what is open.
    """
    for c in worst_first(outcome.checks):
        if c.status != "pass":
            level = {"fail": "error", "inconclusive": "warning", "waived": "notice"}[c.status]
            where = f"file={_property(source.path)},line={source.line(c)},title={_property(title(c))}"
            yield f"::{level} {where}::{_data(said(c))}"
    for text in (*outcome.notes, *([outcome.power_sentence] if outcome.power_sentence else [])):
        yield f"::notice title=LeakLedger::{_data(text)}"
    for w in outcome.waivers:
        level = "notice" if w.fate in ("used", "unused") else "error"
        yield f"::{level} title={_property(f'waiver {w.id}')}::{_data(w.words)}"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
