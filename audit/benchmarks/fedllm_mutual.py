"""Mutual-information federated learning, as its abstract is read here: local models are pushed away from the aggregated
one, and the server averages those that differ most from it.

Source: Uddin, Xiang, Lu, Yearwood and Gao, "Mutual Information Driven Federated Learning", IEEE TPDS 32(7), 2020, whose
full text is not at hand. By its abstract "the weight update is reformulated through minimizing the MI between local and
aggregated models and employing Negative Correlation Learning (NCL) strategy", and the server selects "top effective
models for aggregation based on the MI between an individual local model and its previous aggregated model".

Readings, all ours:

* *The penalty* is that of negative correlation learning (Liu and Yao, "Ensemble learning via negative correlation",
  Neural Networks 12, 1999) for the ensemble of the local and the aggregated model: with probabilities p and p' of a row
  and their mean m, (p - m)(p' - m) = -(p - p')² / 4, with the weight lambda = 0.5 in the middle of its range [0, 1].
  Liu and Yao show that it lowers the mutual information of normal outputs.
* *Mutual information* is that of normal outputs, -log(1 - rho²) / 2, rho the correlation of both models' logits over
  the client's training rows. Each client tells the server its own.
* *Top* are the two thirds, rounded up, whose mutual information is least.

Rounds, epochs, batches, Adam, dropout and the mean over the clients that are chosen are those of all methods. With
lambda = 0 and all models chosen it is FedAvg.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from leakledger.audit.benchmarks.fedllm_task import HeldOut, Task, counted, start
from leakledger.preprocess.aggregation.base import weighted_mean
from leakledger.preprocess.messages import EvaluatedModel
from leakledger.preprocess.models import Weights, as_arrays, as_tensors, dropout_masks, forward
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.base import draw_batches
from leakledger.preprocess.training.evaluation import prediction_counts
from leakledger.preprocess.views import ModelSpec, TrainingSpec

PENALTY, TOP = 0.5, 2 / 3  # lambda; share of the clients' models that are averaged


def mutual_information(task: Task, encoder: str = "") -> HeldOut:
    begun = start(task)
    weights = begun.weights
    for _ in range(task.training.rounds):
        weights = one_round(begun.spec, task.training, weights, begun.train, begun.coins)
    model = EvaluatedModel(weights)
    return counted(*(prediction_counts(begun.spec, model, rows) for rows in begun.test.values()))


def one_round(
    spec: ModelSpec,
    training: TrainingSpec,
    aggregated: Weights,
    data: Mapping[str, Encoded],
    coins: Mapping[str, np.random.Generator],
) -> Weights:
    """The mean of the chosen clients' models after local training; `coins` draw batches and dropout."""
    ended = [penalised(spec, training, aggregated, rows, coins[client]) for client, rows in data.items()]
    shared = [information(spec, own, aggregated, rows) for own, rows in zip(ended, data.values(), strict=True)]
    chosen = np.argsort(shared, kind="stable")[: math.ceil(TOP * len(ended))]
    return weighted_mean([ended[i] for i in sorted(chosen)], [1] * len(chosen))


def penalised(
    spec: ModelSpec, training: TrainingSpec, aggregated: Weights, data: Encoded, coins: np.random.Generator
) -> Weights:
    """A client's weights after its local epochs on the loss less `PENALTY` times the distance to the aggregated
    model's probabilities; the latter are without dropout.
    """
    x, y = torch.from_numpy(data.rows), torch.from_numpy(data.labels)
    leaves = {name: w.clone().requires_grad_() for name, w in as_tensors(aggregated).items()}
    optimizer = torch.optim.Adam(list(leaves.values()), lr=training.learning_rate)
    with torch.no_grad():
        before = torch.sigmoid(forward(spec, as_tensors(aggregated), x))
    for rows in draw_batches(training, data, coins):
        outputs = forward(spec, leaves, x[rows], dropout_masks(spec, len(rows), coins))
        loss = functional.binary_cross_entropy_with_logits(outputs[:, 0], y[rows].float())
        apart = ((torch.sigmoid(outputs) - before[rows]) ** 2).mean() / 4
        optimizer.zero_grad()
        (loss - PENALTY * apart).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return as_arrays({name: w.detach() for name, w in leaves.items()})


def information(spec: ModelSpec, own: Weights, aggregated: Weights, data: Encoded) -> float:
    """In nats, of two models' logits of the rows as if they were jointly normal; infinite where they are the same."""
    both = torch.stack([_logits(spec, weights, data) for weights in (own, aggregated)]).double()
    deviations = both.std(1)
    if not (deviations > 0).all():  # a model that says the same of every row tells nothing
        return 0.0
    rho = float(torch.corrcoef(both)[0, 1])
    return math.inf if rho**2 >= 1 else -math.log1p(-(rho**2)) / 2


def _logits(spec: ModelSpec, weights: Weights, data: Encoded) -> Tensor:
    with torch.inference_mode():
        return forward(spec, as_tensors(weights), torch.from_numpy(data.rows))[:, 0]
