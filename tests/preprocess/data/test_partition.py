"""Partitions: every row goes to exactly one party, and each kind does what it says."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.partition import PARTITIONS, partition
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.data.schema_file import Declared
from tests.preprocess.data.example import frame, table, tables

DRAWN = [kind for kind in PARTITIONS if kind != "by-column"]
WITH_BETA = ("dirichlet-labels", "dirichlet-quantity", "feature-noise")


def rng(seed=0):
    return np.random.default_rng(seed)


def numbered(t):
    """The table with a carried column that tells its rows apart."""
    return replace(t, frame=t.frame.assign(row=pd.Series(range(len(t))).astype("str")))


def rows_of(parts):
    return {party: [int(r) for r in t.values("row")] for party, t in parts.items()}


def test_the_known_kinds_are_these():
    assert list(PARTITIONS) == [
        "iid", "by-column", "dirichlet-labels", "dirichlet-quantity", "feature-noise", "divergent"
    ]  # fmt: skip


@given(tables(), st.sampled_from(DRAWN), st.integers(2, 4), st.integers(0, 99))
def test_every_row_goes_to_exactly_one_party_of_at_least_the_minimum(t, kind, parties, seed):
    whole = numbered(t)
    parts = partition(whole, kind, parties, rng(seed), minimum=2)
    assert list(parts) == [f"P{i + 1}" for i in range(parties)]
    assert sorted(r for rows in rows_of(parts).values() for r in rows) == list(range(len(t)))
    assert min(len(p) for p in parts.values()) >= 2
    assert all(rows == sorted(rows) for rows in rows_of(parts).values())
    if kind != "feature-noise":
        for part in parts.values():
            assert part.fingerprint() == whole.rows(part.values("row").astype(np.int64)).fingerprint()


@given(tables(), st.sampled_from(DRAWN), st.integers(0, 99))
def test_the_same_generator_state_gives_the_same_split(t, kind, seed):
    one, two = (partition(t, kind, 3, rng(seed), minimum=1) for _ in range(2))
    assert [p.fingerprint() for p in one.values()] == [p.fingerprint() for p in two.values()]


@pytest.mark.parametrize("kind", DRAWN)
def test_another_generator_state_gives_another_split(kind):
    one, two = (partition(table(), kind, 3, rng(seed), minimum=1) for seed in (0, 1))
    assert [p.fingerprint() for p in one.values()] != [p.fingerprint() for p in two.values()]


# What is refused ------------------------------------------------------------------------------------------------------


def test_an_unknown_kind_suggests_one_and_lists_all():
    with pytest.raises(
        DataError, match=r"'dirichlet-labl' is unknown \(did you mean 'dirichlet-labels'\?\); choose one of iid, "
    ):
        partition(table(), "dirichlet-labl", 3, rng())


def test_an_option_that_the_kind_lacks_is_refused():
    with pytest.raises(DataError, match="partition 'iid' has no option 'beta'; it has none"):
        partition(table(), "iid", 3, rng(), beta=0.5)
    with pytest.raises(DataError, match="partition 'by-column' has no option 'beta'; it has column"):
        partition(table(), "by-column", 3, rng(), beta=0.5)


@pytest.mark.parametrize("kind", PARTITIONS)
def test_one_party_is_no_federation(kind):
    with pytest.raises(DataError, match=f"^{kind}: a federation needs at least two parties, got 1$"):
        partition(table(), kind, 1, rng())


@pytest.mark.parametrize("kind", DRAWN)
def test_more_parties_than_rows_are_refused(kind):
    with pytest.raises(
        DataError, match="60 rows cannot give 61 parties 1 each; use fewer parties, or a smaller minimum"
    ):
        partition(table(rows=60), kind, 61, rng(), minimum=1)


def test_a_minimum_below_one_is_refused():
    with pytest.raises(DataError, match="iid: minimum is 0; every party needs at least one row"):
        partition(table(), "iid", 2, rng(), minimum=0)


def test_a_party_below_the_minimum_is_named_with_its_rows():
    problem = r"^table: dirichlet-quantity gives party P\d \d+ rows, the minimum is 15; use a larger beta, fewer"
    with pytest.raises(DataError, match=problem):
        partition(table(rows=60), "dirichlet-quantity", 4, rng(), minimum=15, beta=0.01)


@pytest.mark.parametrize("kind", WITH_BETA)
@pytest.mark.parametrize("beta", [-1.0, float("nan"), float("inf")])
def test_a_beta_that_is_no_positive_number_is_refused(kind, beta):
    with pytest.raises(DataError, match=f"{kind}: beta is {beta}; it must be"):
        partition(table(), kind, 2, rng(), beta=beta)


# What each kind does --------------------------------------------------------------------------------------------------


@given(st.integers(2, 6), st.integers(0, 99))
def test_iid_parties_are_equal_to_within_one_row(parties, seed):
    sizes = [len(p) for p in partition(table(rows=61), "iid", parties, rng(seed)).values()]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("options", [{"kind": "iid"}, *({"kind": k, "beta": 1e6} for k in WITH_BETA[:2])])
def test_a_party_draws_its_rows_at_random(options):
    whole = numbered(table())
    drawn = Counter(r for s in range(50) for r in rows_of(partition(whole, parties=2, rng=rng(s), **options))["P1"])
    assert len(drawn) == 60
    assert max(drawn.values()) < 45


def test_silos_are_the_values_of_the_column_and_named_for_them():
    whole = numbered(table(rows=60))
    parts = partition(whole, "by-column", 3, rng(), column="ward")
    assert list(parts) == ["w0", "w1", "w2"]
    assert all(set(t.values("ward")) == {name} for name, t in parts.items())
    assert sum(map(len, parts.values())) == 60
    assert list(partition(whole, "by-column", 5, rng(), column="city", minimum=1)) == [f"c{i}" for i in range(5)]


def test_silos_need_a_complete_text_column_and_its_number_of_parties():
    t = table()
    with pytest.raises(DataError, match="by-column: needs a column"):
        partition(t, "by-column", 3, rng())
    with pytest.raises(DataError, match=r"no text column 'wards' \(did you mean 'ward'\?\)"):
        partition(t, "by-column", 3, rng(), column="wards")
    with pytest.raises(DataError, match="column 'ward' has 3 values; set parties to 3, not 4"):
        partition(t, "by-column", 4, rng(), column="ward")
    few = t.rows(np.array([r for r in range(60) if r % 3 or r < 15]))
    with pytest.raises(DataError, match="by-column gives one party 5 rows, the minimum is 10; use another column"):
        partition(few, "by-column", 3, rng(), column="ward")
    holes = replace(t, frame=t.frame.assign(ward=t.frame["ward"].mask(t.frame.index < 2)))
    with pytest.raises(DataError, match="column 'ward' is empty in 2 rows"):
        partition(holes, "by-column", 3, rng(), column="ward")


def test_a_silo_that_is_too_small_is_not_named_for_what_its_row_holds():
    t = table()
    alone = replace(t, frame=t.frame.assign(ward=t.frame["ward"].mask(t.frame.index == 7, "hepatitis C")))
    with pytest.raises(DataError, match="by-column gives one party 1 row,") as refused:
        partition(alone, "by-column", 4, rng(), column="ward")
    assert "hepatitis" not in str(refused.value)


def spread_of(kind, beta, measure, draws=20):
    whole = table(rows=400)
    return np.mean([measure(partition(whole, kind, 4, rng(s), minimum=1, beta=beta).values()) for s in range(draws)])


def label_spread(parts):
    return np.ptp([p.labels().mean() for p in parts])


def size_spread(parts):
    return np.ptp([len(p) for p in parts]) / 400


def test_a_small_beta_makes_labels_uneven_and_a_large_one_even():
    assert spread_of("dirichlet-labels", 0.1, label_spread) > 0.6
    assert spread_of("dirichlet-labels", 1e6, label_spread) < 0.02


def test_a_small_beta_makes_sizes_uneven_and_a_large_one_even():
    assert spread_of("dirichlet-quantity", 0.1, size_spread) > 0.6
    assert spread_of("dirichlet-quantity", 1e6, size_spread) < 0.02


def test_quantity_imbalance_leaves_the_labels_as_they_are():
    whole = table(rows=4000)
    rates = [p.labels().mean() for p in partition(whole, "dirichlet-quantity", 3, rng(1), minimum=300, beta=1).values()]
    assert np.ptp(rates) < 0.1


def test_label_imbalance_of_a_regression_moves_its_target():
    whole = table(rows=600, classes=30, task="regression")
    uneven, even = (
        np.ptp([p.labels().mean() for p in partition(whole, "dirichlet-labels", 3, rng(), minimum=5, beta=b).values()])
        for b in (0.1, 1e6)
    )
    assert uneven > 3 * even


def test_dirichlet_shares_have_the_mean_and_variance_of_the_distribution():
    """Var of a share under Dir(beta) over P parties is (P - 1) / (P^2 (P beta + 1)); 600 draws, within 20 %."""
    whole, parties, beta = table(rows=1000), 4, 2.0
    kind = PARTITIONS["dirichlet-quantity"](parties, 1, beta=beta)
    shares = np.array([np.bincount(kind.owners(whole, rng(s)), minlength=parties) for s in range(600)]) / 1000
    assert shares.mean(axis=0) == pytest.approx(1 / parties, abs=0.03)
    assert shares.var() == pytest.approx((parties - 1) / (parties**2 * (parties * beta + 1)), rel=0.2)


def test_noise_grows_with_the_number_of_the_party_and_has_the_stated_variance():
    whole, beta, parties = numbered(table(rows=8000)), 0.7, 4
    parts = partition(whole, "feature-noise", parties, rng(), beta=beta)
    for i, part in enumerate(parts.values(), start=1):
        before = whole.rows(part.values("row").astype(np.int64))
        noise = (part.numbers() - before.numbers()) / whole.numbers().std(axis=0)
        assert noise.mean(axis=0) == pytest.approx(0, abs=0.05)
        assert noise.var(axis=0) == pytest.approx(beta * i / parties, rel=0.1)
        assert (part.values("city") == before.values("city")).all()
        assert (part.labels() == before.labels()).all()


def test_noisy_features_are_no_longer_whole_or_bounded():
    whole = table(ranges={"age": (0, 120)})
    schemas = {id(p.schema) for p in partition(whole, "feature-noise", 3, rng()).values()}
    assert len(schemas) == 1
    noisy = partition(whole, "feature-noise", 3, rng())["P1"].schema
    assert (whole.schema.integer, noisy.integer) == (("age",), ())
    assert (whole.schema.ranges, noisy.ranges) == ({"age": (0.0, 120.0)}, {})


def test_what_noise_undoes_is_declared_no_longer():
    said = {"integer": ("age",), "ranges": {"dose": (-50, 50)}, "classes": ("0", "1")}
    whole = read_table(frame(), Declared(target="y", categorical=("city",), numeric=("age", "dose"), **said))
    assert (whole.basis.asked, whole.schema.integer) == ((), ("age",))
    for part in partition(whole, "feature-noise", 3, rng()).values():
        assert part.basis.asked == ()
        assert part.basis.schema({}, None) == part.schema


@pytest.mark.parametrize("kind", [k for k in PARTITIONS if k != "by-column"])
def test_missing_values_stay_missing_for_parties_to_fill(kind):
    rows = frame(120).assign(row=[f"r{i}" for i in range(120)])
    rows.loc[::7, "age"], rows.loc[::5, "city"] = None, None
    declared = Declared(target="y", categorical=("city", "pet"), numeric=("age", "dose"))
    parts = partition(read_table(rows, declared, missing="keep"), kind, 3, rng())
    assert all(p.partial for p in parts.values())
    found = pd.concat([p.frame for p in parts.values()]).set_index("row").loc[rows["row"], ["age", "city"]]
    np.testing.assert_array_equal(found.isna(), rows[["age", "city"]].isna())


def test_noise_of_beta_zero_changes_no_number():
    whole = numbered(table())
    for part in partition(whole, "feature-noise", 3, rng(), beta=0).values():
        assert (part.numbers() == whole.rows(part.values("row").astype(np.int64)).numbers()).all()


def test_noise_needs_a_numeric_feature():
    with pytest.raises(DataError, match="feature-noise needs a numeric feature"):
        partition(table(numeric=()), "feature-noise", 3, rng())
