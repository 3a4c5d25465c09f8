"""What TabLeak's paper draws and its text has no numbers for: noise, the size of the network, and errors of numbers.

Setting as in `tableak`, pipeline `published`, labels known, the project's attack with its defaults. `figure` is

* `noise`: accuracy over batch size under Gaussian noise of standard deviation 0.001, 0.01 and 0.1, and without (figures
  4 to 6, appendix C.1). TabLeak knows nothing of the noise; `defended` has the adversary who does.
* `network`: accuracy at 32 rows over the five networks of figure 8 (appendix C.2).

Both have the root mean square error of numbers, in standard deviations (figure 9, appendix C.3, equation 9), and beside
an accuracy its standard deviation over batches, as the curves there. Of Health Heritage, figure 7 and a part of the
others, no table can be had here.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from leakledger.audit.benchmarks.base import Options, Row, dataset_name, partial_note
from leakledger.audit.benchmarks.gradients import attack_batches, in_percent
from leakledger.audit.benchmarks.tableak import of_batches, settings
from leakledger.audit.case import cases
from leakledger.audit.pool import each

SIGMAS, SIZES = (0.0, 0.001, 0.01, 0.1), (1, 2, 4, 8, 16, 32)
NETWORKS, CROWD = ((50,), (100,), (100, 100), (200, 200, 200), (400, 400, 400)), 32
QUICK_SIGMAS, QUICK_SIZES, QUICK_NETWORKS = (0.0, 0.1), (8,), ((50,),)
METRICS = ("accuracy", "categorical_accuracy", "numeric_accuracy", "rmse")


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, strength of noise, batch size and network, as they are measured."""
    quick, seeds = options.quick, options.seeds or 1
    for source in options.data or ("fair",):
        for sigma in QUICK_SIGMAS if quick else SIGMAS:
            for size in QUICK_SIZES if quick else SIZES:
                setting = {"figure": "noise", "sigma": sigma}
                yield from measured(options, source, setting, size, seeds, sigma=sigma)
        for hidden in QUICK_NETWORKS if quick else NETWORKS:
            size = QUICK_SIZES[0] if quick else CROWD
            setting = {"figure": "network", "hidden": list(hidden)}
            yield from measured(options, source, setting, size, seeds, hidden=hidden)


def measured(
    options: Options,
    source: str,
    setting: Mapping[str, object],
    size: int,
    seeds: int,
    sigma: float = 0.0,
    hidden: Sequence[int] = (100, 100),
) -> Iterator[Row]:
    """Rows of one point of a curve, over 4 clients x `seeds` batches."""
    config = settings(options, source, "published", "known", size, seeds, sigma, hidden=hidden)
    parts = list(each(partial(attack_batches, config, "tableak"), cases(config), options.jobs))
    dataset = dataset_name(source)
    setting = {**setting, "B": size, "labels": "known", "parties": 4, "seeds": seeds}
    yield from of_batches("tableak_figures", dataset, setting, parts, METRICS)
    values = in_percent([t for trials, _ in parts for t in trials], "accuracy", 4 * seeds)
    spread, note = float(np.std(values, ddof=1)), partial_note(dataset)
    name = "accuracy, standard deviation"
    yield Row("tableak_figures", dataset, setting, name, spread, None, None, None, "%", len(values), note)
