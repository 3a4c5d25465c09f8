"""False certificates: the rows that exact attacks call verified, counted against the truth.

Every scaler, FedSGD batches and local trainings (FedAvg) of a fresh 100-100 network, four parties, and the attacks that
certify: `linear_layer`, `span`, `spear`, `atoms` and `portfolio`, the last with one short restart of TabLeak, which
certifies nothing, and without the posterior. Behind other activations than ReLU it is `atoms` alone. Rows that
`posterior` certifies are counted apart, of few short chains on a round of small batches behind tanh, since chains take
many times as long. A verified row is false unless it has a true row of its own, the same in every category and within
0.001 standard deviations in every number. A row that several attacks verify counts once for each.

Tables: those named, else made-up ones of skewed whole amounts (`amounts`) and all in the folder that the environment
variable LEAKLEDGER_DATASETS names but those with a numeric target, whose gradients no attack here inverts. On the
made-up ones rows agree in their few categories, and amounts up to a million leave nothing of a deviation beside a
range: there certificates were false under `federated-minmax`. Of a table 3,000 rows are taken. The last rows of the
benchmark are the totals, with the 95 % upper bound of the share that is false.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim
from leakledger.audit.benchmarks.base import Options, Row, data_of, dataset_name
from leakledger.audit.benchmarks.fedavg import train_on_few
from leakledger.audit.case import Case, cases
from leakledger.audit.cells import Cells
from leakledger.audit.config import Config
from leakledger.audit.federate import federate
from leakledger.audit.pool import each
from leakledger.audit.scoring.records import identical
from leakledger.audit.truth import Truth
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.scalers import ENCRYPTED, SCALERS
from leakledger.preprocess.secret import PUBLIC_MASTER

ROUNDS, TABLE = 3, 3_000  # batches of each client, and rows of a table
MADE_UP, QUICK_MADE_UP = 6, 1  # tables
STEPS, LARGEST = (10, 100, 1000), 10**6  # what amounts are rounded to, and where they end


@dataclass(frozen=True)
class Setting:
    """`rows` of each client: a FedSGD batch, or of a training of `epochs` epochs of four batches. `sampled`: of one
    round, what chains of the posterior end at.
    """

    rows: int
    epochs: int = 0
    activation: str = "relu"
    sampled: bool = False

    @property
    def attacks(self) -> tuple[str, ...]:
        """Those that may certify a row there."""
        if self.sampled:
            return tuple(SAMPLED)
        if self.epochs:
            return SUMS
        return tuple(SHORT) if self.activation == "relu" else SMOOTH


SETTINGS = (
    Setting(16),
    Setting(16, 5),
    *(Setting(16, activation=a) for a in ("tanh", "sigmoid", "gelu", "leaky-relu")),
    Setting(4, activation="tanh", sampled=True),
)
QUICK = SETTINGS[0], Setting(2, activation="tanh", sampled=True)
SHORT: dict[str, dict[str, Any]] = {
    "linear_layer": {},
    "span": {},
    "spear": {},
    "atoms": {"attempts": 2},
    "portfolio": {"tableak": {"restarts": 1, "iterations": 10, "crossovers": 0}, "posterior": {"max_rows": 1}},
}
SAMPLED: dict[str, dict[str, Any]] = {"posterior": {"chains": 2, "sweeps": 2, "repairs": 1, "pool": 17}}
SUMS = ("linear_layer", "span")  # those that invert weights after local training
SMOOTH = ("atoms",)  # those that do not need ReLU


def run(options: Options) -> Iterator[Row]:
    """Counts for each table, scaler and setting, as they are measured, then in all."""
    seeds = options.seeds or 1
    settings = QUICK if options.quick else SETTINGS
    clear = tuple(name for name in SCALERS if name not in ENCRYPTED)  # those under encryption find the same map
    scalers = ("federated-minmax", "federated-zscore") if options.quick else clear
    counted: list[Row] = []
    with TemporaryDirectory(prefix="leakledger-") as folder:
        made = [] if options.data else written(Path(folder), QUICK_MADE_UP if options.quick else MADE_UP)
        for source in (*options.data, *made, *(() if options.data or options.quick else classified(shared()))):
            for scaler in scalers:
                for what in settings:
                    rows = list(measure(options, source, scaler, what, seeds))
                    counted += rows
                    yield from rows
    yield from totals(counted)


def shared() -> tuple[str, ...]:
    """The tables in the folder that LEAKLEDGER_DATASETS names; none where it names none."""
    named = os.environ.get("LEAKLEDGER_DATASETS")
    return tuple(str(path) for path in sorted(Path(named).glob("*.csv.gz"))) if named else ()


def classified(sources: Sequence[str]) -> tuple[str, ...]:
    """The tables whose target has classes."""
    return tuple(s for s in sources if read_table(s, missing="drop").schema.classes)


def measure(options: Options, source: str, scaler: str, what: Setting, seeds: int) -> Iterator[Row]:
    """For each attack the rows that it verified, and those of them that are false."""
    config = settings_of(options, source, scaler, what, seeds)
    counts: dict[str, tuple[int, int]] = {}
    for part in each(partial(count, config, what), cases(config), options.jobs):
        for attack, (verified, false) in part.items():
            before = counts.get(attack, (0, 0))
            counts[attack] = before[0] + verified, before[1] + false
    kind: dict[str, Any] = (
        {"B": what.rows} if not what.epochs else {"rows": what.rows, "batches": 4, "epochs": what.epochs}
    )
    kind |= {"activation": what.activation} if what.activation != "relu" else {}
    for attack, (verified, false) in counts.items():
        setting = {"attack": attack, "scaler": scaler, **kind, "parties": 4, "seeds": seeds}
        yield figure(source, setting, "verified rows", verified)
        yield figure(source, setting, "false verified rows", false)


def figure(source: str, setting: dict[str, Any], metric: str, value: float, high: float | None = None) -> Row:
    unit = "rows" if high is None else "%"
    return Row("certificates", dataset_name(source), setting, metric, value, None, high, None, unit, 1)


def totals(rows: Sequence[Row]) -> Iterator[Row]:
    """What was counted in all, and by attack."""
    for attack in (*SHORT, *SAMPLED, "all"):
        own = [r for r in rows if attack in ("all", r.setting["attack"])]
        verified, false = (
            int(sum(r.measured for r in own if r.metric == m)) for m in ("verified rows", "false verified rows")
        )
        setting = {"attack": attack}
        yield figure("all", setting, "verified rows", verified)
        yield figure("all", setting, "false verified rows", false)
        if verified:
            bound = float(beta.ppf(0.95, false + 1, verified - false)) if false < verified else 1.0
            yield figure("all", setting, "share that is false", 100 * false / verified, 100 * bound)


def count(config: Config, what: Setting, case: Case) -> dict[str, tuple[int, int]]:
    """For each attack the rows that it verified in one case, and how many of them are false."""
    truth = Truth(train_on_few(config, case, what.rows) if what.epochs else federate(config, case, PUBLIC_MASTER))
    federated = truth.federated
    view = federated.ledger.view([federated.public.server], federated.public)
    labels = {key: truth.labels(*key) for key in federated.batches}
    counts, options = {}, SAMPLED if what.sampled else SHORT
    for name in what.attacks:
        seed = {} if name == "linear_layer" else {"seed": case.seed}
        outcome = ATTACKS[name](**seed, **options[name]).run(view, AuxiliaryKnowledge(labels))
        claims = [c for c in outcome if isinstance(c, RecordsClaim)] if isinstance(outcome, list) else []
        found = [false_rows(truth, claim) for claim in claims]
        counts[name] = sum(len(f) for f in found), int(sum(f.sum() for f in found))
    return counts


def false_rows(truth: Truth, claim: RecordsClaim) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """(m,) which of the verified rows of a claim are not identical to a true row of their own."""
    terms = truth.in_terms_of(claim.layout)
    verified = np.zeros(len(claim.numbers), bool) if claim.verified is None else claim.verified
    proven = Cells(claim.categories[verified], claim.numbers[verified])
    return ~identical(proven, terms.batch(claim.victim, claim.round), terms.deviations)


def settings_of(options: Options, source: str, scaler: str, what: Setting, seeds: int) -> Config:
    rounds = 1 if what.sampled else ROUNDS
    training: dict[str, Any] = {"algorithm": "fedsgd", "rounds": rounds, "batch_size": what.rows}
    if what.epochs:
        training = {"algorithm": "fedavg", "rounds": 1, "batch_size": what.rows // 4, "local_epochs": what.epochs}
        training["learning_rate"] = 0.01
    return Config.model_validate(
        {
            "defense": {"name": "none"},
            "data": data_of(options, source, TABLE),
            "preprocessing": {"encoder": "pooled", "scaler": scaler},
            "training": training,
            "model": {"activation": what.activation},
            "attacks": {"use": ["span"]},
            "audit": {"seeds": list(range(seeds)), "device": options.device},
        }
    )


def written(
    folder: Path, tables: int, name: str = "amounts", make: Callable[[int], pd.DataFrame] | None = None
) -> list[str]:
    """The files of so many made-up tables, which `make` (`amounts`) makes of their numbers; schemas beside them."""
    paths = []
    for seed in range(tables):
        table = (make or amounts)(seed)
        names = [str(c) for c in table if c != "target"]
        categorical = [c for c in names if c.startswith("kind")]
        schema = {"target": "target", "task": "binary", "classes": ["no", "yes"], "categorical": categorical}
        path = folder / f"{name}{seed}.csv"
        table.to_csv(path, index=False)
        schema["numeric"] = [c for c in names if c not in categorical]
        (folder / f"{name}{seed}.schema.json").write_text(json.dumps(schema))
        paths.append(str(path))
    return paths


def amounts(seed: int, rows: int = TABLE) -> pd.DataFrame:
    """A table of about a dozen skewed whole amounts up to a million, lognormal and rounded to tens, hundreds or
    thousands, a few counts and one to four features of a few categories.
    """
    coins = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for k in range(int(coins.integers(8, 14))):
        step = coins.choice(STEPS)
        drawn = np.exp(coins.normal(coins.uniform(6, 11), coins.uniform(0.8, 2.2), rows))
        drawn = np.minimum(np.round(drawn / step) * step, LARGEST)
        if coins.random() < 0.25:
            drawn[coins.random(rows) < 0.5] = 0
        columns[f"amount {k}"] = drawn.astype(np.int64)
    for k in range(int(coins.integers(1, 5))):
        columns[f"count {k}"] = coins.poisson(coins.uniform(1, 6), rows)
    for k in range(int(coins.integers(1, 5))):
        kinds = int(coins.integers(2, 9))
        chosen = coins.choice(kinds, rows, p=coins.dirichlet(np.full(kinds, 2.0)))
        columns[f"kind {k}"] = [f"kind {v}" for v in chosen]
    columns["target"] = np.where(coins.random(rows) < 0.4, "yes", "no")
    return pd.DataFrame(columns)
