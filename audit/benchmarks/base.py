"""What a benchmark is: options in, rows out, one row per figure.

Federations of benchmarks derive their secrets from the public master (`preprocess.secret`), so that figures repeat.
"""

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from leakledger.audit.case import source_name
from leakledger.audit.records import within
from leakledger.preprocess import strict_json
from leakledger.preprocess.atomic_file import atomic_file
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.data.suggest import closest, shown

BEGINS = '{\n "command": "leakledger benchmark'  # of each file that `save` writes


def _unheard(done: int, of: int) -> None:
    """Nobody follows."""


@dataclass(frozen=True)
class Options:
    """`data`: tables to use (files or embedded names; none: the benchmark's own choice). `quick`: within a minute or
    two. `corpus`: a folder of tables on which judges of features learn; `cache`: one where they are kept. `only`: parts
    of settings to keep to, like "B=32"; of several that name the same, any. `resume`: a file of finished batches
    (`finished`). `tell`: hears how many of how many batches are finished.
    """

    data: tuple[str, ...] = ()
    schema: str | None = None
    quick: bool = False
    device: str = "cpu"
    seeds: int | None = None
    jobs: int | None = None
    corpus: str | None = None
    cache: str | None = None
    only: tuple[str, ...] = ()
    resume: str | None = None
    tell: Callable[[int, int], None] = _unheard

    def wants(self, **setting: object) -> bool:
        """Whether a setting is among those that it keeps to."""
        kept: dict[str, list[str]] = {}
        for part in self.only:
            name, _, value = part.partition("=")
            kept.setdefault(name, []).append(value)
        return all(str(setting[name]) in values for name, values in kept.items())


@dataclass(frozen=True)
class Row:
    """One figure: the mean over `n` clusters with its 95 % interval, and the published one where there is one."""

    benchmark: str
    dataset: str
    setting: Mapping[str, Any]
    metric: str
    measured: float
    low: float | None
    high: float | None
    published: float | None
    unit: str
    n: int
    note: str = ""


@dataclass(frozen=True)
class _Saved:
    """What is read again of a file that `save` wrote."""

    rows: tuple[Row, ...]
    machine: str
    date: str


_SAVED = TypeAdapter(_Saved)
Benchmark = Callable[[Options], Iterator[Row]]
BENCHMARKS = {
    "encoders": "leakledger.audit.benchmarks.encoders",
    "tableak": "leakledger.audit.benchmarks.tableak",
    "tableak_figures": "leakledger.audit.benchmarks.tableak_figures",
    "exact": "leakledger.audit.benchmarks.exact",
    "exact_activations": "leakledger.audit.benchmarks.exact_activations",
    "exact_dropout": "leakledger.audit.benchmarks.exact_dropout",
    "exact_norms": "leakledger.audit.benchmarks.exact_norms",
    "certificates": "leakledger.audit.benchmarks.certificates",
    "engine": "leakledger.audit.benchmarks.engine",
    "fedavg": "leakledger.audit.benchmarks.fedavg",
    "fedavg_long": "leakledger.audit.benchmarks.fedavg_long",
    "fedavg_exact": "leakledger.audit.benchmarks.fedavg_exact",
    "entropy": "leakledger.audit.benchmarks.entropy",
    "growth": "leakledger.audit.benchmarks.growth",
    "coalitions": "leakledger.audit.benchmarks.coalitions",
    "transcripts": "leakledger.audit.benchmarks.transcripts",
    "recording": "leakledger.audit.benchmarks.recording",
    "verdicts": "leakledger.audit.benchmarks.verdicts",
    "gate": "leakledger.audit.benchmarks.gate",
    "baselines": "leakledger.audit.benchmarks.baselines",
    "posteriors": "leakledger.audit.benchmarks.posteriors",
    "defended": "leakledger.audit.benchmarks.defended",
    "defended_other": "leakledger.audit.benchmarks.defended_other",
    "mixing": "leakledger.audit.benchmarks.mixing",
    "crowded": "leakledger.audit.benchmarks.crowded",
    "aggregation": "leakledger.audit.benchmarks.aggregation",
    "sums": "leakledger.audit.benchmarks.sums",
    "normalization": "leakledger.audit.benchmarks.normalization",
    "normalization_utility": "leakledger.audit.benchmarks.normalization_utility",
    "statistics_dp": "leakledger.audit.benchmarks.statistics_dp",
    "dp_sgd": "leakledger.audit.benchmarks.dp_sgd",
    "flfe": "leakledger.audit.benchmarks.flfe",
    "fedllm": "leakledger.audit.benchmarks.fedllm",
    "fedllm_f1": "leakledger.audit.benchmarks.fedllm_f1",
    "fedllm_f1_minilm": "leakledger.audit.benchmarks.fedllm_f1_minilm",
    "fedllm_overlap": "leakledger.audit.benchmarks.fedllm_overlap",
    "fedllm_text": "leakledger.audit.benchmarks.fedllm_text",
    "tightness": "leakledger.audit.benchmarks.tightness",
}
MEASURE_OF = {
    "exact_activations": "exact",
    "exact_dropout": "exact",
    "exact_norms": "exact",
    "fedavg_long": "fedavg",
    "fedllm_f1_minilm": "fedllm_f1",
    "fedllm_overlap": "fedllm_f1",
}
"""Benchmarks of settings of their own under the measure of another one, whose name their rows have."""


PARTIAL = {  # tables of which not all rows are public
    "lawschool": "a partial table: 56,117 of 96,584 rows",
    "cc_fraud": "a partial table: 34,713 of 137,775 rows",
}


def data_of(options: Options, source: str, rows: int) -> dict[str, Any]:
    """The section that reads a table of which so many rows are drawn, or all that there are; rows with missing values
    are left out.
    """
    data = {"source": source, "schema": options.schema, "missing": "drop"}
    return {**data, "rows": min(rows, len(read_table(source, options.schema, missing="drop")))}


def dataset_name(source: str) -> str:
    """The table's name, without folder and ending."""
    return source_name(source).split(".")[0]


def partial_note(dataset: str) -> str:
    return f"{dataset} is {PARTIAL[dataset]}" if dataset in PARTIAL else ""


def find(name: str) -> Benchmark:
    """The benchmark of that name. Raises ValueError, with a suggestion, for an unknown one."""
    if name not in BENCHMARKS:
        raise ValueError(f"{name}: no such benchmark{closest(name, BENCHMARKS)}; there are {', '.join(BENCHMARKS)}")
    run: Benchmark = import_module(BENCHMARKS[name]).run
    return run


def check_only(name: str, only: Sequence[str]) -> None:
    """Raises ValueError unless the benchmark can keep to settings like these."""
    offered: tuple[str, ...] = getattr(import_module(BENCHMARKS[name]), "ONLY", ())
    for part in only:
        setting, equals, _ = part.partition("=")
        if not offered:
            raise ValueError(f"--only {part}: {name} measures all of its settings; leave --only out")
        if not equals or setting not in offered:
            raise ValueError(f"--only {part}: write one of {', '.join(f'{o}=...' for o in offered)}")


def check_resume(name: str) -> None:
    """Raises ValueError unless the benchmark can go on from batches that it has finished."""
    if not getattr(import_module(BENCHMARKS[name]), "RESUMES", False):
        able = [n for n, module in BENCHMARKS.items() if getattr(import_module(module), "RESUMES", False)]
        raise ValueError(f"--resume: {name} keeps no batches, only these do: {', '.join(able)}; leave --resume out")


def markdown(name: str, rows: Sequence[Row]) -> str:
    """The rows as Markdown: as the benchmark has them, else one table. Raises ValueError for an unknown benchmark."""
    find(name)
    own: Callable[[Sequence[Row]], str] | None = getattr(import_module(BENCHMARKS[name]), "markdown", None)
    return plain_table([as_plain(r) for r in rows]) if own is None else own(rows)


def by_setting(rows: Sequence[Row], *names: str) -> dict[Any, dict[str, Row]]:
    """(dataset, the named parts of the setting) -> metric -> row, in the order of the rows."""
    found: dict[Any, dict[str, Row]] = {}
    for r in rows:
        found.setdefault((r.dataset, *(r.setting[n] for n in names)), {})[r.metric] = r
    return found


def plain_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table of rows, the keys of the first one above."""
    if not rows:
        return ""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([row.get(key, "") for key in rows[0]] for row in rows)]
    return "\n".join(table_line(line) for line in lines)


def table_line(cells: Sequence[object]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def with_interval(row: Row, places: int, ends: int | None = None) -> str:
    """What was measured, in so many decimals, with its interval, rounded outwards, where it has one: "0.61 (0.55 to
    0.67)". `ends`: the decimals of the interval, where it has others.
    """
    if row.low is None or row.high is None:
        return f"{row.measured:.{places}f}"
    return f"{row.measured:.{places}f} ({within(row.low, row.high, places if ends is None else ends)})"


def kept(path: Path, name: str) -> list[Row]:
    """The rows of the benchmark of this name that `save` wrote. Raises ValueError for a file that holds none, or rows
    of another benchmark.
    """
    rows = _read(path).rows
    if other := next((r.benchmark for r in rows if r.benchmark != MEASURE_OF.get(name, name)), None):
        known = shown(other)
        raise ValueError(f"{path}: has rows of {known}, not of {name}; write leakledger benchmark {known}")
    return list(rows)


def made(saved: Path | None = None) -> str:
    """Machine and date of a file that `save` wrote; without one, of here and now. Raises ValueError as `kept` does."""
    if saved is None:
        return f"{machine()}; {datetime.now(UTC).date().isoformat()}"
    content = _read(saved)
    return f"{content.machine}; {content.date}"


def _read(path: Path) -> "_Saved":
    try:
        return _SAVED.validate_python(strict_json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError):  # not UTF-8, not JSON, nested too deeply, of other types
        raise ValueError(f"{path}: holds no rows of a benchmark; --save writes such a file") from None


def machine() -> str:
    """The processor, its cores and the system, in words."""
    model = platform.processor() or platform.machine()
    if (cpuinfo := Path("/proc/cpuinfo")).is_file():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def save(path: Path, command: str, rows: Sequence[Row]) -> None:
    """Writes the rows with what a reader needs to judge them, command, machine, date, versions; all or nothing."""
    content = {
        "command": command,
        "machine": "; ".join(dict.fromkeys([machine(), *(r.setting["device"] for r in rows if "device" in r.setting)])),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("leakledger", "torch", "numpy", "scipy")},
        "rows": [as_plain(r) for r in rows],
    }
    with atomic_file(path) as file:
        file.write(f"{json.dumps(content, indent=1)}\n".encode())


def as_plain(row: Row) -> dict[str, Any]:
    """The row for JSON; an empty note is left out."""
    return {k: v for k, v in asdict(row).items() if k != "note" or v}
