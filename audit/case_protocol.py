"""One case as a protocol over plain inputs: preprocessing, training, evaluation, with all parties in one process or
with a process for each.

A client is given its two tables and ends with its encoded rows and the row numbers of its batches; the server ends with
metrics, rounds and the layout, which everyone knows. `params` is what the parties agreed on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leakledger.audit.case import Case
from leakledger.audit.config import DefenseChoice, Model, Preprocessing, Training
from leakledger.preprocess.agreement import agree
from leakledger.preprocess.data.basis import Basis
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.schema_file import Declared
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS, Encoder
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.imputation import impute
from leakledger.preprocess.options import options_of
from leakledger.preprocess.pipeline import Encoded, Prepared, prepare
from leakledger.preprocess.scalers import SCALERS, Scaler
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import Trained, train
from leakledger.preprocess.training.evaluation import evaluate
from leakledger.preprocess.views import FeatureLayout, ModelSpec

Dictionary = dict[str, tuple[str, ...]]


def case_params(
    case: Case, model: Model, basis: Basis, missing: str, dictionary: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """What the parties of a case agree on, plain: what they know of the columns, what becomes of `missing` values, the
    methods; `dictionary` is the public list of values, where there is one.
    """
    return {
        "preprocessing": case.preprocessing.model_dump(mode="json"),
        "training": case.training.model_dump(mode="json"),
        "defense": case.defense.model_dump(mode="json"),
        "model": model.agreed,
        "basis": basis_to_plain(basis),
        "missing": missing,
        "dictionary": {feature: list(values) for feature, values in dictionary.items()},
    }


def case_protocol(fed: Federation, inputs: Mapping[str, At[Any]], params: Mapping[str, Any]) -> dict[str, At[Any]]:
    """Runs the case; what each party has afterwards, plain."""
    basis, model = basis_from_plain(params["basis"]), Model.model_validate(params["model"])
    preprocessing = Preprocessing.model_validate(params["preprocessing"])
    chosen = Training.model_validate(params["training"])
    training = chosen.spec
    tables = {part: {c: fed.local(c, _table, x, part) for c, x in inputs.items()} for part in ("train", "test")}

    agreed = agree(fed, basis, tables["train"], tables["test"])
    schema, own, held_out = agreed.schema.value, agreed.train, agreed.test
    if params["missing"] == "impute":
        own, held_out = impute(fed, own, held_out)

    encoder = build_encoder(preprocessing, {f: tuple(v) for f, v in params["dictionary"].items()})
    prepared = prepare(fed, schema, own, held_out, encoder, build_scaler(preprocessing))
    spec = model_spec(model, schema, prepared.layout.value.width)
    defense = DefenseChoice.model_validate(params["defense"]).defense
    protect = defense.protect if defense.mechanisms() else None  # without one, updates stay as they are to the last bit
    own_rows, algorithm = prepared.train, ALGORITHMS[training.algorithm]
    trained = train(fed, algorithm, spec, training, own_rows, protect, defense.row_clip_norm, chosen.protocol)
    metrics = evaluate(fed, spec, trained.model, prepared.test)

    layout, public = fed.public(FeatureLayout.to_plain, prepared.layout), fed.public(Schema.to_plain, agreed.schema)
    held = {c: _client_result(fed, c, own[c], prepared, trained) for c in fed.clients}
    return {**held, fed.server: fed.local(fed.server, _server_result, metrics, trained.rounds, layout, public)}


def basis_to_plain(basis: Basis) -> dict[str, Any]:
    unused = None if basis.declared.carried else {"carried"}  # coins follow from this: those of earlier runs stay
    declared = basis.declared.model_dump(mode="json", exclude=unused)
    return {"declared": declared, "columns": list(basis.columns), "types": dict(basis.types), "source": basis.source}


def basis_from_plain(plain: Mapping[str, Any]) -> Basis:
    declared = Declared.model_validate(plain["declared"])
    return Basis(declared, tuple(plain["columns"]), dict(plain["types"]), plain["source"])


def build_encoder(preprocessing: Preprocessing, dictionary: Dictionary) -> Encoder:
    """The encoder with those of the configured options that it has, told the public list of values if there is one."""
    kind = ENCODERS[preprocessing.encoder]
    options = chosen_options(preprocessing, kind)
    if dictionary:
        options["dictionary"] = dictionary
    return kind(**options)


def build_scaler(preprocessing: Preprocessing) -> Scaler:
    """The scaler with those of the configured options that it has."""
    kind = SCALERS[preprocessing.scaler]
    return kind(**chosen_options(preprocessing, kind))


def chosen_options(preprocessing: Preprocessing, kind: type[Encoder] | type[Scaler]) -> dict[str, Any]:
    return {name: preprocessing.options[name] for name in options_of(kind)}


def model_spec(model: Model, schema: Schema, width: int) -> ModelSpec:
    outputs = 1 if schema.task == "regression" else len(schema.classes)
    layers = model.hidden, model.activation
    return ModelSpec(width, outputs, *layers, schema.task, model.dropout, model.norm, model.norm_groups, model.loss)


def encoded_from_plain(plain: Mapping[str, Any]) -> Encoded:
    """The rows that a client ended with."""
    return Encoded(plain["rows"], plain["labels"], plain["candidates"])


def _table(given: Mapping[str, Any], part: str) -> Table:
    return Table.from_plain(given[part])


def _client_result(
    fed: Federation, client: str, table: At[Table], prepared: Prepared, trained: Trained
) -> At[dict[str, Any]]:
    own = {round: drawn for (c, round), drawn in trained.batches.items() if c == client}
    parts = prepared.train[client], prepared.test[client]
    return fed.local(client, _client_plain, tuple(own), table, *parts, *own.values())


def _client_plain(
    rounds: Sequence[int], table: Table, train: Encoded, test: Encoded, *batches: Sequence[Any]
) -> dict[str, Any]:
    drawn = {str(r): [np.asarray(rows, np.int64) for rows in b] for r, b in zip(rounds, batches, strict=True)}
    return {
        "table": table.to_plain(),
        "train": _encoded_plain(train),
        "test": _encoded_plain(test),
        "batches": drawn,
    }


def _encoded_plain(data: Encoded) -> dict[str, Any]:
    return {"rows": data.rows, "labels": data.labels, "candidates": data.candidates}


def _server_result(
    metrics: Mapping[str, float], rounds: int, layout: Sequence[Any], schema: Mapping[str, Any]
) -> dict[str, Any]:
    return {"metrics": dict(metrics), "rounds": rounds, "layout": layout, "schema": schema}
