"""Runs the federation of one case: data to parties, preprocessing, training, evaluation; keeps what scoring needs.

The result is the only place where protocol values leave their parties: `Federated` holds the ledger for the views, and
the located values that become the truth.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from audit.case import Case
from audit.config import Config, DefenseChoice
from defenses import DEFENSES, Defense, chain
from preprocess.data.partition import partition
from preprocess.data.read import read_table, read_tables
from preprocess.data.schema import Schema
from preprocess.data.table import Table
from preprocess.encoders import ENCODERS, Encoder
from preprocess.encoders.base import distinct_values
from preprocess.federation import At
from preprocess.pipeline import Encoded, prepare
from preprocess.scalers import SCALERS, Scaler
from preprocess.training import ALGORITHMS
from preprocess.training.base import Batches, check_training, train
from preprocess.training.evaluation import evaluate
from preprocess.transport.simulated import Simulated
from preprocess.views import ModelSpec, PublicFacts, TrainingSpec

SPLIT, PARTITION = 1, 2  # streams of a case's seed, apart from those of the parties


@dataclass(frozen=True)
class Federated:
    """What one case's federation leaves: the ledger (in `fed`), the public facts, and the parties' own values."""

    fed: Simulated
    public: PublicFacts
    schema: Schema
    tables: Mapping[str, Table]
    train: Mapping[str, Encoded]
    test: Mapping[str, Encoded]
    batches: Mapping[tuple[str, int], Batches]
    metrics: dict[str, float]
    rounds: int
    encoder: Encoder | None = None


def federate(config: Config, case: Case) -> Federated:
    """Runs the case's protocols, simulated, and reads the results out."""
    split = split_tables(config, case)
    schema = next(iter(split.values()))[0].schema
    fed = Simulated(list(split), seed=case.seed)
    train_tables = {c: fed.at(c, pair[0]) for c, pair in split.items()}
    test_tables = {c: fed.at(c, pair[1]) for c, pair in split.items()}

    encoder = make_encoder(case, [t for pair in split.values() for t in pair])
    prepared = prepare(fed, schema, train_tables, test_tables, encoder, make_scaler(case))
    model = model_spec(config, schema, prepared.layout.value.width)
    training = training_spec(case)
    trained = train(
        fed, ALGORITHMS[training.algorithm], model, training, prepared.train, make_defense(case.defense).protect
    )
    metrics = evaluate(fed, model, trained.weights, prepared.test)

    protocol = {
        **public_options(make_encoder(case)),
        "encoder": case.setting.encoder,
        "scaler": case.setting.scaler,
        "scaler_options": public_options(make_scaler(case)),
        "defense": case.setting.defense,
    }
    public = PublicFacts(
        fed.clients, fed.server, protocol, public_schema(schema), prepared.layout.value, model, training
    )
    return Federated(
        fed=fed,
        public=public,
        schema=schema,
        tables={c: pair[0] for c, pair in split.items()},
        train=_owned(fed, prepared.train),
        test=_owned(fed, prepared.test),
        batches=_owned(fed, trained.batches),
        metrics=fed.own(metrics),
        rounds=trained.rounds,
        encoder=encoder,
    )


def split_tables(config: Config, case: Case) -> dict[str, tuple[Table, Table]]:
    """Training and held-out rows of each party: the same for every method of a seed."""
    parties = party_tables(config, case)
    streams = {c: _stream(case.seed, SPLIT, i) for i, c in enumerate(parties)}
    return {c: t.split(config.data.test_fraction, streams[c]) for c, t in parties.items()}


def party_tables(config: Config, case: Case) -> dict[str, Table]:
    """Each party's rows: one file each, or a partition of one table."""
    data = config.data
    if case.partition.kind == "files":
        if isinstance(data.source, str):
            raise ValueError('data.source: partition kind "files" needs a list of files, one per party')
        return read_tables(data.source, schema=data.schema_file, target=data.target, missing=data.missing)
    table = whole_table(config)
    coins = _stream(case.seed, PARTITION, 0)
    options: dict[str, Any] = {k: v for k in ("beta", "column") if (v := getattr(case.partition, k)) is not None}
    return partition(
        table, case.partition.kind, case.partition.parties, coins, minimum=case.partition.minimum, **options
    )


def whole_table(config: Config) -> Table:
    """The configured table, cut to the configured number of rows (the same ones for every case)."""
    data = config.data
    if not isinstance(data.source, str):
        raise ValueError('data.source: several files need partition kind "files"')
    table = read_table(data.source, schema=data.schema_file, target=data.target, missing=data.missing)
    if data.rows is None or data.rows >= len(table):
        return table
    return table.rows(np.sort(_stream(0, SPLIT, 0).choice(len(table), data.rows, replace=False)))


def model_spec(config: Config, schema: Schema, width: int) -> ModelSpec:
    outputs = 1 if schema.task == "regression" else len(schema.classes)
    return ModelSpec(width, outputs, config.model.hidden, config.model.activation, schema.task)


def training_spec(case: Case) -> TrainingSpec:
    spec = TrainingSpec(**case.training.model_dump())
    check_training(spec)
    return spec


def make_encoder(case: Case, tables: Iterable[Table] = ()) -> Encoder:
    """The encoder with those of the configured options that it has.

    Where candidates are public, it is told the values of all `tables`: a list that everyone has, the server too.
    """
    kind = ENCODERS[case.preprocessing.encoder]
    options = chosen_options(case, kind)
    if case.preprocessing.candidates == "public" and "dictionary" in kind.__dataclass_fields__:
        options["dictionary"] = all_values(tables)
    return kind(**options)


def make_scaler(case: Case) -> Scaler:
    """The scaler with those of the configured options that it has."""
    kind = SCALERS[case.preprocessing.scaler]
    return kind(**chosen_options(case, kind))


def chosen_options(case: Case, kind: type[Encoder] | type[Scaler]) -> dict[str, Any]:
    return case.preprocessing.model_dump(include=set(kind.__dataclass_fields__))


def all_values(tables: Iterable[Table]) -> dict[str, tuple[str, ...]]:
    """The sorted values of each categorical feature in any of the tables."""
    own = [distinct_values(t) for t in tables]
    return {feature: tuple(sorted(set().union(*(v[feature] for v in own)))) for feature in (own[0] if own else ())}


def public_options(method: Encoder | Scaler) -> dict[str, Any]:
    """The parameters of a method that all parties agreed on; files and word lists stay with the parties."""
    values = {f.name: getattr(method, f.name) for f in fields(method)}
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
    return {n: v for n, v in plain.items() if _is_plain(v) and not n.endswith("_model")}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(v, str) for v in value)
    return value is None or isinstance(value, str | int | float | bool)


def make_defense(choice: DefenseChoice) -> Defense:
    if choice.name == "none":
        return chain()
    return DEFENSES[choice.name](**choice.model_dump(exclude={"name"}))


def public_schema(schema: Schema) -> dict[str, Any]:
    """What every participant knows about the table before the protocol starts: names and kinds, no statistics."""
    return {
        "target": schema.target,
        "task": schema.task,
        "classes": list(schema.classes),
        "categorical": list(schema.categorical),
        "numeric": list(schema.numeric),
        "integer": list(schema.integer),
    }


def _stream(seed: int, stream: int, index: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1_000 + stream, index)))


def _owned(fed: Simulated, values: Mapping[Any, At[Any]]) -> dict[Any, Any]:
    return {key: fed.own(value) for key, value in values.items()}
