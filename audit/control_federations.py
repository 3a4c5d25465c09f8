"""Made-up federations whose answers are known: what controls of attacks on preprocessing are played on.

Four parties hold two categorical features, four numeric ones (two of whole numbers) and a label. The first three hold
different values, as many of one feature as their number says and one more of the other; the last one holds everything,
so that in an alignment it learns who shares what with it. Numbers lie around a mean that grows with the party's number.

That is draw 0. In every other draw the first three hold a random set of random size, all parties random numbers of rows
around random means, independently of each other and of the other draws; the last party holds the same values in all of
them. A *twin* has the shape of draw 0, sizes and row counts included, and shares no value or number with it; its
parties hold each other's values where those of draw 0 hold different ones. What hides must not tell the two apart:
neither by values nor by how many of them are shared. *Turned*, the parties of draw 0 exchange their numbers of rows,
and the first three their values: what all hold together is as much as before, and what each holds is not.

Where a control is about evaluation, a small model is trained for a round, with validation, and evaluated on rows that
are drawn to be held out. Parties of a control about engineered features are those of `control_features`.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from time import monotonic
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leakledger.attacks.base import ControlSpec
from leakledger.audit.control_features import engineered
from leakledger.audit.control_parties import (
    NAMES,
    PARTIES,
    TURNED,
    TWIN,
    ControlFederation,
    Options,
    frozen,
    observers_of,
    victims_of,
)
from leakledger.audit.federate import public_options
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.pipeline import Prepared, prepare
from leakledger.preprocess.scalers import SCALERS, canonical
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import train
from leakledger.preprocess.training.evaluation import evaluate
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Method, ModelSpec, PublicFacts, TrainingSpec

LARGEST, CANDIDATES = 8, 12  # of a drawn set, and what it is drawn from
FEWEST_ROWS, MOST_ROWS = 16, 40  # of a drawn party
SPREAD = 10  # of the first party's numbers, about as far as the means of two parties are apart
FEATURES = ("colour", "shape")
COLUMNS = ("height", "weight", "visits", "days")
WHOLE = ("visits", "days")
SCHEMA = Schema("label", FEATURES, COLUMNS, "binary", ("no", "yes"), integer=WHOLE)
NUMERIC = Schema("label", FEATURES, COLUMNS, "regression", (), integer=WHOLE)  # the same with a numeric target
TRAINING = TrainingSpec(rounds=1, patience=1, validation=0.8)  # a share that leaves one or two numbers of rows possible
HIDDEN = (4,)


def played(spec: ControlSpec, draw: int = 0) -> ControlFederation:
    """The federation of a specification on one draw."""
    if spec.features is not None:
        return engineered(frozen(spec.features), draw)
    scaler, options = canonical(spec.scaler)
    methods = spec.encoder, frozen(spec.encoder_options), scaler, frozen({**options, **spec.scaler_options})
    return run_methods(*methods, draw, evaluation=spec.evaluation)


@cache
def run_methods(
    encoder: str,
    encoder_options: Options,
    scaler: str,
    scaler_options: Options,
    draw: int,
    coins: int = 0,
    evaluation: str = "",
) -> ControlFederation:
    """Runs the preprocessing on one draw of the tables, and with `evaluation` the training of a model for that task;
    `coins` tells runs on the same tables apart.
    """
    tables = made_up_tables(draw, evaluation == "regression")
    schema = next(iter(tables.values())).schema
    methods = ENCODERS[encoder](**dict(encoder_options)), SCALERS[scaler](**dict(scaler_options))
    if methods[1].needs_ranges or any(_is_budget(*option) for option in encoder_options):
        schema = declared(schema, draw)
    named = (encoder, repr(encoder_options), scaler, repr(scaler_options), draw, coins)
    secret = pinned("controls", *named, evaluation) if evaluation else pinned("controls", *named)
    fed = Simulated(list(tables), secret=secret, clock=monotonic)
    located = {p: fed.at(p, t) for p, t in tables.items()}
    held_back = (
        {p: fed.at(p, t) for p, t in held_out_tables(draw, schema is NUMERIC).items()} if evaluation else located
    )
    prepared = prepare(fed, schema, located, held_back, *methods)
    statistics = tuple(m for method in methods for m in method.mechanisms(schema))
    model = _evaluated(fed, schema, prepared) if evaluation else None
    public = PublicFacts(
        fed.clients,
        fed.server,
        Method(encoder, public_options(methods[0])),
        Method(scaler, dict(scaler_options)),
        statistics=statistics,
        schema={"categorical": list(FEATURES), "numeric": list(COLUMNS), "integer": list(WHOLE), **target_of(schema)},
        layout=prepared.layout.value,
        model=model,
        training=TRAINING if evaluation else None,
    )
    inputs = {p: {**t.to_plain(), "encoded": fed.own(prepared.train[p]).rows} for p, t in tables.items()}
    return ControlFederation(fed, public, tables, inputs)


def _is_budget(option: str, value: Any) -> bool:
    return "epsilon" in option and value is not None


def declared(schema: Schema, draw: int) -> Schema:
    """The schema with ranges and domains, as noise, searches and encryption need them: the draw's, widened to whole
    numbers.
    """
    frame = pd.concat([t.frame for t in made_up_tables(draw, schema is NUMERIC).values()])
    ranges = {c: (float(np.floor(frame[c].min())), float(np.ceil(frame[c].max())) + 1.0) for c in schema.numeric}
    domains = {f: tuple(sorted(set(frame[f]))) for f in schema.categorical}
    return replace(schema, ranges=ranges, domains=domains)


def _evaluated(fed: Simulated, schema: Schema, prepared: Prepared) -> ModelSpec:
    """Trains a model for the target and evaluates it on the held-out rows."""
    outputs = len(schema.classes) or 1
    spec = ModelSpec(prepared.layout.value.width, outputs, HIDDEN, task=schema.task)
    trained = train(fed, ALGORITHMS[TRAINING.algorithm], spec, TRAINING, prepared.train)
    evaluate(fed, spec, trained.model, prepared.test)
    return spec


def target_of(schema: Schema) -> dict[str, Any]:
    """What is public of the target."""
    return {"target": schema.target, "task": schema.task, "classes": list(schema.classes)}


@cache
def held(draw: int = 0) -> dict[str, dict[str, frozenset[str]]]:
    """Party -> feature -> values.

    Draw 0: disjoint values at all parties but the last, which holds them all. The twin: as many others, each set within
    that of the next party. Turned: the first three hold what the next of them did. Other draws: sets of 1 to `LARGEST`
    of all candidates, each size and each set of one size with one chance, and all of them at the last party.
    """
    if draw > 0:
        return _drawn(np.random.default_rng(draw))
    if draw == TWIN:
        return {
            p: {f: frozenset(f"other {f} {n}" for n in range(len(v))) for f, v in own.items()}
            for p, own in held().items()
        }
    own = {
        NAMES[p]: {f: frozenset(f"{f} {p}{n}" for n in range(p + 1 + i)) for i, f in enumerate(FEATURES)}
        for p in range(PARTIES - 1)
    }
    everything = {f: frozenset().union(*(values[f] for values in own.values())) for f in FEATURES}
    if draw == TURNED:
        own = dict(zip(own, [*list(own.values())[1:], own[NAMES[0]]], strict=True))
    return {**own, NAMES[-1]: everything}


def _drawn(coins: np.random.Generator) -> dict[str, dict[str, frozenset[str]]]:
    everything = {f: [f"{f} {n:02}" for n in range(CANDIDATES)] for f in FEATURES}
    own = {
        NAMES[p]: {
            f: frozenset(coins.choice(values, coins.integers(1, LARGEST + 1), replace=False).tolist())
            for f, values in everything.items()
        }
        for p in range(PARTIES - 1)
    }
    return {**own, NAMES[-1]: {f: frozenset(v) for f, v in everything.items()}}


@cache
def made_up_tables(draw: int, numeric_target: bool = False) -> dict[str, Table]:
    """Party -> its table of one draw; with a `numeric_target`, this is its first column of numbers."""
    return {party: _table(p, values, draw, numeric_target) for p, (party, values) in enumerate(held(draw).items())}


@cache
def held_out_tables(draw: int, numeric_target: bool = False) -> dict[str, Table]:
    """Party -> rows of its table, drawn to be held out: those of the second class of the two, and some of the others,
    so that parties differ in number and in rates.
    """
    return {
        party: table.rows(_held_out(p, len(table), draw))
        for p, (party, table) in enumerate(made_up_tables(draw, numeric_target).items())
    }


def _held_out(party: int, rows: int, draw: int) -> NDArray[np.int64]:
    """Numbers of rows; every second one is of the second class. Draw 0: two more of the others for each party."""
    others, second = np.arange(0, rows, 2), np.arange(1, rows, 2)
    coins = np.random.default_rng([party, abs(draw), 1])
    some = int(coins.integers(1, len(others) + 1)) if draw > 0 else 2 * party + 1
    most = int(coins.integers(1, len(second) + 1)) if draw > 0 else len(second)
    return np.sort(np.concatenate([others[:some], second[:most]]))


def _table(party: int, values: Mapping[str, frozenset[str]], draw: int, numeric_target: bool = False) -> Table:
    coins = np.random.default_rng([party, abs(draw)] if draw > 0 else [party, 0, abs(draw)])
    place = PARTIES - 1 - party if draw == TURNED else party
    rows = int(coins.integers(FEWEST_ROWS, MOST_ROWS)) if draw > 0 else 20 + 3 * place
    columns = {f: np.resize(sorted(v), rows) for f, v in values.items()}
    means = coins.normal(0, 10, len(COLUMNS)) if draw > 0 else 10.0 * party - 500.0 * (draw == TWIN)
    numbers = coins.normal(means, SPREAD + party, (rows, len(COLUMNS)))
    numeric = {c: x.round() if c in WHOLE else x for c, x in zip(COLUMNS, numbers.T, strict=True)}
    labels = numbers[:, 0] if numeric_target else np.resize(["no", "yes"], rows)
    frame = pd.DataFrame({**columns, **numeric, "label": labels})
    texts = dict.fromkeys(columns if numeric_target else (*columns, "label"), "str")
    return Table(frame.astype(texts), NUMERIC if numeric_target else SCHEMA, "control")


__all__ = [
    "CANDIDATES",
    "COLUMNS",
    "FEATURES",
    "FEWEST_ROWS",
    "HIDDEN",
    "LARGEST",
    "MOST_ROWS",
    "NAMES",
    "NUMERIC",
    "PARTIES",
    "SCHEMA",
    "SPREAD",
    "TRAINING",
    "TURNED",
    "TWIN",
    "WHOLE",
    "ControlFederation",
    "Options",
    "declared",
    "frozen",
    "held",
    "held_out_tables",
    "made_up_tables",
    "observers_of",
    "played",
    "run_methods",
    "target_of",
    "victims_of",
]
