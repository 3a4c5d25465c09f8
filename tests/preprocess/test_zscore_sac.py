from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leakledger.preprocess.crypto.sharing import Ring
from leakledger.preprocess.messages import SECURE_SUMS
from leakledger.preprocess.scalers.zscore_sac import ZScoreSac
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import PublicFacts
from tests.preprocess.contract import assert_same_views
from tests.preprocess.notes import plain

CLIENTS = ("P1", "P2", "P3")
numbers = st.floats(-1e6, 1e6, allow_nan=False)
tables = st.lists(
    st.integers(0, 7).flatmap(lambda n: arrays(np.float64, (n, 3), elements=numbers)), min_size=3, max_size=5
).filter(lambda parts: sum(map(len, parts)) > 0)
options = st.fixed_dictionaries(
    {
        "route": st.sampled_from(["relay", "sealed", "direct"]),
        "counts": st.sampled_from(["once", "per-feature"]),
        "publish": st.sampled_from(["everyone", "parties"]),
        "share_weights": st.sampled_from(["uniform", "exponential"]),
    }
)


def fit(parts, **options):
    fed = Simulated([f"P{i + 1}" for i in range(len(parts))], secret=pinned(0))
    located = {c: fed.at(c, x) for c, x in zip(fed.clients, parts, strict=True)}
    found = ZScoreSac(**options).fit(fed, located)
    return fed, found, [fed.own(found.scalings[c]) for c in fed.clients]


def exact(parts, ddof=0):
    """Mean and deviation of the pooled rows by rational arithmetic."""
    whole = np.vstack(parts)
    columns = [[Fraction(float(v)) for v in column] for column in whole.T]
    means = [sum(c) / len(c) for c in columns]
    squares = [sum((v - m) ** 2 for v in c) / max(len(c) - ddof, 1) for c, m in zip(columns, means, strict=True)]
    return np.array([float(m) for m in means]), np.array([float(s) ** 0.5 for s in squares]), np.abs(whole).max(0)


@given(tables, options, st.sampled_from(["ring", "proportional"]), st.sampled_from([0, 1]))
def test_mean_and_deviation_are_those_of_the_pooled_rows_for_every_partition(parts, chosen, sharing, ddof):
    mean, std, size = exact(parts, ddof)
    _, _, scalings = fit(parts, sharing=sharing, ddof=ddof, **chosen)
    spread = (std > 1e-6 * size) & (std > 1e-12)
    for scaling in scalings:
        assert (np.abs(scaling.shift_ - mean) <= 1e-9 * size + 1e-30).all()
        np.testing.assert_allclose(scaling.scale_[spread], std[spread], rtol=1e-9)
        np.testing.assert_array_equal(scaling.scale_, scalings[0].scale_)


@given(tables, st.sampled_from(["ring", "proportional"]))
def test_one_pass_gives_the_same_where_the_mean_is_not_large_against_the_deviation(parts, sharing):
    mean, std, size = exact(parts)
    assume(sharing == "ring" or (std > 1e-5 * size).all())  # below that, proportional parts are refused
    _, _, scalings = fit(parts, sharing=sharing, passes=1)
    spread = (std > 1e-2 * size) & (std > 1e-12)
    assert (np.abs(scalings[0].shift_ - mean) <= 1e-9 * size + 1e-30).all()
    np.testing.assert_allclose(scalings[0].scale_[spread], std[spread], rtol=1e-9)


@pytest.mark.parametrize("share", [1e-4, 1e-7, 1e-9])
def test_one_pass_over_a_ring_gives_the_deviation_of_columns_far_from_zero(share):
    parts = [np.random.default_rng(i).normal(1e3, 1e3 * share, (40, 1)) for i in range(4)]
    _, std, _ = exact(parts)
    _, _, scalings = fit(parts, sharing="ring", passes=1)
    np.testing.assert_allclose(scalings[0].scale_, std, rtol=1e-9)


def test_one_pass_over_a_ring_only_shifts_a_constant_column():
    parts = [np.full((n, 1), 0.1) for n in (3, 7, 10)]
    assert (fit(parts, sharing="ring", passes=1)[2][0].scale_ == 1).all()


@pytest.mark.parametrize("clients", [3, 9])
@pytest.mark.parametrize("share", [0, 1e-16, 1e-10, 1e-8, 1e-7, 1e-6])
def test_one_pass_of_proportional_parts_refuses_a_column_that_it_leaves_no_deviation(share, clients):
    draws = np.random.default_rng(0)
    parts = [np.column_stack([draws.normal(0, 1, 40), draws.normal(1, share, 40)]) for _ in range(clients)]
    with pytest.raises(ValueError, match="column 2 deviates from its mean by too little for one pass"):
        fit(parts, passes=1)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("clients", [3, 9])
def test_one_pass_of_proportional_parts_is_right_to_a_thousandth_just_above_what_it_refuses(seed, clients):
    draws = np.random.default_rng(seed)
    parts = [draws.normal(1, 5e-6, (40, 2)) for _ in range(clients)]
    np.testing.assert_allclose(fit(parts, passes=1)[2][0].scale_, exact(parts)[1], rtol=1e-3)


def test_large_numbers_keep_nine_digits():
    parts = [np.random.default_rng(i).normal(3e17, 1e14, (50, 1)) for i in range(4)]
    mean, std, _ = exact(parts)
    _, _, scalings = fit(parts, sharing="ring")
    np.testing.assert_allclose(scalings[0].shift_, mean, rtol=1e-15)
    np.testing.assert_allclose(scalings[0].scale_, std, rtol=1e-9)


@pytest.mark.parametrize("sharing", ["ring", "proportional"])
def test_a_constant_column_is_only_shifted(sharing):
    parts = [np.full((n, 2), [0.1, 0.0]) for n in (3, 7, 10)]
    _, _, scalings = fit(parts, sharing=sharing)
    for x, scaling in zip(parts, scalings, strict=True):
        assert (scaling.scale_ == 1).all()
        assert np.abs(scaling.transform(x)).max() < 1e-15


@pytest.mark.parametrize("sharing", ["ring", "proportional"])
def test_a_client_without_rows_takes_part_and_changes_nothing(sharing):
    rows = [np.arange(6.0).reshape(3, 2), np.ones((2, 2))]
    _, _, with_empty = fit([*rows, np.empty((0, 2))], sharing=sharing)
    whole = np.vstack(rows)
    np.testing.assert_allclose(with_empty[2].shift_, whole.mean(0), rtol=1e-14)
    np.testing.assert_allclose(with_empty[2].scale_, whole.std(0), rtol=1e-14)


def test_no_rows_at_all_are_an_error():
    with pytest.raises(ValueError, match="no party holds a row"):
        fit([np.empty((0, 2))] * 3)


@pytest.mark.parametrize("counts", ["once", "per-feature"])
def test_a_table_without_numeric_features_needs_no_scaling(counts):
    _, found, _ = fit([np.empty((4, 0))] * 3, counts=counts)
    assert found.public.value.shift.shape == (0,)


def test_two_clients_are_refused():
    with pytest.raises(ValueError, match="needs at least 3 clients, got 2"):
        fit([np.ones((2, 1))] * 2)


@pytest.mark.parametrize(("sharing", "size"), [("ring", 1e60), ("proportional", 1e200)])
def test_squares_out_of_range_are_an_error_that_repeats_no_number(sharing, size):
    parts = [np.full((2, 1), sign * size) for sign in (1, -1, 1)]
    with pytest.raises(ValueError, match=r"beyond the ring's range|not finite|beyond the range of float64") as error:
        fit(parts, sharing=sharing)
    assert "e+" not in str(error.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sharing": "xor"}, "sharing 'xor' is unknown; choose one of proportional, ring"),
        ({"counts": "never"}, "counts 'never' is unknown"),
        ({"publish": "nobody"}, "publish 'nobody' is unknown"),
        ({"share_weights": "negative"}, "share_weights 'negative' is unknown"),
        ({"passes": 3}, "passes 3 is unknown; choose one of 1, 2"),
        ({"route": "air"}, "route 'air' is unknown"),
    ],
)
def test_an_unknown_option_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        ZScoreSac(**wrong)


@pytest.mark.parametrize("clients", [3, 5])
def test_two_passes_take_four_messages_to_every_other_client_and_one_pass_the_papers_two(clients):
    parts = [np.full((i + 1, 3), float(i)) for i in range(clients)]
    for passes, each in ((2, 4), (1, 2)):
        fed, _, _ = fit(parts, passes=passes, publish="parties")
        assert len(fed.ledger) == each * clients * (clients - 1)
        assert all(sum(m.sender == c for m in fed.ledger) == each * clients - each for c in fed.clients)


def test_publishing_takes_one_message_to_every_other_party():
    parts = [np.ones((i + 1, 3)) for i in range(4)]
    counts = [len(fit(parts, publish=p)[0].ledger) for p in ("parties", "everyone")]
    assert counts[1] - counts[0] == 4


def view(fed, *observers):
    return fed.ledger.view(observers, PublicFacts(fed.clients, fed.server))


PARTS = [np.array([[1.0, 10.0], [2.0, 30.0]]), np.array([[4.0, 20.0]]), np.array([[0.0, 5.0]] * 3)]
ENDS = {"proportional": ("part", "partial"), "ring": ("share", "share-partial")}
TOPICS = {s: {f"zscore-sac.{q}.{e}" for q in ("mean", "variance") for e in ends} for s, ends in ENDS.items()}
SUMS = TOPICS["proportional"]


@pytest.mark.parametrize("sharing", ["ring", "proportional"])
def test_each_party_and_the_relay_see_these_topics_and_no_others(sharing):
    sums, told = TOPICS[sharing], {"zscore-sac.announced"}
    keys = {"channel.public-key"}
    expected = {
        ("relay", "everyone"): (sums | told, sums | told, sums | told),
        ("relay", "parties"): (sums, sums, sums),
        ("direct", "everyone"): (sums | told, told, told),
        ("direct", "parties"): (sums, set(), set()),
        ("sealed", "everyone"): (sums | told | keys, sums | told | keys, told | keys),
        ("sealed", "parties"): (sums | keys, sums | keys, keys),
    }
    for (route, publish), (client, server, readable) in expected.items():
        fed, _, _ = fit(PARTS, sharing=sharing, route=route, publish=publish)
        assert all(view(fed, c).topics == client for c in fed.clients), route
        assert view(fed, "server").topics == server, route
        assert {m.topic for m in view(fed, "server").messages if m.content is not None} == readable, route


@pytest.mark.parametrize("sharing", ["ring", "proportional"])
def test_no_readable_message_holds_a_clients_own_statistics(sharing):
    fed, _, _ = fit(PARTS, sharing=sharing)
    own = np.concatenate([[len(x), *x.sum(0), *x.mean(0), *x.var(0), *((x - x.mean(0)) ** 2).sum(0)] for x in PARTS])
    own = own[np.abs(own) > 0]
    for message in fed.ledger:
        if message.topic != "zscore-sac.announced":
            shown = np.asarray(plain(message), np.float64).ravel()
            assert not np.isclose(shown[:, None], own, rtol=1e-12).any()


def test_one_message_carries_all_features_and_the_count_once_or_per_feature():
    for counts, size in (("once", 3), ("per-feature", 4)):
        fed, _, _ = fit(PARTS, counts=counts)
        shapes = {m.topic: plain(m).shape for m in fed.ledger if m.topic in SUMS}
        assert shapes == {t: (size if "mean" in t else 2,) for t in SUMS}
    fed, _, _ = fit(PARTS, sharing="ring")
    assert {plain(m).shape for m in fed.ledger if m.topic == "zscore-sac.mean.share"} == {(3, 4)}


def test_the_relay_of_proportional_parts_can_add_up_what_it_needs_for_the_total():
    fed, found, _ = fit(PARTS, publish="parties")
    partial = {m.sender: plain(m) for m in view(fed, "server").received(SECURE_SUMS["zscore-sac.mean"].partial)}
    rows, *sums = np.sum(list(partial.values()), axis=0)
    np.testing.assert_allclose(np.array(sums) / rows, np.vstack(PARTS).mean(0), rtol=1e-12)
    assert found.public.value.shift is None


def test_options_are_what_everyone_announces_and_nothing_more():
    fed, found, _ = fit(PARTS)
    announced = next(plain(m) for m in fed.ledger if m.topic == "zscore-sac.announced")
    assert set(announced) == {"mean", "std"}
    np.testing.assert_array_equal(announced["mean"], found.public.value.shift)


def totals(parts, **options):
    """What everyone learns of the sums of all clients over a ring, to the last bit."""
    fed, _, _ = fit(parts, sharing="ring", publish="parties", **options)
    kinds = [SECURE_SUMS[f"zscore-sac.{q}"].share_partial for q in ("mean", "variance", "moments")]
    told = [{m.sender: m.payload.numbers for m in fed.ledger if m.kind is kind} for kind in kinds]
    return [Ring().reveal(*partials.values()) for partials in told if partials]


@given(tables, st.sampled_from([1, 2]), st.data())
def test_totals_over_a_ring_are_the_same_for_every_division_of_the_rows(parts, passes, data):
    whole = np.vstack(parts)
    owner = np.array([data.draw(st.integers(0, 2)) for _ in whole])
    again = [whole[owner == i] for i in range(3)]
    assert totals(parts, passes=passes) == totals(again, passes=passes)


def test_last_digits_over_a_ring_do_not_tell_which_shares_of_a_binary_column_two_clients_have():
    own = np.arange(20.0)[:, None] % 2
    others = [(30, 7, 41, 20), (31, 12, 40, 15), (35, 8, 36, 19)]  # rows and ones of two clients; 71 and 27 in all
    worlds = [[own, *(np.arange(n)[:, None] < ones for n, ones in ((a, b), (c, d)))] for a, b, c, d in others]
    seen = [totals([np.asarray(x, np.float64) for x in parts]) for parts in worlds]
    assert seen[0] == seen[1] == seen[2]


def zscore_protocol(fed, inputs, params):
    columns = {c: fed.local(c, np.asarray, inputs[c]) for c in fed.clients}
    found = ZScoreSac(**params).fit(fed, columns)
    held = {c: fed.local(c, lambda s: [s.shift_, s.scale_], found.scalings[c]) for c in fed.clients}
    return {**held, fed.server: fed.at(fed.server, None)}


@pytest.mark.parametrize("route", ["relay", "sealed", "direct"])
@pytest.mark.parametrize(
    "chosen", [{}, {"sharing": "ring", "publish": "parties"}, {"passes": 1, "counts": "per-feature"}]
)
def test_it_runs_with_a_process_per_party(route, chosen):
    inputs = dict(zip(CLIENTS, PARTS, strict=True))
    assert_same_views(zscore_protocol, CLIENTS, inputs, {"route": route, **chosen})
