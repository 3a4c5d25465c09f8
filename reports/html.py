"""The report as one HTML file: offline, without scripts, readable on paper, on a phone and by a screen reader.

It is mailed and archived where sensitive data are, so it shows no recovered value unless told to `reveal`, and its
content security policy lets a browser load and run nothing. Every name from data or configuration is escaped.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from leakledger.audit.records import AuditRecord, CaseRecord, Observation, Setting
from leakledger.preprocess.atomic_file import PRIVATE, atomic_file
from leakledger.reports import charts, text, utility, verdict
from leakledger.reports.accounts import accounts, assets
from leakledger.reports.calibration import calibrated
from leakledger.reports.checks import checks
from leakledger.reports.columns import columns
from leakledger.reports.controls import controls
from leakledger.reports.evidence import MASK, evidence
from leakledger.reports.findings import coverage, findings, silences
from leakledger.reports.growth import growth as growth  # the other file that the command line writes
from leakledger.reports.observations import exchanges, folded, parties, seen, topics
from leakledger.reports.plane import planes
from leakledger.reports.sequence import sequence
from leakledger.reports.unread import unread

TEMPLATES = Path(__file__).parent / "templates"
OPEN_FINDINGS = 25  # shown at once; the others unfold

SECTIONS = {
    "verdict": "Verdict",
    "audited": "What was audited",
    "adversaries": "Adversaries",
    "unread": "Not read",
    "findings": "Findings",
    "accounts": "Said and found",
    "checks": "Protocol checks",
    "columns": "Which columns leak",
    "plane": "Leakage and utility",
    "exchange": "Who saw what",
    "evidence": "Evidence",
    "calibration": "Entropy calibration",
    "controls": "Controls",
    "utility": "Utility and cost",
    "method": "Method and limits",
    "reproduce": "Reproduce",
}


@dataclass(frozen=True)
class Flow:
    """What happened in one setting, from the first of its cases."""

    number: int
    case: CaseRecord
    tables: tuple[tuple[str, tuple[Observation, ...]], ...]  # by observer
    matrix: charts.Figure | None
    diagram: Markup | None


def write_report(record: AuditRecord, path: str | Path, *, reveal: bool = False) -> None:
    """Writes `render(record)` to `path` in one step: a reader finds the old page or the new one, never half of one.

    Only its owner can read a new one, as recovered records may be in it.
    """
    page = render(record, reveal=reveal)
    with atomic_file(path, PRIVATE) as file:
        file.write(page.encode())


def render(record: AuditRecord, *, reveal: bool = False) -> str:
    """The page for `record`: the same text for the same record. `reveal` shows the values of recovered cells."""
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    template = _environment().get_template("report.html")
    return template.render(
        sections=SECTIONS,
        style=Markup(style),
        policy=policy(style),
        record=record,
        run=record.run,
        reveal=reveal,
        mask=MASK,
        symbol=verdict.SYMBOLS[record.verdict.status],
        facts=verdict.facts(record),
        doubts=verdict.doubts(record),
        config=json.dumps(record.run.config, indent=2, ensure_ascii=False, default=_plain),
        **_content(record, reveal),
    )


def _plain(value: Any) -> Any:
    """What JSON has no word for, in the configuration."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def policy(style: str) -> str:
    """The content security policy: the one style sheet by its hash, images only from within the page, nothing else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def _content(record: AuditRecord, reveal: bool) -> dict[str, Any]:
    """What the sections show, beside the record itself."""
    firsts = _first_cases(record.cases)
    settings = {number: case.setting for number, case in firsts.items()}
    shown = findings(record.scores)
    drawn = [p for p in planes(settings, record.scores, record.utility, record.rulings) if p.points]
    return {
        "settings": settings,
        "numbers": _numbers(record, settings),
        "coverage": coverage(record.scores),
        "findings": shown[:OPEN_FINDINGS],
        "more_findings": shown[OPEN_FINDINGS:],
        "silences": silences(record.scores),
        "assets": assets(record.leakage),
        "accounts": accounts(settings, record.leakage, record.rulings),
        "main_metric": utility.main_metric(record.utility),
        "planes": [(p, charts.plane(p, f"plane-{i}")) for i, p in enumerate(drawn, 1)],
        "flows": [_flow(number, case, record) for number, case in firsts.items() if case.observations],
        "evidence": evidence(record.cases, reveal=reveal),
        "columns": [(c, charts.features(c, f"columns-{i}")) for i, c in enumerate(columns(settings, record.scores), 1)],
        "calibrated": [
            (c, [(curve, charts.calibration(curve, f"curve-{i}-{curve.kind}")) for curve in c.curves])
            for i, c in enumerate(calibrated(settings, record.scores), 1)
        ],
        "unread": unread(record.cases),
        "checks": checks(record.cases),
        "controls": controls(record.cases),
        "utility_tables": utility.tables(record.utility),
    }


def _first_cases(cases: Iterable[CaseRecord]) -> dict[int, CaseRecord]:
    """The first case of each setting, by the number that the page gives the setting."""
    firsts: dict[str, CaseRecord] = {}
    for case in cases:
        firsts.setdefault(case.setting.id, case)
    return dict(enumerate(firsts.values(), 1))


def _numbers(record: AuditRecord, settings: Mapping[int, Setting]) -> dict[str, int]:
    """The page's number of each setting id, those included that only a score mentions."""
    scored = [*(s.setting for s in record.scores), *(u.setting for u in record.utility)]
    ids = [*(s.id for s in settings.values()), *scored]
    return {name: number for number, name in enumerate(dict.fromkeys(ids), 1)}


def _flow(number: int, case: CaseRecord, record: AuditRecord) -> Flow:
    holders = record.run.data.party_rows.get(case.setting.partition, {})
    rows = folded(case.observations, holders)
    everyone = parties(rows, holders)
    observers = [p for p in everyone if any(o.observer == p for o in rows)]
    reached, order = seen(rows), list(dict.fromkeys(topic for _, topic in topics(rows)))
    return Flow(
        number,
        case,
        tuple((p, tuple(o for o in rows if o.observer == p)) for p in observers),
        charts.matrix(reached, order, observers, f"matrix-{number}") if any(s.size for s in reached) else None,
        sequence(exchanges(rows), everyone, f"sequence-{number}"),
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    for name in ("number", "count", "seconds", "interval", "size", "rounds", "span", "plural", "together", "percent"):
        environment.filters[name] = getattr(text, name)
    environment.filters["utility"] = utility.shown
    return environment


def _finalize(value: Any) -> Any:
    """Spells out invisible characters in all text that is not markup already."""
    return text.visible(value) if type(value) is str else value
