import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import yeojohnson_normmax
from sklearn.preprocessing import MinMaxScaler, PowerTransformer, RobustScaler, StandardScaler

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.scalers import ALIASES, SCALERS, canonical
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from tests.every import every
from tests.preprocess.notes import plain
from tests.preprocess.registered import IN_THE_CLEAR

numbers = st.floats(-1e6, 1e6, allow_nan=False)
tables = st.lists(
    st.integers(1, 7).flatmap(lambda n: arrays(np.float64, (n, 3), elements=numbers)), min_size=2, max_size=4
)


def scale(name, parts, **options):
    fed = Simulated([f"P{i + 1}" for i in range(len(parts))], secret=pinned(0))
    located = {c: fed.at(c, x) for c, x in zip(fed.clients, parts, strict=True)}
    fit = SCALERS[name](**options).fit(fed, located)
    return fed, fit, [fed.own(fit.scalings[c]).transform(x) for c, x in zip(fed.clients, parts, strict=True)]


@given(tables)
def test_federated_zscore_equals_the_pooled_zscore_for_every_partition(parts):
    _, server, scaled = scale("federated-zscore", parts)
    _, pooled, expected = scale("pooled", parts)
    size = np.abs(np.vstack(parts)).max(initial=1)
    np.testing.assert_allclose(server.public.value.shift, pooled.public.value.shift, rtol=1e-12, atol=1e-12 * size)
    spread = pooled.public.value.scale
    for a, b in zip(scaled, expected, strict=True):
        np.testing.assert_allclose(a[:, spread > 1e-6 * size], b[:, spread > 1e-6 * size], rtol=1e-7, atol=1e-7)


@given(tables)
def test_federated_minmax_equals_the_pooled_extremes_exactly(parts):
    _, fit, _ = scale("federated-minmax", parts)
    whole = np.vstack(parts)
    np.testing.assert_array_equal(fit.public.value.low, whole.min(0))
    np.testing.assert_array_equal(fit.public.value.high, whole.max(0))


def test_the_pooled_scaler_is_the_standard_scaler_of_a_known_library():
    parts = [np.random.default_rng(i).normal(5, 3, (20, 3)) for i in range(3)]
    _, _, scaled = scale("pooled", parts)
    np.testing.assert_allclose(np.vstack(scaled), StandardScaler().fit_transform(np.vstack(parts)), atol=1e-12)
    _, _, scaled = scale("federated-minmax", parts)
    np.testing.assert_allclose(np.vstack(scaled), MinMaxScaler().fit_transform(np.vstack(parts)), atol=1e-12)


@pytest.mark.parametrize("by", ["zscore", "minmax"])
def test_local_scales_each_client_by_itself_and_sends_nothing(by):
    parts = [np.random.default_rng(i).normal(i, 1 + i, (20, 3)) for i in range(2)]
    fed, fit, scaled = scale("local", parts, by=by)
    oracle = StandardScaler if by == "zscore" else MinMaxScaler
    for x, s in zip(parts, scaled, strict=True):
        np.testing.assert_allclose(s, oracle().fit_transform(x), atol=1e-12)
    assert len(fed.ledger) == 0
    assert fit.public.value.shift is None


def test_ddof_one_divides_by_one_less():
    parts = [np.arange(6.0).reshape(2, 3), np.arange(9.0).reshape(3, 3) ** 2]
    for name in ("pooled", "federated-zscore"):
        _, fit, _ = scale(name, parts, ddof=1)
        np.testing.assert_allclose(fit.public.value.scale, np.vstack(parts).std(0, ddof=1))


@pytest.mark.parametrize("name", IN_THE_CLEAR)
def test_a_constant_column_becomes_zero(name):
    parts = [np.full((rows, 2), 7.0) for rows in (3, 2, 4)]
    _, _, scaled = scale(name, parts)
    within = 7 * 2 * (3 + 2) * 2**-53 if name == "zscore-sac" else 0.0  # secure sums of three clients are rounded
    assert all((np.abs(s) <= within).all() for s in scaled)


@every("name", IN_THE_CLEAR)
@every("value", [0.1, -1e6 / 3, 1e-30])
def test_a_constant_whose_mean_is_rounded_stays_at_zero_in_its_own_units(name, value):
    parts = [np.full((rows, 1), value) for rows in (3, 20, 41)]
    _, _, scaled = scale(name, parts)
    assert all((np.abs(s) <= 2**-40 * abs(value)).all() for s in scaled)


@every("value", [0.1, 19.99, 1 / 3])
def test_a_column_that_is_one_number_at_each_party_is_zero_at_all_of_them(value):
    """What rounding leaves, another at each party, would be all the deviation that the encoded column has."""
    _, _, scaled = scale("local", [np.full((rows, 1), value) for rows in (3, 7, 10)])
    assert not np.vstack(scaled).any()


@every("name", ["federated-zscore", "zscore-sac", "pooled", "local"])
def test_a_deviation_below_a_share_of_its_mean_counts_as_rounding(name):
    """As docs/scalers.md has it of 0.5 beside 10^12."""
    swing = np.tile([-1.0, 1.0], 20)[:, None]
    for deviation, scaled in ((0.5, 0.5), (2.0, 1.0)):
        _, _, rows = scale(name, [1e12 + deviation * swing] * 3)
        np.testing.assert_allclose(np.abs(np.vstack(rows)), scaled, rtol=1e-3)


def test_the_server_sees_local_moments_and_clients_see_global_ones_only():
    fed, _, _ = scale("federated-zscore", [np.ones((2, 1)), np.zeros((4, 1))])
    assert [(m.topic, m.sender) for m in fed.ledger if m.recipient == "server"] == [
        ("zscore.mean", "P1"),
        ("zscore.mean", "P2"),
        ("zscore.variance", "P1"),
        ("zscore.variance", "P2"),
    ]
    assert [m.topic for m in fed.ledger if m.recipient == "P1"] == ["zscore.global-mean", "zscore.global-std"]


def test_the_server_sees_local_extremes():
    fed, _, _ = scale("federated-minmax", [np.array([[1.0], [5.0]]), np.array([[2.0]])])
    received = [plain(m) for m in fed.ledger if m.recipient == "server"]
    assert [(float(p["minimum"][0]), float(p["maximum"][0])) for p in received] == [(1, 5), (2, 2)]


def test_only_the_pooled_reference_is_marked_as_no_federation():
    assert [name for name, scaler in SCALERS.items() if not scaler.federated] == ["pooled"]


LEVELS = (0.25, 0.5, 0.75)


def quartiles_of(fit):
    """(3, columns) as far as shift and scale tell them: the median and the distance of the others."""
    return fit.public.value.shift, fit.public.value.scale


def gaps(whole, level):
    """(columns,) the value at or below the rank of a quantile, and the one at or above it."""
    ordered, place = np.sort(whole, axis=0), level * (len(whole) - 1)
    return ordered[int(np.floor(place))], ordered[int(np.ceil(place))]


@given(tables, st.sampled_from(["counted", "left-out"]))
def test_federated_robust_finds_the_pooled_quartiles_for_every_partition(parts, at_points):
    epsilon = 1e-3
    _, fit, _ = scale("federated-robust", parts, search_precision=epsilon, at_points=at_points)
    whole = np.vstack(parts)
    median, spread = quartiles_of(fit)
    below, above = gaps(whole, 0.5)
    assert ((median >= below - epsilon) & (median <= above + epsilon)).all()
    (first, f), (t, third) = gaps(whole, 0.25), gaps(whole, 0.75)
    wide = spread != 1.0  # where there is no distance the scale is 1
    assert (spread[wide] <= (third - first + 2 * epsilon)[wide]).all()
    assert (spread[wide] >= (t - f - 2 * epsilon)[wide]).all()


def test_at_a_whole_rank_the_search_as_printed_runs_down_to_epsilon_and_the_mended_one_ends_at_the_value():
    parts = [np.array([[0.0], [4.0], [8.0]]), np.array([[12.0], [16.0]])]  # ranks 2, 3 and 4 of 5, all whole

    def rounds(at_points):
        fed, fit, _ = scale("federated-robust", parts, at_points=at_points)
        return len([m for m in fed.ledger if m.topic == "quantiles.local"]) / 2, quartiles_of(fit)

    printed, (median, spread) = rounds("counted")
    assert printed == np.ceil(np.log2(16 / 1e-4))
    np.testing.assert_allclose([median, spread], [[8], [8]], atol=2e-4)
    mended, (median, spread) = rounds("left-out")
    assert mended == 2  # 8 at once, then 4 and 12
    np.testing.assert_array_equal([median, spread], [[8], [8]])


def test_robust_scaling_in_one_place_is_that_of_a_known_library():
    parts = [np.random.default_rng(i).normal(5, 3, (20, 3)) for i in range(3)]
    _, _, scaled = scale("pooled", parts, by="robust")
    np.testing.assert_allclose(np.vstack(scaled), RobustScaler().fit_transform(np.vstack(parts)), atol=1e-12)
    _, _, scaled = scale("local", parts, by="robust")
    for x, s in zip(parts, scaled, strict=True):
        np.testing.assert_allclose(s, RobustScaler().fit_transform(x), atol=1e-12)


@pytest.mark.parametrize("ranks_to", ["server", "everyone"])
def test_of_a_search_the_server_sees_local_counts_and_clients_points_and_totals_if_told(ranks_to):
    parts = [np.arange(6.0).reshape(2, 3), np.arange(9.0).reshape(3, 3)]
    fed, _, _ = scale("federated-robust", parts, ranks_to=ranks_to)
    seen = {who: {m.topic for m in fed.ledger if m.recipient == who} for who in ("server", "P1")}
    assert seen["server"] == {"quantiles.local-rows", "minmax.local", "quantiles.local"}
    told = {"quantiles.rows", "minmax.global", "quantiles.points"}
    assert seen["P1"] == told | ({"quantiles.global"} if ranks_to == "everyone" else set())


def declared(parts, **ranges):
    schema = Schema("y", (), tuple(ranges), "binary", ("a", "b"), ranges=ranges)
    fed = Simulated([f"P{i + 1}" for i in range(len(parts))], secret=pinned(0))
    located = {c: fed.at(c, x) for c, x in zip(fed.clients, parts, strict=True)}
    return fed, lambda: SCALERS["federated-robust"](search_from="declared").under(schema).fit(fed, located)


def test_a_value_outside_its_declared_range_names_feature_and_party_and_nothing_is_sent():
    parts = [np.array([[1.0, 5.0]]), np.array([[2.0, 12.0]])]
    fed, fit = declared(parts, age=(0.0, 9.0), dose=(0.0, 10.0))
    with pytest.raises(ValueError, match=r"P2 has a value of 'dose' outside the declared range \[0, 10\]"):
        fit()
    assert len(fed.ledger) == 0


def test_declared_ranges_take_the_place_of_extremes():
    parts = [np.array([[1.0], [2.0], [3.0]]), np.array([[4.0], [5.0]])]
    fed, fit = declared(parts, age=(0.0, 9.0))
    np.testing.assert_allclose(quartiles_of(fit()), [[3], [2]], atol=2e-4)
    assert not {m.topic for m in fed.ledger} & {"minmax.local", "minmax.global"}


def skewed(rows):
    draw = np.random.default_rng(7)
    return np.column_stack([draw.exponential(40, rows), draw.normal(-3, 2, rows), -draw.gamma(2, 9, rows)])


@given(st.lists(st.integers(0, 2), min_size=60, max_size=60).filter(lambda owners: set(owners) == {0, 1, 2}))
def test_federated_yeo_johnson_equals_the_pooled_one_for_every_partition(owners):
    whole, owners = skewed(60), np.array(owners)
    parts = [whole[owners == i] for i in range(3)]
    _, fit, _ = scale("federated-yeo-johnson", parts)
    _, pooled, _ = scale("pooled", [whole[:30], whole[30:]], by="yeo-johnson")
    np.testing.assert_allclose(fit.public.value.power, pooled.public.value.power, atol=2e-6)
    np.testing.assert_allclose(fit.public.value.scale, pooled.public.value.scale, rtol=1e-4)


def test_the_likeliest_power_is_that_of_a_known_library():
    whole = skewed(200)
    _, fit, scaled = scale("federated-yeo-johnson", [whole[:50], whole[50:]], power_precision=1e-9)
    library = PowerTransformer().fit(whole)
    np.testing.assert_allclose(fit.public.value.power, library.lambdas_, atol=1e-4)
    np.testing.assert_allclose(np.vstack(scaled), library.transform(whole), atol=1e-3)


def test_powers_that_leave_a_column_of_large_numbers_no_variance_are_not_likely():
    draw = np.random.default_rng(0)
    whole = np.column_stack([draw.normal(1.6e9, 3e8, 300), draw.lognormal(27, 1, 300), draw.lognormal(184, 1, 300)])
    for name, options in (("federated-yeo-johnson", {}), ("pooled", {"by": "yeo-johnson"})):
        _, fit, scaled = scale(name, [whole[:100], whole[100:]], **options)
        expected = [yeojohnson_normmax(x) for x in whole.T]
        np.testing.assert_allclose(fit.public.value.power, expected, atol=1e-4)
        np.testing.assert_allclose(np.vstack(scaled).std(0), 1, rtol=1e-6)


def test_more_powers_a_round_take_fewer_rounds_to_the_same_power():
    whole, found = skewed(90), {}
    for powers in (3, 21):
        fed, fit, _ = scale("federated-yeo-johnson", [whole[:40], whole[40:]], powers=powers)
        found[powers] = fit.public.value.power, len([m for m in fed.ledger if m.topic == "yeo-johnson.local"])
    np.testing.assert_allclose(found[3][0], found[21][0], atol=2e-6)
    assert found[21][1] < found[3][1] / 2


def test_quartiles_and_powers_are_for_numbers_only():
    for make in (
        lambda: SCALERS["federated-robust"](columns="all"),
        lambda: SCALERS["federated-yeo-johnson"](columns="all"),
        lambda: SCALERS["local"](by="robust", columns="all"),
        lambda: SCALERS["pooled"](by="yeo-johnson", columns="all"),
    ):
        with pytest.raises(ValueError, match='set columns = "numeric"'):
            make()
    with pytest.raises(ValueError, match="powers is 4; it must be odd"):
        SCALERS["federated-yeo-johnson"](powers=4)


@every("name", ALIASES)
def test_an_alias_stands_for_a_scaler_and_its_options(name):
    real, options = canonical(name)
    assert canonical(real) == (real, {})
    SCALERS[real](**options)
