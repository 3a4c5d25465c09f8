"""The methods whose F1 the benchmark `fedllm` compares: each trains on one division of a table, the same for all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leakledger.audit.benchmarks.fedllm_data import Parties
from leakledger.preprocess.aggregation.plain import Plain
from leakledger.preprocess.alignment import fedllm_align
from leakledger.preprocess.alignment.fedllm_align import Alignment
from leakledger.preprocess.alignment.parties import common_features
from leakledger.preprocess.data.impute import fill, filling_of
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.federation import Federation
from leakledger.preprocess.messages import EvaluatedModel, GlobalModel, PredictionCounts
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import draw_batches, train
from leakledger.preprocess.training.evaluation import evaluate, prediction_counts
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import TrainingSpec

MU = 0.01  # of FedProx; the paper states none


@dataclass(frozen=True)
class Task:
    """A division of a table, the training, and whether baselines have only the features that all parties have."""

    parties: Parties = field(repr=False)
    training: TrainingSpec
    common: bool
    seed: int

    @property
    def features(self) -> list[str]:
        schemas = list(self.parties.schemas.values())
        return common_features(schemas) if self.common else list(self.parties.table.schema.features)


Confusion = NDArray[np.int64]


def confusion_of(method: Callable[[Task, str], Confusion], task: Task, encoder: str) -> Confusion:
    """(2, 2) held-out rows of all parties by true and predicted class."""
    return method(task, encoder)


def aligned(task: Task, encoder: str) -> Confusion:
    parties, fed = task.parties, _federation(task)
    train_rows, test_rows = ({c: fed.at(c, t) for c, t in own.items()} for own in (parties.train, parties.test))
    with fed.running():
        fedllm_align.run(fed, Alignment(encoder, training=task.training), parties.schemas, train_rows, test_rows)
    return _counted(fed)


def homogeneous(task: Task, encoder: str = "", proximal: float = 0.0) -> Confusion:
    """FedAvg of the same head on columns that all parties have alike."""
    fed, (train_rows, test_rows) = _federation(task), columns_of(task)
    width = next(iter(train_rows.values())).rows.shape[1]
    spec, training = Alignment().head(width), replace(task.training, proximal=proximal)
    with fed.running():
        own = {c: fed.at(c, e) for c, e in train_rows.items()}
        trained = train(fed, ALGORITHMS["fedavg"], spec, training, own, aggregation=Plain("clients"))
        evaluate(fed, spec, trained.model, {c: fed.at(c, e) for c, e in test_rows.items()})
    return _counted(fed)


def fedprox(task: Task, encoder: str = "") -> Confusion:
    return homogeneous(task, encoder, MU)


def pooled(task: Task, encoder: str = "") -> Confusion:
    """One party with all rows, for as many epochs as a client of the federation goes through."""
    train_rows, test_rows = (_stacked(own) for own in columns_of(task))
    coins = np.random.default_rng(task.seed)
    spec = Alignment().head(train_rows.rows.shape[1])
    training = replace(task.training, local_epochs=task.training.rounds * task.training.local_epochs)
    batches = draw_batches(training, train_rows, coins)
    begun = GlobalModel(dict(initial_weights(spec, coins)))
    ended = ALGORITHMS["fedavg"].client(spec, training, begun, train_rows, batches, None, coins)
    return prediction_counts(spec, EvaluatedModel(ended.weights), test_rows).confusion


METHODS: Mapping[str, Callable[[Task, str], Confusion]] = {
    "fedllm-align": aligned,
    "homogeneous": homogeneous,
    "fedprox": fedprox,
    "pooled": pooled,
}


def columns_of(task: Task) -> tuple[dict[str, Encoded], dict[str, Encoded]]:
    """Training and held-out rows of each party as z-scores and one-hot columns, imputed by the party. Means, deviations
    and categories are those of all training rows: the paper's reference has a harmonised schema and does not say how.
    """
    parties = task.parties
    fillings = {c: filling_of(t) for c, t in parties.train.items()}
    train_rows = {c: fill(t, fillings[c]) for c, t in parties.train.items()}
    test_rows = {c: fill(t, fillings[c]) for c, t in parties.test.items()}
    together = pd.concat([t.frame for t in train_rows.values()])
    numeric = [f for f in task.features if f in parties.table.schema.numeric]
    values = {f: sorted(set(together[f])) for f in task.features if f not in numeric}
    mean, deviation = together[numeric].mean(), together[numeric].std().replace(0.0, 1.0)

    def encoded(table: Table) -> Encoded:
        numbers = ((table.frame[numeric] - mean) / deviation).to_numpy(np.float32)
        one_hot = [table.frame[f].to_numpy(object)[:, None] == np.array(v, object) for f, v in values.items()]
        return Encoded(np.hstack([numbers, *one_hot]).astype(np.float32), table.labels().astype(np.int64))

    return {c: encoded(t) for c, t in train_rows.items()}, {c: encoded(t) for c, t in test_rows.items()}


def _federation(task: Task) -> Simulated:
    return Simulated(list(task.parties.schemas), secret=pinned("fedllm f1", task.seed))


def _counted(fed: Federation) -> Confusion:
    return np.asarray(sum(m.payload.confusion for m in fed.ledger if m.kind is PredictionCounts))


def _stacked(own: Mapping[str, Encoded]) -> Encoded:
    return Encoded(np.vstack([e.rows for e in own.values()]), np.concatenate([e.labels for e in own.values()]))
