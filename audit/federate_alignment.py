"""Runs the federation of a case in which schemas are aligned, and keeps what scoring needs.

One table is dealt to parties in equal random shares. Each sees some of its features, under names of its own, and is
given no other; the audit keeps the rows as they were dealt, all features included, since an adversary with the prior
alone may know how people's features go together, whoever holds them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.alignment_protocol import alignment_protocol, embedded_from_plain
from leakledger.audit.case import Case, overlap_of
from leakledger.audit.config import Config
from leakledger.audit.federate import (
    SERVER,
    Federated,
    OnAbort,
    batches_of,
    public_schema,
    run_projected,
    run_simulated,
    schema_stream,
    split_tables,
)
from leakledger.preprocess.alignment.aliases import Aliases, read_aliases
from leakledger.preprocess.alignment.fedllm_align import Alignment, embedding_layout
from leakledger.preprocess.alignment.parties import PartySchema, draw_schemas
from leakledger.preprocess.alignment.text_encoder import open_encoder
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.impute import fill, filling_of
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.messages import PredictionCounts
from leakledger.preprocess.secret import derive
from leakledger.preprocess.transport.protocol import party_secrets, protocol_secret
from leakledger.preprocess.views import Method, PublicFacts


@dataclass(frozen=True)
class Dealt:
    """Each party's schema, and its training and held-out rows with the features of all; and the table of aliases."""

    aliases: Aliases
    schemas: Mapping[str, PartySchema]
    train: Mapping[str, Table]
    test: Mapping[str, Table]


@dataclass(frozen=True)
class AlignedCase(Federated):
    """What such a case leaves: `tables` have every feature of a party's training rows, seen or not, with nothing
    missing. `held_out`: the same of the rows that it evaluates on.
    """

    alignment: Alignment = field(kw_only=True)
    schemas: Mapping[str, PartySchema] = field(kw_only=True)
    held_out: Mapping[str, Table] = field(kw_only=True)


def align(config: Config, case: Case, master: bytes, on_abort: OnAbort = lambda ledger, public: None) -> AlignedCase:
    """Runs the case's protocol and reads the results out; secrets and errors as in `federate`."""
    chosen = case.alignment
    assert chosen is not None  # whoever calls this has looked
    alignment, dealt = chosen.alignment, deal(config, case)
    encoder = open_encoder(alignment.encoder)
    seen = {c: s.features for c, s in dealt.schemas.items()}
    inputs = {
        c: {"train": dealt.train[c].only(own).to_plain(), "test": dealt.test[c].only(own).to_plain()}
        for c, own in seen.items()
    }
    params = {
        "alignment": chosen.model_dump(mode="json"),
        "schemas": {c: {"features": list(s.features), "names": list(s.names)} for c, s in dealt.schemas.items()},
    }
    unnamed = {c: {part: {**t, "name": ""} for part, t in own.items()} for c, own in inputs.items()}
    known = {**params, "alignment": {**params["alignment"], "encoder": encoder.weights_hash}}  # wherever it lies
    secret = protocol_secret(derive(master, "case", case.id), "alignment", list(inputs), SERVER, unnamed, known)
    schema = next(iter(dealt.train.values())).schema
    public = PublicFacts(
        tuple(inputs),
        SERVER,
        alignment.method(),
        schema={**public_schema(schema), "features of": {c: list(own) for c, own in seen.items()}},
        layout=embedding_layout(encoder.width),
        model=alignment.head(encoder.width),
        training=alignment.training,
        aggregation=Method("plain", {"weighting": alignment.aggregation.weighting}),
        held_out=config.known_share,
    )
    run = run_projected if config.audit.mode == "projected" else run_simulated
    ledger, held = run(
        inputs, params, secret, config.audit.times, lambda ledger: on_abort(ledger, public), alignment_protocol
    )
    filling = {c: filling_of(t) for c, t in dealt.train.items()}
    return AlignedCase(
        ledger=ledger,
        secrets=party_secrets(secret, list(inputs), SERVER),
        public=public,
        schema=schema,
        tables={c: fill(t, filling[c]) for c, t in dealt.train.items()},
        train={c: embedded_from_plain(held[c]["train"]) for c in inputs},
        test={c: embedded_from_plain(held[c]["test"]) for c in inputs},
        batches=batches_of(held, list(inputs)),
        metrics={**held[SERVER]["metrics"], **weighted(ledger), "truncated": sum(held[c]["truncated"] for c in inputs)},
        rounds=held[SERVER]["rounds"],
        alignment=alignment,
        schemas=dealt.schemas,
        held_out={c: fill(t, filling[c]) for c, t in dealt.test.items()},
    )


def deal(config: Config, case: Case) -> Dealt:
    """The rows and the schema of each party. Raises ValueError for data that cannot be dealt, for a table of aliases
    that cannot be used, and for another task than two classes.
    """
    split = split_tables(config, case)
    table = next(iter(split.values()))[0]
    if table.schema.task != "binary":
        raise DataError(f"{table.name}: the head has one logit for two classes; the target is {table.schema.task}")
    aliases = read_aliases(table.schema.features, case.partition.aliases)
    overlap = overlap_of(case.partition)
    schemas = draw_schemas(table.schema.features, list(split), overlap, aliases, schema_stream(case))
    train, test = ({c: pair[k] for c, pair in split.items()} for k in (0, 1))
    return Dealt(aliases, schemas, train, test)


def check_dealt(dealt: Dealt, alignment: Alignment) -> None:
    """Raises ValueError for what would end the case: an encoder that cannot be used, a column with nothing to impute
    from.
    """
    open_encoder(alignment.encoder)
    for party, table in dealt.train.items():
        own = table.only(dealt.schemas[party].features)
        fill(own, filling_of(own))
        fill(dealt.test[party].only(dealt.schemas[party].features), filling_of(own))


def weighted(ledger: Ledger) -> dict[str, float]:
    """F1 as a mean over rows, not of the positive class alone, of the model and of saying the commonest class."""
    confusion = np.sum([m.payload.confusion for m in ledger if m.kind is PredictionCounts], axis=0)
    rows = confusion.sum(1)
    commonest = np.zeros_like(confusion)
    commonest[:, rows.argmax()] = rows
    return {"weighted_f1": weighted_f1(confusion), "majority_weighted_f1": weighted_f1(commonest)}


def weighted_f1(confusion: NDArray[np.int64]) -> float:
    """The mean over rows of the F1 of their class, from rows by true and predicted class."""
    rows = confusion.sum(1)
    f1 = 2 * np.diag(confusion) / np.maximum(rows + confusion.sum(0), 1)
    return float(f1 @ rows / rows.sum())
