"""Is federated scaling worth more than local scaling? Runs in which either wins, next to table II of its paper.

Source: "Bridging Local and Federated Data Normalization in Federated Learning", section IV. A run is a table, a
division of its rows (table I), a number of clients and a kind of scaling, as a mean over seeds; F1, or R2 where the
target is a number; a difference below 0.005 is a tie, and runs of R2 count where either is above 0. Training is FedAvg
with one local epoch and early stopping; each client scales its own held-out rows.

Readings. The paper calls beta = 0.5 low imbalance of labels and sizes and 5 high, against its section III-B, where a
small beta is an uneven Dirichlet division: rows name the beta alone. 30 clients leave breast cancer 15 rows each: every
client needs two rows at least here. Network, learning rate and patience are in a supplement that we do not have. F1 is
of the positive class, of digits the mean over classes. MNIST and CIFAR10 cannot be had; `digits` stands beside them.

`no scaling` is the baseline of figure 2; `batch norm` and the other activation norms stand in the network, on columns
that are not scaled. Training that diverges counts as 0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Self

import numpy as np

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.encoders_cost import read_whole
from leakledger.audit.benchmarks.recording import Unrecorded
from leakledger.audit.intervals import interval
from leakledger.audit.pool import each
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import SCALERS, canonical
from leakledger.preprocess.scalers.base import Matrix, PublicScaling, Scaler, ScalerFit, shared_fit
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import train
from leakledger.preprocess.training.divergence import TrainingDiverged
from leakledger.preprocess.training.evaluation import evaluate
from leakledger.preprocess.views import ModelSpec, Norm, RegressionLoss, TrainingSpec

BY = ("zscore", "minmax", "robust", "yeo-johnson")
BASELINE = "no scaling"
DIVISIONS: Mapping[str, tuple[str, dict[str, float]]] = {
    "iid": ("iid", {}),
    "sizes 0.5": ("dirichlet-quantity", {"beta": 0.5}),
    "sizes 5": ("dirichlet-quantity", {"beta": 5.0}),
    "labels 0.5": ("dirichlet-labels", {"beta": 0.5}),
    "labels 5": ("dirichlet-labels", {"beta": 5.0}),
    "features 0.3": ("feature-noise", {"beta": 0.3}),
    "features 0.7": ("feature-noise", {"beta": 0.7}),
}
PARTIES = (10, 20, 30)
TIE = 0.005
PUBLISHED = {  # wins of federated, wins of local, ties, mean gain
    "breast_cancer": (71, 4, 9, 0.0414),
    "hepatitis_c": (33, 21, 30, 0.0567),
    "parkinsons_telemonitoring": (67, 17, 0, 0.0645),
}
ROUNDS, PATIENCE, LEARNING_RATE, BATCH, HIDDEN = 100, 10, 0.05, 16, (32, 16)
HELD_OUT, FEWEST = 0.2, 2  # share of each client's rows, and rows that it needs
SEEDS, QUICK_SEEDS = 3, 2
TRAINING = TrainingSpec(
    "fedavg",
    rounds=ROUNDS,
    learning_rate=LEARNING_RATE,
    batch_size=BATCH,
    local_epochs=1,
    patience=PATIENCE,
)
NORMS: Mapping[str, Norm] = {f"{norm} norm": norm for norm in ("batch", "layer", "group", "instance")}
SCALED = (BASELINE, *(f"{where}-{by}" for by in BY for where in ("local", "federated")), *NORMS)
BENCHMARK = "normalization_utility"


@dataclass(frozen=True)
class Unscaled(Scaler):
    """Columns as they are. `width` is set by `under`."""

    width: int = 0

    name = BASELINE
    reference = "Bridging Local and Federated Data Normalization in Federated Learning, section IV-C"

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        return shared_fit(fed, columns, fed.public(_as_they_are, self.width))

    def under(self, schema: Schema) -> Self:
        return replace(self, width=len(schema.numeric))


def _as_they_are(width: int) -> PublicScaling:
    return PublicScaling(np.zeros(width), np.ones(width))


@dataclass(frozen=True)
class Cell:
    """One training. `scaler` is a name or an alias, or one of `NORMS`; `seed` draws division, held-out rows and
    training.
    """

    table: Table = field(repr=False)
    division: str
    parties: int
    scaler: str
    seed: int


Found = dict[tuple[str, int, str, int], float]


def run(options: Options) -> Iterator[Row]:
    """A row for each way of scaling and division, then the comparison of table II for each table."""
    seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    divisions = ("iid", "features 0.7") if options.quick else tuple(DIVISIONS)
    clients = PARTIES[:1] if options.quick else PARTIES
    for source in options.data or (("breast_cancer",) if options.quick else ("breast_cancer", "digits")):
        table = read_whole(options, source)
        cells = [
            Cell(table, d, p, s, seed) for d in divisions for p in clients for s in SCALED for seed in range(seeds)
        ]
        found: Found = {}
        for cell, value in each(measured, cells, options.jobs):
            if value is not None:
                found[cell.division, cell.parties, cell.scaler, cell.seed] = value
        name, metric = dataset_name(source), "r2" if table.schema.task == "regression" else "f1"
        yield from values(name, metric, found)
        yield from compared(name, metric, found)


def measured(cell: Cell) -> tuple[Cell, float | None]:
    """F1 or R2 over all clients' held-out rows; None where the rows do not go round, 0 where training diverges."""
    coins = np.random.default_rng([11, cell.seed, cell.parties])
    kind, options = DIVISIONS[cell.division]
    try:
        tables = partition(cell.table, kind, cell.parties, coins, minimum=FEWEST, **options)
    except DataError:
        return cell, None
    fed = Unrecorded(list(tables), secret=pinned("normalization utility", cell.seed))
    order = {c: coins.permutation(len(t)) for c, t in tables.items()}
    ends = {c: max(1, round(HELD_OUT * len(t))) for c, t in tables.items()}
    train_rows = {c: fed.at(c, t.rows(np.sort(order[c][ends[c] :]))) for c, t in tables.items()}
    test_rows = {c: fed.at(c, t.rows(np.sort(order[c][: ends[c]]))) for c, t in tables.items()}
    schema = next(iter(tables.values())).schema
    prepared = prepare(fed, schema, train_rows, test_rows, ENCODERS["server-dictionary"](), scaler_of(cell.scaler))
    loss: RegressionLoss = "mae" if schema.task == "regression" else "mse"  # section IV-B
    width, outputs, norm = prepared.layout.value.width, len(schema.classes) or 1, NORMS.get(cell.scaler, "none")
    spec = ModelSpec(width, outputs, HIDDEN, task=schema.task, loss=loss, norm=norm)
    try:
        trained = train(fed, ALGORITHMS["fedavg"], spec, TRAINING, prepared.train)
    except TrainingDiverged:
        return cell, 0.0
    metrics = fed.own(evaluate(fed, spec, trained.model, prepared.test))
    return cell, metrics["r2" if schema.task == "regression" else "f1"]


def scaler_of(name: str) -> Scaler:
    if name == BASELINE or name in NORMS:
        return Unscaled()
    kind, options = canonical(name)
    return SCALERS[kind](**options)


def values(dataset: str, metric: str, found: Found) -> Iterator[Row]:
    """The mean of each way of scaling under each division, with an interval over clients and seeds."""
    for division in dict.fromkeys(d for d, *_ in found):
        for scaler in SCALED:
            own = [v for (d, _, s, _), v in found.items() if (d, s) == (division, scaler)]
            low, high = interval(own) or (None, None)
            setting = {"division": division, "scaler": scaler}
            yield Row(BENCHMARK, dataset, setting, metric, fmean(own), low, high, None, "", len(own))


def compared(dataset: str, metric: str, found: Found) -> Iterator[Row]:
    """Wins, losses and ties of federated over local scaling, and the mean gain where it wins."""
    gains: dict[tuple[str, int, str], list[tuple[float, float]]] = {}
    for (division, parties, scaler, seed), value in found.items():
        where, _, by = scaler.partition("-")
        other = found.get((division, parties, f"local-{by}", seed))
        if where == "federated" and other is not None:
            gains.setdefault((division, parties, by), []).append((value, other))
    means = [(fmean(f for f, _ in both), fmean(o for _, o in both)) for both in gains.values()]
    counted = [f - o for f, o in means if metric == "f1" or max(f, o) > 0]
    won = [g for g in counted if g >= TIE]
    told = PUBLISHED.get(dataset, (None,) * 4)
    results = {
        "federated wins": len(won),
        "local wins": sum(g <= -TIE for g in counted),
        "ties": sum(abs(g) < TIE for g in counted),
        "mean gain where federated wins": fmean(won) if won else 0.0,
    }
    for (name, value), published in zip(results.items(), told, strict=True):
        low, high = (interval(won) if name.startswith("mean") else None) or (None, None)
        yield Row(BENCHMARK, dataset, {}, name, float(value), low, high, published, "", len(counted))
