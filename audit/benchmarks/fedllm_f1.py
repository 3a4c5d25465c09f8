"""FedLLM-Align: F1 of the positive class beside tables 4, 5 and 6 of the paper.

Parties get equal random shares of the rows, and schemas as in section 4.2. `fedllm-align` is as published, but for the
encoder: `random` is a control that has learnt nothing, and DistilBERT's weights are not at hand (`fedllm_f1_minilm` has
MiniLM in their stead, `fedllm_overlap` has table 8). All others get z-scores and one-hot columns of all features:
`homogeneous` is FedAvg of the same head, `fedprox` has mu 0.01, `scaffold`, `clustered`, `mutual information` and
`fedxgboost` say in their files how they are read. With three clients only, `fedavg-sgd` is SCAFFOLD without control
variates, and `pooled` trains the head on all rows in one place.

F1 is said to be that of the positive class (section 4.4). Beside it stand what the published figures could be instead:
the mean of both classes' F1 weighted by rows or not (macro), accuracy (micro F1), and what saying "no" of everyone
gets. `f1, best threshold` is the positive class's under the threshold that is best for the held-out rows themselves: no
choice of a threshold gets more. `f1, least client`, `f1, best client` and `f1, clients' deviation` are over the parties
of a run, each judged on its own held-out rows: so table 6 is read, which says "cross-client".
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.benchmarks.base import Options, Row, by_setting, dataset_name, table_line, with_interval
from leakledger.audit.benchmarks.fedllm_data import divided
from leakledger.audit.benchmarks.fedllm_methods import METHODS
from leakledger.audit.benchmarks.fedllm_task import HeldOut, Task
from leakledger.audit.benchmarks.gradients import figure
from leakledger.audit.federate_alignment import weighted_f1
from leakledger.audit.pool import each
from leakledger.preprocess.alignment.fedllm_align import PUBLISHED
from leakledger.preprocess.alignment.parties import OVERLAP
from leakledger.preprocess.views import TrainingSpec

PUBLISHED_F1: Mapping[str, Mapping[str, Mapping[int, float]]] = {  # tables 4 and 5, by clients
    "framingham": {
        "fedllm-align": {3: 0.84, 5: 0.81, 10: 0.78},
        "homogeneous": {3: 0.64, 5: 0.62, 10: 0.59},
        "fedxgboost": {3: 0.14, 5: 0.11, 10: 0.08},
        "mutual information": {3: 0.61, 5: 0.54, 10: 0.47},
        "fedprox": {3: 0.66, 5: 0.61, 10: 0.56},
        "scaffold": {3: 0.68, 5: 0.63, 10: 0.58},
        "clustered": {3: 0.59, 5: 0.52, 10: 0.44},
    },
    "bank_churn": {
        "fedllm-align": {3: 0.80, 5: 0.77, 10: 0.73},
        "homogeneous": {3: 0.70, 5: 0.67, 10: 0.62},
        "fedxgboost": {3: 0.62, 5: 0.60, 10: 0.57},
        "mutual information": {3: 0.68, 5: 0.64, 10: 0.59},
        "fedprox": {3: 0.71, 5: 0.68, 10: 0.63},
        "scaffold": {3: 0.72, 5: 0.69, 10: 0.64},
        "clustered": {3: 0.66, 5: 0.61, 10: 0.55},
    },
}
STRESS: Mapping[str, Mapping[float, float]] = {  # table 8, by overlap
    "fedllm-align": {0.8: 0.84, 0.6: 0.82, 0.4: 0.79, 0.2: 0.76},
    "homogeneous": {0.8: 0.72, 0.6: 0.65, 0.4: 0.51, 0.2: 0.32},
    "fedxgboost": {0.8: 0.35, 0.6: 0.18, 0.4: 0.09, 0.2: 0.04},
    "mutual information": {0.8: 0.68, 0.6: 0.55, 0.4: 0.38, 0.2: 0.21},
}
STRESSED = "framingham"  # table 8 does not say of which data it is
QUICK = TrainingSpec("fedavg", rounds=3, learning_rate=1e-3, batch_size=32, local_epochs=2, optimizer="adam")
CONTROLS = "fedavg-sgd", "pooled"  # in no table of the paper: with three clients only


def run(options: Options) -> Iterator[Row]:
    """Rows for each table and number of clients, as they are measured."""
    yield from measure(options, ["fedllm-align, random", *(m for m in METHODS if m != "fedllm-align")])


def measure(options: Options, labels: Sequence[str]) -> Iterator[Row]:
    """Rows of these methods, `label` with the encoder, in the cells of tables 4 and 5."""
    for source in options.data or ("fair",):
        for clients in (3,) if options.quick else OVERLAP:
            chosen = labels if clients == 3 else [label for label in labels if label not in CONTROLS]
            yield from quality(options, source, clients, OVERLAP[clients], "all", chosen)


def quality(
    options: Options, source: str, clients: int, overlap: float, features: str, labels: Sequence[str]
) -> Iterator[Row]:
    """Every metric of every method over all seeds: shares, schemas and networks differ by seed."""
    dataset, seeds = dataset_name(source), options.seeds or (1 if options.quick else 5)
    for label in labels:
        work = partial(one_seed, options, source, clients, overlap, features, label)
        measured = [values for _, values in sorted(each(work, range(seeds), options.jobs), key=lambda pair: pair[0])]
        setting = {"method": label, "clients": clients, "overlap": overlap, "features": features}
        for metric in measured[0]:
            known = published(dataset, label, clients, overlap, features) if metric == "f1" else None
            yield figure("fedllm_f1", dataset, setting, metric, [values[metric] for values in measured], known, "")


def one_seed(
    options: Options, source: str, clients: int, overlap: float, features: str, label: str, seed: int
) -> tuple[int, dict[str, float]]:
    """The seed, and the metrics of one method on the division of that seed; `label` names the encoder too."""
    method, _, encoder = label.partition(", ")
    training = QUICK if options.quick else PUBLISHED
    task = Task(divided(options, source, clients, overlap, seed), training, features == "common", seed)
    held_out = METHODS[method](task, encoder)
    models = {"models": float(held_out.models)} if method == "clustered" else {}
    return seed, {**scores(held_out), **models}


def published(dataset: str, label: str, clients: int, overlap: float, features: str) -> float | None:
    """The figure of table 4 or 5, or, for common features, of table 8."""
    method, _, _ = label.partition(", ")
    if features == "common":
        return STRESS.get(method, {}).get(overlap) if dataset == STRESSED else None
    return PUBLISHED_F1.get(dataset, {}).get(method, {}).get(clients)


def scores(held_out: HeldOut) -> dict[str, float]:
    """What F1 may mean: of the positive class, under the best threshold, weighted by rows, macro, micro (accuracy); and
    of saying "no" of everyone.
    """
    confusion = held_out.confusion
    nothing = np.zeros_like(confusion)
    nothing[:, 0] = confusion.sum(1)
    of_class = f1_of(confusion)
    own = np.array([f1_of(c)[1] for c in held_out.clients])
    return {
        "f1": float(of_class[1]),
        **(across(own) if len(own) > 1 else {}),
        "f1, best threshold": best_f1(held_out),
        "weighted f1": weighted_f1(confusion),
        "macro f1": float(of_class.mean()),
        "accuracy": _accuracy(confusion),
        "weighted f1, all no": weighted_f1(nothing),
        "accuracy, all no": _accuracy(nothing),
    }


def across(own: NDArray[np.float64]) -> dict[str, float]:
    """The least, the best and the standard deviation of the clients' F1."""
    return {
        "f1, least client": float(own.min()),
        "f1, best client": float(own.max()),
        "f1, clients' deviation": float(own.std()),
    }


def f1_of(confusion: NDArray[np.int64]) -> NDArray[np.float64]:
    """(classes,) the F1 of each class."""
    return np.asarray(2 * np.diag(confusion) / np.maximum(confusion.sum(0) + confusion.sum(1), 1))


def best_f1(held_out: HeldOut) -> float:
    """The largest F1 of the positive class over thresholds on its probability, to a thousandth."""
    others, own = held_out.scores[1]
    above, false = np.cumsum(own[::-1]), np.cumsum(others[::-1])
    return float((2 * above / np.maximum(above + false + own.sum(), 1)).max())


def markdown(rows: Sequence[Row]) -> str:
    """A table for each dataset: methods by clients and overlap. A cell has the published F1, ours of the positive class
    with its interval, the same under the best threshold, and both classes' weighted by rows.
    """
    return "\n\n".join(_table(d, [r for r in rows if r.dataset == d]) for d in dict.fromkeys(r.dataset for r in rows))


def _table(dataset: str, rows: Sequence[Row]) -> str:
    found = by_setting(rows, "method", "clients", "overlap")
    columns = list(dict.fromkeys((clients, overlap) for _, _, clients, overlap in found))
    lines = [[dataset, *(f"{clients} clients, overlap {100 * overlap:.0f} %" for clients, overlap in columns)]]
    lines.append(["---"] * len(lines[0]))
    for method in dict.fromkeys(r.setting["method"] for r in rows):
        lines.append([method, *(_cell(found.get((dataset, method, *column), {})) for column in columns)])
    return "\n".join(table_line(line) for line in lines)


def _cell(of: Mapping[str, Row]) -> str:
    if "weighted f1" not in of:  # not measured, or interrupted within
        return "–"
    known = "–" if of["f1"].published is None else f"{of['f1'].published:.2f}"
    return "; ".join([known, *(with_interval(of[metric], 2) for metric in ("f1", "f1, best threshold", "weighted f1"))])


def _accuracy(confusion: NDArray[np.int64]) -> float:
    return float(np.diag(confusion).sum() / max(confusion.sum(), 1))
