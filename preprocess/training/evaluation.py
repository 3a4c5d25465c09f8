"""Federated evaluation: clients send counts over their own held-out rows, the server turns the sums into metrics.

Classification: confusion matrices and, per class, histograms of the predicted probability for rows of that class and of
the others; AUROC is read from the summed histograms (`BINS` equal bins: two scores in one bin count as a tie, so it
differs from the exact AUROC by at most half the share of such pairs). Regression: sums of errors and of targets.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import (
    CandidateModel,
    ErrorSums,
    EvaluatedModel,
    GlobalLoss,
    LocalLoss,
    PredictionCounts,
)
from leakledger.preprocess.models import Weights, as_tensors, class_logits, forward, summed_loss
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.divergence import finite_outputs
from leakledger.preprocess.views import ModelSpec

BINS = 1000
Candidate = TypeVar("Candidate", EvaluatedModel, CandidateModel)


def evaluate(
    fed: Federation, spec: ModelSpec, model: At[Weights] | Mapping[str, At[Weights]], test: Mapping[str, At[Encoded]]
) -> At[dict[str, float]]:
    """Metrics of the model over all clients' held-out rows, at the server: f1, accuracy, auroc; or mae, r2.

    `model`: the weights at the server, which tells them to all, or at every client (`training.base.Trained.model`).
    """
    with fed.scope("evaluate"):
        told = _told(fed, EvaluatedModel, model)
        if spec.task == "regression":
            sums = {c: fed.local(c, error_sums, spec, told[c], d) for c, d in test.items()}
            return fed.local(fed.server, regression_metrics, *fed.gather(sums, to=fed.server))
        counts = {c: fed.local(c, prediction_counts, spec, told[c], d) for c, d in test.items()}
        return fed.local(fed.server, classification_metrics, *fed.gather(counts, to=fed.server))


def validation_loss(
    fed: Federation, spec: ModelSpec, model: At[Weights] | Mapping[str, At[Weights]], data: Mapping[str, At[Encoded]]
) -> Public[float]:
    """The mean loss over all clients' validation rows, announced by the server; `model` as in `evaluate`."""
    told = _told(fed, CandidateModel, model)
    sums = {c: fed.local(c, loss_sum, spec, told[c], d) for c, d in data.items()}
    received = fed.gather(sums, to=fed.server)
    mean = fed.broadcast(fed.local(fed.server, mean_of_sums, *received))
    return fed.public(lambda mean: mean.loss, mean)


def _told(
    fed: Federation, kind: type[Candidate], model: At[Weights] | Mapping[str, At[Weights]]
) -> Mapping[str, At[Candidate] | Public[Candidate]]:
    """The model as each client has it: told by the server that holds it, or its own."""
    if isinstance(model, At) or fed.server in model:
        weights = model if isinstance(model, At) else model[fed.server]
        return dict.fromkeys(fed.clients, fed.broadcast(fed.local(fed.server, kind, weights)))
    return {c: fed.local(c, kind, model[c]) for c in fed.clients}


def loss_sum(spec: ModelSpec, model: CandidateModel, data: Encoded) -> LocalLoss:
    """0 of a client without validation rows, as one that has a single row is."""
    loss = summed_loss(spec, _outputs(spec, model.weights, data), torch.from_numpy(data.labels))
    return LocalLoss(float(loss), len(data))


def mean_of_sums(*parts: LocalLoss) -> GlobalLoss:
    """Raises ValueError where nobody validates."""
    if not any(p.rows for p in parts):
        raise ValueError(
            f"none of {len(parts)} clients has a row to validate with, since each trains on its only one; leave out "
            "patience, or give clients two rows and more"
        )
    return GlobalLoss(sum(p.loss for p in parts) / sum(p.rows for p in parts))


def prediction_counts(spec: ModelSpec, model: EvaluatedModel, data: Encoded) -> PredictionCounts:
    """`counts_of` the model's probabilities of the classes of `data`."""
    logits = class_logits(spec, _outputs(spec, model.weights, data).double())
    return counts_of(torch.softmax(logits, -1).numpy(), data.labels)


def counts_of(probabilities: NDArray[np.float64], labels: NDArray[Any]) -> PredictionCounts:
    """Of (n, classes) predicted probabilities and (n,) true classes. `confusion` (classes, classes): rows by true and
    predicted class. `scores` (classes, 2, BINS): others, own.
    """
    classes = probabilities.shape[1]
    confusion = np.zeros((classes, classes), np.int64)
    labels = labels.astype(np.int64)
    np.add.at(confusion, (labels, probabilities.argmax(1)), 1)
    bins = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    scores = np.zeros((classes, 2, BINS), np.int64)
    for k in range(classes):
        np.add.at(scores[k], ((labels == k).astype(np.int64), bins[:, k]), 1)
    return PredictionCounts(confusion, scores)


def classification_metrics(*parts: PredictionCounts) -> dict[str, float]:
    """From summed counts: F1 of the positive class (macro over classes where there are more than two), accuracy,
    AUROC. Beside them what a model that always says the commonest class gets: a model that is worth no more has learnt
    nothing.
    """
    confusion = np.sum([p.confusion for p in parts], axis=0)
    scores = np.sum([p.scores for p in parts], axis=0)
    hits = np.diag(confusion)
    f1 = 2 * hits / np.maximum(confusion.sum(0) + confusion.sum(1), 1)
    auroc = np.array([_auroc(others, own) for others, own in scores])
    rows = confusion.sum(1)  # (classes,) of each true class
    constant = np.where(np.arange(len(rows)) == rows.argmax(), 2 * rows / np.maximum(rows.sum() + rows, 1), 0.0)
    own = slice(1, None) if len(hits) == 2 else slice(None)
    return {
        "f1": float(f1[own].mean()),
        "accuracy": float(hits.sum() / max(confusion.sum(), 1)),
        "auroc": float(auroc[own].mean()),
        "majority_f1": float(constant[own].mean()),
        "majority_accuracy": float(rows.max() / max(rows.sum(), 1)),
    }


def error_sums(spec: ModelSpec, model: EvaluatedModel, data: Encoded) -> ErrorSums:
    outputs = _outputs(spec, model.weights, data)[:, 0].double().numpy()
    y = np.asarray(data.labels, np.float64)
    errors = outputs - y
    return ErrorSums(
        rows=len(y),
        absolute=float(np.abs(errors).sum()),
        squared=float((errors**2).sum()),
        target=float(y.sum()),
        target_squared=float((y**2).sum()),
    )


def regression_metrics(*parts: ErrorSums) -> dict[str, float]:
    """From summed errors: mean absolute error (in the target's unit) and R²."""
    total = {f.name: sum(getattr(p, f.name) for p in parts) for f in fields(ErrorSums)}
    spread = total["target_squared"] - total["target"] ** 2 / total["rows"]
    return {"mae": total["absolute"] / total["rows"], "r2": 1 - total["squared"] / spread if spread > 0 else 0.0}


def _auroc(others: NDArray[np.int64], own: NDArray[np.int64]) -> float:
    """Share of (own, other) pairs in which the own row scores higher, ties half; 0.5 where there is no pair."""
    pairs = int(own.sum()) * int(others.sum())
    below = np.cumsum(others) - others / 2
    return float((own * below).sum() / pairs) if pairs else 0.5


def _outputs(spec: ModelSpec, weights: Weights, data: Encoded) -> torch.Tensor:
    with torch.inference_mode():
        return finite_outputs(forward(spec, as_tensors(weights), torch.tensor(data.rows), running=True))
