"""What a benchmark is: options in, rows out, one row per figure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from preprocess.data.suggest import closest


@dataclass(frozen=True)
class Options:
    """`data`: tables to use (files or embedded names; none: the benchmark's own choice). `quick`: within a minute or
    two.
    """

    data: tuple[str, ...] = ()
    schema: str | None = None
    quick: bool = False
    device: str = "cpu"
    seeds: int | None = None
    jobs: int | None = None


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


Benchmark = Callable[[Options], Iterator[Row]]
BENCHMARKS = {"tableak": "audit.benchmarks.tableak"}


def find(name: str) -> Benchmark:
    """The benchmark of that name. Raises ValueError, with a suggestion, for an unknown one."""
    if name not in BENCHMARKS:
        raise ValueError(f"{name}: no such benchmark{closest(name, BENCHMARKS)}; there are {', '.join(BENCHMARKS)}")
    run: Benchmark = import_module(BENCHMARKS[name]).run
    return run


def as_plain(row: Row) -> dict[str, Any]:
    """The row for JSON; an empty note is left out."""
    return {k: v for k, v in asdict(row).items() if k != "note" or v}
