"""Over many federations drawn from the model that `ring_size` assumes, its intervals hold what they promise."""

from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.transcript.ring_size import RingSize
from leakledger.attacks.transcript.ring_size.population import PRIOR_COUNT
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Method, PublicFacts

FEDERATIONS, PARTIES, ROWS, SPREAD = 200, 5, 120, 1.0
CANDIDATES = {"small": 25, "middle": 60, "large": 120}
SCHEMA = Schema(target="t", categorical=tuple(CANDIDATES), numeric=(), task="binary", classes=("n", "y"))
DICTIONARIES = {f: tuple(f"v{i:03}" for i in range(k)) for f, k in CANDIDATES.items()}


def federation(coins, spread=SPREAD, order="public", **options):
    """Parties with log-normal numbers of rows, whose values have gamma frequencies, after one ring: in the order of the
    clients, or in one that is drawn and not told.
    """
    chances = {f: coins.dirichlet(np.full(k, PRIOR_COUNT)) for f, k in CANDIDATES.items()}
    fed = Simulated([f"P{i}" for i in range(PARTIES)], secret=pinned(int(coins.integers(2**31))))
    tables = {}
    for p in fed.clients:
        rows = max(2, round(ROWS * np.exp(spread / np.sqrt(2) * coins.normal())))  # the ratio of two has `spread`
        columns = {f: coins.choice(DICTIONARIES[f], rows, p=c) for f, c in chances.items()}
        frame = pd.DataFrame({**columns, "t": ["n", "y"] * (rows // 2) + ["n"] * (rows % 2)})
        tables[p] = Table(frame.astype("str"), SCHEMA, "simulated")
    ring = () if order == "public" else tuple(coins.permutation(fed.clients).tolist())
    ENCODERS["uhe"](ring=ring, **options).fit(fed, SCHEMA, {p: fed.at(p, t) for p, t in tables.items()})
    padding = {"pad_to": 1, "noise": 0, **options}
    agreed = Method("uhe", {**({"ring": []} if order == "public" else {}), **padding})
    public = PublicFacts(fed.clients, fed.server, agreed, schema={"categorical": list(CANDIDATES)})
    inputs = {p: t.to_plain() for p, t in tables.items()}
    return tables, lambda *who: fed.ledger.view(who, public, inputs=inputs)


def coverage(adversaries, seed, granted=True, **options):
    """For each (observers, victim): the share of intervals about the victim that hold the size, over federations and
    features, and their mean width; sizes that are known exactly are left out.
    """
    coins, hits, widths = np.random.default_rng(seed), defaultdict(list), defaultdict(list)
    knowledge = AuxiliaryKnowledge(dictionaries=DICTIONARIES if granted else {})
    for _ in range(FEDERATIONS):
        tables, view = federation(coins, **options)
        for observers, victim in adversaries:
            for claim in RingSize(spread=SPREAD / np.sqrt(2)).run(view(*observers), knowledge):
                size = len(set(tables[claim.party].values(claim.feature)))
                assert claim.low < claim.high or claim.estimate == size
                if claim.party == victim and claim.low < claim.high:
                    hits[observers, victim].append(claim.low <= size <= claim.high)
                    widths[observers, victim].append(claim.high - claim.low)
    return {key: (float(np.mean(hits[key])), float(np.mean(widths[key]))) for key in adversaries}


ONE_OF_THREE, ONE_OF_TWO, ALONE = (("P1",), "P3"), (("P2",), "P0"), (("P1",), "P0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adversaries", "options"),
    [
        ((ONE_OF_THREE, ONE_OF_TWO), {}),  # behind the observer, before it
        ((ONE_OF_THREE, ALONE), {"pad_to": 5, "noise": 20}),  # alone before the observer, but for padding
        ((ONE_OF_THREE,), {"order": "secret"}),  # the ring runs in an order that is drawn and not told
        ((ONE_OF_THREE,), {"order": "secret", "pad_to": 3, "noise": 6}),
    ],
)
def test_nominal_intervals_of_90_percent_cover_85_to_98_percent(adversaries, options):
    """More than they say at this spread: numbers of rows have heavier tails in the model than in these federations."""
    for who, (share, width) in coverage(adversaries, seed=1, **options).items():
        print(*who, options, round(share, 3), round(width, 1))
        assert width > 1
        assert 0.85 <= share <= 0.98


@pytest.mark.parametrize("options", [{}, {"pad_to": 3, "noise": 6}])
def test_orders_of_the_ring_that_cannot_have_its_sums_are_left_out(options):
    """Two parties have no more than twice the granted values: of what is more, three have to be in that stretch."""
    coins, knowledge = np.random.default_rng(1), AuxiliaryKnowledge(dictionaries=DICTIONARIES)
    views = [federation(coins, order="secret", **options)[1] for _ in range(8)]
    assert all(list(RingSize().run(view("P1"), knowledge)) for view in views)
