import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from tests.every import every
from tests.preprocess.notes import plain

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
def test_server_zscore_equals_the_pooled_zscore_for_every_partition(parts):
    _, server, scaled = scale("server-zscore", parts)
    _, pooled, expected = scale("pooled", parts)
    size = np.abs(np.vstack(parts)).max(initial=1)
    np.testing.assert_allclose(server.public.value.shift, pooled.public.value.shift, rtol=1e-12, atol=1e-12 * size)
    spread = pooled.public.value.scale
    for a, b in zip(scaled, expected, strict=True):
        np.testing.assert_allclose(a[:, spread > 1e-6 * size], b[:, spread > 1e-6 * size], rtol=1e-7, atol=1e-7)


@given(tables)
def test_server_minmax_equals_the_pooled_extremes_exactly(parts):
    _, fit, _ = scale("server-minmax", parts)
    whole = np.vstack(parts)
    np.testing.assert_array_equal(fit.public.value.low, whole.min(0))
    np.testing.assert_array_equal(fit.public.value.high, whole.max(0))


def test_the_pooled_scaler_is_the_standard_scaler_of_a_known_library():
    parts = [np.random.default_rng(i).normal(5, 3, (20, 3)) for i in range(3)]
    _, _, scaled = scale("pooled", parts)
    np.testing.assert_allclose(np.vstack(scaled), StandardScaler().fit_transform(np.vstack(parts)), atol=1e-12)
    _, _, scaled = scale("server-minmax", parts)
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
    for name in ("pooled", "server-zscore"):
        _, fit, _ = scale(name, parts, ddof=1)
        np.testing.assert_allclose(fit.public.value.scale, np.vstack(parts).std(0, ddof=1))


@pytest.mark.parametrize("name", SCALERS)
def test_a_constant_column_becomes_zero(name):
    parts = [np.full((rows, 2), 7.0) for rows in (3, 2, 4)]
    _, _, scaled = scale(name, parts)
    within = 7 * 2 * (3 + 2) * 2**-53 if name == "zscore-sac" else 0.0  # secure sums of three clients are rounded
    assert all((np.abs(s) <= within).all() for s in scaled)


@every("name", SCALERS)
@every("value", [0.1, -1e6 / 3, 1e-30])
def test_a_constant_whose_mean_is_rounded_stays_at_zero_in_its_own_units(name, value):
    parts = [np.full((rows, 1), value) for rows in (3, 20, 41)]
    _, _, scaled = scale(name, parts)
    assert all((np.abs(s) <= 2**-40 * abs(value)).all() for s in scaled)


def test_the_server_sees_local_moments_and_clients_see_global_ones_only():
    fed, _, _ = scale("server-zscore", [np.ones((2, 1)), np.zeros((4, 1))])
    assert [(m.topic, m.sender) for m in fed.ledger if m.recipient == "server"] == [
        ("zscore.mean", "P1"),
        ("zscore.mean", "P2"),
        ("zscore.variance", "P1"),
        ("zscore.variance", "P2"),
    ]
    assert [m.topic for m in fed.ledger if m.recipient == "P1"] == ["zscore.global-mean", "zscore.global-std"]


def test_the_server_sees_local_extremes():
    fed, _, _ = scale("server-minmax", [np.array([[1.0], [5.0]]), np.array([[2.0]])])
    received = [plain(m) for m in fed.ledger if m.recipient == "server"]
    assert [(float(p["minimum"][0]), float(p["maximum"][0])) for p in received] == [(1, 5), (2, 2)]


def test_only_the_pooled_reference_is_marked_as_no_federation():
    assert [name for name, scaler in SCALERS.items() if not scaler.federated] == ["pooled"]
