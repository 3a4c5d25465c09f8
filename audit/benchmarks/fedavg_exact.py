"""Exact attacks against FedAvg: whole rows from the weights after local training, in the cells of `fedavg` and beyond.

Clients, encoding and network as in `fedavg`: 32 rows each, a fresh 100-100 network, learning rate 0.01. The portfolio
plays the nine cells of tables 10 to 12, beside their figures; it gets the labels for rows that TabLeak is left with.
`span`, which gets none, goes beyond them, and to tables that have no figures there: other numbers of rows, up to 200
local steps, ten times the learning rate, and a network that was trained for 20 rounds before. *Identical* rows are
those of `exact`. Where as many rows as the row space has dimensions leave `span` nothing, the portfolio's rows of 16
and 24 are those of TabLeak and of the posterior that goes on from there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from leakledger.attacks import ATTACKS
from leakledger.audit.benchmarks.base import Options, Row, dataset_name, partial_note
from leakledger.audit.benchmarks.exact import METRICS
from leakledger.audit.benchmarks.fedavg import (
    CHOICE,
    LONG,
    PAPER_ROWS,
    PUBLISHED,
    RATE,
    SHORT,
    Cell,
    settings,
    timed_on_few,
)
from leakledger.audit.benchmarks.gradients import figure, in_percent
from leakledger.audit.case import Case, cases
from leakledger.audit.config import Config
from leakledger.audit.pool import each
from leakledger.audit.records import Trial

SEEDS = 5


@dataclass(frozen=True)
class Experiment:
    """One row of the benchmark: `cell` is local batches per epoch and epochs, `before` the rounds trained before."""

    attack: str
    cell: Cell
    rows: int = PAPER_ROWS
    rate: float = RATE
    before: int = 0


CELLS = tuple(Experiment("portfolio", cell) for cell in SHORT + LONG)
FULL_ROW_SPACE = tuple(Experiment("portfolio", (4, 5), rows=rows) for rows in (16, 24))
BEYOND = (
    *(Experiment("span", (4, 5), rows=rows) for rows in (8, 16, 24, 32, 40, 48)),
    Experiment("span", (4, 50)),
    Experiment("span", (4, 5), rate=0.1),
    Experiment("span", (4, 5), before=20),
)


def run(options: Options) -> Iterator[Row]:
    """Rows for each table and setting, as they are measured."""
    for source in options.data or ("fair",):
        for setting in plays(dataset_name(source), options.quick):
            yield from measure(options, source, setting, options.seeds or (1 if options.quick else SEEDS))


def plays(table: str, quick: bool = False) -> tuple[Experiment, ...]:
    """What is measured on a table: the published cells only where there is a figure to set beside."""
    return CELLS[:1] if quick else (CELLS if table in PUBLISHED else FULL_ROW_SPACE) + BEYOND


def measure(options: Options, source: str, what: Experiment, seeds: int) -> Iterator[Row]:
    """Rows of one setting, over 4 clients x `seeds`; a client about whom nothing is claimed has no row recovered."""
    config = settings(options, source, what.cell, seeds, what.rows, what.rate, what.before + 1)
    measured = list(each(partial(attack_clients, config, what), cases(config), options.jobs))
    trials = [t for part, _ in measured for t in part]
    dataset, (batches, epochs) = dataset_name(source), what.cell
    setting = {"attack": what.attack, "batches": batches, "epochs": epochs, "rows": what.rows, "parties": 4}
    setting |= {"seeds": seeds} | ({"learning rate": what.rate} if what.rate != RATE else {})
    setting |= {"rounds trained": what.before} if what.before else {}
    published = PUBLISHED.get(dataset, {}).get(epochs, {}).get(batches) if what in CELLS else None
    for metric in (*METRICS, "exact_rows", "accuracy"):
        found, beside = in_percent(trials, metric, 4 * seeds), published if metric == "accuracy" else None
        yield figure("fedavg_exact", dataset, setting, metric, found, beside, "%", partial_note(dataset))
    yield figure("fedavg_exact", dataset, setting, "seconds per client", [s for _, s in measured], None, "s")


def attack_clients(config: Config, what: Experiment, case: Case) -> tuple[list[Trial], float]:
    """The trials of the attack by the server in the last round, and the seconds that it took per client."""
    own = {"tableak_fedavg": CHOICE, "device": config.audit.device} if what.attack == "portfolio" else {}
    attack = ATTACKS[what.attack](seed=case.seed, rounds=(what.before,), **own)  # type: ignore[call-arg]
    return timed_on_few(config, attack, what.rows, case, what.before)
