"""TabLeak against FedSGD gradients of an untrained 100-100 network, labels known or recovered: table 6 to 8.

Four parties hold a table IID; every client sends the gradient of one batch at the fresh network; each seed draws
another network and another partition, so clusters are client x seed. Two pipelines: `published` standardises every
column, one-hot columns too, by the mean and deviation over all parties, with the bounds of numeric features known (the
paper's setting); `0/1` leaves the one-hot columns as they are. Both are agreed upon by `server-dictionary` and
`federated-zscore`, so that the server, who attacks, sees no row before the gradients. The prior-only baseline is drawn
per row and matched like the attack. The paper's own random baseline draws one number per numeric feature for a whole
batch; it is lower, and not set beside it.

`attack` says which attack a row is of: `default`, the project's, or `published`, the paper's to the letter
(`AS_PUBLISHED`), on the same batches from the same starting points.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from leakledger.attacks.gradient.tableak.tableak import AS_PUBLISHED
from leakledger.audit.benchmarks.base import Options, Row, dataset_name, partial_note
from leakledger.audit.benchmarks.gradients import attack_batches, figure
from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.pool import each
from leakledger.audit.records import Trial

PUBLISHED: dict[str, dict[str, dict[int, float]]] = {  # mean accuracy in %, 50 batches
    "known": {
        "adult": {1: 99.4, 2: 99.2, 4: 98.0, 8: 95.1, 16: 89.5, 32: 77.6, 64: 71.2, 128: 68.8},
        "german": {1: 100.0, 2: 100.0, 4: 99.9, 8: 99.7, 16: 95.9, 32: 83.6, 64: 73.0, 128: 71.3},
        "lawschool": {1: 100.0, 2: 100.0, 4: 100.0, 8: 98.7, 16: 94.8, 32: 84.8, 64: 78.2, 128: 77.3},
    },
    "recovered": {
        "adult": {1: 99.4, 2: 98.2, 4: 89.5, 8: 86.9, 16: 82.4, 32: 75.3, 64: 70.4, 128: 68.7},
        "german": {1: 100.0, 2: 100.0, 4: 99.6, 8: 97.2, 16: 91.7, 32: 81.5, 64: 72.9, 128: 71.1},
        "lawschool": {1: 100.0, 2: 99.1, 4: 99.6, 8: 95.9, 16: 91.2, 32: 83.2, 64: 77.2, 128: 77.1},
    },
}
METRICS = ("accuracy", "exact_rows", "categorical_accuracy", "numeric_accuracy")
AGREED: dict[str, object] = {"encoder": "server-dictionary", "scaler": "federated-zscore"}
PIPELINES: dict[str, dict[str, object]] = {
    "published": {**AGREED, "columns": "all", "ddof": 1},
    "0/1": {**AGREED, "columns": "numeric"},
}
ATTACKS: dict[str, Mapping[str, object]] = {"default": {}, "published": AS_PUBLISHED}
SMALL, LARGE = (1, 2, 4, 8, 16, 32), (64, 128)  # large batches are measured with half as many seeds
VARIANTS = (
    ("published", "known", "default", SMALL),
    ("published", "recovered", "default", SMALL),
    ("published", "known", "default", LARGE),
    ("0/1", "known", "default", (8, 16, 32)),
    ("published", "recovered", "default", LARGE),
    ("published", "known", "published", (8, 16, 32, 64)),
)
QUICK = (("published", "known", "default", (8, 16)),)


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, pipeline, label knowledge, attack and batch size, as they are measured."""
    for source in options.data or ("fair",):
        for pipeline, labels, attack, sizes in QUICK if options.quick else VARIANTS:
            for size in sizes:
                seeds = options.seeds or (1 if options.quick or size in LARGE else 2)
                yield from measure(options, source, pipeline, labels, size, seeds, attack)


def measure(
    options: Options, source: str, pipeline: str, labels: str, size: int, seeds: int, attack: str = "default"
) -> Iterator[Row]:
    """Rows of one batch size, over 4 clients x `seeds` batches."""
    config = settings(options, source, pipeline, labels, size, seeds, attack=ATTACKS[attack])
    measured = list(each(partial(attack_batches, config, "tableak"), cases(config), options.jobs))
    dataset = dataset_name(source)
    published = PUBLISHED[labels].get(dataset, {}).get(size) if pipeline == "published" else None
    setting = {"B": size, "pipeline": pipeline, "labels": labels, "attack": attack, "parties": 4, "seeds": seeds}
    yield from of_batches("tableak", dataset, setting, measured, METRICS, published)


def of_batches(
    benchmark: str,
    dataset: str,
    setting: Mapping[str, object],
    measured: Sequence[tuple[list[Trial], float]],
    metrics: Sequence[str],
    published: float | None = None,
) -> Iterator[Row]:
    """Rows of each metric, of the prior-only guess in it, and of the seconds a batch, from what `attack_batches` has
    of each seed; `published` is the accuracy.
    """
    trials, note = [t for part, _ in measured for t in part], partial_note(dataset)
    for metric in metrics:
        unit, times = ("σ", 1.0) if metric == "rmse" else ("%", 100.0)
        values = [(times * (t.value or 0.0), times * (t.baseline or 0.0)) for t in trials if t.metric == metric]
        if not values:
            continue
        known = published if metric == "accuracy" else None
        yield figure(benchmark, dataset, setting, metric, [v for v, _ in values], known, unit, note)
        yield figure(benchmark, dataset, setting, f"{metric}, prior only", [b for _, b in values], None, unit, note)
    yield figure(benchmark, dataset, setting, "seconds per batch", [s for _, s in measured], None, "s", "")


def settings(
    options: Options,
    source: str,
    pipeline: str,
    labels: str,
    size: int,
    seeds: int,
    sigma: float = 0.0,
    attack: Mapping[str, object] = ATTACKS["default"],
    hidden: Sequence[int] = (100, 100),
    parties: int = 4,
) -> Config:
    """One batch of `size` rows from each client, for each of `seeds` seeds; `sigma`: noise on the gradients; `attack`:
    options of the attack that are not the default ones; `hidden`: widths of the network's layers.
    """
    return Config.model_validate(
        {
            "defense": {"name": "gaussian-noise", "sigma": sigma} if sigma else {"name": "none"},
            "data": {"source": source, "schema": options.schema, "missing": "drop"},
            "partition": {"parties": parties},
            "preprocessing": PIPELINES[pipeline],
            "training": {"algorithm": "fedsgd", "rounds": 1, "batch_size": size},
            "model": {"hidden": list(hidden)},
            "attacks": {"use": ["tableak"], "bounds": "known", "labels": labels, "tableak": attack},
            "audit": {"seeds": list(range(seeds)), "device": options.device},
        }
    )
