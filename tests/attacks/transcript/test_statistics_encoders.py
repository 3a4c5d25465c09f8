"""What the sums and tables of encoders give: row counts, dictionary sizes, frequencies and target rates."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge
from leakledger.attacks.observed.secure_sums import secure_sums
from leakledger.attacks.transcript.sac_audit import SacAudit
from leakledger.attacks.transcript.statistics import Statistics
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.bytes_norm import BytesNorm
from leakledger.preprocess.encoders.local import Local
from leakledger.preprocess.encoders.mod_norm import ModNorm
from leakledger.preprocess.encoders.target import Target
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import PublicFacts
from tests.attacks import ring_example
from tests.attacks.ring_example import SETS, run, table

SCHEMA = Schema(target="ill", task="binary", classes=("no", "yes"), categorical=("ward", "unit"), numeric=())
WARDS = (("a", "a", "b", "c"), ("a", "b", "b"), ("c", "c", "c", "c", "d"), ("b", "e"))
LABELS = (("no", "yes", "no", "no"), ("yes", "yes", "no"), ("no",) * 5, ("yes", "no"))


def party_tables(count):
    frames = [
        pd.DataFrame({"ward": w, "unit": w[::-1], "ill": y}, dtype="str") for w, y in zip(WARDS, LABELS, strict=True)
    ]
    return [Table(f, SCHEMA, "t") for f in frames[:count]]


def claims_of(encoder, count, observers, **granted):
    own = party_tables(count)
    fed = Simulated([f"P{i + 1}" for i in range(count)], secret=pinned(0))
    encoder.fit(fed, SCHEMA, {c: fed.at(c, t) for c, t in zip(fed.clients, own, strict=True)})
    schema = {
        "target": "ill",
        "task": "binary",
        "classes": ["no", "yes"],
        "categorical": ["ward", "unit"],
        "numeric": [],
    }
    view = fed.ledger.view(
        observers,
        PublicFacts(fed.clients, "server", schema=schema),
        inputs={c: t.to_plain() for c, t in zip(fed.clients, own, strict=True)},
    )
    outcome = Statistics().run(view, AuxiliaryKnowledge(**granted))
    return {(c.party, c.feature, c.statistic, c.value): c for c in outcome}


@pytest.mark.parametrize("sharing", ["proportional", "ring"])
@pytest.mark.parametrize("encoder", ["bytes-norm", "mod-norm"])
def test_what_an_encoder_adds_up_of_no_categorical_feature_is_neither_a_count_of_rows_nor_a_finding(encoder, sharing):
    numbers = replace(ring_example.SCHEMA, categorical=())
    tables = {p: replace(table(SETS[p]), schema=numbers) for p in SETS}
    for observer in ("server", "P2"):
        found = run(encoder, tables=tables, schema=numbers, sharing=sharing, scaler=SCALERS["federated-zscore"]())
        view = found.view(observer)
        assert secure_sums(view) == ([], [])
        outcome = Statistics().run(view, AuxiliaryKnowledge())
        if observer == "P2":
            assert outcome == Abstained("the messages say no more than what all outside have together")
        else:
            counts = {c.party: c.estimate for c in outcome if c.statistic == "count"}
            assert counts == {p: len(t.frame) for p, t in tables.items()}
        checks = SacAudit().run(view, AuxiliaryKnowledge())
        assert isinstance(checks, Abstained) if observer == "P2" else {c.check for c in checks} == {"plaintext-told"}


@pytest.mark.parametrize("sharing", ["proportional", "ring"])
def test_the_relay_of_mod_norm_reads_row_counts_and_dictionary_sizes(sharing):
    found = claims_of(ModNorm(sharing=sharing), 4, ["server"])
    for i, wards in enumerate(WARDS):
        assert found[f"P{i + 1}", "", "count", ""].estimate == len(wards)
        assert found[f"P{i + 1}", "ward", "size", ""].estimate == len(set(wards))


def test_one_party_of_mod_norm_has_intervals_for_counts_and_sizes():
    found = claims_of(ModNorm(route="direct"), 4, ["P1"])
    assert {(p, s) for p, _, s, _ in found} == {(p, s) for p in ("P2", "P3", "P4") for s in ("count", "size")}
    assert all(c.low <= c.estimate <= c.high for c in found.values())


@pytest.mark.parametrize("sharing", ["proportional", "ring"])
def test_all_but_one_party_of_bytes_norm_know_the_last_ones_rows(sharing):
    found = claims_of(BytesNorm(sharing=sharing, route="direct"), 4, ["P1", "P2", "P3"])
    assert {key: c.estimate for key, c in found.items()} == {("P4", "", "count", ""): 2}


def target_truth(party, value):
    rows = np.array(WARDS[party]) == value
    return rows.mean(), (np.array(LABELS[party])[rows] == "yes").mean()


@pytest.mark.parametrize(("observers", "party"), [(["server"], 0), (["P1"], 1)])
def test_shared_target_encoding_gives_frequencies_and_rates_of_each_value(observers, party):
    found = claims_of(Target(exchange="shared"), 2, observers)
    name = f"P{party + 1}"
    assert found[name, "", "count", ""].estimate == len(WARDS[party])
    assert found[name, "", "target_rate", ""].estimate == pytest.approx(np.mean(np.array(LABELS[party]) == "yes"))
    for value in set(WARDS[party]):
        frequency, rate = target_truth(party, value)
        assert found[name, "ward", "frequency", value].estimate == pytest.approx(frequency)
        assert found[name, "ward", "target_rate", value].estimate == pytest.approx(rate)


def test_a_value_that_the_last_client_lacks_has_frequency_zero_and_no_rate():
    found = claims_of(Target(exchange="shared"), 2, ["P1"])
    assert found["P2", "ward", "frequency", "c"].estimate == 0
    assert ("P2", "ward", "target_rate", "c") not in found


def test_one_client_of_several_knows_what_none_or_all_of_the_others_rows_have():
    granted = {"ward": ("a", "b", "c", "d", "z")}
    found = claims_of(Target(exchange="shared"), 3, ["P1"], dictionaries=granted)
    others = [v for wards in WARDS[1:3] for v in wards]
    claimed = {(p, v): c.estimate for (p, f, s, v), c in found.items() if (f, s) == ("ward", "frequency")}
    assert set(claimed) == {(p, v) for p in ("P2", "P3") for v in set("abcdz") - set(others)}
    assert set(claimed.values()) == {0.0}
    assert not [key for key in found if key[2] == "count"]


@pytest.mark.parametrize(("observers", "party"), [("server", "P1"), ("server", "P2"), ("P1", "P2")])
def test_what_exists_and_a_tally_does_not_list_has_frequency_zero(observers, party):
    granted = {"ward": ("a", "b", "c", "d", "z")}
    found = claims_of(Target(exchange="shared"), 2, [observers], dictionaries=granted)
    claimed = {v: c for (p, f, s, v), c in found.items() if (p, f, s) == (party, "ward", "frequency")}
    assert set(claimed) == set("abcdz")
    for value, claim in claimed.items():
        frequency = np.mean(np.array(WARDS[int(party[1]) - 1]) == value)
        assert claim.low == claim.high == claim.estimate == pytest.approx(frequency)


def test_padding_beyond_the_own_dictionary_is_the_last_clients_size():
    assert claims_of(Local(), 2, ["P2"])["P1", "ward", "size", ""].estimate == 3
    own = party_tables(2)
    assert len(set(own[0].values("ward"))) == 3


@pytest.mark.parametrize(
    ("encoder", "options"),
    [("bytes-norm", {"sharing": "ring"}), ("target", {"exchange": "shared", "likelihood": "class-given-value"})],
)
def test_rows_that_an_encoder_tells_decide_which_mean_published_figures_leave_the_last_client(encoder, options):
    """Alone the mean and the deviation of all leave several numbers of rows open, and the likeliest may be another."""
    for seed in range(4):
        rows = np.random.default_rng(seed).integers(3, 30, 4) * 2
        sets = {p: {f: values[:2] for f, values in held.items()} for p, held in SETS.items()}
        tables = {
            p: table(v, rows=int(n), seed=i + seed)
            for i, ((p, v), n) in enumerate(zip(sets.items(), rows, strict=True))
        }
        found = run(encoder, sets, scaler=SCALERS["federated-zscore"](), tables=tables, seed=seed, **options)
        outcome = Statistics().run(found.view("P1", "P2", "P3"), AuxiliaryKnowledge())
        claims = {(c.feature, c.statistic): c for c in outcome if not c.value}
        age = tables["P4"].numbers()[:, 0]
        assert claims["", "count"].low == claims["", "count"].high == len(age)
        for statistic, real in (("mean", age.mean()), ("std", age.std())):
            claim = claims["age", statistic]
            assert claim.low <= real <= claim.high
            assert claim.high - claim.low <= 1e-5
            assert {*claims["", "count"].evidence} < {*claim.evidence}
