"""Runs the federation of one case, simulated or projected, and keeps what scoring needs.

The result is the only place where protocol values leave their parties: `Federated` holds the ledger for the views, and
the parties' own values that become the truth. Both ways give the same.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from time import monotonic
from typing import Any

import numpy as np

from leakledger.audit.case import Case
from leakledger.audit.case_protocol import (
    Dictionary,
    build_encoder,
    build_scaler,
    case_params,
    case_protocol,
    chosen_options,
    encoded_from_plain,
    model_spec,
)
from leakledger.audit.config import Config
from leakledger.audit.config_alignment import SCHEMAS
from leakledger.audit.config_features import VERTICAL
from leakledger.audit.control_parties import Options, frozen
from leakledger.preprocess.aggregation import Aggregation
from leakledger.preprocess.alignment.text_encoder import is_named
from leakledger.preprocess.data.basis import Basis
from leakledger.preprocess.data.clean import Missing
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.data.read import read_table, read_tables
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.schema_file import Declared
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.data.vertical import columns_of_parties
from leakledger.preprocess.encoders import ENCODERS, Encoder
from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.frozen import freeze
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.nouns import plural
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.scalers import Scaler
from leakledger.preprocess.secret import derive
from leakledger.preprocess.training.base import Batches, check_training
from leakledger.preprocess.transport.processes import PartyProcesses
from leakledger.preprocess.transport.protocol import Protocol, merged_ledger, party_secrets, protocol_secret
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import FeatureLayout, Method, PublicFacts, TrainingSpec

SERVER = "server"
OnAbort = Callable[[Ledger, PublicFacts], None]
"""Told, where a party could not go on, what was sent until then and what was public before."""
PATIENCE = 3600.0  # seconds that a party's process waits for a message: another one may compute for long
SPLIT, PARTITION, SCHEMA = 1, 2, 3  # streams of a case's seed, apart from those of the parties


@dataclass(frozen=True)
class Federated:
    """What one case's federation leaves: the ledger, the public facts, the parties' secrets and their own values."""

    ledger: Ledger
    secrets: Mapping[str, bytes] = field(repr=False)
    public: PublicFacts
    schema: Schema
    tables: Mapping[str, Table]
    train: Mapping[str, Encoded]
    test: Mapping[str, Encoded]
    batches: Mapping[tuple[str, int], Batches]
    metrics: dict[str, float]
    rounds: int
    encoder: Encoder | None = None


def federate(config: Config, case: Case, master: bytes, on_abort: OnAbort = lambda ledger, public: None) -> Federated:
    """Runs the case's protocol and reads the results out.

    The parties' secrets are derived from `master`, the case, and everything that the parties are given: their rows and
    what they agreed on. How the protocol is run, and what attacks the result, is no part of that. Raises what ended the
    run where a party could not go on, after `on_abort` was told.
    """
    split = split_tables(config, case)
    basis = next(iter(split.values()))[0].basis
    assert basis is not None  # tables that were read have one
    dictionary = public_dictionary(case, [t for pair in split.values() for t in pair])
    training = training_spec(case)
    inputs = {c: {"train": pair[0].to_plain(), "test": pair[1].to_plain()} for c, pair in split.items()}
    params = case_params(case, config.model, basis, config.data.missing, dictionary)
    given = without_places(inputs, params)
    secret = protocol_secret(derive(master, "case", case.id), "case", list(split), SERVER, *given)
    run = run_projected if config.audit.mode == "projected" else run_simulated
    public = PublicFacts(
        tuple(split),
        SERVER,
        Method(case.preprocessing.encoder, public_options(make_encoder(case))),
        Method(case.preprocessing.scaler, public_options(make_scaler(case))),
        case.defense.defense.mechanisms(),
        training=training,
        aggregation=Method(case.training.aggregation, public_options(case.training.protocol)),
        held_out=config.known_share,
    )
    ledger, held = run(inputs, params, secret, config.audit.times, lambda ledger: on_abort(ledger, public))
    layout, schema = FeatureLayout.from_plain(held[SERVER]["layout"]), Schema.from_plain(held[SERVER]["schema"])
    model = model_spec(config.model, schema, layout.width)
    statistics = (*make_encoder(case).mechanisms(schema), *make_scaler(case).mechanisms(schema))
    known = public_schema(schema, basis)
    return Federated(
        ledger=ledger,
        secrets=party_secrets(secret, list(split), SERVER),
        public=replace(public, schema=known, layout=layout, model=model, statistics=statistics),
        schema=schema,
        tables={c: Table.from_plain(held[c]["table"]) for c in split},
        train={c: encoded_from_plain(held[c]["train"]) for c in split},
        test={c: encoded_from_plain(held[c]["test"]) for c in split},
        batches=batches_of(held, list(split)),
        metrics=dict(held[SERVER]["metrics"]),
        rounds=held[SERVER]["rounds"],
        encoder=build_encoder(case.preprocessing, dictionary),
    )


def run_simulated(
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    secret: bytes,
    times: bool = False,
    on_abort: Callable[[Ledger], None] = lambda ledger: None,
    protocol: Protocol = case_protocol,
) -> tuple[Ledger, Mapping[str, Any]]:
    """The ledger, and what each party has afterwards; all parties in this process."""
    fed = Simulated(clients_among(inputs), server=SERVER, secret=secret, clock=monotonic if times else None)
    try:
        with fed.running():
            outcome = protocol(fed, {c: fed.at(c, x) for c, x in inputs.items()}, freeze(params))
    except Exception:
        if fed.ledger.aborts:
            on_abort(fed.ledger)
        raise
    return fed.ledger, {p: fed.own(v) for p, v in outcome.items()}


def run_projected(
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    secret: bytes,
    times: bool = False,
    on_abort: Callable[[Ledger], None] = lambda ledger: None,
    protocol: Protocol = case_protocol,
) -> tuple[Ledger, Mapping[str, Any]]:
    """The same with a process per party; the ledger is merged from theirs."""
    clients = clients_among(inputs)
    own = party_secrets(secret, clients, SERVER)
    with PartyProcesses(clients, server=SERVER, timeout=PATIENCE, times=times) as parties:
        try:
            results = parties.run_with(protocol, inputs, with_absolute_paths(params), own)
        except FederationError as error:
            if error.ledger is not None:
                on_abort(error.ledger)
                error.ledger = None  # it is told, and the error travels on to other processes
            raise
    return merged_ledger(results), {p: r.value for p, r in results.items()}


def clients_among(inputs: Mapping[str, Any]) -> list[str]:
    """The clients of those who are given something."""
    return [p for p in inputs if p != SERVER]


def without_places(
    inputs: Mapping[str, Mapping[str, Any]], params: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and params without the file that a table came from, which errors name: a copy in another folder has the
    same secret.
    """
    tables = {c: {part: {**table, "name": ""} for part, table in given.items()} for c, given in inputs.items()}
    return tables, {**params, "basis": {**params["basis"], "source": ""}}


def with_absolute_paths(params: Mapping[str, Any]) -> dict[str, Any]:
    """The params for a process that runs in another folder."""
    files = {"preprocessing": "fasttext_model", "alignment": "encoder"}
    return {**params, **{name: _with_absolute(params[name], key) for name, key in files.items() if name in params}}


def _with_absolute(chosen: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A section with the file that it names, if it names one, as any folder sees it."""
    place: str | None = chosen.get(key)
    if place is None or (key == "encoder" and is_named(place)):
        return dict(chosen)
    return {**chosen, key: os.path.abspath(place)}


def split_tables(config: Config, case: Case) -> dict[str, tuple[Table, Table]]:
    """Training and held-out rows of each party: the same for every method of a seed. Raises DataError, with the party,
    where one has too few rows for both.
    """
    parties = party_tables(config, case)
    for c, table in parties.items():
        if len(table) < 2:
            raise DataError(
                f"{table.name}: {c} has {plural(len(table), 'row')}, and training and held-out rows take two; "
                "divide the rows otherwise, or leave out those of this party"
            )
    streams = {c: _stream(case.seed, SPLIT, i) for i, c in enumerate(parties)}
    return {c: t.split(config.data.test_fraction, streams[c]) for c, t in parties.items()}


def schema_stream(case: Case) -> np.random.Generator:
    """The coins by which parties come to see features, and to name them."""
    return _stream(case.seed, SCHEMA, 0)


def split_stream(case: Case) -> np.random.Generator:
    """The coins by which records that all parties hold are held out."""
    return _stream(case.seed, SPLIT, 0)


def party_tables(config: Config, case: Case) -> dict[str, Table]:
    """Each party's rows: one file each, or a partition of one table; of a vertical one, all rows and all columns that
    take part, for each party alike.
    """
    data = config.data
    if case.partition.kind == VERTICAL:
        held, table = vertical_table(config, case)
        return dict.fromkeys(held, table)
    if case.partition.kind == "files":
        if isinstance(data.source, str):
            raise ValueError('data.source: partition kind "files" needs a list of files, one per party')
        if data.rows is not None:
            raise ValueError("data.rows: is drawn from one table, and each party has a file: leave it out")
        return read_tables(data.source, declared=_bounds(config), **_reading(config))
    return divided(case, whole_table(config, case.partition.column))


def divided(case: Case, table: Table) -> dict[str, Table]:
    """Each party's rows of one table, under the seed of the case."""
    coins = _stream(case.seed, PARTITION, 0)
    options: dict[str, Any] = {k: v for k in ("beta", "column") if (v := getattr(case.partition, k)) is not None}
    kind = "iid" if case.partition.kind == SCHEMAS else case.partition.kind
    return partition(table, kind, case.partition.parties, coins, minimum=case.partition.minimum, **options)


def whole_table(config: Config, column: str | None = None) -> Table:
    """The configured table, cut to the configured number of rows (the same ones for every case). The `column` whose
    values become the parties is no feature: all rows of a party have the same value of it. Raises ValueError where the
    table has fewer rows than that.
    """
    data = config.data
    if not isinstance(data.source, str):
        raise ValueError('data.source: several files need partition kind "files"')
    carried = () if column is None else (column,)
    table = read_table(data.source, declared=_bounds(config), carried=carried, **_reading(config))
    if data.rows is None:
        return table
    if data.rows > len(table):
        raise ValueError(
            f"data.rows: is {data.rows}, and {data.source} has {len(table)}; ask for no more, or leave it out"
        )
    return table.rows(np.sort(_stream(0, SPLIT, 0).choice(len(table), data.rows, replace=False)))


def vertical_table(config: Config, case: Case) -> tuple[dict[str, tuple[str, ...]], Table]:
    """Party -> the columns that it holds, and the table of all these and the target; what columns are is taken as
    declared.
    """
    table = whole_table(config)
    columns = columns_of_parties(table, case.partition.parties, case.partition.columns)
    return columns, table.only([c for own in columns.values() for c in own])


def _reading(config: Config) -> dict[str, Any]:
    """How the configured files are read."""
    data = config.data
    given = {"schema": data.schema_given, "target": data.target, "missing": _until_divided(config)}
    return given | {n: getattr(data, n) for n in ("separator", "encoding", "decimal", "na_values")}


def _bounds(config: Config) -> Declared:
    """The ranges and domains that the configuration declares."""
    return Declared(ranges=config.data.ranges, domains=config.data.domains)


def _until_divided(config: Config) -> Missing:
    """What becomes of missing values when a table is read: parties impute, each for itself, what they are given."""
    return "keep" if config.data.missing == "impute" else config.data.missing


def training_spec(case: Case) -> TrainingSpec:
    spec = case.training.spec
    check_training(spec, case.defense.defense.row_clip_norm)
    return spec


def make_encoder(case: Case, tables: Iterable[Table] = ()) -> Encoder:
    """The encoder of a case; where candidates are public, it is told the values of all `tables`."""
    return build_encoder(case.preprocessing, public_dictionary(case, tables))


def make_scaler(case: Case) -> Scaler:
    return build_scaler(case.preprocessing)


def public_dictionary(case: Case, tables: Iterable[Table]) -> Dictionary:
    """The list of all values that everyone has, the server too; empty where the case or its encoder has none."""
    own = chosen_options(case.preprocessing, ENCODERS[case.preprocessing.encoder])
    return all_values(tables) if own.get("candidates") == "public" else {}


def all_values(tables: Iterable[Table]) -> Dictionary:
    """The sorted values of each categorical feature in any of the tables, missing ones not counted."""
    own = [{f: set(t.frame[f].dropna()) for f in t.schema.categorical} for t in tables]
    return {feature: tuple(sorted(set().union(*(v[feature] for v in own)))) for feature in (own[0] if own else ())}


def public_options(method: Encoder | Scaler | Aggregation) -> dict[str, Any]:
    """The parameters of a method that all parties agreed on; files and word lists stay with the parties."""
    values = {f.name: getattr(method, f.name) for f in fields(method)}
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
    return {n: v for n, v in plain.items() if _is_plain(v) and not n.endswith("_model")}


def frozen_methods(case: Case) -> tuple[str, Options, str, Options]:
    """The encoder and the scaler of a case with their public options: what runs them on made-up tables."""
    encoder, scaler = (frozen(public_options(m)) for m in (make_encoder(case), make_scaler(case)))
    return case.preprocessing.encoder, encoder, case.preprocessing.scaler, scaler


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(v, str) for v in value)
    return value is None or isinstance(value, str | int | float | bool)


def public_schema(schema: Schema, basis: Basis | None = None) -> dict[str, Any]:
    """What every participant knows about the table: names and kinds, no statistics.

    `negotiated` names the facts that messages settled; all others are declared.
    """
    return {
        "negotiated": [] if basis is None else list(basis.negotiated),
        "target": schema.target,
        "task": schema.task,
        "classes": list(schema.classes),
        "categorical": list(schema.categorical),
        "numeric": list(schema.numeric),
        "integer": list(schema.integer),
        **({"orders": {f: list(values) for f, values in schema.orders.items()}} if schema.orders else {}),
        **({"domains": {f: list(values) for f, values in schema.domains.items()}} if schema.domains else {}),
    }


def _stream(seed: int, stream: int, index: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1_000 + stream, index)))


def batches_of(held: Mapping[str, Any], clients: list[str]) -> dict[tuple[str, int], Batches]:
    """(client, round) -> the batches that it trained on, in the order in which they were drawn."""
    order = sorted(
        ((int(r), c) for c in clients for r in held[c]["batches"]), key=lambda b: (b[0], clients.index(b[1]))
    )
    return {(c, r): held[c]["batches"][str(r)] for r, c in order}
