"""Undefended batches that are crowded: the portfolio beside TabLeak and the best guess.

Setting as in `tableak`, pipeline `published`, labels known, an untrained 100-100 network with ReLU. On Adult its
gradients give up to about 90 rows away exactly; as many rows as a layer has neurons, 100, leave exact attacks nothing.
What these leave, TabLeak guesses, and from there, and from rows that the row space supports, the posterior goes on.
*Prior only* is the best guess of an adversary who knows the whole population and sees no update. Clusters are client x
seed.
"""

from collections.abc import Iterator
from functools import partial

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.defended import of_attacks, one_case
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.case import cases
from leakledger.audit.pool import each

SIZES, QUICK = (48, 64, 80, 96, 128), (48,)
ATTACKS = "portfolio", "tableak"


def run(options: Options) -> Iterator[Row]:
    """Rows for each table and batch size, as they are measured."""
    for source in options.data or ("fair",):
        for size in QUICK if options.quick else SIZES:
            yield from measured(options, source, size, options.seeds or 1)


def measured(options: Options, source: str, size: int, seeds: int) -> Iterator[Row]:
    """Rows of one batch size, over 4 clients x `seeds` batches."""
    config = settings(options, source, "published", "known", size, seeds)
    work = partial(one_case, config, attacks=ATTACKS)
    parts = list(each(work, cases(config), options.jobs))
    setting = {"B": size, "labels": "known", "parties": 4, "seeds": seeds}
    yield from of_attacks("crowded", dataset_name(source), setting, parts, 4 * seeds)
