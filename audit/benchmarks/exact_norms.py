"""Exact attacks on networks with a norm between each hidden layer and its activation.

The setting of `exact`. `span` gets no labels; behind batch norm it has the running statistics that clients send the
server. Behind a norm `atoms`, `spear` and `posterior` are not applicable.
"""

from collections.abc import Iterator
from typing import get_args

from leakledger.audit.benchmarks.base import Options, Row
from leakledger.audit.benchmarks.exact import measure
from leakledger.preprocess.views import Norm

SIZES, QUICK = (8, 16, 32), (8,)


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, norm and batch size, as they are measured."""
    seeds = options.seeds or (1 if options.quick else 5)
    for source in options.data or ("fair",):
        for norm in get_args(Norm):
            for size in QUICK if options.quick else SIZES:
                yield from measure(options, source, "span", size, seeds, norm=norm)
