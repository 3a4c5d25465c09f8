"""A draft of a data protection impact assessment (GDPR Article 35(7)), as Markdown, from a record.

What an audit knows is filled in: parties, flows, sizes, what adversaries got under which measures. What people alone
can say is a marked blank. It states what was tested, and never whether that is enough.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from leakledger.audit.records import AuditRecord, Observation, Ruling, Setting, confidence, metric_title
from leakledger.reports.observations import fans, folded, parties, topics
from leakledger.reports.taxonomy import EDPB_28_2024, SP_800_226, places
from leakledger.reports.text import interval, number, plural, together
from leakledger.reports.wording import markdown as safe
from leakledger.reports.words import dealt, nothing_said, noun, unplayed

BLANK = "**[to be filled in by the controller]**"
MOST = 60  # rows of a table
FLOW = ("message", "from", "to", "passed on by", "form", "content", "messages", "bytes")


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
    for partition, held in d.party_rows.items():
        rows = ", ".join(f"{safe(p)} {n:,}" for p, n in held.items())
        yield f"* Parties under {safe(partition)}, with rows{dealt(record.run.seeds)}: {rows}"
    yield "\n### Flows between parties\n"
    yield "A line is what each of those in *from* told each of those in *to* but itself, in a setting's first case."
    yield "Amounts are of all of them together; in brackets, of one of those to one of these, least to most.\n"
    yield from _flows(record)


def _flows(record: AuditRecord) -> Iterator[str]:
    """A table for all settings whose parties told each other the same: a line for each kind of message."""
    alike: dict[tuple[str, ...], dict[str, str]] = {}
    for case in record.cases:
        holders = record.run.data.party_rows.get(case.setting.partition, {})
        if not any(case.setting.id in settings for settings in alike.values()):
            lines = tuple(_lines(folded(case.observations, holders), holders))
            alike.setdefault(lines, {})[case.setting.id] = _words(case.setting)
    for lines, settings in alike.items():
        yield from (f"* {safe(words)}" for words in settings.values())
        yield f"\n| {' | '.join(FLOW)} |\n|{'---|' * len(FLOW)}"
        yield from lines
        yield ""


def _words(s: Setting) -> str:
    defense = "no defense" if s.defense == "none" else s.defense
    return f"{s.method}{' (pooled reference)' if s.reference else ''}, {defense}, {s.training}, {s.partition}"


def _lines(rows: Sequence[Observation], holders: Iterable[str]) -> Iterator[str]:
    place = parties(rows, holders).index
    received = [o for o in rows if o.role == "received"]
    for topic in dict.fromkeys(topic for _, topic in topics(rows)):
        for form in dict.fromkeys(o.form for o in received if o.topic == topic):
            told = [o for o in received if (o.topic, o.form) == (topic, form)]
            for senders, recipients in fans(list(dict.fromkeys((o.sender, o.observer) for o in told))):
                own = [o for o in told if o.sender in senders and o.observer in recipients]
                relays = [o for o in rows if o.role == "relayed" and o.topic == topic and o.sender in senders]
                yield _line(own, relays, sorted(senders, key=place), sorted(recipients, key=place))


def _line(
    told: Sequence[Observation], relays: Sequence[Observation], senders: Sequence[str], recipients: Sequence[str]
) -> str:
    reads = {o.observer for o in relays if o.form == "plaintext"}
    via = {o.observer: "reads it" if o.observer in reads else "cannot read it" for o in relays}
    pairs: dict[tuple[str, str], list[Observation]] = {}
    for o in told:
        pairs.setdefault((o.sender, o.observer), []).append(o)
    names = [
        told[0].topic,
        ", ".join(senders),
        ", ".join(recipients),
        ", ".join(f"{party}, which {can}" for party, can in via.items()),
        told[0].form,
        " or ".join(dict.fromkeys(o.content for o in told)),
    ]
    amounts = [[sum(getattr(o, of) for o in own) for own in pairs.values()] for of in ("messages", "size")]
    return f"| {' | '.join([*map(safe, names), *map(_amount, amounts)])} |"


def _amount(of_pairs: Sequence[int]) -> str:
    """The sum, and what one sender and recipient have of it."""
    least, most = min(of_pairs), max(of_pairs)
    one = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"{sum(of_pairs):,}" + (f" ({one})" if len(of_pairs) > 1 else "")


def _necessity() -> Iterator[str]:
    yield "## (b) Necessity and proportionality\n"
    yield f"{BLANK}\n"


def _risks(record: AuditRecord) -> Iterator[str]:
    yield "## (c) Risks to data subjects\n"
    yield f"{EDPB_28_2024}\n"
    yield "| setting | adversary | what | verdict | advantage | 95 % interval | LINDDUN | NIST AI 100-2 |"
    yield f"|{'---|' * 8}"
    words = {c.setting.id: _words(c.setting) for c in record.cases}
    ranked = _worst_first(record.rulings)
    for r in ranked[:MOST]:
        place = places(r.asset)
        names = [words[r.setting], r.adversary, noun(r.asset), _verdict(r)]
        figures = [number(r.advantage), interval(r.low, r.high)]
        heads = [", ".join(place.linddun), place.nist_ai_100_2]
        yield f"| {' | '.join([*map(safe, names), *figures, *map(safe, heads)])} |"
    if rest := ranked[MOST:]:
        left = Counter(map(_verdict, rest))
        yield f"\n{len(rest)} more are in the report: {', '.join(f'{n} {verdict}' for verdict, n in left.items())}."
    if any(r.verdict == "no leak" for r in record.rulings):
        yield f"\nWhat is said to be below a ceiling is so with {confidence(record.run.alpha)} confidence."
    yield f"\n* Likelihood and severity for data subjects, from their perspective: {BLANK}\n"


def _verdict(r: Ruling) -> str:
    """The verdict, never without the ceiling that it is about."""
    return f"no leak above {r.ceiling:g}" if r.verdict == "no leak" else r.verdict


def _worst_first(rulings: Iterable[Ruling]) -> list[Ruling]:
    order = {"leaks": 0, "inconclusive": 1, "no leak": 2}
    return sorted(rulings, key=lambda r: (order[r.verdict], -(r.advantage or 0.0)))


def _measures(record: AuditRecord) -> Iterator[str]:
    yield "## (d) Measures\n"
    yield "The most that any attack got under each combination of methods and defenses, beside what the model is worth."
    yield "Where verdicts are inconclusive more may leak than was got.\n"
    yield "| setting | highest advantage | verdicts | utility |\n|---|---|---|---|"
    for s in dict.fromkeys(c.setting for c in (*record.cases, *record.aborted)):
        of = _worst_first(r for r in record.rulings if r.setting == s.id)
        worst = max((r.advantage for r in of if r.advantage is not None), default=None)
        counts = Counter(map(_verdict, of)).items()
        verdicts = ", ".join(f"{n} {verdict}" for verdict, n in counts) or "nothing was judged"
        utility = ", ".join(
            f"{metric_title(u.metric)} {number(u.value)}" + ("" if u.low is None else f" {interval(u.low, u.high)}")
            for u in record.utility
            if u.setting == s.id and u.metric in ("f1", "auroc", "r2")
        )
        yield f"| {safe(_words(s))} | {number(worst)} | {verdicts} | {safe(utility)} |"
    yield f"\n* Organisational measures, contracts, access control: {BLANK}"
    yield "* A claim of differential privacy is to be judged under these headings of NIST SP 800-226, by `leakledger "
    yield f"  check-dp` as far as settings tell: {'; '.join(SP_800_226)}\n"


def _untested(record: AuditRecord) -> Iterator[str]:
    yield "## What was tested, and what was not\n"
    played = ", ".join(together(a) for a in record.run.adversaries)
    yield f"* Adversaries played: {safe(played)}"
    yield from (f"* Not tested: {safe(text)}" for text in record.run.not_tested)
    if unasked := nothing_said(unplayed(r.asset for r in record.rulings)):
        yield f"* {safe(unasked)}"
    unread = sorted({u.topic for c in record.cases for u in c.unread})
    yield f"* Kinds of message that no attack read: {safe(', '.join(unread)) or 'none'}"
    yield f"* Cases that did not run to the end: {record.missing + len(record.aborted)}"
    yield f"* Views of data subjects, advice of the data protection officer: {BLANK}"
