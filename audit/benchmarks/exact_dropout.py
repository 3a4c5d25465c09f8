"""Exact attacks on networks that leave hidden units out in training: rows by the first layer alone.

The setting of `exact`, with dropout 0.2. Each client draws the masks for itself, so that no gradient can be computed
again from guessed rows; `span` and `linear_layer` ask for none. No attack is given labels.
"""

from collections.abc import Iterator

from leakledger.audit.benchmarks.base import Options, Row
from leakledger.audit.benchmarks.exact import measure

DROPOUT = 0.2
SIZES, QUICK = (8, 16, 32), (8,)


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, attack and batch size, as they are measured."""
    seeds = options.seeds or (1 if options.quick else 5)
    for source in options.data or ("fair",):
        for attack in ("span", "linear_layer"):
            for size in QUICK if options.quick else SIZES:
                yield from measure(options, source, attack, size, seeds, dropout=DROPOUT)
