"""What the command line prints: tables, the verdict, and progress."""

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from leakledger.audit.benchmarks.base import Row
from leakledger.audit.case import source_name
from leakledger.audit.config import Config
from leakledger.audit.config_file import environment_overrides
from leakledger.audit.leakage import adversary, asset_of
from leakledger.audit.records import AuditRecord, Score
from leakledger.audit.run import Progress as Report
from leakledger.audit.summary import headline
from leakledger.audit.terminal import printable

SURE = 0.2  # of the cells of a batch: the share that the command line prints
MOST_COLUMNS, MOST_ROWS = 4, 40


def run_name(config: Config, path: Path | None) -> str:
    """A folder name that is the same for the same configuration: what makes an interrupted run continue."""
    stem = path.stem if path else PurePath(source_name(config.data.source)).name.split(".")[0].replace(" ", "-")
    digest = hashlib.sha256(json.dumps(config.in_force(), sort_keys=True).encode()).hexdigest()[:8]
    return f"{stem}-{digest}"


def run_command(path: Path | None, overrides: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """The command that gives the same configuration: overrides from the environment are spelled out too."""
    assigned = [*environment_overrides(environment), *overrides]
    return shlex.join(["leakledger", "run", *([str(path)] if path else []), *(f"--set={a}" for a in assigned)])


@contextmanager
def progress_bar(console: Console, total: int) -> Iterator[Report]:
    """Progress over cases: a bar on a terminal, one plain line per case elsewhere."""
    if not console.is_terminal:
        yield lambda name, done, of: console.print(
            f"[{done}/{of}] {name}", markup=False, highlight=False, soft_wrap=True
        )
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("cases", total=total)
        yield lambda name, done, of: bar.update(task, completed=done, total=of, description=escape(name))


def print_verdict(console: Console, record: AuditRecord, report: Path) -> None:
    """The verdict table, and where the report is."""
    console.print(f"\n[bold]{record.verdict.status.upper()}[/bold]  {escape(record.verdict.leakage)}")
    console.print(f"[bold]UTILITY[/bold]  {escape(record.verdict.utility)}\n")
    main = next((m for m in ("f1", "r2") if any(u.metric == m for u in record.utility)), "")
    values = {u.setting: u.value for u in record.utility if u.metric == main}
    reference = {c.setting.id for c in record.cases if c.setting.reference}
    ruled = {(r.setting, r.adversary, r.asset): r.verdict for r in record.rulings}
    rows = [
        {
            "setting": _setting(s, record) + (" (reference)" if s.setting in reference else ""),
            "attack": f"{s.attack} ({'+'.join(s.observers)})",
            "asset": s.asset if s.metric in ("accuracy", "f1") else s.metric,
            "got": f"{s.value:.3f}",
            "prior": f"{s.baseline:.3f}",
            "advantage": _advantage(s),
            "verdict": ruled.get((s.setting, adversary(s.observers), asset_of(s)), ""),
            main or "utility": f"{values[s.setting]:.3f}" if s.setting in values else "",
        }
        for s in sorted(headline(record.scores), key=lambda s: s.setting in reference)
    ]
    print_rows(console, rows[:MOST_ROWS], "Leakage and utility, worst first")
    if len(rows) > MOST_ROWS:
        console.print(f"{len(rows) - MOST_ROWS} more rows are in the report.")
    for line in _records_in_words(record, reference):
        console.print(line, markup=False, highlight=False)
    if fired := sorted({f.check for r in record.cases for f in r.findings}):
        console.print(f"Protocol checks that fired: {', '.join(fired)}.", markup=False)
    failed = [(r.id, c) for r in record.cases for c in r.controls if not c.passed]
    passed = sum(len(r.controls) for r in record.cases) - len(failed)
    console.print(f"Controls: {passed} passed, {len(failed)} failed.")
    for name, c in failed:
        console.print(
            f"  {c.kind} control of {c.attack} in {name}: {c.value:.3f} (expected {c.expected})", markup=False
        )
    for case in record.aborted:
        console.print(f"Aborted and not attacked: {case.id}: {case.aborts[-1].text}.", markup=False)
    if record.aborted:
        console.print("The same command plays these again; LEAKLEDGER_DEBUG=1 shows what ended them.", markup=False)
    console.print(f"Report: {report}", markup=False, soft_wrap=True, highlight=False)


def _records_in_words(record: AuditRecord, reference: Set[str]) -> Iterator[str]:
    """The leakiest federated setting's records: the best-known one, the surest cells, the columns that leak most."""
    worst = next((s for s in headline(record.scores) if s.detail is not None and s.setting not in reference), None)
    if worst is None or worst.detail is None:
        return
    where = (worst.setting, worst.attack, worst.observers)
    yield f"Records under {_setting(worst, record)}, by {worst.attack} ({'+'.join(worst.observers)}):"
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


def print_rows(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """A table of rows that share their keys."""
    if not rows:
        console.print(f"{title}: nothing", markup=False)
        return
    table = Table(title=escape(title), title_justify="left", header_style="bold")
    for key, value in rows[0].items():
        table.add_column(key, justify="right" if _is_number(value) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(str(v), kept="")) for v in row.values()))
    console.print(table)


def benchmark_command(name: str, data: Sequence[str], quick: bool, seeds: int | None) -> str:
    """The command that measures again, with the tables' names but not where they lie."""
    flags = [*(f"--data={PurePath(d).name}" for d in data), *(["--quick"] if quick else [])]
    return shlex.join(["leakledger", "benchmark", name, *flags, *([f"--seeds={seeds}"] if seeds else [])])


def benchmark_rows(rows: Sequence[Row]) -> list[dict[str, str]]:
    """The rows of a benchmark as a table: interval beside the mean, settings in words."""
    return [
        {
            "data": r.dataset,
            "setting": ", ".join(f"{k}={v}" for k, v in r.setting.items()),
            "metric": r.metric,
            "measured": f"{r.measured:.2f} {r.unit}",
            "95 % interval": "" if r.low is None else f"{r.low:.2f} to {r.high:.2f}",
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
    spread = "" if s.advantage_low is None else f" [{s.advantage_low:.2f}, {s.advantage_high:.2f}]"
    return f"{s.advantage:.2f}{spread}"
