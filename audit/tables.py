"""What the command line prints: tables and the verdict."""

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path, PurePath
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leakledger.audit.benchmarks.base import Row
from leakledger.audit.case import source_name
from leakledger.audit.config import Config
from leakledger.audit.config_file import environment_overrides
from leakledger.audit.frontier import tables as frontier_tables
from leakledger.audit.leakage import adversary, asset_of
from leakledger.audit.privacy_words import privacy_lines, worst
from leakledger.audit.records import (
    AuditRecord,
    FrontierPoint,
    PrivacyAccount,
    Ruling,
    Score,
    Setting,
    at_most,
    beside,
    check_title,
    metric_title,
    plural,
    within,
)
from leakledger.audit.store import deciding
from leakledger.audit.summary import headline
from leakledger.audit.sweep import Strengths
from leakledger.audit.terminal import printable
from leakledger.audit.verdicts.evidence import is_calibrator

SURE = 0.2  # of the cells of a batch: the share that the command line prints
MOST_COLUMNS, MOST_ROWS, MOST_OPEN, MOST_REASONS = 4, 40, 8, 2
SHOWN = 0.005  # an advantage that does not read 0.00
RULED, GAP = 3, 3  # what a column takes beside its text: between rules, and without them


def run_name(config: Config, path: Path | None) -> str:
    """A folder name that is the same for the same configuration: what makes an interrupted run continue."""
    stem = path.stem if path else PurePath(source_name(config.data.source)).name.split(".")[0].replace(" ", "-")
    digest = hashlib.sha256(json.dumps(deciding(config.in_force()), sort_keys=True).encode()).hexdigest()[:8]
    return f"{stem}-{digest}"


def unnamed_source(config: Config, path: Path | None) -> list[str]:
    """That nobody named the table of an audit, in a line; none where somebody did."""
    if "source" in config.data.model_fields_set:
        return []
    said = f"{path}: [data] names no source" if path else "no configuration and no data.source given"
    return [f"{said}: this is about the embedded table {source_name(config.data.source)}."]


def run_command(path: Path | None, overrides: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """The command that gives the same configuration: overrides from the environment are spelled out too."""
    assigned = [*environment_overrides(environment), *overrides]
    return shlex.join(["leakledger", "run", *([str(path)] if path else []), *(f"--set={a}" for a in assigned)])


def frontier_command(
    source: Path | None, overrides: Sequence[str], named: Strengths, environment: Mapping[str, str] = os.environ
) -> str:
    """The command that draws the same frontier: what the environment says of a configuration is spelled out too."""
    swept = [
        f"--{name.replace('_', '-')}={v!r}"
        for name, values in vars(named).items()
        for v in (values if isinstance(values, tuple) else [values] if named and values is not None else [])
    ]
    of_run = source is not None and source.is_dir()
    assigned = (f"--set={a}" for a in [*([] if of_run else environment_overrides(environment)), *overrides])
    return shlex.join(["leakledger", "frontier", *([str(source)] if source else []), *assigned, *swept])


def print_verdict(console: Console, record: AuditRecord, report: Path) -> None:
    """The verdict table, and where the report is."""
    console.print(f"\n[bold]{record.verdict.status.upper()}[/bold]  {escape(record.verdict.leakage)}")
    console.print(f"[bold]UTILITY[/bold]  {escape(record.verdict.utility)}\n")
    main = next((m for m in ("f1", "r2") if any(u.metric == m for u in record.utility)), "")
    values = {u.setting: u.value for u in record.utility if u.metric == main}
    reference = {c.setting.id for c in record.cases if c.setting.reference}
    ruled = {_ruled(r): r.verdict for r in record.rulings}
    shown = sorted(headline(record.scores), key=lambda s: s.setting in reference)
    strongest = _strongest(shown)
    rows = [
        {
            "setting": _setting(s, record) + (" (reference)" if s.setting in reference else ""),
            "attack": f"{s.attack} ({'+'.join(s.observers)})",
            "asset": s.asset if s.metric in ("accuracy", "f1") else s.metric,
            "got": f"{s.value:.3f}",
            "prior": f"{s.baseline:.3f}",
            "advantage": _advantage(s),
            "verdict": "" if is_calibrator(s.attack) else ruled.get(_question(s), ""),  # a guess answers nothing
            main or "utility": f"{values[s.setting]:.3f}" if s.setting in values else "",
        }
        for s in strongest
    ]
    print_rows(console, rows[:MOST_ROWS], "Leakage and utility, worst first")
    if len(shown) > (printed := min(len(strongest), MOST_ROWS)):
        console.print(f"{plural(len(shown) - printed, 'more row is', 'more rows are')} in the report.")
    attacks = [s for s in shown if not is_calibrator(s.attack)]
    for line in _shown_by_no_row(record, {_question(s) for s in attacks if (s.advantage or 0.0) >= SHOWN}):
        console.print(line, markup=False, highlight=False)
    for line in _unanswered(record, {_question(s) for s in attacks}):
        console.print(line, markup=False, highlight=False)
    for line in _records_in_words(record, reference):
        console.print(line, markup=False, highlight=False)
    for line in privacy_lines(accounts_by_setting(record)):
        console.print(line, markup=False, highlight=False)
    if fired := sorted({f.check for r in record.cases for f in r.findings}):
        named = ", ".join(f"{check_title(c)} ({c})" for c in fired)
        console.print(f"Protocol checks that fired: {named}.", markup=False, highlight=False)
    failed = [(r.id, c) for r in record.cases for c in r.controls if not c.passed]
    passed = sum(len(r.controls) for r in record.cases) - len(failed)
    console.print(f"Controls: {passed} passed, {len(failed)} failed.")
    for line in _bounds_in_words(record):
        console.print(line, markup=False, highlight=False)
    for name, c in failed:
        console.print(
            f"  {c.kind} control of {c.attack} in {name}: {c.value:.3f} (expected {c.expected})", markup=False
        )
    for line in abort_lines(record):
        console.print(line, markup=False)
    console.print(f"Report: {report}", markup=False, soft_wrap=True, highlight=False)


def _strongest(scores: Sequence[Score]) -> list[Score]:
    """Of the attacks on one question, which have one verdict together, the one that gets most by each measure; so of
    guesses, which have none. In their order.
    """
    found: dict[tuple[tuple[str, str, str], str, str, bool], Score] = {}
    for s in scores:
        key = _question(s), s.metric, s.level, is_calibrator(s.attack)
        if key not in found or (s.advantage or 0.0) > (found[key].advantage or 0.0):
            found[key] = s
    kept = set(map(id, found.values()))
    return [s for s in scores if id(s) in kept]


def _question(s: Score) -> tuple[str, str, str]:
    """Which verdict is about it: setting, kind of adversary, asset."""
    return s.setting, adversary(s.observers), asset_of(s)


def _ruled(r: Ruling) -> tuple[str, str, str]:
    """The question that a ruling answers."""
    return r.setting, r.adversary, r.asset


def abort_lines(record: AuditRecord) -> Iterator[str]:
    """Which cases were aborted, where and why, how many that is, what no exit code says of them, and what can be done;
    nothing where all went on.
    """
    for case in record.aborted:
        yield f"Aborted and not attacked: {case.id}: {case.aborts[-1].text}."
    if n := len(record.aborted):
        yield (
            f"INCOMPLETE: {n} of {plural(n + len(record.cases) + record.missing, 'case')} "
            f"{'was' if n == 1 else 'were'} aborted, and nothing is known of what leaks there; the exit code of `run` "
            "says so under --fail-on inconclusive only."
        )
        yield "The same command plays these again; LEAKLEDGER_DEBUG=1 shows what ended them."


def _shown_by_no_row(record: AuditRecord, shown: Set[tuple[str, str, str]]) -> Iterator[str]:
    """Why something leaks of which no row has an advantage: a party, a batch, another figure or a fact shows it."""
    leaks = (r for r in record.rulings if r.verdict == "leaks" and r.reasons and _ruled(r) not in shown)
    unshown = [r for r in leaks if r.asset != "check"]  # checks that fired have a line of their own
    for r in unshown[:MOST_OPEN]:
        why = "; ".join(r.reasons[:MOST_REASONS])
        yield f"Leaks, though no row shows it: {r.asset} by {r.adversary} in {r.setting}: {why}."
    if (more := len(unshown) - MOST_OPEN) > 0:
        yield f"{plural(more, 'more leak that no row shows is', 'more leaks that no row shows are')} in the report."


def _unanswered(record: AuditRecord, shown: Set[tuple[str, str, str]]) -> Iterator[str]:
    """The questions that stay open and are in no row: by whom, of what, in how many settings, and why."""
    settings: dict[tuple[str, str, str], set[str]] = {}
    for r in record.rulings:
        if r.verdict == "inconclusive" and _ruled(r) not in shown:
            settings.setdefault((r.adversary, "; ".join(dict.fromkeys(r.missing)), r.asset), set()).add(r.setting)
    assets: dict[tuple[str, str, frozenset[str]], list[str]] = {}  # in one line: those open in the same settings
    for (who, why, asset), where in settings.items():
        assets.setdefault((who, why, frozenset(where)), []).append(asset)
    among = len({r.setting for r in record.rulings})
    for (who, why, open_in), named in list(assets.items())[:MOST_OPEN]:
        of = f"{', '.join(named)} by {who} in {len(open_in)} of {plural(among, 'setting')}"
        yield f"Not answered: {of}: {why}."
    if (more := len(assets) - MOST_OPEN) > 0:
        yield f"{more} more open {'question is' if more == 1 else 'questions are'} in the report."


def accounts_by_setting(record: AuditRecord) -> dict[str, tuple[PrivacyAccount, ...]]:
    """The accounts of each setting under its name, those of the worst seed."""
    found: dict[str, list[tuple[PrivacyAccount, ...]]] = {}
    for case in record.cases:
        if case.privacy:
            found.setdefault(setting_name(case.setting), []).append(case.privacy)
    return {name: worst(each) for name, each in found.items()}


def setting_name(s: Setting) -> str:
    """Method, defense if there is one, and training."""
    return ", ".join(filter(None, [s.method, s.defense if s.defense != "none" else "", s.training]))


def _bounds_in_words(record: AuditRecord) -> Iterator[str]:
    """What attacks got of whole rows beside what no adversary can exceed, worst first, and what lies above."""
    own = [b for b in record.bounds if b.metric == "exact_rows" or not b.passed]
    if own:
        yield "Whole rows, and what no adversary can exceed under the defense:"
    for b in sorted(own, key=lambda b: (b.passed, -b.value))[:MOST_ROWS]:
        spread = beside(b.low, b.high, 3)
        failed = "" if b.passed else ": above its bound, a failed control"
        who = f"{b.attack} ({'+'.join(b.observers)})"
        got, most = f"{b.value:.3f}{spread} of {metric_title(b.metric)}", at_most(b.bound, 3)
        yield f"  {b.setting}: {who} gets {got}, at most {most} can be had{failed}"


def _records_in_words(record: AuditRecord, reference: Set[str]) -> Iterator[str]:
    """The leakiest federated setting's records: the best-known one, the surest cells, the columns that leak most."""
    own = (s for s in headline(record.scores) if s.setting not in reference and not is_calibrator(s.attack))
    worst = next((s for s in own if s.detail is not None), None)
    if worst is None or worst.detail is None:
        return
    where = (worst.setting, worst.attack, worst.observers)
    what = "Columns" if worst.asset == "columns" else "Records"
    yield f"{what} under {_setting(worst, record)}, by {worst.attack} ({'+'.join(worst.observers)}):"
    for s in record.scores:
        if (s.setting, s.attack, s.observers) == where and s.metric == "worst_record" and s.value is not None:
            yield f"  best-known record of a batch: {s.value:.1%} of its cells right (prior alone {s.baseline:.1%})"
    for c in worst.detail.surest:
        if c.share == SURE:
            share = f"surest {c.share:.0%} of {c.kind} cells"
            yield f"  {share}: {c.value:.1%} right (prior alone on the same cells {c.baseline:.1%})"
    leaky = [f for f in worst.detail.features if f.advantage is not None and f.advantage > 0][:MOST_COLUMNS]
    if leaky:
        yield f"  columns that leak most (advantage): {', '.join(f'{f.feature} {f.advantage:.2f}' for f in leaky)}"


def print_frontier(console: Console, points: Sequence[FrontierPoint]) -> None:
    """A table for each method: leakage of the assets that defenses change, beside utility."""
    if not points:
        console.print("No frontier: of no method was an attack scored under more than one defense.", markup=False)
    for table in frontier_tables(points):
        print_rows(console, table.rows, f"Leakage against utility: {table.title}")
        if table.unchanged:
            same = ", ".join(table.unchanged)
            console.print(f"The same under every defense of the table: {same}.", markup=False, highlight=False)


def print_rows(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """A table of rows that share their keys."""
    if not rows:
        console.print(f"{title}: nothing", markup=False)
        return
    cells = [{key: printable(str(value), kept="") for key, value in row.items()} for row in rows]
    words = {key: max(map(_longest_word, (key, *(row[key] for row in cells)))) for key in rows[0]}
    console.print(f"[bold]{escape(title)}[/bold]")  # not the table's own, which breaks at the table's width
    if sum(words.values()) + GAP * (len(words) - 1) > console.width:
        _print_stacked(console, cells)
        return
    lined = sum(words.values()) + RULED * len(words) + 1 <= console.width
    form: dict[str, Any] = (
        {} if lined else {"box": SIMPLE_HEAD, "show_edge": False, "pad_edge": False, "padding": (0, 1)}
    )
    table = Table(header_style="bold", **form)
    beside = RULED * len(words) + 1 if lined else GAP * (len(words) - 1)
    texts = {key: max(map(cell_len, (key, *(row[key] for row in cells)))) for key in words}
    widths = _widths(texts, words, console.width - beside)
    for key, value in rows[0].items():
        justify: Literal["right", "left"] = "right" if _is_number(value) else "left"
        table.add_column(key, justify=justify, overflow="fold", width=widths[key] or None)
    for row in cells:
        table.add_row(*map(escape, row.values()))
    console.print(table)


def _widths(texts: Mapping[str, int], words: Mapping[str, int], room: int) -> dict[str, int]:
    """Columns that together take up no more than `room`, which the longest words of all leave: the widest of them give
    way first. A table that is left to it may shrink one below its longest word, and be wider than the console, which
    cuts its lines then.
    """
    narrower = ({key: max(words[key], min(text, most)) for key, text in texts.items()} for most in range(room, -1, -1))
    return next(widths for widths in narrower if sum(widths.values()) <= room)


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _print_stacked(console: Console, rows: Sequence[Mapping[str, str]]) -> None:
    """Rows that no table of this width has room for, words unbroken: one below the other, and below the first value of
    each the others by their names, as many in a line as fit.
    """
    for row in rows:
        first, *others = row.items()
        lines: list[str] = []
        for said in (f"{key}: {value}" if key else value for key, value in others if value):
            if lines and cell_len(longer := f"{lines[-1]}; {said}") <= console.width:
                lines[-1] = longer
            else:
                lines.append(f"    {said}")
        for line in (f"• {first[1]}", *lines):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def benchmark_command(
    name: str, data: Sequence[str], quick: bool, seeds: int | None, device: str, only: Sequence[str] = ()
) -> str:
    """The command that measures again, with the tables' names but not where they lie."""
    flags = [*(f"--data={PurePath(d).name}" for d in data), *(["--quick"] if quick else [])]
    flags += [*([f"--seeds={seeds}"] if seeds else []), *([] if device == "cpu" else [f"--device={device}"])]
    flags += [f"--only={part}" for part in only]
    return shlex.join(["leakledger", "benchmark", name, *flags])


def benchmark_rows(rows: Sequence[Row]) -> list[dict[str, str]]:
    """The rows of a benchmark as a table: interval beside the mean, settings in words."""
    return [
        {
            "data": r.dataset,
            "setting": ", ".join(f"{k}={v}" for k, v in r.setting.items()),
            "metric": r.metric,
            "measured": f"{r.measured:.2f} {r.unit}",
            "95 % interval": "" if r.low is None or r.high is None else within(r.low, r.high, 2),
            "published": "" if r.published is None else f"{r.published:.{1 if r.unit == '%' else 2}f} {r.unit}",
            "n": str(r.n),
        }
        for r in rows
    ]


def _is_number(value: Any) -> bool:
    return str(value).replace(".", "").replace("-", "").strip().isdigit()


def _setting(s: Score, record: AuditRecord) -> str:
    """The method, the defense if there is one, and the training where the audit compares several."""
    several = len({c.setting.training for c in record.cases}) > 1
    parts = [s.method, s.defense if s.defense != "none" else "", s.training if several else ""]
    return ", ".join(p for p in parts if p)


def _advantage(s: Score) -> str:
    return f"{s.advantage:.2f}{beside(s.advantage_low, s.advantage_high, 2)}"
