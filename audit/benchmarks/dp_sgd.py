"""DP-SGD with every attack's enemy in one place: what `posterior` gets of whole rows and cells, beside its bound.

Setting as in `defended`: fresh 100-100 network, pipeline `published`, labels known, one round; each row's gradient is
clipped to C = 1, and noise of `noise_multiplier` C / B is added to each entry of their mean. `posterior` knows the
likelihood of that. *bound* is what no adversary can exceed, whatever it knows but the rows that were drawn
(`audit.scoring.bounds`), the mean over the same batches; of cells it exists in batches of one row. *prior only* is the
best guess without a message. Clusters are client x seed.

A *bound* below the measured interval fails the benchmark's own control: `above the bound` counts such figures. It is
given where so many batches could fail it, which is where the interval of an attack that gets everything is above.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from leakledger.audit.benchmarks.base import Options, Row, by_setting, dataset_name, plain_table, with_interval
from leakledger.audit.benchmarks.gradients import attack_batches, figure
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.bounds import mean_bound
from leakledger.audit.case import cases
from leakledger.audit.clusters import mean_interval
from leakledger.audit.config import Config
from leakledger.audit.pool import each
from leakledger.audit.records import Trial, at_most

CLIP_NORM = 1.0
MULTIPLIERS, QUICK_MULTIPLIERS = (0.05, 0.1, 0.2, 0.5, 1.0), (0.1, 1.0)
SIZES, QUICK_SIZES = (1, 8, 32), (1, 8)
PARTIES = {1: 4, 8: 2, 32: 2}  # batches of a cell: one of 32 rows takes minutes
ATTACK = "posterior"
METRICS = ("exact_rows", "accuracy")


def run(options: Options) -> Iterator[Row]:
    """Rows for each batch size, table and noise multiplier, as they are measured."""
    for size in QUICK_SIZES if options.quick else SIZES:
        for source in options.data or ("fair",):
            for multiplier in QUICK_MULTIPLIERS if options.quick else MULTIPLIERS:
                yield from measured(options, source, size, multiplier, options.seeds or 1)


def measured(options: Options, source: str, size: int, multiplier: float, seeds: int) -> Iterator[Row]:
    """Rows of one batch size and multiplier, over clients x `seeds`."""
    config = dp_sgd(settings(options, source, "published", "known", size, seeds), multiplier, size)
    parts = list(each(partial(attack_batches, config, ATTACK), cases(config), options.jobs))
    found = [(seed, t) for seed, (own, _) in enumerate(parts) for t in own]
    setting = {
        "B": size,
        "noise multiplier": multiplier,
        "C": CLIP_NORM,
        "labels": "known",
        "parties": PARTIES[size],
        "seeds": seeds,
    }
    dataset = dataset_name(source)
    for metric in METRICS:
        yield from beside(dataset, setting, metric, [(seed, t) for seed, t in found if t.metric == metric])
    yield figure("dp_sgd", dataset, setting, "seconds per batch", [s for _, s in parts], None, "s")


def dp_sgd(config: Config, multiplier: float, size: int) -> Config:
    """The same configuration under DP-SGD with such noise."""
    noise = {"name": "gaussian-noise", "sigma": multiplier * CLIP_NORM / size}
    defense = {"name": "example-clipping", "clip_norm": CLIP_NORM, "then": [noise]}
    plain = {**config.in_force(), "defense": [defense]}
    plain["partition"] = [{"kind": "iid", "parties": PARTIES[size]}]
    plain["attacks"] = {"use": [ATTACK], "bounds": "known", "labels": "known"}
    return Config.model_validate(plain)


def beside(dataset: str, setting: Mapping[str, Any], metric: str, found: Sequence[tuple[int, Trial]]) -> Iterator[Row]:
    """What was got, the prior's and the bound of one metric; the share is cut to what a share can be."""
    trials = [t for _, t in found]
    if not trials:
        return
    values, seeds = [t.value or 0.0 for t in trials], [seed for seed, _ in found]
    limits, of_everything = (mean_interval(x, seeds, (0.0, 1.0)) for x in (values, [1.0] * len(values)))
    low, high = (100 * limits[0], 100 * limits[1]) if limits else (None, None)
    most, mean = mean_bound(trials), 100 * sum(values) / len(values)

    def row(name: str, value: float, ends: tuple[float | None, float | None] = (None, None)) -> Row:
        return Row("dp_sgd", dataset, setting, f"{metric}{name}", value, *ends, None, "%", len(trials))

    yield row("", mean, (low, high))
    yield row(", prior only", 100 * sum(t.baseline or 0.0 for t in trials) / len(trials))
    if most is not None:
        yield row(", bound", 100 * most)
    if most is not None and of_everything and of_everything[0] > most:
        yield row(", above the bound", 100.0 * (low is not None and low > 100 * most))


def markdown(rows: Sequence[Row]) -> str:
    """One line for each table, batch size and multiplier."""
    cells = by_setting(rows, "B", "noise multiplier")
    return plain_table([_line(name, n, noise, found) for (name, n, noise), found in cells.items()])


def _line(dataset: str, size: int, multiplier: float, found: Mapping[str, Row]) -> dict[str, str]:
    def said(metric: str) -> str:
        row = found.get(metric)
        return "none" if row is None else with_interval(row, 1, 0)

    def bound(metric: str) -> str:
        row = found.get(f"{metric}, bound")
        return "none" if row is None else at_most(row.measured, 1)

    line = {"table": dataset, "rows": str(size), "noise multiplier": f"{multiplier:g}"}
    for metric, words in (("exact_rows", "whole rows"), ("accuracy", "cells")):
        line |= {words: said(metric), f"{words}, prior only": said(f"{metric}, prior only")}
        line |= {f"{words}, bound": bound(metric)}
    return line
