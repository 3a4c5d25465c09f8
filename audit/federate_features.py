"""Runs the federation of a case in which parties make features together, and keeps what scoring needs.

Parties hold other columns of the same records, which are aligned: they have the same ids in the same order. Some
records are held out; no party puts them in, and what features are worth is measured on them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.case import Case, source_name
from leakledger.audit.config import Config
from leakledger.audit.config_features import Features
from leakledger.audit.features_protocol import Made, features_protocol, made_from_plain
from leakledger.audit.federate import (
    SERVER,
    Federated,
    OnAbort,
    public_schema,
    run_projected,
    run_simulated,
    split_stream,
    vertical_table,
)
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.features.flfe import PublicColumns
from leakledger.preprocess.features.judge_corpus import corpus
from leakledger.preprocess.features.judge_training import JudgeTraining, train_judges
from leakledger.preprocess.features.judges import Judges, judges_to_plain, open_judges
from leakledger.preprocess.features.transformations import binary, unary
from leakledger.preprocess.features.usefulness import check_folds, f1_with_and_without
from leakledger.preprocess.secret import derive
from leakledger.preprocess.transport.protocol import party_secrets, protocol_secret
from leakledger.preprocess.views import PublicFacts

Columns = NDArray[np.float64]


@dataclass(frozen=True)
class Divided:
    """A table by parties: `held` names each one's columns; `train` (n, features) and `test` (m, features) have all of
    them in order, with the class (n,) and (m,) of each record; `ids` are those of the records that take part.
    """

    schema: Schema
    held: Mapping[str, tuple[str, ...]]
    holder: str
    ids: tuple[str, ...]
    train: Columns
    test: Columns
    train_labels: NDArray[np.int64]
    test_labels: NDArray[np.int64]

    @property
    def inputs(self) -> dict[str, dict[str, Any]]:
        """What each party is given, plain; the server where it holds the labels."""
        number = {f: k for k, f in enumerate(self.schema.numeric)}
        given: dict[str, dict[str, Any]] = {
            p: {"ids": list(self.ids), "columns": {f: self.train[:, number[f]] for f in own}}
            for p, own in self.held.items()
        }
        own = given.setdefault(self.holder, {"ids": list(self.ids)})
        own["labels"] = self.train_labels
        return given


@dataclass(frozen=True)
class Engineered(Federated):
    """What such a case leaves: no tables of rows, but the one table that is divided by columns, and what was `made`."""

    divided: Divided = field(kw_only=True)
    made: tuple[Made, ...] = field(kw_only=True)


def engineer(config: Config, case: Case, master: bytes, on_abort: OnAbort = lambda ledger, public: None) -> Engineered:
    """Runs the case's protocol and reads the results out; secrets and errors as in `federate`."""
    chosen = case.features
    assert chosen is not None  # whoever calls this has looked
    divided = divide(config, case)
    flfe, agreed = chosen.flfe, PublicColumns(divided.held, len(divided.schema.classes), divided.holder)
    options = {k: v for k, v in flfe.method(agreed).options.items() if k != "holder"}
    params = {
        "flfe": options,
        "columns": {p: list(own) for p, own in divided.held.items()},
        "classes": agreed.classes,
        "holder": agreed.holder,
        "judges": judges_to_plain(judges_of(chosen, config.data.source)),
    }
    inputs, parties = divided.inputs, list(divided.held)
    secret = protocol_secret(derive(master, "case", case.id), "features", parties, SERVER, inputs, params)
    schema = {**public_schema(divided.schema), "features of": params["columns"]}
    public = PublicFacts(tuple(parties), SERVER, schema=schema, features=flfe.method(agreed))
    run = run_projected if config.audit.mode == "projected" else run_simulated
    ledger, held = run(
        inputs, params, secret, config.audit.times, lambda ledger: on_abort(ledger, public), features_protocol
    )
    made = made_from_plain(held[SERVER])
    return Engineered(
        ledger=ledger,
        secrets=party_secrets(secret, parties, SERVER),
        public=public,
        schema=divided.schema,
        tables={},
        train={},
        test={},
        batches={},
        divided=divided,
        made=made,
        metrics=measured(divided, made, chosen, case.seed),
        rounds=len(flfe.tasks(agreed)),
    )


def divide(config: Config, case: Case) -> Divided:
    """The table by parties, its held-out records apart. Raises ValueError for data that cannot be divided."""
    held, table = vertical_table(config, case)
    holder = case.partition.labels or next(iter(held))
    if holder not in (*held, SERVER):
        raise DataError(f"partition.labels: {holder!r} is no party; choose one of {', '.join([*held, SERVER])}")
    train, test = table.split(config.data.test_fraction, split_stream(case))
    labels, held_out = (np.asarray(t.labels(), np.int64) for t in (train, test))
    ids = tuple(f"record {k + 1}" for k in range(len(train)))
    return Divided(table.schema, held, holder, ids, train.numbers(), test.numbers(), labels, held_out)


def check_engineered(divided: Divided, chosen: Features) -> None:
    """Raises ValueError for what would end the case: a column without a sketch, too few records for the folds, and
    where everything is useful, a transformation that is not defined.
    """
    flfe, classes = chosen.flfe, len(divided.schema.classes)
    check_folds(divided.test_labels, chosen.folds)
    columns = dict(zip(divided.schema.numeric, divided.train.T, strict=True))
    for name, column in columns.items():
        flfe.sketch(name, column, divided.train_labels, classes)
    agreed = PublicColumns(divided.held, classes, divided.holder)
    for task in flfe.tasks(agreed) if chosen.judges == "open" else ():
        how, names = task.transformation, task.features
        if len(names) == 1:
            unary(how, names[0], columns[names[0]], divided.train_labels)
        else:
            binary(how, (names[0], names[1]), columns[names[0]], columns[names[1]])


def judges_of(chosen: Features, source: str | list[str]) -> Judges:
    """The judges of these settings, none of which learnt from the table that they are to judge."""
    flfe = chosen.flfe
    if chosen.judges == "open":
        return open_judges(flfe.tried, flfe.bins)
    training = JudgeTraining(
        flfe.bins, flfe.scale, flfe.ranges, samples=chosen.judge_samples, crops=2, folds=3, records=200, epochs=30
    )
    return trained(training, source_name(source).split(".")[0], flfe.tried)


@cache
def trained(training: JudgeTraining, without: str, wanted: tuple[str, ...]) -> Judges:
    """Trained once in a process: a case after another takes the same."""
    return train_judges(training, corpus(None, (without,)), wanted=wanted)[0]


def measured(divided: Divided, made: tuple[Made, ...], chosen: Features, seed: int) -> dict[str, float]:
    """F1 on held-out records with and without the features, and how many they are."""
    number = {f: k for k, f in enumerate(divided.schema.numeric)}
    candidates = [(how, tuple(number[f] for f in of)) for how, of in made]
    found = f1_with_and_without(divided.test, divided.test_labels, candidates, chosen.base, chosen.folds, seed)
    return {"f1": found[0], "f1_without_features": found[1], "features_made": float(len(made))}
