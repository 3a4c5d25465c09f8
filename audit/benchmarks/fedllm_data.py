"""Tables for FedLLM-Align: parties with schemas of their own, and what an adversary knows of their records."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from leakledger.attacks.texts import TextRecords
from leakledger.audit.aligned_truth import plausible, text_records
from leakledger.audit.benchmarks.base import Options
from leakledger.preprocess.alignment.aliases import Aliases, read_aliases
from leakledger.preprocess.alignment.fedllm_align import Alignment
from leakledger.preprocess.alignment.parties import PartySchema, draw_schemas
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.data.table import Table

HELD_OUT = 0.2


@dataclass(frozen=True, eq=False)
class Parties:
    """The whole table, each party's schema, training and held-out rows, and the table of aliases."""

    table: Table
    aliases: Aliases
    schemas: Mapping[str, PartySchema]
    train: Mapping[str, Table]
    test: Mapping[str, Table]


def divided(options: Options, source: str, clients: int, overlap: float, seed: int) -> Parties:
    """The table `source` dealt at random to `clients` parties. Raises DataError, and ValueError for another task than
    two classes.
    """
    table = read_table(source, options.schema, missing="keep")
    if table.schema.task != "binary":
        raise ValueError(f"{source}: FedLLM-Align has one logit for two classes; the target is {table.schema.task}")
    coins = np.random.default_rng(seed)
    aliases = read_aliases(table.schema.features)
    parts = partition(table, "iid", clients, coins)
    split = {c: t.split(HELD_OUT, coins) for c, t in parts.items()}
    schemas = draw_schemas(table.schema.features, list(parts), overlap, aliases, coins)
    train, test = ({c: pair[k] for c, pair in split.items()} for k in (0, 1))
    return Parties(table, aliases, schemas, train, test)


def known_texts(parties: Parties, client: str, alignment: Alignment, known_schema: bool) -> TextRecords:
    """What the adversary knows: the encoder, the format, which values occur in the whole table, and the client's schema
    or, where that is unknown, all aliases of all features.
    """
    values = {f: plausible([parties.table], f) for f in parties.table.schema.features}
    return text_records(alignment, parties.schemas[client], values, None if known_schema else parties.aliases)
