"""Exact attacks on networks of any activation, and on tables of which rows are hard to tell apart: whole rows.

The setting of `exact`, of which this is the other half: `atoms` on five activations, every column standardised; and the
portfolio on ReLU behind numbers scaled by their range, and on rows that are nearly alike. No attack is given labels, so
that what exact attacks do not solve counts as nothing.

Tables: those named; without any, made-up ones of skewed whole amounts (`certificates.amounts`) behind
`federated-minmax`, and of twins: rows of 60 kinds that differ in one number by one, or a few, of which two in a
batch of 16 are alike.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from leakledger.audit.benchmarks.base import Options, Row
from leakledger.audit.benchmarks.certificates import TABLE, amounts, written
from leakledger.audit.benchmarks.exact import measure

ACTIVATIONS = ("tanh", "sigmoid", "gelu", "leaky-relu", "relu")
SIZES, QUICK = (8, 16, 24, 32, 48, 64, 80), (8,)
MADE_UP = 3  # tables of each kind
KINDS, APART = 60, 4  # of twins, and by how much one of their numbers differs at most


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, activation and batch size, then for those that are hard, as they are measured."""
    seeds = options.seeds or (1 if options.quick else 5)
    for source in options.data:
        for activation in ACTIVATIONS:
            for size in QUICK if options.quick else SIZES:
                yield from measure(options, source, "atoms", size, seeds, activation=activation)
    if options.data:
        return
    with TemporaryDirectory(prefix="leakledger-") as folder:
        tables = 1 if options.quick else MADE_UP
        ranges = [(s, "federated-minmax") for s in written(Path(folder), tables)]
        alike = [(s, "") for s in written(Path(folder), tables, "twins", twins)]
        for source, scaler in ranges + alike:
            for size in QUICK if options.quick else (16, 32):
                for activation in ("relu", "tanh"):
                    yield from measure(
                        options,
                        source,
                        "portfolio",
                        size,
                        options.seeds or (1 if options.quick else 2),
                        activation=activation,
                        scaler=scaler,
                        labels="none",
                    )


def twins(seed: int, rows: int = TABLE) -> pd.DataFrame:
    """A table of rows of a few kinds, each of which differs from its kind in one whole number, by little."""
    coins = np.random.default_rng(seed)
    table = amounts(seed, rows).iloc[coins.integers(0, KINDS, rows)].reset_index(drop=True)
    numbers = [c for c in table if str(c).startswith(("amount", "count"))]
    chosen = coins.integers(0, len(numbers), rows)
    for k, column in enumerate(numbers):
        table[column] += (chosen == k) * coins.integers(1, APART + 1, rows)
    return table
