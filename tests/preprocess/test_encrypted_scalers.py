"""Scalers under multiparty encryption give what pooled ones give, and decrypt what they say and nothing else."""

import os
import signal
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tenseal.sealapi")
from leakledger.preprocess.crypto.threshold_ckks.parameters import parameters
from leakledger.preprocess.federation import PartyLost
from leakledger.preprocess.messages import HIDING, CkksInput, Disclosure, GlobalRanks, kind_of
from leakledger.preprocess.noise.columns import Ranges
from leakledger.preprocess.scalers import ENCRYPTED, SCALERS
from leakledger.preprocess.scalers import encrypted as shared
from leakledger.preprocess.scalers.encrypted_extremes import compared_within
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.processes import run_projected
from leakledger.preprocess.transport.simulated import Simulated
from tests.every import every
from tests.preprocess.example import SCHEMA

RANGES = Ranges(("age", "income", "same", "small"), ((0.0, 100.0), (0.0, 1e6), (0.0, 10.0), (-1.0, 1.0)))
ZSCORE_PRECISION, SMALL = 2.0**-20, 2.0**-8  # of half a range, and relative to a deviation of 2^-10 of it


def parts(clients=3):
    """Whole numbers with ties, skewed large ones, a constant column, and numbers that are small in their range."""
    coins, sizes = np.random.default_rng(0), [20 + 7 * i for i in range(clients)]
    age = [coins.normal(50, 15, n).round().clip(0, 100) for n in sizes]
    income = [coins.exponential(2e4, n).clip(0, 1e6) for n in sizes]
    small = [coins.normal(0, 1e-3, n).clip(-1, 1) for n in sizes]
    return [np.column_stack([a, b, np.full(len(a), 7.0), d]) for a, b, d in zip(age, income, small, strict=True)]


def fit(name, tables, ranges=RANGES, **options):
    fed = Simulated([f"P{i + 1}" for i in range(len(tables))], secret=pinned("encrypted scalers"))
    located = {c: fed.at(c, x) for c, x in zip(fed.clients, tables, strict=True)}
    return fed, replace(SCALERS[name](**options), ranges=ranges).fit(fed, located).public.value


def in_the_clear(fed):
    """What was sent that does not hide."""
    quiet = HIDING | {Disclosure.CONTROL}
    return Counter(m.topic for m in fed.ledger if kind_of(m.topic).discloses not in quiet)


def test_zscore_decrypts_mean_and_variance_and_they_are_the_pooled_ones():
    tables = parts()
    fed, found = fit("ppf-zscore", tables)
    whole, half = np.vstack(tables), RANGES.half
    np.testing.assert_array_less(np.abs(found.shift - whole.mean(0)), ZSCORE_PRECISION * half)
    np.testing.assert_allclose(found.scale[[0, 1, 3]], whole.std(0)[[0, 1, 3]], rtol=SMALL)
    assert found.scale[2] == 1  # a constant column is shifted only
    assert in_the_clear(fed) == {"zscore.global-mean": 3, "zscore.global-std": 3}


def test_a_column_that_drowns_in_what_more_bits_hide_counts_as_constant():
    """As docs/scalers.md has it of 2 % of a range."""
    tables = parts()
    deviation = np.vstack(tables).std(0) / (2 * RANGES.half)
    assert 0.02 < deviation[1] < 0.025
    _, found = fit("ppf-zscore", tables, hiding_bits=56)
    assert found.scale[1] == 1
    assert found.scale[0] == pytest.approx(np.vstack(tables).std(0)[0], rel=SMALL)


def test_how_faint_a_column_may_be_is_known_before_anything_is_played():
    for hiding_bits in (40, 56):
        scaler, clients = SCALERS["ppf-zscore"](hiding_bits=hiding_bits), 3
        least = scaler.faintest(clients)
        # Around it, in one column each: what is below half of it is lost, what is above it is found.
        shares = least * np.array([0.5, 1.05])
        ranges = Ranges(("lost", "found"), ((0.0, 1.0),) * 2)
        tables = [np.array([0.5 - shares, 0.5 + shares])] * clients
        _, found = fit("ppf-zscore", tables, ranges, hiding_bits=hiding_bits)
        assert found.scale[0] == 1
        assert found.scale[1] == pytest.approx(shares[1], rel=0.5)
    assert all(SCALERS[name]().faintest(3) == 0 for name in SCALERS if name != "ppf-zscore")


def test_minmax_by_comparisons_decrypts_global_extremes_and_nothing_else():
    tables = parts()
    fed, found = fit("ppf-minmax", tables)
    whole, within = np.vstack(tables), compared_within(3) * RANGES.half
    assert (np.abs(found.shift - whole.min(0))[[0, 1, 3]] <= within[[0, 1, 3]]).all()
    assert (np.abs(found.shift + found.scale - whole.max(0))[[0, 1, 3]] <= within[[0, 1, 3]]).all()
    assert found.scale[2] == 1
    assert (found.low <= whole.min(0)).all()
    assert (found.high >= whole.max(0)).all()
    assert in_the_clear(fed) == {"minmax.global": 3}


def test_minmax_by_counts_is_exact_to_the_precision_of_the_search():
    tables = [t[:, :2] for t in parts()]
    fed, found = fit("ppf-minmax", tables, two(RANGES), extremes="counts", search_precision=0.5)
    whole = np.vstack(tables)
    np.testing.assert_allclose(found.shift, whole.min(0), atol=0.5)
    np.testing.assert_allclose(found.shift + found.scale, whole.max(0), atol=0.5)
    assert in_the_clear(fed).keys() == {"quantiles.rows", "quantiles.points", "quantiles.global"}


def two(ranges):
    return Ranges(ranges.features[:2], ranges.bounds[:2])


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=2, max_size=3))
@settings(max_examples=5, deadline=None)
def test_encrypted_counts_are_those_of_the_search_in_the_clear(values):
    """Ties, even and odd numbers of rows, constants: the same counts at the same points, message for message."""
    tables = [np.array(v, float)[:, None] for v in values]
    ranges, options = Ranges(("x",), ((0.0, 10.0),)), {"search_from": "declared", "search_precision": 0.5}
    fed, found = fit("ppf-robust", tables, ranges, **options)
    plain, expected = fit("federated-robust", tables, ranges, **options, ranks_to="everyone")
    np.testing.assert_array_equal(found.shift, expected.shift)
    np.testing.assert_array_equal(found.scale, expected.scale)
    for topic in (GlobalRanks.topic, "quantiles.points", "quantiles.rows"):
        one, other = ([m.body for m in f.ledger if m.topic == topic] for f in (fed, plain))
        assert one == other


def test_counts_that_go_to_the_server_alone_find_the_same_and_no_client_hears_them():
    tables, ranges = [t[:, :1] for t in parts()], Ranges(RANGES.features[:1], RANGES.bounds[:1])
    options = {"search_from": "declared", "search_precision": 0.5}
    fed, found = fit("ppf-robust", tables, ranges, **options, counts_to="server")
    aloud, expected = fit("ppf-robust", tables, ranges, **options)
    np.testing.assert_array_equal(found.shift, expected.shift)
    np.testing.assert_array_equal(found.scale, expected.scale)
    assert in_the_clear(fed).keys() == {"quantiles.rows", "quantiles.points"}
    assert GlobalRanks.topic in in_the_clear(aloud)


def test_robust_begins_at_compared_extremes_and_ends_at_the_pooled_quartiles():
    tables = [t[:, :1] for t in parts(2)]
    ranges = Ranges(RANGES.features[:1], RANGES.bounds[:1])
    fed, found = fit("ppf-robust", tables, ranges, search_precision=1e-2)
    first, median, third = np.percentile(np.vstack(tables), [25, 50, 75], method="lower")
    above = np.percentile(np.vstack(tables), 50, method="higher")
    assert median - 1e-2 <= found.shift[0] <= above + 1e-2
    assert found.scale[0] == pytest.approx(third - first, abs=1 + 2e-2)  # the next whole number is as good
    assert in_the_clear(fed).keys() == {"quantiles.rows", "quantiles.points", "quantiles.global", "minmax.global"}


def test_robust_finds_the_quartiles_of_columns_whose_extremes_are_told_as_one():
    spread = compared_within(3) * 0.99 * np.linspace(0.8, 1, 20)  # about as far as two extremes count as one
    middle = np.linspace(-0.9, 0.9, 20)
    tables = [np.vstack([middle - spread, middle + spread] * n) for n in (2, 3, 4)]
    whole, ranges = np.vstack(tables), Ranges(tuple(f"x{i}" for i in range(20)), ((-1.0, 1.0),) * 20)
    _, found = fit("ppf-robust", tables, ranges, search_precision=1e-6)
    np.testing.assert_allclose(found.scale, 2 * spread, atol=4e-6)
    assert (found.low <= whole.min(0)).all()
    assert (found.high >= whole.max(0)).all()


def test_more_features_than_slots_take_several_ciphertexts():
    features = 1_500  # three counts below and three above each: more than 4,096
    tables = [np.random.default_rng(i).integers(0, 5, (4, features)).astype(float) for i in range(2)]
    ranges = Ranges(tuple(f"x{i}" for i in range(features)), ((0.0, 4.0),) * features)
    _, found = fit("ppf-robust", tables, ranges, search_from="declared", search_precision=2.0)
    _, expected = fit("federated-robust", tables, ranges, search_from="declared", search_precision=2.0)
    np.testing.assert_array_equal(found.shift, expected.shift)


@every("name", ENCRYPTED)
@every("bad", [101.0, -1.0, np.nan, np.inf])
def test_a_value_that_cannot_be_encrypted_is_named_before_anything_is_sent(name, bad):
    tables = parts(2)
    tables[1][3, 0] = bad
    named = r"P2 has a value of 'age' outside the declared range \[0, 100\]"
    fed = Simulated(["P1", "P2"], secret=pinned(0))
    located = {c: fed.at(c, x) for c, x in zip(fed.clients, tables, strict=True)}
    with pytest.raises(ValueError, match=named) as error:
        replace(SCALERS[name](), ranges=RANGES).fit(fed, located)
    assert "\n" not in str(error.value)
    assert f"{bad:g}" not in str(error.value)
    assert CkksInput.topic not in {m.topic for m in fed.ledger}


def test_values_at_the_ends_of_a_range_that_rounding_moves_are_within_it():
    tables = [np.array([[0.7], [1.5]]), np.array([[0.7], [0.7]])]
    _, found = fit("ppf-minmax", tables, Ranges(("x",), ((0.7, 1.5),)))
    assert [found.shift[0], found.scale[0]] == pytest.approx([0.7, 0.8], abs=compared_within(2) * 0.8)


@every("name", ENCRYPTED)
def test_a_range_that_is_missing_is_named_with_what_to_do(name):
    with pytest.raises(
        ValueError, match=rf"{name}: encryption needs the range of 'age'.*ranges = \{{ age = \[low, high"
    ):
        SCALERS[name]().under(SCHEMA)
    with pytest.raises(ValueError, match="call under"):
        SCALERS[name]().declared()
    with pytest.raises(ValueError, match='set columns = "numeric"'):
        SCALERS[name](columns="all")


@every("name", ENCRYPTED)
def test_a_table_of_categories_alone_is_refused_before_anything_runs(name):
    """`validate` passed it, and the run ended in the midst of the protocol, on no ciphertext to join."""
    with pytest.raises(ValueError, match=f"^{name}: the table has no numeric column to compute on; choose another"):
        SCALERS[name]().mechanisms(replace(SCHEMA, numeric=(), integer=(), ranges={}))


def test_more_rows_than_there_is_room_for_are_an_error_at_their_party(monkeypatch):
    monkeypatch.setattr(shared, "MOST_COUNTED", 8.0)
    monkeypatch.setattr("leakledger.preprocess.scalers.encrypted_extremes.MOST_COUNTED", 8.0)
    with pytest.raises(ValueError, match="counts: P1 has 20 rows, and 4 is its share of what fits a ciphertext"):
        fit("ppf-robust", parts(2), search_from="declared")


@every("hiding_bits", [1, 40, 60, 64])
def test_a_count_is_exact_however_many_bits_are_hidden(hiding_bits):
    fed = Simulated(["a", "b", "c"], secret=pinned("counts", hiding_bits))
    own = {"a": [0.0, 100.0, 5592405.0], "b": [0.0, 7.0, 5592405.0], "c": [0.0, 1.0, 5592405.0]}
    at = {c: fed.at(c, np.array(x)) for c, x in own.items()}
    found = fed.own(shared.Counting.begin(fed, hiding_bits).of(at, 3))
    np.testing.assert_array_equal(found, [0, 108, 3 * 5592405])


@given(st.integers(2, 1000), st.integers(1, 64))
def test_eight_deviations_of_the_smudging_of_a_count_are_below_a_hundredth(clients, hiding_bits):
    run = SimpleNamespace(parameters=parameters(shared.COUNTING_RING), clients=range(clients))
    bits = shared.counting_smudging(run, hiding_bits)
    assert 8 * 2.0**bits * np.sqrt(clients * run.parameters.degree / 6) / shared.COUNTING_SCALE < 0.01


def test_a_decrypted_count_that_is_not_whole_is_an_error():
    with pytest.raises(ValueError, match="no whole number: a party's share is wrong"):
        shared.whole(np.array([1.0, 2.4]))


def lost_after_keys(fed, inputs, params):
    """A count to which one party does not come any more: its process ends after the keys are there."""
    counting = shared.Counting.begin(fed, 40)

    def killed(x):
        os.kill(os.getpid(), signal.SIGKILL)
        return x

    own = {c: fed.local(c, np.asarray, x) for c, x in inputs.items()}
    own["b"] = fed.local("b", killed, own["b"])
    return {fed.server: counting.of(own, 1)}


@pytest.mark.slow
def test_a_party_that_is_lost_after_the_keys_ends_the_run_for_all_by_name():
    inputs = {c: [1.0] for c in ("a", "b", "c")}
    with pytest.raises(PartyLost, match=r"^b ended \(killed by SIGKILL\) while") as lost:
        run_projected(lost_after_keys, list(inputs), inputs, {}, secret=pinned(0), timeout=60)
    assert (lost.value.abort.party, lost.value.abort.reason) == ("b", "PartyLost")
