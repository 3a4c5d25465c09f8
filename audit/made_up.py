"""Made-up federations whose transcripts surely leak: what controls of attacks on preprocessing are played on.

Four parties hold two categorical features. The first three hold different values, as many of one feature as their
number says and one more of the other; the last one holds everything, so that in an alignment it learns who shares what
with it. `secure_sums` is three parties that add up numbers by secure average computation.

That is draw 0. In every other draw the first three hold a random set of random size, and their numbers have random
means, independently of each other and of the other draws; the last party holds the same in all of them.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from preprocess.data.schema import Schema
from preprocess.data.table import Table
from preprocess.encoders import ENCODERS
from preprocess.pipeline import prepare
from preprocess.scalers import SCALERS
from preprocess.scalers.zscore_sac import ZScoreSac
from preprocess.transport.simulated import Simulated
from preprocess.views import FeatureLayout, NumericBlock, PublicFacts, View

PARTIES, ROWS = 4, 12
LARGEST, CANDIDATES = 8, 12  # of a drawn set, and what it is drawn from
FEATURES = ("colour", "shape")
SCHEMA = Schema(target="label", categorical=FEATURES, numeric=("size",), task="binary", classes=("no", "yes"))
Values = dict[str, dict[str, frozenset[str]]]  # party -> feature -> values


@cache
def held(draw: int = 0) -> Values:
    """Draw 0: disjoint values at all parties but the last, which holds them all. Others: sets of 1 to `LARGEST` of all
    candidates, each size and each set of one size with one chance, and all of them at the last party.
    """
    if draw:
        return _drawn(np.random.default_rng(draw))
    own = {
        f"control {p}": {f: frozenset(f"{f} {p}{n}" for n in range(p + 1 + i)) for i, f in enumerate(FEATURES)}
        for p in range(PARTIES - 1)
    }
    everything = {f: frozenset().union(*(values[f] for values in own.values())) for f in FEATURES}
    return {**own, f"control {PARTIES - 1}": everything}


def _drawn(coins: np.random.Generator) -> Values:
    everything = {f: [f"{f} {n:02}" for n in range(CANDIDATES)] for f in FEATURES}
    own = {
        f"control {p}": {
            f: frozenset(coins.choice(values, coins.integers(1, LARGEST + 1), replace=False).tolist())
            for f, values in everything.items()
        }
        for p in range(PARTIES - 1)
    }
    return {**own, f"control {PARTIES - 1}": {f: frozenset(v) for f, v in everything.items()}}


@cache
def encoded_by(encoder: str, observer: int, relay: bool = False, draw: int = 0) -> View:
    """The view of party number `observer`, or of the relay, of a federation that ran `encoder` on a draw of `held`."""
    tables = {party: _table(values, seed) for seed, (party, values) in enumerate(held(draw).items())}
    fed = Simulated(list(tables), seed=draw)
    located = {p: fed.at(p, t) for p, t in tables.items()}
    options = {"ring_route": "relay"} if relay else {}
    method = ENCODERS[encoder](**options)  # type: ignore[arg-type]
    prepared = prepare(fed, SCHEMA, located, located, method, SCALERS["local"]())
    known = {"categorical": list(FEATURES), "numeric": list(SCHEMA.numeric)}
    public = PublicFacts(
        fed.clients, fed.server, {"encoder": encoder, "ring": [], **options}, known, prepared.layout.value
    )
    inputs = {p: {**t.to_plain(), "encoded": fed.own(prepared.train[p]).rows} for p, t in tables.items()}
    who = fed.server if relay else fed.clients[observer]
    return fed.ledger.view([who], public, inputs=inputs, coins=fed.coin_seeds())


def _table(values: dict[str, frozenset[str]], seed: int) -> Table:
    coins = np.random.default_rng(seed)
    rows = max(ROWS, *(len(v) for v in values.values()))
    columns = {f: np.resize(sorted(v), rows) for f, v in values.items()}
    labels = np.resize(["no", "yes"], rows)
    frame = pd.DataFrame({**columns, "size": coins.normal(size=rows), "label": labels})
    return Table(frame.astype({**dict.fromkeys(columns, "str"), "label": "str"}), SCHEMA, "control")


@cache
def secure_sums(sealed: bool, draw: int = 0) -> tuple[View, tuple[NDArray[np.float64], ...]]:
    """The relay's view of a z-score of four columns by secure sums of real numbers, and the tables (n, 4)."""
    tables = tuple(_numbers(i, draw) for i in range(3))
    fed = Simulated([f"control {i}" for i in range(3)], seed=draw)
    scaler = ZScoreSac(route="sealed" if sealed else "relay")
    scaler.fit(fed, {c: fed.at(c, x) for c, x in zip(fed.clients, tables, strict=True)})
    layout = FeatureLayout(tuple(NumericBlock(name, i) for i, name in enumerate(column_names(tables))))
    return fed.ledger.view([fed.server], PublicFacts(fed.clients, fed.server, layout=layout)), tables


def _numbers(party: int, draw: int) -> NDArray[np.float64]:
    coins = np.random.default_rng([party, draw] if draw else party)
    means = coins.normal(0, 10, 4) if draw else 10 * party
    return coins.normal(means, 1 + party, (20 + 3 * party, 4))


def column_names(tables: Sequence[NDArray[np.float64]]) -> list[str]:
    return [f"column {i}" for i in range(tables[0].shape[1])]
