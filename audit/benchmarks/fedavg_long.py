"""The cells of `fedavg` with 5 and 10 epochs, up to 40 local steps; quick: 1 batch, 5 epochs.

Setting as in `fedavg`.
"""

from collections.abc import Iterator

from leakledger.audit.benchmarks.base import Options, Row
from leakledger.audit.benchmarks.fedavg import LONG, measure_cells


def run(options: Options) -> Iterator[Row]:
    """Rows for each table and cell, as they are measured."""
    yield from measure_cells(options, LONG[:1] if options.quick else LONG)
