"""How checks of a gate read in exports, and names made safe for each of their formats."""

import re
from urllib.parse import quote

from leakledger.audit.gate_records import Check
from leakledger.reports.text import BLANK, lower, number, upper, visible

PLAIN = re.compile(r"[^0-9A-Za-z \u00a0-\U0010ffff]")


def title(check: Check) -> str:
    """One line: what was asked, of whom."""
    where = f" [{check.subject}]" if check.subject else ""
    return visible(f"{check.gate}{where}").replace("\n", " ").replace("\t", " ")


def said(check: Check) -> str:
    """The answer in a sentence, with the figures behind it."""
    parts = "; ".join(check.reasons)
    figures = [f"{name} {shown}" for name, shown in _figures(check) if shown != BLANK]
    more = f" ({', '.join(figures)})" if figures else ""
    waiver = f" Waived by {check.waiver}." if check.waiver else ""
    return visible(f"{check.status.upper()}: {parts}{more}.{waiver}").replace("\n", " ").replace("\t", " ")


def _figures(check: Check) -> list[tuple[str, str]]:
    if check.kind in ("finding", "precondition"):
        return []
    return [
        ("observed", number(check.observed)),
        ("before", number(check.before)),
        ("lost", number(check.lost)),
        ("low", lower(check.low)),
        ("high", upper(check.high)),
        ("limit", number(check.limit)),
        ("corrected p", number(check.p)),
    ]


def markdown(text: str) -> str:
    """`text` as Markdown shows it, letter by letter: no markup, mention, link or end of a table's cell is left."""
    flat = visible(text).replace("\n", " ").replace("\t", " ")
    return PLAIN.sub(lambda m: f"&#{ord(m.group())};", flat)


def uri(path: str) -> str:
    """A relative reference (RFC 3986) to a file of the repository."""
    return quote(path.replace("\\", "/").lstrip("/").encode("utf-8", "backslashreplace"), safe="/")


def slug(text: str) -> str:
    """`text` as a part of an identifier."""
    return re.sub(r"[^0-9A-Za-z_.-]+", "-", visible(text)).strip("-") or "unnamed"
