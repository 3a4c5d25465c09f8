"""The rows of the `transcripts` benchmark as Markdown: a table of encoders and one of scalers for each data set.

A line is a method, a column a kind of adversary, an entry the assets that it learns of with their advantage: one number
where the interval has no width, "proven" where the attack vouches for claims, none of which is wrong (where it gets
everything of every cluster so, no interval is needed), "not shown" where it does not and the interval holds 0, and in
brackets the clusters behind it out of those that there are, where claims are about some parties only. Assets with the
same entry share it, and where the prior alone is always right, that is said instead; so is that a control of the attack
failed. A dash is no claim at all.
"""

from collections.abc import Iterator, Sequence

from leakledger.audit.benchmarks.base import Row, table_line, with_interval
from leakledger.audit.benchmarks.transcripts_claims import FACTOR, LACKED
from leakledger.audit.records import ASSETS

SILENT_ENCODER, SILENT_SCALER = "target", "local"  # what methods are measured with: neither sends anything
PARTS = (("encoder", "scaler", SILENT_SCALER), ("scaler", "encoder", SILENT_ENCODER))
ORDER = list(ASSETS.values())
WHOLE = 0.995  # an advantage that is written as 1.00
COIN = 0.5  # the AUC of a guess


def markdown(rows: Sequence[Row]) -> str:
    """All tables, each under a line that says what it shows."""
    parts = [(data, *part) for data in dict.fromkeys(r.dataset for r in rows) for part in PARTS]
    return "\n\n".join(text for p in parts if (text := table(rows, *p)))


def table(rows: Sequence[Row], dataset: str, part: str, other: str, silent: str) -> str:
    """The table of every method of one `part` that was measured with the method of the `other` that says nothing."""
    here = [r for r in rows if r.dataset == dataset and r.setting[other] == silent]
    methods = list(dict.fromkeys(str(r.setting[part]) for r in here))
    kinds = list(dict.fromkeys(str(r.setting["adversary"]) for r in here))
    if len(methods) < 2:
        return ""
    lines = [f"{part.capitalize()}s on `{dataset}`, {other} `{silent}`:", ""]
    lines += [table_line([part, "said to share", *kinds]), table_line(["---"] * (len(kinds) + 2))]
    for method in methods:
        own = [r for r in here if r.setting[part] == method]
        cells = [entry([r for r in own if r.setting["adversary"] == kind]) for kind in kinds]
        lines.append(table_line([named(method), str(own[0].setting[f"{part} said"]), *cells]))
    return "\n".join(lines)


def entry(rows: Sequence[Row]) -> str:
    """What one kind of adversary learns, the most first."""
    advantages = [r for r in rows if r.metric in ORDER]
    advantages.sort(key=lambda r: (-_at_least(r), ORDER.index(r.metric)))
    texts: dict[str, list[str]] = {}
    for r in advantages:
        texts.setdefault(_advantage(r), []).append(r.metric)
    found = [f"{', '.join(assets)} {text}" for text, assets in texts.items()]
    return "; ".join([*found, *_claims(rows)]) or "–"


def _at_least(r: Row) -> float:
    """What it surely learns: all of it where all is proven, else the lower end of the interval."""
    return r.measured if r.low is None or _all_is_proven(r) else max(r.low, 0.0)


def _all_is_proven(r: Row) -> bool:
    return bool(r.setting.get("proven") == r.n and r.measured >= WHOLE)


def _advantage(r: Row) -> str:
    proven = r.setting.get("proven", 0)
    if "prior alone" in r.note:
        return "known to the prior"
    if r.low is None or r.high is None or r.high - r.low < 0.005 or _all_is_proven(r):
        text = f"{r.measured:.2f}"
    elif r.low <= 0 and not proven:
        return "not shown"
    else:
        text = with_interval(r, 2)
    text = f"{text} proven" if proven else text
    text = text if r.n == r.setting["of"] else f"{text} [{r.n}/{r.setting['of']}]"
    return f"{text}, a control failed" if "a control of this attack failed" in r.note else text


def _claims(rows: Sequence[Row]) -> Iterator[str]:
    """What scores leave out of a client's claims, where it is more than nothing."""
    for r in rows:
        if r.metric == FACTOR:
            yield f"counts within a factor of {r.measured:.1f}"
        if r.metric == LACKED and r.low is not None and r.low > COIN:
            yield f"{LACKED}: AUC {with_interval(r, 2)}"


def named(method: str) -> str:
    """The name as code, its options beside it."""
    name, space, options = method.partition(" ")
    return f"`{name}`{space}{options}"
