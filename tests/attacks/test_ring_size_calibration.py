"""Over many federations drawn from the model that `ring_size` assumes, its intervals hold what they promise."""

import numpy as np
import pandas as pd
import pytest

from attacks.base import AuxiliaryKnowledge
from attacks.ring_size import RingSize
from attacks.ring_size.occupancy import PRIOR_COUNT
from preprocess.data.schema import Schema
from preprocess.data.table import Table
from preprocess.encoders import ENCODERS
from preprocess.transport.simulated import Simulated
from preprocess.views import PublicFacts

FEDERATIONS, PARTIES, ROWS, SPREAD = 320, 5, 120, 1.0
CANDIDATES = {"small": 25, "middle": 60, "large": 120}
SCHEMA = Schema(target="t", categorical=tuple(CANDIDATES), numeric=(), task="binary", classes=("n", "y"))
DICTIONARIES = {f: tuple(f"v{i:03}" for i in range(k)) for f, k in CANDIDATES.items()}


def federation(coins, spread=SPREAD, **options):
    """Parties with log-normal numbers of rows, whose values have gamma frequencies, after one ring."""
    chances = {f: coins.dirichlet(np.full(k, PRIOR_COUNT)) for f, k in CANDIDATES.items()}
    fed = Simulated([f"P{i}" for i in range(PARTIES)], seed=int(coins.integers(2**31)))
    tables = {}
    for p in fed.clients:
        rows = max(2, round(ROWS * np.exp(spread / np.sqrt(2) * coins.normal())))  # the ratio of two has `spread`
        columns = {f: coins.choice(DICTIONARIES[f], rows, p=c) for f, c in chances.items()}
        frame = pd.DataFrame({**columns, "t": ["n", "y"] * (rows // 2) + ["n"] * (rows % 2)})
        tables[p] = Table(frame.astype("str"), SCHEMA, "simulated")
    ENCODERS["uhe"](**options).fit(fed, SCHEMA, {p: fed.at(p, t) for p, t in tables.items()})
    public = PublicFacts(fed.clients, fed.server, {"encoder": "uhe", **options}, {"categorical": list(CANDIDATES)})
    inputs = {p: t.to_plain() for p, t in tables.items()}
    return tables, lambda *who: fed.ledger.view(who, public, inputs=inputs)


def coverage(observers, victim, seed, granted=True, **options):
    """The share of intervals about the victim that hold the size, over federations and features; and mean widths."""
    coins, hits, widths = np.random.default_rng(seed), [], []
    knowledge = AuxiliaryKnowledge(dictionaries=DICTIONARIES if granted else {})
    for _ in range(FEDERATIONS):
        tables, view = federation(coins, **options)
        for claim in RingSize(spread=SPREAD).run(view(*observers), knowledge):
            if claim.party == victim:
                size = len(set(tables[victim].values(claim.feature)))
                hits.append(claim.low <= size <= claim.high)
                widths.append(claim.high - claim.low)
    return float(np.mean(hits)), float(np.mean(widths))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("observers", "victim", "options"),
    [
        (("P1",), "P3", {}),  # one of three behind the observer
        (("P2",), "P0", {}),  # one of two before it
        (("P1",), "P0", {"pad_to": 5, "noise": 20}),  # alone, behind padding
    ],
)
def test_nominal_intervals_of_90_percent_cover_85_to_95_percent(observers, victim, options):
    share, width = coverage(observers, victim, seed=1, **options)
    print(observers, victim, options, round(share, 3), round(width, 1))
    assert width > 1
    assert 0.85 <= share <= 0.95
