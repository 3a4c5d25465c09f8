"""A draft of a data protection impact assessment (GDPR Article 35(7)), as Markdown, from a record.

What an audit knows is filled in: parties, flows, sizes, what adversaries got under which measures. What people alone
can say is a marked blank. It states what was tested, and never whether that is enough.
"""

from collections.abc import Iterable, Iterator

from leakledger.audit.records import ASSETS, AuditRecord, Observation, Ruling, metric_title
from leakledger.reports.taxonomy import EDPB_28_2024, SP_800_226, places
from leakledger.reports.text import interval, number, plural, together
from leakledger.reports.wording import markdown as safe

BLANK = "**[to be filled in by the controller]**"
MOST = 60  # rows of a table


def dpia(record: AuditRecord) -> str:
    """The draft."""
    parts = [_head(record), _description(record), _necessity(), _risks(record), _measures(record), _untested(record)]
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(record: AuditRecord) -> Iterator[str]:
    yield f"# Data protection impact assessment: draft for {safe(record.run.data.name)}\n"
    yield f"Run {safe(record.run.id)}, begun {safe(record.created)}, head of its record `{record.head}`."
    yield f"Reproduced by <code>{safe(record.run.command)}</code>.\n" if record.run.command else ""
    yield f"{record.other_code}\n" if record.other_code else ""
    yield "Figures are what named attacks got in this audit. They are no legal assessment.\n"


def _description(record: AuditRecord) -> Iterator[str]:
    d = record.run.data
    yield "## (a) Description of the processing\n"
    yield f"* Purposes and legitimate interests: {BLANK}"
    columns = f"{d.categorical} categorical and {d.numeric} numeric columns"
    yield f"* Table: {plural(d.rows, 'row')}, {columns}, target {safe(d.target)}"
    yield f"* Columns declared sensitive: {safe(', '.join(d.sensitive)) or 'none was declared'}"
    yield f"* Data subjects, categories of data, retention: {BLANK}"
    for partition, parties in d.party_rows.items():
        rows = ", ".join(f"{safe(p)} {n:,}" for p, n in parties.items())
        yield f"* Parties under {safe(partition)}, with rows: {rows}"
    yield "\n### Flows between parties\n"
    yield "| setting | from | to | message | form | content | messages | bytes |\n|---|---|---|---|---|---|---|---|"
    yield from _flows(record)
    yield ""


def _flows(record: AuditRecord) -> Iterator[str]:
    first = {c.setting.id: c for c in reversed(record.cases)}
    rows = [(c.setting.method, o) for c in first.values() for o in c.observations if o.role == "received"]
    yield from (_flow(method, o) for method, o in rows[:MOST])
    if len(rows) > MOST:
        yield f"| {plural(len(rows) - MOST, 'more is', 'more are')} in the report | | | | | | | |"


def _flow(method: str, o: Observation) -> str:
    names = [method, o.sender, o.observer, o.topic, o.form, o.content]
    return f"| {' | '.join(safe(n) for n in names)} | {o.messages:,} | {o.size:,} |"


def _necessity() -> Iterator[str]:
    yield "## (b) Necessity and proportionality\n"
    yield f"{BLANK}\n"


def _risks(record: AuditRecord) -> Iterator[str]:
    yield "## (c) Risks to data subjects\n"
    yield f"{EDPB_28_2024}\n"
    yield "| setting | adversary | what | verdict | advantage | 95 % interval | LINDDUN | NIST AI 100-2 |"
    yield f"|{'---|' * 8}"
    methods = {c.setting.id: c.setting for c in record.cases}
    for r in _worst(record.rulings):
        s = methods[r.setting]
        place = places(r.asset)
        names = [f"{s.method}, {s.defense}", r.adversary, ASSETS.get(r.asset, r.asset), r.verdict]
        figures = [number(r.advantage), interval(r.low, r.high)]
        heads = [", ".join(place.linddun), place.nist_ai_100_2]
        yield f"| {' | '.join([*map(safe, names), *figures, *map(safe, heads)])} |"
    yield f"\n* Likelihood and severity for data subjects, from their perspective: {BLANK}\n"


def _worst(rulings: Iterable[Ruling]) -> list[Ruling]:
    order = {"leaks": 0, "inconclusive": 1, "no leak": 2}
    return sorted(rulings, key=lambda r: (order[r.verdict], -(r.advantage or 0.0)))[:MOST]


def _measures(record: AuditRecord) -> Iterator[str]:
    yield "## (d) Measures\n"
    yield "What each combination of methods and defenses leaves, of the worst attack, beside what the model is worth.\n"
    yield "| setting | defense | highest advantage | verdicts | utility |\n|---|---|---|---|---|"
    for s in dict.fromkeys(c.setting for c in record.cases):
        of = [r for r in record.rulings if r.setting == s.id]
        worst = max((r.advantage for r in of if r.advantage is not None), default=None)
        verdicts = ", ".join(f"{sum(r.verdict == v for r in of)} {v}" for v in ("leaks", "inconclusive", "no leak"))
        utility = ", ".join(
            f"{metric_title(u.metric)} {number(u.value)}" + ("" if u.low is None else f" {interval(u.low, u.high)}")
            for u in record.utility
            if u.setting == s.id and u.metric in ("f1", "auroc", "r2")
        )
        kind = " (pooled reference)" if s.reference else ""
        yield f"| {safe(s.method)}{kind} | {safe(s.defense)} | {number(worst)} | {verdicts} | {safe(utility)} |"
    yield f"\n* Organisational measures, contracts, access control: {BLANK}"
    yield "* A claim of differential privacy is to be judged under these headings of NIST SP 800-226, by `leakledger "
    yield f"  check-dp` as far as settings tell: {'; '.join(SP_800_226)}\n"


def _untested(record: AuditRecord) -> Iterator[str]:
    yield "## What was tested, and what was not\n"
    played = ", ".join(together(a) for a in record.run.adversaries)
    yield f"* Adversaries played: {safe(played)}"
    yield from (f"* Not tested: {safe(text)}" for text in record.run.not_tested)
    unread = sorted({u.topic for c in record.cases for u in c.unread})
    yield f"* Kinds of message that no attack read: {safe(', '.join(unread)) or 'none'}"
    yield f"* Cases that did not run to the end: {record.missing + len(record.aborted)}"
    yield f"* Views of data subjects, advice of the data protection officer: {BLANK}"
