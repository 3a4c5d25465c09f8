"""The exact attack `span` against FedSGD gradients of an untrained 100-100 network: whole rows, and what it certifies.

Setting as in `tableak`, pipeline `published`, batches without replacement; no labels are granted. A batch in which the
attack abstains counts as recovering nothing. `published` is TabLeak's mean accuracy in cells at that size, the best
figure of that paper: another metric, set beside it for orientation.
"""

from collections.abc import Iterator
from functools import partial

from audit.benchmarks.base import Options, Row
from audit.benchmarks.gradients import attack_batches, figure
from audit.benchmarks.tableak import PUBLISHED, settings
from audit.case import cases, source_name
from audit.pool import each


def run(options: Options) -> Iterator[Row]:
    """Rows for each table and batch size, as they are measured."""
    seeds = options.seeds or (1 if options.quick else 5)
    for source in options.data or ("fair",):
        for size in (8,) if options.quick else (8, 16, 24, 32):
            yield from measure(options, source, size, seeds)


def measure(options: Options, source: str, size: int, seeds: int) -> Iterator[Row]:
    """Rows of one batch size, over 4 clients x `seeds` batches."""
    config = settings(options, source, "published", "recovered", size, seeds)
    measured = list(each(partial(attack_batches, config, "span"), cases(config), options.jobs))
    trials = [t for part, _ in measured for t in part]
    batches = 4 * seeds
    dataset = source_name(source).split(".")[0]
    setting = {"B": size, "pipeline": "published", "labels": "none", "parties": 4, "seeds": seeds}

    def over_batches(metric: str) -> list[float]:
        found = [100 * (t.value or 0.0) for t in trials if t.metric == metric]
        return found + [0.0] * (batches - len(found))

    published = PUBLISHED["known"].get(dataset, {}).get(size)
    for metric in ("identical_rows", "verified_rows", "false_verified"):
        yield figure("exact", dataset, setting, metric, over_batches(metric), None, "%")
    yield figure("exact", dataset, setting, "accuracy", over_batches("accuracy"), published, "%")
    yield figure("exact", dataset, setting, "seconds per batch", [s for _, s in measured], None, "s")
