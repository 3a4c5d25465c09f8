"""The methods whose F1 the benchmark `fedllm_f1` compares: each trains on one division of a table, the same for all."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from leakledger.audit.benchmarks.fedllm_clustered import clustered
from leakledger.audit.benchmarks.fedllm_mutual import mutual_information
from leakledger.audit.benchmarks.fedllm_scaffold import scaffold, with_sgd
from leakledger.audit.benchmarks.fedllm_task import HeldOut, Task, columns_of, counted, federation, head, stacked
from leakledger.audit.benchmarks.fedllm_trees import trees
from leakledger.preprocess.aggregation.plain import Plain
from leakledger.preprocess.alignment import fedllm_align
from leakledger.preprocess.alignment.fedllm_align import Alignment
from leakledger.preprocess.federation import Federation
from leakledger.preprocess.messages import EvaluatedModel, GlobalModel, PredictionCounts
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import draw_batches, train
from leakledger.preprocess.training.evaluation import evaluate, prediction_counts

MU = 0.01  # of FedProx; the paper states none


def aligned(task: Task, encoder: str, form: str = "structured") -> HeldOut:
    parties, fed = task.parties, federation(task)
    train_rows, test_rows = ({c: fed.at(c, t) for c, t in own.items()} for own in (parties.train, parties.test))
    with fed.running():
        alignment = Alignment(encoder, form, training=task.training)
        fedllm_align.run(fed, alignment, parties.schemas, train_rows, test_rows)
    return _told(fed)


def homogeneous(task: Task, encoder: str = "") -> HeldOut:
    """FedAvg of the same head on columns that all parties have alike."""
    fed, (train_rows, test_rows) = federation(task), columns_of(task)
    spec = head(train_rows)
    with fed.running():
        own = {c: fed.at(c, e) for c, e in train_rows.items()}
        trained = train(fed, ALGORITHMS["fedavg"], spec, task.training, own, aggregation=Plain("clients"))
        evaluate(fed, spec, trained.model, {c: fed.at(c, e) for c, e in test_rows.items()})
    return _told(fed)


def fedprox(task: Task, encoder: str = "") -> HeldOut:
    return homogeneous(replace(task, training=replace(task.training, proximal=MU)))


def fedavg_sgd(task: Task, encoder: str = "") -> HeldOut:
    """What SCAFFOLD is without control variates: `homogeneous` with its local steps."""
    return homogeneous(replace(task, training=with_sgd(task.training)))


def pooled(task: Task, encoder: str = "") -> HeldOut:
    """One party with all rows, for as many epochs as a client of the federation goes through."""
    train_rows, test_rows = (stacked(own) for own in columns_of(task))
    coins = np.random.default_rng(task.seed)
    spec = Alignment().head(train_rows.rows.shape[1])
    training = replace(task.training, local_epochs=task.training.rounds * task.training.local_epochs)
    batches = draw_batches(training, train_rows, coins)
    begun = GlobalModel(dict(initial_weights(spec, coins)))
    ended = ALGORITHMS["fedavg"].client(spec, training, begun, train_rows, batches, None, coins)
    return counted(prediction_counts(spec, EvaluatedModel(ended.weights), test_rows))


METHODS: Mapping[str, Callable[[Task, str], HeldOut]] = {
    "fedllm-align": aligned,
    "homogeneous": homogeneous,
    "fedxgboost": trees,
    "fedprox": fedprox,
    "scaffold": scaffold,
    "clustered": clustered,
    "mutual information": mutual_information,
    "fedavg-sgd": fedavg_sgd,
    "pooled": pooled,
}


def _told(fed: Federation) -> HeldOut:
    """What the parties told the server of their held-out rows."""
    return counted(*(m.payload for m in fed.ledger if m.kind is PredictionCounts))
