"""The report as one HTML file: offline, readable on paper, on a phone, by a screen reader and in two minutes.

It is mailed and archived where sensitive data are, so it shows no recovered value unless told to `reveal`, and its
content security policy lets a browser load nothing, and run nothing but the one script that sorts and filters findings,
by its hash; without it the page is whole. Every name from data or configuration is escaped.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from leakledger.audit.records import HELD_OUT, AuditRecord, CaseRecord, Setting, at_most, metric_title
from leakledger.preprocess.atomic_file import PRIVATE, atomic_file
from leakledger.reports import advice, advice_words, charts, overview, text, utility, verdict, words
from leakledger.reports.accounts import accounts, assets
from leakledger.reports.calibration import calibrated
from leakledger.reports.checks import checks
from leakledger.reports.columns import columns
from leakledger.reports.controls import controls
from leakledger.reports.evidence import MASK, evidence
from leakledger.reports.findings import coverage, findings, silences
from leakledger.reports.flows import flows
from leakledger.reports.frontier import asset_name, frontiers
from leakledger.reports.growth import growth as growth  # the other file that the command line writes
from leakledger.reports.plane import Plane, planes
from leakledger.reports.privacy import guaranteed, outside
from leakledger.reports.remedies import remedies
from leakledger.reports.sandwich import sandwich as sandwich
from leakledger.reports.toml import toml
from leakledger.reports.unread import unread
from leakledger.reports.words import GROUPS

TEMPLATES = Path(__file__).parent / "templates"
BEGINS = '<!doctype html>\n<html lang="en">\n'  # each page
FINDINGS = 300  # of so many, each has a table of its metrics
MOST_DETAILED = 40  # of more, so many of the worst: a page of 200 cases stays under 3 MB
MOST_POINTS = 40  # of a plane; beyond, rows alone are drawn, and those on the front listed
MOST_COLUMNS = 8  # settings whose columns are shown, the leakiest first
MOST_ADVICE = 4  # changes on the first screen; the table below the plane has all
SECTIONS = {
    "verdict": "In two minutes",
    "plane": "Leakage and utility",
    "frontier": "What defenses cost",
    "accounts": "Said and found",
    "findings": "Findings",
    "evidence": "Evidence",
    "exchange": "Who saw what",
    "untested": "What was not tested",
    "checks": "Protocol checks",
    "columns": "Which columns leak",
    "calibration": "Entropy calibration",
    "controls": "Controls",
    "utility": "Utility and cost",
    "privacy": "Differential privacy",
    "audited": "What was audited",
    "method": "Method and limits",
    "reproduce": "Reproduce",
}


def write_report(record: AuditRecord, path: str | Path, *, reveal: bool = False) -> None:
    """Writes `render(record)` to `path` in one step: a reader finds the old page or the new one, never half of one.

    Only its owner can read a new one, as recovered records may be in it.
    """
    page = render(record, reveal=reveal)
    with atomic_file(path, PRIVATE) as file:
        file.write(page.encode())


def render(record: AuditRecord, *, reveal: bool = False) -> str:
    """The page for `record`: the same text for the same record. `reveal` shows the values of recovered cells."""
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    template = _environment().get_template("report.html")
    return template.render(
        sections=SECTIONS,
        style=Markup(style),
        script=Markup(script),
        policy=policy(style, script),
        record=record,
        run=record.run,
        reveal=reveal,
        mask=MASK,
        symbol=verdict.SYMBOLS[record.verdict.status],
        facts=verdict.facts(record),
        doubts=verdict.doubts(record),
        config=toml(record.run.config),
        **_content(record, reveal),
    )


def policy(style: str, script: str) -> str:
    """The content security policy: the one style sheet and the one script by their hashes, images only from within the
    page, nothing else.
    """
    known = {"style-src": digest(style), "script-src": digest(script)}
    own = "; ".join(f"{kind} 'sha256-{value}'" for kind, value in known.items())
    return f"default-src 'none'; {own}; img-src data:; base-uri 'none'; form-action 'none'"


def digest(text: str) -> str:
    """SHA-256 in base 64, as a policy names what it allows."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _content(record: AuditRecord, reveal: bool) -> dict[str, Any]:
    """What the sections show, beside the record itself."""
    firsts = _first_cases(record.cases)
    every = _first_cases((*record.cases, *record.aborted))
    settings = {number: case.setting for number, case in every.items()}
    found, stated = findings(settings, record.scores, record.rulings), guaranteed(settings, record.cases)
    leaky = columns(settings, record.scores)
    return {
        "settings": settings,
        "aborted_settings": settings.keys() - firsts.keys(),
        "numbers": _numbers(record, settings),
        **_first_screen(settings, record),
        "coverage": coverage(record.scores),
        "findings": found,
        "silences": silences(record.scores),
        "assets": assets(record.leakage),
        "accounts": accounts(settings, record.leakage, record.rulings),
        "held_out": any(f.asset in HELD_OUT for f in record.leakage),
        "main_metric": utility.main_metric(record.utility),
        "planes": drawn_planes(settings, record),
        "frontiers": frontiers(record.frontier),
        "flows": flows(firsts, record),
        "evidence": evidence(record.cases, reveal=reveal),
        "columns": [(c, charts.features(c, f"columns-{i}")) for i, c in enumerate(leaky[:MOST_COLUMNS], 1)],
        "more_columns": len(leaky[MOST_COLUMNS:]),
        "most_detailed": len(found) if len(found) <= FINDINGS else MOST_DETAILED,
        "most_points": MOST_POINTS,
        "calibrated": [
            (c, [(curve, charts.calibration(curve, f"curve-{i}-{curve.kind}")) for curve in c.curves])
            for i, c in enumerate(calibrated(settings, record.scores), 1)
        ],
        "unread": unread(record.cases),
        "checks": checks(record.cases),
        "controls": controls(record.cases),
        "guaranteed": stated,
        "outside": outside(stated),
        "utility_tables": utility.tables(record.utility),
    }


def _first_screen(settings: Mapping[int, Setting], record: AuditRecord) -> dict[str, Any]:
    """The grid, the sentence above it and what to do next below it."""
    rows = overview.grid(settings, record)
    made, stays = advice.changes(rows, record), advice.unstopped(rows)
    return {
        "grid": rows,
        "parted": overview.parted(rows),
        "groups": GROUPS,
        "badge": overview.badge(rows, record),
        "headline": overview.headline(rows, record),
        "lead": advice_words.lead(made, rows, stays),
        "scope": overview.scope(record),
        "told": overview.by_adversary(rows),
        "untold": overview.silent_adversaries(record),
        "bounded": overview.bounded_adversaries(record),
        "lost": overview.lost(rows),
        "judged": any(row.cells for row in rows),
        "helpful": [c for c in made if c.helps][:MOST_ADVICE],
        "changes": made,
        "unstopped": stays,
        "undefended": advice.undefended(rows),
        "remedies": remedies(record.rulings),
        "ceiling": max((r.ceiling for r in record.rulings), default=None),
    }


def drawn_planes(settings: Mapping[int, Setting], record: AuditRecord) -> list[list[tuple[Plane, list[charts.Figure]]]]:
    """The planes of each asset and level: one for each panel, drawn against the main metric and against AUROC."""
    main = utility.main_metric(record.utility)
    others = [m for m in dict.fromkeys((main, "auroc")) if m is not None]
    by_metric = [list(planes(settings, record.scores, record.utility, record.rulings, m)) for m in others]
    groups: dict[tuple[str, str], list[tuple[Plane, list[charts.Figure]]]] = {}
    for i, same in enumerate(zip(*by_metric, strict=True), 1):
        if not same[0].points or (len(same[0].points) > MOST_POINTS and same[0].asset != "records"):
            continue
        alike = [[p for p in drawn if (p.asset, p.level) == (same[0].asset, same[0].level)] for drawn in by_metric]
        figures = [
            charts.plane(p, f"plane-{i}-{k}", panels)
            for k, (p, panels) in enumerate(zip(same, alike, strict=True), 1)
            if p.points
        ]
        groups.setdefault((same[0].asset, same[0].level), []).append((same[0], figures))
    return list(groups.values())


def _first_cases(cases: Iterable[CaseRecord]) -> dict[int, CaseRecord]:
    """The first case of each setting, by the number that the page gives the setting."""
    firsts: dict[str, CaseRecord] = {}
    for case in cases:
        firsts.setdefault(case.setting.id, case)
    return dict(enumerate(firsts.values(), 1))


def _numbers(record: AuditRecord, settings: Mapping[int, Setting]) -> dict[str, int]:
    """The page's number of each setting id, those included that only a score mentions."""
    scored = [
        *(s.setting for s in record.scores),
        *(u.setting for u in record.utility),
        *(p.setting for p in record.frontier),
    ]
    ids = [*(s.id for s in settings.values()), *scored]
    return {name: number for number, name in enumerate(dict.fromkeys(ids), 1)}


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    for name in (
        "number",
        "bound",
        "count",
        "seconds",
        "interval",
        "size",
        "rounds",
        "span",
        "plural",
        "together",
        "percent",
    ):
        environment.filters[name] = getattr(text, name)
    environment.filters |= {
        "at_most": at_most,
        "utility": utility.shown,
        "ends": utility.ends,
        "asset_name": asset_name,
        "metric": metric_title,
        "worth": overview.utility_words,
        "level": words.level,
        "noun": words.noun,
        "who": words.adversary,
        "capitalise": words.capitalised,
        "change": advice_words.name,
        "effects": advice_words.effects,
        "unchanged": advice_words.unchanged,
        "costs": advice_words.costs,
        "listed": words.listed,
        "dealt": words.dealt,
    }
    environment.globals |= {"SYMBOLS": verdict.SYMBOLS}
    return environment


def _finalize(value: Any) -> Any:
    """Spells out invisible characters in all text that is not markup already."""
    return text.visible(value) if type(value) is str else value
