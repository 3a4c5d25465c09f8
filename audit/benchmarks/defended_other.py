"""The posterior against other defenses than noise alone, beside TabLeak, which knows of none: as `defended` otherwise.

Batches of 8 rows. `defense`: clipping of the gradient of each row, or of the whole update, to a norm, both with noise
afterwards; pruning; quantisation. Of the last two the posterior has an approximate likelihood only.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.defended import of_attacks, one_case
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.pool import each

ROWS = 8
OTHER: dict[str, dict[str, Any]] = {
    "rows clipped at 0.5, noise 0.003": {
        "name": "example-clipping",
        "clip_norm": 0.5,
        "then": [{"name": "gaussian-noise", "sigma": 0.003}],
    },
    "update clipped at 0.2, noise 0.001": {
        "name": "client-clipping",
        "clip_norm": 0.2,
        "then": [{"name": "gaussian-noise", "sigma": 0.001}],
    },
    "half pruned": {"name": "pruning", "share": 0.5},
    "nine tenths pruned": {"name": "pruning", "share": 0.9},
    "4 bits": {"name": "quantisation", "bits": 4},
    "4 bits, stochastic": {"name": "quantisation", "bits": 4, "rounding": "stochastic"},
}
QUICK = ("rows clipped at 0.5, noise 0.003", "half pruned")


def run(options: Options) -> Iterator[Row]:
    """Rows for each table and defense, as they are measured."""
    for source in options.data or ("fair",):
        for name in QUICK if options.quick else OTHER:
            yield from measured(options, source, name, options.seeds or 1)


def measured(options: Options, source: str, name: str, seeds: int) -> Iterator[Row]:
    """Rows of one defense, over 4 clients x `seeds` batches."""
    config = defended_by(settings(options, source, "published", "known", ROWS, seeds), OTHER[name])
    parts = list(each(partial(one_case, config, diagnose=False), cases(config), options.jobs))
    setting = {"B": ROWS, "defense": name, "labels": "known", "parties": 4, "seeds": seeds}
    yield from of_attacks("defended_other", dataset_name(source), setting, parts, 4 * seeds)


def defended_by(config: Config, defense: dict[str, Any]) -> Config:
    """The same configuration with another defense."""
    return Config.model_validate({**config.in_force(), "defense": [defense]})
