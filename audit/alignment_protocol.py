"""Training on aligned schemas as a protocol over plain inputs: all parties in one process, or a process for each.

A client is given its rows with the features that it sees, and its schema. It ends with its embedded rows and the row
numbers of its batches, the server with metrics and the number of rounds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leakledger.audit.config_alignment import AlignmentChoice
from leakledger.preprocess.alignment.fedllm_align import Embedded, run
from leakledger.preprocess.alignment.parties import PartySchema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.pipeline import Encoded


def alignment_protocol(fed: Federation, inputs: Mapping[str, At[Any]], params: Mapping[str, Any]) -> dict[str, At[Any]]:
    """Runs it; what each party has afterwards, plain. `params`: how schemas are aligned, and every party's."""
    alignment = AlignmentChoice.model_validate(params["alignment"]).alignment
    schemas = {c: PartySchema(tuple(s["features"]), tuple(s["names"])) for c, s in params["schemas"].items()}
    train, test = ({c: fed.local(c, _table, x, part) for c, x in inputs.items()} for part in ("train", "test"))
    aligned = run(fed, alignment, schemas, train, test)
    held = dict[str, At[Any]]()
    for c in fed.clients:
        own = {round: drawn for (client, round), drawn in aligned.trained.batches.items() if client == c}
        parts = aligned.train[c], aligned.test[c]
        held[c] = fed.local(c, _client_plain, tuple(own), *parts, *own.values())
    held[fed.server] = fed.local(fed.server, _server_plain, aligned.metrics, aligned.trained.rounds)
    return held


def embedded_from_plain(plain: Mapping[str, Any]) -> Encoded:
    """The rows that a client ended with: embeddings, none of whose columns is a candidate."""
    return Encoded(plain["rows"], plain["labels"], np.zeros((len(plain["rows"]), 0), np.int64))


def _table(given: Mapping[str, Any], part: str) -> Table:
    return Table.from_plain(given[part])


def _client_plain(rounds: Sequence[int], train: Embedded, test: Embedded, *batches: Sequence[Any]) -> dict[str, Any]:
    drawn = {str(r): [np.asarray(rows, np.int64) for rows in b] for r, b in zip(rounds, batches, strict=True)}
    parts = {"train": train, "test": test}
    rows = {name: {"rows": e.encoded.rows, "labels": e.encoded.labels} for name, e in parts.items()}
    return {**rows, "batches": drawn, "truncated": train.truncated + test.truncated}


def _server_plain(metrics: Mapping[str, float], rounds: int) -> dict[str, Any]:
    return {"metrics": dict(metrics), "rounds": rounds}
