"""On a real table: what the paper's encoders tell, as figures that must not get worse."""

from collections import Counter

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.transcript.membership import Membership
from leakledger.attacks.transcript.ring_size import RingSize
from leakledger.attacks.transcript.vocabulary import Vocabulary
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.scalers import SCALERS
from tests.attacks.ring_example import run

ROWS = 2000


@pytest.fixture(scope="module")
def adult(datasets):
    """(parties -> a federation's tables, the dictionaries of all values)."""
    whole = read_table(datasets / "adult.csv.gz")
    whole = whole.rows(np.sort(np.random.default_rng(0).choice(len(whole), ROWS, replace=False)))
    values = {f: tuple(sorted(set(whole.values(f)))) for f in whole.schema.categorical}
    return lambda n: partition(whole, "iid", n, np.random.default_rng(1)), AuxiliaryKnowledge(dictionaries=values)


def federation(adult, encoder, parties=4, columns="numeric", **options):
    tables = adult[0](parties)
    schema = next(iter(tables.values())).schema
    scaler = SCALERS["federated-zscore"](columns=columns)
    return run(encoder, tables=tables, schema=schema, scaler=scaler, **options)


@pytest.mark.slow
def test_two_colluders_of_four_know_every_size_under_uhe_and_nothing_exact_is_wrong(adult):
    found = federation(adult, "uhe")
    for observers, parties in ((("P2",), {"P1"}), (("P3",), {"P4"}), (("P1", "P3"), {"P2", "P4"})):
        claims = RingSize().run(found.view(*observers), AuxiliaryKnowledge())
        exact = {(c.party, c.feature): c.estimate for c in claims if c.low == c.high}
        assert {p for p, _ in exact} >= parties
        assert all(size == found.size(*key) for key, size in exact.items())


@pytest.mark.slow
def test_under_dh_psi_one_party_knows_nearly_the_whole_vocabulary_of_the_others(adult):
    found = federation(adult, "dh-psi")
    for claim in Membership().run(found.view("P2"), adult[1]):
        own = found.held("P2", claim.feature)
        for value, score in zip(claim.values, claim.scores, strict=True):
            if value in own:
                assert score == (value in found.held(claim.party, claim.feature))
    claims = Vocabulary().run(found.view("P2"), adult[1])
    hits = sum(len(set(c.values) & found.held(c.party, c.feature)) for c in claims)
    held = sum(len(found.held(p, f)) for p in ("P1", "P3", "P4") for f in adult[1].dictionaries)
    assert hits / held > 0.95
    assert hits / sum(len(c.values) for c in claims) > 0.95


@pytest.mark.slow
def test_exact_sums_of_byte_casts_give_two_of_three_the_third_one_s_columns(adult):
    found = federation(adult, "bytes-norm", parties=3, sharing="ring")
    claims = Vocabulary().run(found.view("P1", "P2"), adult[1])
    assert len(claims) == 8  # the one with forty candidates too
    for claim in claims:
        counts = dict(zip(claim.values, claim.counts, strict=True))
        assert counts == Counter(found.tables["P3"].values(claim.feature))


@pytest.mark.slow
def test_the_server_inverts_rolling_hashes_from_the_means_of_all_columns(adult):
    found = federation(adult, "rolling-hash", columns="all")
    claims = Vocabulary().run(found.view("server"), adult[1])
    hits = sum(len(set(c.values) & found.held(c.party, c.feature)) for c in claims)
    assert hits / sum(len(found.held(p, f)) for p in found.tables for f in adult[1].dictionaries) > 0.95
    assert hits / sum(len(c.values) for c in claims) > 0.95
