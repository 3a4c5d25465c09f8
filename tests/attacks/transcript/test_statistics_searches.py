from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.base import AuxiliaryKnowledge, KnownRows, StatisticClaim
from leakledger.attacks.transcript.statistics import Statistics
from leakledger.attacks.transcript.statistics.decrypted import compared_within
from leakledger.attacks.transcript.statistics.distribution import distribution_claims
from leakledger.attacks.transcript.statistics.histograms import histogram_claims
from leakledger.attacks.transcript.statistics.own import own_tables
from leakledger.attacks.transcript.statistics.published import published_claims
from leakledger.preprocess.messages import GlobalExtremes, LocalExtremes
from leakledger.preprocess.noise.columns import Ranges
from leakledger.preprocess.scalers import SCALERS, encrypted_extremes
from leakledger.preprocess.views import FeatureLayout, Method
from tests.attacks.statistics_example import real, tables, view_of

SEARCHES = [
    {"at_points": at_points, "ranks_to": ranks_to}
    for at_points in ("counted", "left-out")
    for ranks_to in ("server", "everyone")
]


def seen(parts, observers, name="federated-robust", **options):
    """The view, with what the pipeline makes public of the columns."""
    view = view_of(parts, observers, SCALERS[name](**options))
    whole = np.vstack(parts)
    blocks = [
        replace(b, low=float(x.min()), high=float(x.max()))
        for b, x in zip(view.public.layout.blocks, whole.T, strict=True)
    ]
    return replace(view, public=replace(view.public, layout=FeatureLayout(tuple(blocks)), scaler=Method(name, options)))


def claims(view):
    found = Statistics().run(view, AuxiliaryKnowledge())
    return [c for c in found if isinstance(c, StatisticClaim)] if isinstance(found, list) else []


def assert_all_hold(parts, found):
    for c in found:
        slack = 1e-9 * (1 + abs(c.low) + abs(c.high))
        assert c.low - slack <= real(parts, c) <= c.high + slack, c


cells = st.integers(-4, 4).map(float) | st.floats(-5, 5)
parties = st.lists(st.lists(cells, min_size=1, max_size=9), min_size=2, max_size=4)


@given(parties, st.sampled_from(SEARCHES))
def test_no_bound_on_a_quantile_is_ever_wrong_whoever_looks(columns, options):
    parts = [np.array(c)[:, None] for c in columns]
    clients = [f"P{i + 1}" for i in range(len(parts))]
    for observers in (["server"], ["server", *clients[1:]], clients[1:], clients[:1]):
        view = seen(parts, observers, search_precision=1e-3, **options)
        assert_all_hold(parts, distribution_claims(view, own_tables(view)))


def whole(view):
    """The view, where schemas say that columns have whole numbers."""
    blocks = tuple(replace(b, integer=True) for b in view.public.layout.blocks)
    return replace(view, public=replace(view.public, layout=FeatureLayout(blocks)))


def moments_of(found, party):
    return {(c.feature, c.statistic): c for c in found if c.party == party and c.statistic in ("mean", "std")}


@given(st.lists(st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=9), min_size=2, max_size=4))
def test_no_mean_of_whole_numbers_that_counts_bound_is_ever_wrong(columns):
    parts = [np.array(c)[:, None] for c in columns]
    clients = [f"P{i + 1}" for i in range(len(parts))]
    for options in SEARCHES:
        for observers in (["server"], clients[1:], clients[:1]):
            view = whole(seen(parts, observers, search_precision=1e-3, **options))
            found = list(distribution_claims(view, own_tables(view)))
            assert_all_hold(parts, found)
            assert all(c.low >= 0 for c in found if c.statistic == "std")


@pytest.mark.parametrize("options", SEARCHES)
def test_counts_of_a_search_are_the_histogram_of_a_column_of_zeros_and_ones(options):
    """Of quartiles nothing but 0 or 1 is to be known; the mean is the share of rows that have the one."""
    coins = np.random.default_rng(0)
    parts = [(coins.random((n, 2)) < (0.3, 0.6)).astype(float) for n in (41, 60, 25)]
    for observers, outside in ((["server"], ("P1", "P2", "P3")), (["P1", "P2"], ("P3",))):
        if observers != ["server"] and options["ranks_to"] != "everyone":
            continue  # points betray less than counts
        found = claims(whole(seen(parts, observers, **options)))
        for party in outside:
            told = moments_of(found, party)
            assert told.keys() == {(f, s) for f in ("f0", "f1") for s in ("mean", "std")}
            assert all(c.high - c.low < 1e-6 for c in told.values())
        assert_all_hold(parts, found)


@pytest.mark.parametrize("at_points", ["counted", "left-out"])
def test_the_server_bounds_quartiles_by_the_partys_own_extremes(at_points):
    """Of a party beside all others the points of the search bound little: quartiles were claimed outside its range."""
    coins = np.random.default_rng(0)
    parts = [coins.normal(m, 1, (30, 1)) for m in (0, 0, 1000)] + [np.full((5, 1), 300.0)]
    view = seen(parts, ["server"], at_points=at_points)
    found = [c for c in claims(view) if c.statistic == "quantile"]
    assert_all_hold(parts, found)
    for c in found:
        x = parts[int(c.party[1:]) - 1]
        assert x.min() <= c.low <= c.high <= x.max()
    told = next(m.sequence for m in view.received(LocalExtremes) if m.sender == "P4")
    assert {(c.low, c.high) for c in found if c.party == "P4"} == {(300.0, 300.0)}
    assert all(told in c.evidence for c in found if c.party == "P4")


@pytest.mark.parametrize("options", SEARCHES)
def test_quartiles_of_whole_numbers_are_exact_where_counts_leave_one_of_them(options):
    """Nothing was exact but what a search met by chance: each had the width of its last step."""
    coins = np.random.default_rng(0)
    parts = [coins.poisson(3, (n, 2)).astype(float) for n in (61, 41, 21)]  # each quartile is some row
    for observers in (["server"], ["P1", "P2"]):
        if observers != ["server"] and options["ranks_to"] != "everyone":
            continue  # points betray less than counts
        found = [c for c in claims(whole(seen(parts, observers, **options))) if c.statistic == "quantile"]
        assert_all_hold(parts, found)
        assert np.mean([c.low == c.high for c in found]) >= 0.5


def test_counts_leave_the_mean_of_other_columns_open():
    found = claims(seen(tables((60, 40, 50), 2), ["server"]))
    assert found
    assert not any(moments_of(found, party) for party in ("P1", "P2", "P3"))


@pytest.mark.parametrize("options", SEARCHES)
def test_a_search_that_float64_ends_before_its_precision_betrays_no_rank(options):
    for seed in range(2):
        coins = np.random.default_rng(seed)
        parts = [coins.uniform(1.6e12, 1.8e12, (n, 2)) for n in (20, 2, 5)]  # milliseconds since 1970
        for observers in (["P1", "P3"], ["P1", "P2"], ["P1"]):
            view = seen(parts, observers, **options)
            assert_all_hold(parts, distribution_claims(view, own_tables(view)))


def quartiles_of(found, party):
    return {(c.feature, c.value): c for c in found if c.party == party and c.statistic == "quantile"}


def test_the_server_reads_every_partys_quartiles_where_parties_are_alike():
    parts = tables(sizes=(300, 200, 250))
    found = claims(seen(parts, ["server"]))
    assert_all_hold(parts, found)
    for party in ("P1", "P2", "P3"):
        assert len(quartiles_of(found, party)) == 9
        assert np.median([c.high - c.low for c in quartiles_of(found, party).values()]) < 0.5  # deviations are 2


@pytest.mark.parametrize("options", SEARCHES)
def test_all_but_one_know_the_last_ones_rows_and_bound_its_quartiles(options):
    parts = tables(sizes=(300, 200, 250))
    found = claims(seen(parts, ["P1", "P3"], **options))
    assert {c.party for c in found} == {"P2"}
    assert [c.estimate for c in found if c.statistic == "count"] == [200]
    assert_all_hold(parts, found)
    assert len(quartiles_of(found, "P2")) == 9


def test_counts_that_everyone_is_told_leave_less_open_than_points_alone():
    parts = tables(sizes=(30, 20, 25))
    wide, narrow = (
        sum(c.high - c.low for c in quartiles_of(claims(seen(parts, ["P1", "P3"], ranks_to=to)), "P2").values())
        for to in ("server", "everyone")
    )
    assert narrow < wide


def test_one_client_of_three_reads_nothing_of_a_search():
    assert claims(seen(tables(sizes=(30, 20, 25)), ["P1"])) == []
    assert claims(seen(tables(sizes=(30, 20, 25)), ["P1"], "federated-yeo-johnson")) == []


def test_the_server_reads_rows_means_and_deviations_off_a_search_for_powers():
    parts = tables()
    found = claims(seen(parts, ["server"], "federated-yeo-johnson"))
    assert {(c.party, c.statistic) for c in found} == {
        (f"P{i}", s) for i in (1, 2, 3, 4) for s in ("count", "mean", "std")
    }
    assert_all_hold(parts, found)
    assert all(c.high - c.low < 1e-6 for c in found)


def few_values(seed, values=(1.0, 2.0, 3.0, 5.0, 8.0), sizes=(200, 90, 40)):
    """Columns of few values, and a view of the server whose known rows have all of them but for some left out."""
    coins = np.random.default_rng(seed)
    parts = [coins.choice(values, (n, 2), p=coins.dirichlet(np.ones(len(values)))) for n in sizes]
    return parts, seen(parts, ["server"], "federated-yeo-johnson")


def knowing(view, values):
    return AuxiliaryKnowledge(rows=KnownRows({b.feature: np.array(values) for b in view.public.layout.numeric}))


@pytest.mark.parametrize("seed", range(5))
def test_moments_under_all_powers_give_whole_histograms_of_columns_with_few_values(seed):
    values = (-2.0, 0.0, 0.5, 3.0, 4.0, 7.5)
    parts, view = few_values(seed, values)
    found = list(histogram_claims(view, knowing(view, (*values, np.nan)), {}))
    assert len(found) == 3 * 2 * 5  # of each party and column two extremes and three quartiles
    assert all(abs(c.estimate - real(parts, c)) < 1e-6 for c in found)
    assert {c.statistic for c in Statistics().run(view, knowing(view, values))} >= {"quantile", "minimum", "maximum"}


def test_a_column_with_a_value_that_nobody_knows_is_not_claimed():
    parts, view = few_values(0)
    names = [b.feature for b in view.public.layout.numeric]
    without = {(f"P{i}", n) for i, x in enumerate(parts, 1) for n, c in zip(names, x.T, strict=True) if 5.0 not in c}
    found = list(histogram_claims(view, knowing(view, (1.0, 2.0, 3.0, 8.0)), {}))
    assert {(c.party, c.feature) for c in found} == without
    assert 0 < len(without) < 6
    assert list(histogram_claims(view, AuxiliaryKnowledge(), {})) == []


def test_more_values_than_the_moments_tell_apart_are_not_claimed():
    _, view = few_values(0, tuple(np.arange(30.0)))
    assert list(histogram_claims(view, knowing(view, np.arange(30.0)), {})) == []


def test_all_but_one_know_the_last_ones_rows_and_quartiles_from_the_powers_found():
    rng = np.random.default_rng(3)
    parts = [rng.exponential(s, (200, 2)) for s in (30, 40, 35)]
    found = claims(seen(parts, ["P1", "P2"], "federated-yeo-johnson"))
    assert [c.estimate for c in found if c.statistic == "count"] == [200]
    bounds = quartiles_of(found, "P3")
    assert len(bounds) == 6
    held = [c.low <= real(parts, c) <= c.high for c in bounds.values()]
    assert np.mean(held) >= 0.5
    assert all(c.low <= c.estimate <= c.high for c in bounds.values())


def test_without_power_one_among_those_tried_there_is_no_claim_about_a_mean():
    view = seen(tables(), ["server"], "federated-yeo-johnson")
    first = {"yeo-johnson.local", "yeo-johnson.powers"}
    later = tuple(m for m in view.messages if m.topic not in first or m.round >= 3)
    assert [c for c in claims(replace(view, messages=later)) if c.statistic == "mean"] == []


def encrypted(parts, observers, name, **options):
    """The view of a scaler under encryption, with declared ranges."""
    pytest.importorskip("tenseal.sealapi")
    whole = np.vstack(parts)
    bounds = tuple(zip((whole.min(0) - 1).tolist(), (whole.max(0) + 1).tolist(), strict=True))
    ranges = Ranges(tuple(f"x{i}" for i in range(whole.shape[1])), bounds)
    scaler = replace(SCALERS[name](search_precision=1e-2, **options), ranges=ranges)
    view = view_of(parts, observers, scaler)
    blocks = [
        replace(b, low=low, high=high) for b, (low, high) in zip(view.public.layout.blocks, ranges.bounds, strict=True)
    ]
    return replace(view, public=replace(view.public, layout=FeatureLayout(tuple(blocks)), scaler=Method(name, options)))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ppf-robust", {"search_from": "declared"}),
        ("ppf-robust", {"search_from": "declared", "at_points": "left-out"}),
        ("ppf-minmax", {"extremes": "counts"}),
    ],
)
def test_encrypted_counts_bound_the_quartiles_of_the_last_party_for_all_others_and_tell_nobody_else(name, options):
    coins = np.random.default_rng(5)
    parts = [coins.normal(i, 3, (n, 2)).round(1) for i, n in enumerate((20, 30, 25))]
    found = claims(encrypted(parts, ["P1", "P2"], name, **options))
    assert_all_hold(parts, found)
    (count,) = (c for c in found if c.statistic == "count")
    assert (count.party, count.estimate) == ("P3", 25)
    assert len(quartiles_of(found, "P3")) == 6
    for observers in (["server"], ["P1"]):
        assert claims(encrypted(parts, observers, name, **options)) == []


def test_a_search_for_both_ends_tells_all_but_one_the_extremes_that_only_the_last_party_has():
    parts = [np.array([[4.0], [6.0], [5.5]]), np.array([[-3.2], [5.0], [9.7], [5.2]])]
    found = {c.statistic: c for c in claims(encrypted(parts, ["P1"], "ppf-minmax", extremes="counts")) if not c.value}
    assert_all_hold(parts, found.values())
    assert {s: c.high - c.low < 0.02 for s, c in found.items() if c.feature} == {"minimum": True, "maximum": True}
    other = claims(encrypted(parts, ["P2"], "ppf-minmax", extremes="counts"))  # P1 has neither
    assert_all_hold(parts, other)
    assert not {c.statistic for c in other} & {"minimum", "maximum"} or all(c.high - c.low < 4 for c in other)


def test_extremes_that_are_published_are_not_replaced_by_bounds_of_counts():
    parts = [np.array([[4.0], [6.0], [5.5]]), np.array([[-3.2], [5.0], [9.7], [5.2]])]
    found = {c.statistic: c for c in claims(seen(parts, ["P1"], ranks_to="everyone")) if not c.value}
    assert [(found[s].low, found[s].high) for s in ("minimum", "maximum")] == [(-3.2, -3.2), (9.7, 9.7)]


def compared(parts, observers, errors, declared=6.0):
    """The view of global extremes that are off by `errors`, in shares of what comparisons of ciphertexts may be."""
    within = compared_within(len(parts)) * declared
    view = view_of(parts, observers, SCALERS["federated-minmax"](), integer=True)

    def told(m):
        if m.kind is not GlobalExtremes:
            return m
        ends = m.payload
        low, high = (x + e * within for x, e in zip((ends.minimum, ends.maximum), errors, strict=True))
        constant = high - low <= 2 * within
        low, high = (np.where(constant, (low + high) / 2, end) for end in (low, high))
        return m.carrying(GlobalExtremes(low, high))

    blocks = tuple(replace(b, low=-declared, high=declared) for b in view.public.layout.blocks)
    public = replace(view.public, layout=FeatureLayout(blocks), scaler=Method("ppf-minmax"))
    return replace(view, public=public, messages=tuple(told(m) for m in view.messages))


@given(
    st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=5), min_size=2, max_size=3),
    st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
)
def test_extremes_that_were_compared_as_ciphertexts_are_claimed_as_near_as_they_are(columns, errors):
    parts = [np.array(c, float)[:, None] for c in columns]
    clients = [f"P{i + 1}" for i in range(len(parts))]
    view = compared(parts, clients[1:], errors)
    found = published_claims(view, own_tables(view), 0.95)
    assert_all_hold(parts, found)
    others = np.vstack(parts[1:])
    wanted = {"minimum"} if parts[0].min() < others.min() else set()
    wanted |= {"maximum"} if parts[0].max() > others.max() else set()
    assert {c.statistic for c in found if c.low == c.high} == wanted
    assert {c.statistic for c in found} == wanted


@pytest.mark.parametrize("clients", [2, 3, 4, 5, 17])
def test_the_adversary_knows_how_far_off_a_comparison_of_ciphertexts_may_be(clients):
    assert compared_within(clients) == pytest.approx(encrypted_extremes.compared_within(clients), rel=1e-12)


def test_of_other_numbers_compared_as_ciphertexts_an_interval_is_claimed():
    parts = [np.array([[1.25], [4.5]]), np.array([[2.0], [3.0]])]
    view = compared(parts, ["P2"], (0.5, 0.5))
    view = replace(view, public=replace(view.public, layout=FeatureLayout(
        tuple(replace(b, integer=False) for b in view.public.layout.blocks)
    )))  # fmt: skip
    found = published_claims(view, own_tables(view), 0.95)
    assert {c.statistic for c in found} == {"minimum", "maximum"}
    assert all(0 < c.high - c.low < 0.01 for c in found)
    assert_all_hold(parts, found)


@pytest.mark.parametrize(
    ("scale", "everyone"), [(1e12, False), (1e100, False), (1e100, True), (-1e100, False), (-1e100, True)]
)
@pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")  # of the search itself
def test_quartiles_behind_a_curve_that_float64_cannot_undo_are_right_or_not_claimed(scale, everyone):
    """Numbers of 10^100 were claimed to lie between 13846 and 1.6e15, and where the search had come to no number, the
    rows of the last client were lost too.
    """
    for seed in range(4):
        parts = tables((20, 30, 25), features=2, seed=seed)
        parts = [x * scale if everyone or not i else x for i, x in enumerate(parts)]
        found = claims(seen(parts, ["P1", "P2"], "federated-yeo-johnson"))
        assert [c.estimate for c in found if c.statistic == "count"] == [25]
        assert_all_hold(parts, found)


@pytest.mark.parametrize("at_points", ["counted", "left-out"])
def test_one_client_of_several_knows_the_others_where_counts_have_them_all_at_one_place(at_points):
    parts = tables(sizes=(40, 300, 250), features=2)
    for x in parts[1:]:
        x[:, 0] = 4.2
    found = claims(seen(parts, ["P1"], at_points=at_points, ranks_to="everyone"))
    assert_all_hold(parts, found)
    assert {(c.party, c.feature) for c in found} == {("P2", "f0"), ("P3", "f0")}
    assert {c.value for c in found if c.statistic == "quantile"} == {"0.25", "0.5", "0.75"}
    assert all(c.high - c.low < 1 for c in found)  # the column's deviation is 2 in the observer's rows


@given(parties, st.sampled_from(SEARCHES), st.integers(1, 4))
def test_no_bound_that_several_clients_share_is_ever_wrong(columns, options, alike):
    columns = [[float(alike)] * len(c) if i else c for i, c in enumerate(columns)]
    parts = [np.array(c)[:, None] for c in columns]
    assert_all_hold(parts, claims(seen(parts, ["P1"], search_precision=1e-3, **options)))


@pytest.mark.parametrize("size", [1e100, 1e149])
def test_numbers_whose_images_under_some_powers_are_beyond_float64_are_read_under_those_that_have_them(size):
    """Every view of the server was said to have messages that do not fit together, and nothing was claimed."""
    parts = [size * x for x in tables((20, 12, 15), features=2)]
    told = claims(seen(parts, ["server"], "federated-yeo-johnson"))
    assert {(c.party, c.statistic) for c in told} >= {(f"P{i}", s) for i in (1, 2, 3) for s in ("mean", "std", "count")}
    for observers in (["server"], ["P1", "P3"], ["server", "P1", "P2"]):
        for c in claims(seen(parts, observers, "federated-yeo-johnson")):
            slack = 1e-9 * abs(real(parts, c))
            assert c.low - slack <= real(parts, c) <= c.high + slack, c


@pytest.mark.parametrize("size", [1e155, 1e200, 1e307])
def test_a_column_that_has_no_squares_under_any_power_takes_nothing_from_what_is_told_of_the_others(size):
    parts = tables(sizes=(30, 50), features=3)
    for part in parts:
        part[:, 1] *= size
    for observers, told in ((["server"], {"count", "mean", "std"}), (["P1"], {"count", "quantile"})):
        found = claims(seen(parts, observers, "federated-yeo-johnson"))
        assert {c.statistic for c in found} == told
        assert {c.feature for c in found} == {"", "f0", "f2"}
        assert_all_hold(parts, [c for c in found if c.statistic != "quantile"])
