"""On real tables, one of them with job titles, cities and merchants: every attack on transcripts runs, and what it says
for certain is so.
"""

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.scalers import SCALERS
from tests.attacks.ring_example import run

TECHNIQUES = ("statistics", "ring_size", "vocabulary", "membership", "sac_audit")
KNOW_NOTHING = AuxiliaryKnowledge()
ROWS = {2: 400, 5: 1000, 20: 2000}  # of all parties together


@pytest.fixture(scope="module", params=["adult", "cc_fraud"])
def table(request, datasets):
    return read_table(datasets / f"{request.param}.csv.gz", missing="drop")


def federation(table, parties, encoder, scaler, rows=None, **options):
    """`run` on a table that is split evenly. `route` is an option of the scaler, the others are of the encoder."""
    coins = np.random.default_rng(parties)
    chosen = np.sort(coins.choice(len(table), rows or ROWS[parties], replace=False))
    tables = partition(table.rows(chosen), "iid", parties, coins)
    scaling = SCALERS[scaler](**{k: v for k, v in options.items() if k == "route"})
    others = {k: v for k, v in options.items() if k != "route"}
    return run(encoder, tables=tables, schema=table.schema, scaler=scaling, **others)


def outcomes(found, *observers):
    """technique -> its claims; empty where it says why it makes none."""
    said = {name: ATTACKS[name]().run(found.view(*observers), KNOW_NOTHING) for name in TECHNIQUES}
    assert all(o.reason for o in said.values() if isinstance(o, NotApplicable | Abstained))
    claims = {name: [] if isinstance(o, NotApplicable | Abstained) else list(o) for name, o in said.items()}
    assert all(c.party not in observers for of_one in claims.values() for c in of_one)
    return claims


def exact_sizes(claims):
    return {(c.party, c.feature): c.estimate for c in claims["ring_size"] if c.low == c.high and c.feature}


@pytest.mark.slow
@pytest.mark.parametrize("parties", [2, 5, 20])
def test_the_second_party_of_a_ring_knows_the_first_one_s_sizes(table, parties):
    found = federation(table, parties, "uhe", "local")
    names = list(found.tables)
    for place, observer in enumerate(names[:3]):
        known = exact_sizes(outcomes(found, observer))
        assert all(size == found.size(*key) for key, size in known.items())
        parties_known = {p for p, _ in known}
        assert (names[0] in parties_known) == (place == 1)
    if parties > 2:
        known = exact_sizes(outcomes(found, names[1], names[3]))
        assert {names[0], names[2]} <= {p for p, _ in known}
        assert all(size == found.size(*key) for key, size in known.items())


@pytest.mark.slow
@pytest.mark.parametrize("parties", [5, 20])
def test_an_open_relay_of_secure_sums_knows_counts_and_means_and_a_relay_of_the_ring_all_sizes(table, parties):
    found = federation(table, parties, "uhe", "zscore-sac", route="relay", ring_route="relay")
    claims = outcomes(found, "server")
    numbers = {p: t.numbers() for p, t in found.tables.items()}
    told = {(c.party, c.feature, c.statistic): c.estimate for c in claims["statistics"]}
    for party, columns in numbers.items():
        assert told[party, "", "count"] == pytest.approx(len(columns))
        for k, feature in enumerate(table.schema.numeric):
            error = abs(told[party, feature, "mean"] - columns[:, k].mean())
            assert error <= 1e-6 * max(columns[:, k].std(), 1e-9)
    everything = {(p, f) for p in found.tables for f in table.schema.categorical}
    assert exact_sizes(claims) == {key: found.size(*key) for key in everything}
    assert {c.check for c in claims["sac_audit"]} >= {"coalition", "parts-not-hiding"}
    assert not claims["vocabulary"]
    assert not claims["membership"]


@pytest.mark.slow
@pytest.mark.parametrize("parties", [2, 5, 20])
def test_an_intersection_tells_a_party_for_certain_which_of_its_values_each_other_one_holds(table, parties):
    found = federation(table, parties, "dh-psi", "local", rows=400)
    observer = list(found.tables)[1]
    claims = outcomes(found, observer)
    told = {(c.party, c.feature): dict(zip(c.values, c.scores, strict=True)) for c in claims["membership"]}
    claimed = {(c.party, c.feature): set(c.values) for c in claims["vocabulary"]}
    for party in found.tables:
        for feature in table.schema.categorical if party != observer else ():
            mine, held = found.held(observer, feature), found.held(party, feature)
            assert {v for v, score in told[party, feature].items() if v in mine and score == 1} == mine & held
            assert {v for v, score in told[party, feature].items() if v in mine and score == 0} == mine - held
            assert claimed.get((party, feature), set()) & mine == mine & held
    totals = {c.party: c.estimate for c in claims["ring_size"] if not c.feature}
    assert totals == {p: sum(found.size(p, f) for f in table.schema.categorical) for p in found.tables if p != observer}


@pytest.mark.slow
@pytest.mark.parametrize("parties", [2, 5, 20])
def test_a_server_that_is_sent_dictionaries_and_summaries_has_them(table, parties):
    found = federation(table, parties, "server-dictionary", "federated-zscore")
    claims = outcomes(found, "server")
    told = {(c.party, c.feature, c.statistic): c.estimate for c in claims["statistics"]}
    for party, rows in found.tables.items():
        np.testing.assert_allclose(
            [told[party, f, "mean"] for f in table.schema.numeric], rows.numbers().mean(0), rtol=1e-6, atol=1e-9
        )
    warned = {(c.check, c.party) for c in claims["sac_audit"]}
    assert warned >= {("plaintext-told", p) for p in found.tables}
    other = outcomes(found, next(iter(found.tables)))
    assert not other["statistics"] or parties == 2
