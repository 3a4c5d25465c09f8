"""Federations that ran one encoder on small tables, and the views of their parties, for attacks on preprocessing."""

import numpy as np
import pandas as pd

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Method, PublicFacts

FEATURES = ("ward", "diet")
SCHEMA = Schema(target="ill", categorical=FEATURES, numeric=("age",), task="binary", classes=("no", "yes"))
SETS = {
    "P1": {"ward": ("burns", "dental", "ent"), "diet": ("full", "light")},
    "P2": {"ward": ("burns", "ent", "icu", "surgery"), "diet": ("light",)},
    "P3": {"ward": ("burns", "dental", "maternity", "surgery", "xray"), "diet": ("full", "none", "soft")},
    "P4": {"ward": ("ent", "xray"), "diet": ("full", "light", "none", "soft")},
}
EVERYTHING = {f: tuple(sorted(set().union(*(s[f] for s in SETS.values())))) for f in FEATURES}


def table(values, rows=12, weights=None, seed=0):
    """A table of these values by feature, each at least once."""
    coins = np.random.default_rng(seed)
    columns = {}
    for feature, held in values.items():
        drawn = coins.choice(held, rows - len(held), p=None if weights is None else weights[feature])
        columns[feature] = np.concatenate([held, drawn])
    frame = pd.DataFrame({**columns, "age": coins.normal(size=rows), "ill": ["no", "yes"] * (rows // 2)})
    return Table(frame.astype({**dict.fromkeys(values, "str"), "ill": "str"}), SCHEMA, "example")


def run(name, sets=SETS, scaler=None, seed=1, tables=None, schema=SCHEMA, **options):
    """The federation, its public facts, its tables, and the inputs of its parties."""
    tables = tables or {p: table(v, seed=i) for i, (p, v) in enumerate(sets.items())}
    fed = Simulated(list(tables), secret=pinned(seed))
    located = {p: fed.at(p, t) for p, t in tables.items()}
    encoder = ENCODERS[name](**options)
    scaling = SCALERS["local"]() if scaler is None else scaler
    prepared = prepare(fed, schema, located, located, encoder, scaling)
    unnamed = {"ring": [], "pad_to": 1, "noise": 0}  # no order: the clients'; no padding
    public = {**unnamed, **{k: v for k, v in options.items() if k != "dictionary"}}
    plain = {"categorical": list(schema.categorical), "numeric": list(schema.numeric)}
    plain |= {"orders": {f: list(v) for f, v in schema.orders.items()}} if schema.orders else {}
    public = PublicFacts(fed.clients, fed.server, Method(name, public), schema=plain, layout=prepared.layout.value)
    inputs = {p: {**t.to_plain(), "encoded": fed.own(prepared.train[p]).rows} for p, t in tables.items()}
    return Run(fed, public, tables, inputs)


class Run:
    """One federation after its preprocessing."""

    def __init__(self, fed, public, tables, inputs):
        self.fed, self.public, self.tables, self.inputs = fed, public, tables, inputs

    def view(self, *observers):
        return self.fed.ledger.view(observers, self.public, inputs=self.inputs, coins=self.fed.party_secrets())

    def size(self, party, feature):
        return len(set(self.tables[party].values(feature)))

    def held(self, party, feature):
        return set(self.tables[party].values(feature))
