"""FedLLM-Align: F1 beside tables 4, 5 and 8 of the paper, and what one gradient of its head tells of records.

F1. Parties get equal random shares of the rows and schemas as in section 4.2. `fedllm-align` as published, but for the
encoder: `random` is a control that has learnt nothing, `minilm` stands in where it is installed, and DistilBERT's
weights are not at hand. `homogeneous` and `fedprox` (mu 0.01) train the same head on z-scores and one-hot columns of
*all* features, as tables 4 and 5 have it, or of the common ones (`features`: common), as table 8; `pooled` is the first
without a federation. The paper does not say of which class its F1 is: beside that of the positive class stands the mean
over rows (weighted F1), and what saying "no" of everyone gets. FedXGBoost, SCAFFOLD, clustered and mutual-information
learning are not here.

Attributes (`fedllm_attack`): the share of the attributes of a client's batch that `attribute_search` has right from one
recorded SGD gradient. The published training, ten local epochs of Adam, sends no gradient: there the attack is not
applicable, in so many batches, which is no evidence of safety.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.fedllm_attack import Setting, attack
from leakledger.audit.benchmarks.fedllm_data import divided
from leakledger.audit.benchmarks.fedllm_f1 import METHODS, Task, confusion_of
from leakledger.audit.benchmarks.gradients import figure
from leakledger.audit.federate_alignment import weighted_f1
from leakledger.preprocess.alignment.fedllm_align import PUBLISHED
from leakledger.preprocess.alignment.parties import OVERLAP
from leakledger.preprocess.alignment.text_encoder import MINILM
from leakledger.preprocess.views import TrainingSpec

PUBLISHED_F1: Mapping[str, Mapping[str, Mapping[int, float]]] = {  # tables 4 and 5
    "framingham": {
        "fedllm-align": {3: 0.84, 5: 0.81, 10: 0.78},
        "homogeneous": {3: 0.64, 5: 0.62, 10: 0.59},
        "fedprox": {3: 0.66, 5: 0.61, 10: 0.56},
    },
    "bank_churn": {
        "fedllm-align": {3: 0.80, 5: 0.77, 10: 0.73},
        "homogeneous": {3: 0.70, 5: 0.67, 10: 0.62},
        "fedprox": {3: 0.71, 5: 0.68, 10: 0.63},
    },
}
STRESS = {0.8: (0.84, 0.72), 0.6: (0.82, 0.65), 0.4: (0.79, 0.51), 0.2: (0.76, 0.32)}  # table 8: aligned, homogeneous
QUICK = TrainingSpec("fedavg", rounds=3, learning_rate=1e-3, batch_size=32, local_epochs=2, optimizer="adam")


def run(options: Options) -> Iterator[Row]:
    """Rows of attacks, then of F1, for each table."""
    encoders = ["random", *(["minilm"] if find_spec(MINILM) and not options.quick else [])]
    seeds = options.seeds or (1 if options.quick else 5)
    for source in options.data or ("fair",):
        for setting in attack_settings(encoders, options.quick):
            yield from attack(options, source, setting, seeds)
        for clients in (3,) if options.quick else OVERLAP:
            yield from quality(options, source, clients, OVERLAP[clients], "all", encoders, seeds)
        for overlap in () if options.quick else STRESS:
            yield from quality(options, source, 3, overlap, "common", encoders, seeds)


def attack_settings(encoders: Sequence[str], quick: bool) -> list[Setting]:
    """Known and unknown schema, with dropout and without, 8 and 32 rows."""
    cells = QUICK_CELLS if quick else CELLS
    gradients = [Setting(e, b, known, drop) for e in encoders for b, known, drop in cells]
    return [*gradients, *(Setting(e, 32, published=True) for e in encoders)]


QUICK_CELLS = (8, True, 0.2), (8, True, 0.0)  # rows, whether the schema is known, dropout
CELLS = (*QUICK_CELLS, (8, False, 0.2), (32, True, 0.2), (32, False, 0.2))


def quality(
    options: Options, source: str, clients: int, overlap: float, features: str, encoders: Sequence[str], seeds: int
) -> Iterator[Row]:
    """F1 of every method over all seeds: shares, schemas and networks differ by seed."""
    dataset, training = dataset_name(source), QUICK if options.quick else PUBLISHED
    labels = [f"fedllm-align, {e}" for e in encoders] + [m for m in METHODS if m != "fedllm-align"]
    for label in labels:
        method, _, encoder = label.partition(", ")
        measured: dict[str, list[float]] = {"f1": [], "weighted f1": [], "weighted f1, all no": []}
        for seed in range(seeds):
            task = Task(divided(options, source, clients, overlap, seed), training, features == "common", seed)
            for metric, value in scores(confusion_of(METHODS[method], task, encoder)).items():
                measured[metric].append(value)
        setting = {"method": label, "clients": clients, "overlap": overlap, "features": features}
        for metric, values in measured.items():
            known = published(dataset, method, clients, overlap, features) if metric == "f1" else None
            yield figure("fedllm", dataset, setting, metric, values, known, "")


def published(dataset: str, method: str, clients: int, overlap: float, features: str) -> float | None:
    """The figure of table 4 or 5, or of table 8, which does not say of which data it is: taken to be Framingham."""
    if features == "common":
        place = {"fedllm-align": 0, "homogeneous": 1}.get(method)
        return None if place is None or dataset != "framingham" else STRESS[overlap][place]
    return PUBLISHED_F1.get(dataset, {}).get(method, {}).get(clients)


def scores(confusion: NDArray[np.int64]) -> dict[str, float]:
    """From a confusion matrix (true, predicted): F1 of the positive class, weighted by rows, and of saying "no"."""
    nothing = np.zeros_like(confusion)
    nothing[:, 0] = confusion.sum(1)
    positive = 2 * confusion[1, 1] / max(confusion[1].sum() + confusion[:, 1].sum(), 1)
    figures = {"weighted f1": weighted_f1(confusion), "weighted f1, all no": weighted_f1(nothing)}
    return {"f1": float(positive), **figures}
