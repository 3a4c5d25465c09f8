"""Made-up federations whose answers are known: what controls of attacks on preprocessing are played on.

Four parties hold two categorical features, four numeric ones (two of whole numbers) and a label. The first three hold
different values, as many of one feature as their number says and one more of the other; the last one holds everything,
so that in an alignment it learns who shares what with it. Numbers lie around a mean that grows with the party's number.

That is draw 0. In every other draw the first three hold a random set of random size, all parties random numbers of rows
around random means, independently of each other and of the other draws; the last party holds the same values in all of
them. A *twin* has the shape of draw 0, sizes and row counts included, and shares no value or number with it: what hides
must not tell the two apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from leakledger.attacks.base import ControlSpec, ObserversOf
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Method, PublicFacts, View

PARTIES = 4
LARGEST, CANDIDATES = 8, 12  # of a drawn set, and what it is drawn from
FEWEST_ROWS, MOST_ROWS = 16, 40  # of a drawn party
SPREAD = 10  # of the first party's numbers, about as far as the means of two parties are apart
FEATURES = ("colour", "shape")
COLUMNS = ("height", "weight", "visits", "days")
WHOLE = ("visits", "days")
SCHEMA = Schema("label", FEATURES, COLUMNS, "binary", ("no", "yes"), integer=WHOLE)
NAMES = tuple(f"P{p + 1}" for p in range(PARTIES))  # as parties of a split table: what is known by name shows here
TWIN = -1  # the number of the draw that is the twin of draw 0
Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class ControlFederation:
    """One played federation: what everyone saw in `fed`, and each party's table."""

    fed: Simulated
    public: PublicFacts
    tables: Mapping[str, Table]
    inputs: Mapping[str, Any]

    def view(self, observers: ObserversOf) -> View:
        """What the observers hold."""
        coins = self.fed.party_secrets()
        return self.fed.ledger.view(observers_of(observers), self.public, inputs=self.inputs, coins=coins)


def observers_of(name: ObserversOf) -> tuple[str, ...]:
    chosen: dict[str, tuple[str, ...]] = {
        "server": ("server",),
        "first": NAMES[:1],
        "last": NAMES[-1:],
        "all but first": NAMES[1:],
        "all but last": NAMES[:-1],
    }
    return chosen[name]


def victims_of(name: ObserversOf) -> tuple[str, ...]:
    """The parties outside; the last one, which holds what all others hold, only where there is no other."""
    outside = tuple(p for p in NAMES if p not in observers_of(name))
    return outside if outside == NAMES[-1:] else tuple(p for p in outside if p != NAMES[-1])


def played(spec: ControlSpec, draw: int = 0) -> ControlFederation:
    """The federation of a specification on one draw."""
    return run_methods(spec.encoder, frozen(spec.encoder_options), spec.scaler, frozen(spec.scaler_options), draw)


@cache
def run_methods(
    encoder: str, encoder_options: Options, scaler: str, scaler_options: Options, draw: int, coins: int = 0
) -> ControlFederation:
    """Runs the preprocessing on one draw of the tables; `coins` tells runs on the same tables apart."""
    tables = made_up_tables(draw)
    named = (encoder, repr(encoder_options), scaler, repr(scaler_options), draw, coins)
    fed = Simulated(list(tables), secret=pinned("controls", *named))
    located = {p: fed.at(p, t) for p, t in tables.items()}
    methods = ENCODERS[encoder](**dict(encoder_options)), SCALERS[scaler](**dict(scaler_options))
    prepared = prepare(fed, SCHEMA, located, located, *methods)
    public = PublicFacts(
        fed.clients,
        fed.server,
        Method(encoder, {"ring": [], **dict(encoder_options)}),
        Method(scaler, dict(scaler_options)),
        schema={"categorical": list(FEATURES), "numeric": list(COLUMNS), "integer": list(WHOLE), **TARGET},
        layout=prepared.layout.value,
    )
    inputs = {p: {**t.to_plain(), "encoded": fed.own(prepared.train[p]).rows} for p, t in tables.items()}
    return ControlFederation(fed, public, tables, inputs)


TARGET = {"target": SCHEMA.target, "task": SCHEMA.task, "classes": list(SCHEMA.classes)}


@cache
def held(draw: int = 0) -> dict[str, dict[str, frozenset[str]]]:
    """Party -> feature -> values.

    Draw 0: disjoint values at all parties but the last, which holds them all. The twin: as many others. Other draws:
    sets of 1 to `LARGEST` of all candidates, each size and each set of one size with one chance, and all of them at the
    last party.
    """
    if draw > 0:
        return _drawn(np.random.default_rng(draw))
    mark = "" if draw == 0 else "other "
    own = {
        NAMES[p]: {f: frozenset(f"{mark}{f} {p}{n}" for n in range(p + 1 + i)) for i, f in enumerate(FEATURES)}
        for p in range(PARTIES - 1)
    }
    everything = {f: frozenset().union(*(values[f] for values in own.values())) for f in FEATURES}
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
def made_up_tables(draw: int) -> dict[str, Table]:
    return {party: _table(p, values, draw) for p, (party, values) in enumerate(held(draw).items())}


def _table(party: int, values: Mapping[str, frozenset[str]], draw: int) -> Table:
    coins = np.random.default_rng([party, abs(draw)] if draw > 0 else [party, 0, abs(draw)])
    rows = int(coins.integers(FEWEST_ROWS, MOST_ROWS)) if draw > 0 else 20 + 3 * party
    columns = {f: np.resize(sorted(v), rows) for f, v in values.items()}
    means = coins.normal(0, 10, len(COLUMNS)) if draw > 0 else 10.0 * party - 500.0 * (draw == TWIN)
    numbers = coins.normal(means, SPREAD + party, (rows, len(COLUMNS)))
    numeric = {c: x.round() if c in WHOLE else x for c, x in zip(COLUMNS, numbers.T, strict=True)}
    labels = np.resize(["no", "yes"], rows)
    frame = pd.DataFrame({**columns, **numeric, "label": labels})
    return Table(frame.astype({**dict.fromkeys(columns, "str"), "label": "str"}), SCHEMA, "control")


def frozen(options: Mapping[str, Any]) -> Options:
    """Options as something that can be a key."""
    return tuple(sorted((k, tuple(v) if isinstance(v, list) else v) for k, v in options.items()))
