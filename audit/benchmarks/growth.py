"""How the cost of encoders grows with parties and with values per feature: messages, bytes and time.

Two series, of which each changes one thing. *Parties*: 4 to 20 of them hold made-up tables of four features with 50
values each, or, where a table is named, that one under the `divergent` partition. *Values*: four parties, one feature
of 100 to 5,000 values. In made-up tables each party holds a random half of a feature's values, so that two parties
share half of theirs. What is measured is what `encoders_cost` measures, so that the figures of both compare: one run of
the protocol in one process, in processor time of all parties together. Every encoder goes the whole way.

Published are counts of messages alone (`MESSAGES`): table 4 of the paper ends at ten parties, and has one table.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.encoders_cost import measure, read_whole
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS

PARTIES, VALUES = (4, 6, 10, 14, 20), (100, 300, 1_000, 2_500, 5_000)
FEATURES, FEW_VALUES = 4, 50  # of the made-up tables that more and more parties hold
MADE_UP = "made up"


def run(options: Options) -> Iterator[Row]:
    """Rows of every encoder: with more and more parties for each table, then with more and more values."""
    for source in options.data or (MADE_UP,):
        yield from parties(options, source)
    yield from values(options)


def parties(options: Options, source: str) -> Iterator[Row]:
    """Costs at each number of parties."""
    whole = None if source == MADE_UP else read_whole(options, source)
    for n in _chosen(PARTIES, options):
        if whole is None:
            tables: Mapping[str, Table] = made_up(n, FEW_VALUES, FEATURES)
        else:
            tables = partition(whole, "divergent", n, np.random.default_rng(0))
        yield from _every_encoder(dataset_name(source), tables, {"series": "parties", "parties": n})


def values(options: Options) -> Iterator[Row]:
    """Costs of four parties at each number of values of one feature."""
    for k in _chosen(VALUES, options):
        setting = {"series": "values", "parties": PARTIES[0], "values per feature": k}
        yield from _every_encoder(MADE_UP, made_up(PARTIES[0], k, 1), setting)


def _chosen(steps: tuple[int, ...], options: Options) -> tuple[int, ...]:
    return steps[:3:2] if options.quick else steps


def _every_encoder(dataset: str, tables: Mapping[str, Table], setting: Mapping[str, object]) -> Iterator[Row]:
    for encoder in ENCODERS:
        yield from measure("growth", dataset, encoder, tables, setting, None)


def made_up(parties: int, values: int, features: int) -> dict[str, Table]:
    """Tables in which each party holds each of half of a feature's values twice."""
    coins = np.random.default_rng(0)
    names = tuple(f"feature {k}" for k in range(features))
    schema = Schema("target", names, (), "binary", ("no", "yes"))
    words = np.array([f"value {''.join(chr(97 + int(d)) for d in str(v))}" for v in range(values)])
    held = max(values // 2, 1)

    def table(name: str) -> Table:
        frame = pd.DataFrame({f: np.tile(coins.choice(words, held, replace=False), 2) for f in names})
        frame["target"] = np.where(coins.random(2 * held) < 0.5, "yes", "no")
        return Table(frame.astype("str"), schema, name)

    return {f"P{i + 1}": table(f"P{i + 1}") for i in range(parties)}
