"""What the methods of the benchmark `fedllm_f1` have in common: one division of a table, its columns, the count of
held-out rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leakledger.audit.benchmarks.fedllm_data import Parties
from leakledger.preprocess.alignment.fedllm_align import Alignment
from leakledger.preprocess.alignment.parties import common_features
from leakledger.preprocess.data.impute import fill, filling_of
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.messages import PredictionCounts
from leakledger.preprocess.models import Weights, initial_weights
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import ModelSpec, TrainingSpec


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


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows of all parties: `confusion` (2, 2) by true and predicted class; `scores` (2, 2, BINS) histograms of
    the predicted probability of each class, for rows of the other class and of its own; `clients`: the confusion of
    each party's rows; `models` that judged them.
    """

    confusion: NDArray[np.int64]
    scores: NDArray[np.int64] = field(repr=False)
    clients: tuple[NDArray[np.int64], ...] = field(repr=False)
    models: int = 1


def counted(*parts: PredictionCounts, models: int = 1) -> HeldOut:
    """The sum of the parties' counts."""
    own = tuple(np.asarray(p.confusion) for p in parts)
    return HeldOut(np.sum(own, 0), np.sum([p.scores for p in parts], 0), own, models)


@dataclass(frozen=True)
class Start:
    """What a federated method begins with: rows as columns, the head, its first weights, and each party's coins.

    Weights and coins are those that `preprocess.training` has in a federation of the same secret.
    """

    train: Mapping[str, Encoded] = field(repr=False)
    test: Mapping[str, Encoded] = field(repr=False)
    spec: ModelSpec
    weights: Weights = field(repr=False)
    coins: Mapping[str, np.random.Generator] = field(repr=False)


def start(task: Task) -> Start:
    """For methods that play the parties without messages: F1 alone is asked of them, and nobody's view."""
    fed, (train_rows, test_rows) = federation(task), columns_of(task)
    coins = {party: fed.own(fed.coins(party)) for party in fed.everyone}
    spec = head(train_rows)
    return Start(train_rows, test_rows, spec, initial_weights(spec, coins[fed.server]), coins)


def federation(task: Task) -> Simulated:
    return Simulated(list(task.parties.schemas), secret=pinned("fedllm f1", task.seed))


def head(rows: Mapping[str, Encoded]) -> ModelSpec:
    """The published head on columns of that width."""
    return Alignment().head(next(iter(rows.values())).rows.shape[1])


def stacked(own: Mapping[str, Encoded]) -> Encoded:
    """The rows of all parties."""
    return Encoded(np.vstack([e.rows for e in own.values()]), np.concatenate([e.labels for e in own.values()]))


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
