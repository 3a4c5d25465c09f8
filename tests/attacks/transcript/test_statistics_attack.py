import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable, StatisticClaim, claims_in
from leakledger.attacks.observed.secure_sums import Slot, secure_sums
from leakledger.attacks.transcript.statistics import Statistics, statistics
from leakledger.attacks.transcript.statistics.differences import rounds
from leakledger.attacks.transcript.statistics.exact import steps_shared
from leakledger.attacks.transcript.statistics.own import OwnTable, own_tables
from leakledger.attacks.transcript.statistics.published import published_claims
from leakledger.attacks.transcript.statistics.seen import own_weights
from leakledger.preprocess.crypto.grid_sums import grid_squares, grid_sum
from leakledger.preprocess.messages import LocalMeans
from leakledger.preprocess.scalers.federated_minmax import FederatedMinMax
from leakledger.preprocess.scalers.federated_zscore import FederatedZScore
from leakledger.preprocess.scalers.pooled import Pooled
from leakledger.preprocess.scalers.zscore_sac import ZScoreSac
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Method
from leakledger.preprocess.wire import decode, encode
from tests.attacks.statistics_example import federation, inputs, public, real, tables, view_of
from tests.every import every

PARTS = tables()
SCHEMES = pytest.mark.parametrize("sharing", ["proportional", "ring"])


def run(view):
    return Statistics().run(view, AuxiliaryKnowledge())


def assert_exact(claims, parts, parties):
    """Count, and mean and deviation of every feature of these parties, to float64's precision, and no other but
    quartiles."""
    assert not isinstance(claims, Abstained | NotApplicable), claims
    claims = [c for c in claims if c.statistic != "quantile"]
    features = parts[0].shape[1]
    kinds = sorted((c.party, c.statistic) for c in claims)
    assert kinds == sorted((p, s) for p in parties for s in ("count", *["mean"] * features, *["std"] * features))
    for c in claims:
        assert c.estimate == pytest.approx(real(parts, c), rel=1e-8)
        assert c.low <= c.estimate <= c.high


@SCHEMES
@settings(max_examples=15)
@given(
    sizes=st.lists(st.integers(2, 9), min_size=3, max_size=5),
    passes=st.sampled_from([1, 2]),
    counts=st.sampled_from(["once", "per-feature"]),
)
def test_the_open_relay_works_out_every_party_exactly(sharing, sizes, passes, counts):
    parts = tables(sizes)
    scaler = ZScoreSac(sharing=sharing, passes=passes, counts=counts)
    assert_exact(run(view_of(parts, ["server"], scaler)), parts, [f"P{i + 1}" for i in range(len(sizes))])


@SCHEMES
@pytest.mark.parametrize("route", ["relay", "sealed", "direct"])
def test_all_clients_but_one_work_out_the_last_one_on_every_route(sharing, route):
    claims = run(view_of(PARTS, ["P1", "P2", "P4"], ZScoreSac(sharing=sharing, route=route)))
    assert_exact(claims, PARTS, ["P3"])


@pytest.mark.parametrize("observers", [["P1"], ["P1", "P2"]])
def test_over_a_ring_a_party_has_no_claim_beyond_the_sum(observers):
    assert isinstance(run(view_of(PARTS, observers, ZScoreSac(sharing="ring", route="sealed"))), Abstained)


@SCHEMES
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("observers", [["P1"], ["P1", "P2"], ["server", "P1"]])
def test_who_alone_has_a_column_that_varies_knows_it_of_each_of_the_others(sharing, passes, observers):
    parts = tables((30, 40, 50, 44), features=2, seed=3)
    for i, x in enumerate(parts):
        x[:, 0] = 0.7 if f"P{i + 1}" not in observers else x[:, 0]
    claims = [
        c
        for c in run(view_of(parts, observers, ZScoreSac(sharing=sharing, passes=passes, route="sealed")))
        if c.feature == "f0"
    ]
    outside = [f"P{i}" for i in range(1, 5) if f"P{i}" not in observers]
    kinds = ("mean", "std", "minimum", "maximum", *["quantile"] * 3)
    assert sorted((c.party, c.statistic) for c in claims) == sorted((p, s) for p in outside for s in kinds)
    for c in claims:
        assert c.low - 1e-12 <= real(parts, c) <= c.high + 1e-12
        assert c.high - c.low < 0.05


@SCHEMES
@pytest.mark.parametrize("publish", ["everyone", "parties"])
def test_a_relay_of_sealed_messages_has_no_claim(sharing, publish):
    assert isinstance(
        run(view_of(PARTS, ["server"], ZScoreSac(sharing=sharing, route="sealed", publish=publish))), Abstained
    )


def test_one_party_estimates_all_others_under_proportional_sharing():
    claims = run(view_of(PARTS, ["P1"], ZScoreSac(route="sealed")))
    assert {(c.party, c.statistic) for c in claims} == {
        (p, s) for p in ("P2", "P3", "P4") for s in ("count", "mean", "std", "quantile")
    }
    assert all(c.low < c.high for c in claims)
    assert np.mean([c.low <= real(PARTS, c) <= c.high for c in claims]) >= 0.8


def test_a_second_run_of_the_same_sums_narrows_the_intervals():
    def width(runs):
        claims = run(view_of(PARTS, ["P1"], *[ZScoreSac(route="direct")] * runs))
        return np.mean([np.log(c.high / c.low) for c in claims if c.statistic == "count"])

    assert width(6) < 0.75 * width(1)


def test_a_number_shared_as_zero_is_known_to_be_zero():
    parts = [x * [1, 1, 0] for x in PARTS]
    claims = {(c.party, c.feature, c.statistic): c for c in run(view_of(parts, ["P1"]))}
    for party in ("P2", "P3", "P4"):
        assert claims[party, "f2", "mean"].estimate == 0
        assert claims[party, "f2", "std"].high == 0


@SCHEMES
def test_who_leaves_between_two_rounds_is_worked_out_by_difference(sharing):
    fed = Simulated(["P1", "P2", "P3", "P4"], secret=pinned(0))
    at = {c: fed.at(c, x) for c, x in zip(fed.clients, PARTS, strict=True)}
    scaler = ZScoreSac(sharing=sharing, route="direct")
    scaler.fit(fed, at)
    scaler.fit(fed, {c: x for c, x in at.items() if c != "P4"})
    claims = run(fed.ledger.view(["P1"], public(PARTS), inputs=inputs(PARTS)))
    exact = [c for c in claims if c.party == "P4"]
    assert_exact(exact, PARTS, ["P4"])


def test_a_table_that_changes_between_rounds_is_not_subtracted():
    fed = Simulated(["P1", "P2", "P3", "P4"], secret=pinned(0))
    scaler = ZScoreSac(sharing="ring", route="direct")
    for parts in (PARTS, [*PARTS[:3], PARTS[3][:9]]):
        scaler.fit(fed, {c: fed.at(c, x) for c, x in zip(fed.clients, parts, strict=True)})
    scaler.fit(fed, {c: fed.at(c, x) for c, x in zip(fed.clients[:3], PARTS, strict=False)})
    outcome = run(fed.ledger.view(["P1"], public(PARTS), inputs=inputs(PARTS)))
    assert isinstance(outcome, NotApplicable)
    assert "a table changed" in outcome.reason


@pytest.mark.parametrize("observers", [["server"], ["P1"], ["P1", "P2"]])
def test_the_order_of_messages_in_a_view_changes_nothing(observers):
    view = view_of(PARTS, observers)
    assert run(replace(view, messages=view.messages[::-1])) == run(view)


@pytest.mark.parametrize("observers", [["server"], ["P1"], ["P1", "P2"]])
def test_claims_are_the_same_for_a_seed_about_outsiders_and_rest_on_messages_in_the_view(observers):
    view = view_of(PARTS, observers)
    claims = run(view)
    assert claims == run(view)
    assert not {c.party for c in claims} & {*observers, "server"}
    assert {number for c in claims for number in c.evidence} <= {m.sequence for m in view.messages}
    assert all(c.evidence for c in claims)


@pytest.mark.parametrize("observers", [["server"], ["P1"]])
@pytest.mark.parametrize("topic", ["zscore-sac.mean.part", "zscore-sac.mean.partial"])
def test_a_view_with_a_message_missing_makes_no_claim_and_names_it(observers, topic):
    view = view_of(PARTS, observers, ZScoreSac(route="relay"))
    lost = next(m for m in view.messages if m.topic == topic and m.sender == "P2")
    outcome = run(replace(view, messages=tuple(m for m in view.messages if m is not lost)))
    assert isinstance(outcome, NotApplicable)
    assert f"of P2 to {lost.recipient} is missing" in outcome.reason


def test_a_client_whose_messages_are_all_missing_is_not_taken_for_absent():
    view = view_of(PARTS, ["server"])
    kept = tuple(m for m in view.messages if "P4" not in (m.sender, m.recipient))
    outcome = run(replace(view, messages=kept))
    assert isinstance(outcome, NotApplicable)
    assert "no message of P4" in outcome.reason


def test_parts_of_another_form_are_refused():
    view = view_of(PARTS, ["P1"])
    bad = next(m for m in view.messages if m.topic == "zscore-sac.mean.part" and m.sender == "P2")
    for payload, reason in (
        ("x", "is str"),
        (np.ones(2), "differ in form"),
        (np.full(4, np.nan), "not finite"),
    ):
        body = encode(payload)
        messages = tuple(replace(m, body=body, content=body) if m is bad else m for m in view.messages)
        outcome = run(replace(view, messages=messages))
        assert isinstance(outcome, NotApplicable)
        assert reason in outcome.reason


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "no table of its own observer P1"),
        ({"P1": 3}, "the own input of P1 is no table: `columns` has for each feature"),
        ({"P1": {"columns": {"f0": np.array(["Smith"])}}}, "as many for all"),
        ({"P1": {"columns": {"f0": {"values": ["a"], "codes": ["Smith"]}}}}, "as many for all"),
        ({"P1": {"columns": {"f0": {"values": ["a"], "codes": [1]}}}}, "a code is the number of no value"),
        ({"P1": {"columns": {"f0": np.ones(3), "f1": np.ones(2)}}}, "as many for all"),
        ({"P1": {"columns": {"f0": np.ones(3)}}}, "'f1'"),
    ],
)
def test_an_observer_without_a_usable_table_of_its_own_makes_no_claim(given, reason):
    outcome = run(replace(view_of(PARTS, ["P1"]), inputs=given))
    assert isinstance(outcome, NotApplicable)
    assert reason in outcome.reason
    assert "Smith" not in outcome.reason
    assert not any(quoted in outcome.reason for quoted in ("convert", "literal", "broadcast", "subscriptable"))


@pytest.mark.parametrize("scaler", [FederatedZScore(), FederatedMinMax(), ZScoreSac()])
@pytest.mark.parametrize("given", [[], ["P2"]])
def test_without_its_own_table_an_observer_claims_what_messages_say_without_it(scaler, given):
    """As the server that it observes with, of everyone but itself; where one of two tables is missing too."""
    view = view_of(PARTS, ["server", "P1", "P2"], scaler)
    alone = {(c.party, c.feature, c.statistic): c for c in run(view_of(PARTS, ["server"], scaler))}
    claims = run(replace(view, inputs={name: view.inputs[name] for name in given}))
    assert not isinstance(claims, Abstained | NotApplicable), claims
    assert {(c.party, c.feature, c.statistic) for c in claims} == {key for key in alone if key[0] in ("P3", "P4")}
    for c in claims:
        assert c.estimate == pytest.approx(real(PARTS, c), rel=1e-8)


def test_messages_of_other_shapes_are_no_reason_to_quote_what_numpy_says_of_them():
    view = view_of(PARTS, ["server"], FederatedZScore())
    bad = next(m for m in view.messages if m.topic == LocalMeans.topic)
    body = encode(replace(bad.payload, mean=np.ones((3, 5))).to_plain())
    view = replace(view, messages=tuple(replace(m, body=body, content=body) if m is bad else m for m in view.messages))
    outcome = run(view)
    assert isinstance(outcome, NotApplicable)
    assert re.search(r"messages do not fit together .* something else \(\w+\)$", outcome.reason)


def test_whole_numbers_in_a_published_mean_betray_how_many_rows_it_is_over():
    parts = [x.round() for x in tables((31, 47))]
    assert_exact(run(view_of(parts, ["P1"], FederatedZScore(), integer=True)), parts, ["P2"])


@pytest.mark.parametrize("scaler", [FederatedZScore(ddof=1), Pooled(ddof=1)])
def test_a_published_deviation_over_one_less_than_all_rows_is_read_as_such(scaler):
    parts = [x.round() for x in tables((4, 6))]
    view = view_of(parts, ["P1"], scaler, integer=True)
    view = replace(view, public=replace(view.public, scaler=Method(scaler.name, {"ddof": 1})))
    assert_exact([c for c in run(view) if c.statistic not in ("minimum", "maximum")], parts, ["P2"])


@pytest.mark.parametrize("value", [0.0, 2.5, 1e4 / 3])
def test_of_a_constant_column_published_figures_leave_open_what_rounding_does(value):
    rows = StatisticClaim("P3", "", "count", 8, 8, 8)
    for seed in range(20):
        parts = [*tables((31, 47), features=1, seed=seed), np.full((8, 1), value)]
        view = view_of(parts, ["P1", "P2"], FederatedZScore())
        claims = {c.statistic: c for c in published_claims(view, own_tables(view), 0.9, rows)}
        assert claims["std"].low <= 0 <= claims["std"].high < 1e-6 * max(value, 5)
        assert claims["mean"].low <= value <= claims["mean"].high


def test_without_whole_numbers_the_other_of_two_clients_is_known_within_intervals():
    parts = tables((310, 470))
    claims = run(view_of(parts, ["P1"], FederatedZScore()))
    assert {c.statistic for c in claims} == {"count", "mean", "std", "quantile"}
    assert all(c.low < c.high for c in claims)
    assert all(c.low <= real(parts, c) <= c.high for c in claims)


def test_one_of_three_clients_learns_nothing_of_one_other_from_published_aggregates():
    assert isinstance(run(view_of(PARTS[:3], ["P1"], FederatedZScore())), Abstained)


def test_extremes_beyond_the_own_ones_are_the_last_clients_and_others_are_left_open():
    parts = [np.array([[0.0, 5.0], [9.0, 6.0]]), np.array([[3.0, 4.0], [11.0, 7.0]])]
    claims = run(view_of(parts, ["P1"], FederatedMinMax()))
    assert {(c.feature, c.statistic, c.estimate) for c in claims} == {
        ("f0", "maximum", 11),
        ("f1", "minimum", 4),
        ("f1", "maximum", 7),
    }


def test_plain_columns_are_read_out():
    claims = run(view_of(PARTS[:2], ["server"], Pooled()))
    assert {c.statistic for c in claims} == {"count", "mean", "std", "minimum", "maximum"}
    assert all(c.estimate == pytest.approx(real(PARTS, c)) for c in claims)


def test_the_level_is_the_width_and_a_level_outside_zero_to_one_is_refused():
    view = view_of(PARTS, ["P1"])
    narrow, wide = (Statistics(level=x).run(view, AuxiliaryKnowledge()) for x in (0.5, 0.9))
    assert all(w.high - w.low > n.high - n.low or w.statistic == "count" for n, w in zip(narrow, wide, strict=True))
    with pytest.raises(ValueError, match=r"level is 1\.5; it must be below 1"):
        Statistics(level=1.5)


def test_a_ledger_without_statistics_makes_it_abstain():
    empty = replace(view_of(PARTS, ["P1"]), messages=())
    assert isinstance(run(empty), Abstained)
    assert all(isinstance(c, StatisticClaim) for c in run(federation_view()))


def federation_view():
    return federation(PARTS).ledger.view(["server"], public(PARTS))


@given(
    st.lists(st.sampled_from([2.0**-121, -(2.0**-121), 3 * 2.0**-121]) | st.floats(-1e6, 1e6), min_size=1, max_size=8),
    st.floats(-1e6, 1e6),
)
def test_what_an_observer_shared_over_a_ring_is_worked_out_to_the_last_step(column, centre):
    own, grid = np.array(column), 2**120
    table, around = OwnTable(len(own), {"f": own}, {}), {("f", ""): centre}
    assert steps_shared(table, Slot("sum", "f"), around, grid) == grid_sum(own) * grid
    assert steps_shared(table, Slot("deviation", "f"), around, grid) == grid_squares(own, Fraction(centre)) * grid


@SCHEMES
def test_sums_below_zero_are_worked_out_too(sharing):
    parts = [x - 20 for x in PARTS]
    assert_exact(run(view_of(parts, ["server"], ZScoreSac(sharing=sharing))), parts, ["P1", "P2", "P3", "P4"])


def test_a_sum_of_zero_over_values_that_differ_is_a_mean_of_zero_with_a_deviation():
    parts = tables((6, 9, 8, 7), features=2)
    parts[1] = np.array([[1.0, 2.0], [-1.0, 5.0], [3.0, 4.0], [-3.0, 9.0]])
    claims = {(c.party, c.feature, c.statistic): c for c in run(view_of(parts, ["P1"], ZScoreSac(passes=1)))}
    assert claims["P2", "f0", "mean"].low == claims["P2", "f0", "mean"].high == 0
    assert claims["P2", "f0", "std"].low > 0


def test_a_column_that_is_the_same_everywhere_is_known_to_float64s_precision():
    parts = [np.hstack([x[:, :1], np.full((len(x), 1), 3.0)]) for x in PARTS]
    claims = [c for c in run(view_of(parts, ["P1"])) if c.feature == "f1"]
    for c in claims:
        assert [c.low, c.high] == pytest.approx([{"mean": 3, "std": 0, "quantile": 3}[c.statistic]] * 2, abs=1e-5)
    assert len(claims) == 15


@every("payload", [3, {"mean": 1}, {"minimum": np.ones(1), "maximum": np.ones(1)}, np.ones(2)])
@every("scaler", [FederatedZScore(), FederatedMinMax(), Pooled()])
@every("observer", ["server", "P1"])
def test_messages_of_another_form_than_their_topics_are_refused_by_a_reason(scaler, payload, observer):
    view = view_of(PARTS[:2], [observer], scaler)
    body = encode(payload)
    outcome = run(replace(view, messages=tuple(replace(m, body=body, content=body) for m in view.messages)))
    assert isinstance(outcome, NotApplicable | Abstained) or all(np.isfinite(c.estimate) for c in outcome)


def changed(view, topic, change):
    """The view with the content of a topic's messages changed."""
    bodies = {m.sequence: encode(change(decode(m.content))) for m in view.messages if m.topic == topic and m.content}
    return replace(
        view,
        messages=tuple(
            replace(m, body=bodies[m.sequence], content=bodies[m.sequence]) if m.sequence in bodies else m
            for m in view.messages
        ),
    )


def test_numbers_that_no_float_holds_are_a_reason_and_no_defect():
    view = view_of(PARTS, ["server"], ZScoreSac(sharing="ring"))
    for topic in sorted({m.topic for m in view.messages}):
        if topic.endswith((".share", ".share-partial")):
            view = changed(view, topic, lambda a: np.full((len(a), 40), 2**62, np.uint64))
    outcome = run(view)
    assert isinstance(outcome, NotApplicable)
    assert "OverflowError" in outcome.reason
    assert "or this attack takes them for something else" in outcome.reason


@pytest.mark.parametrize("error", [AttributeError("no such thing"), AssertionError("x")])
def test_a_defect_of_its_own_is_not_told_as_one_of_a_message(error, monkeypatch):
    def defect(view, told, absent):
        raise error

    monkeypatch.setattr(statistics, "counted_rows", defect)
    with pytest.raises(type(error)):
        run(view_of(PARTS, ["P1"]))


def test_a_key_that_is_missing_is_not_quoted(monkeypatch):
    def lacking(view, told, absent):
        raise KeyError("a value of a party")

    monkeypatch.setattr(statistics, "counted_rows", lacking)
    outcome = run(view_of(PARTS, ["P1"]))
    assert isinstance(outcome, NotApplicable)
    assert outcome.reason.endswith("(KeyError)")


def count_claims(seeds, sizes, features, spread):
    """(claim, true count) over seeds, of one observer among parties with so many rows."""
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        parts = [rng.normal(5, spread, (n, features)) for n in sizes]
        for c in run(view_of(parts, ["P1"], ZScoreSac(route="direct"), seed=seed)):
            if c.statistic == "count":
                yield c, real(parts, c)


def test_many_features_with_a_mean_that_hardly_varies_betray_the_count_better_than_its_own_part():
    errors = [abs(c.estimate / n - 1) for c, n in count_claims(8, (30, 20, 80, 55), 12, spread=1)]
    assert np.median(errors) < 0.15  # its own part alone leaves 0.40


def test_two_counts_add_up_to_what_both_parties_have():
    found = [c.estimate for c, _ in count_claims(20, (30, 20, 80), 1, spread=5)]
    sums = np.array(found).reshape(20, 2).sum(axis=1)
    assert np.median(np.abs(sums / 100 - 1)) <= 0.02


@pytest.mark.parametrize("weights", ["uniform", "exponential"])
def test_the_proportions_of_own_numbers_tell_how_others_were_split(weights):
    view = view_of(PARTS, ["P1"], ZScoreSac(route="direct", share_weights=weights))
    own = own_tables(view)
    assert own_weights(rounds(secure_sums(view)[0], own, {}), own) == weights


def test_parts_that_lie_beyond_everything_that_was_expected_leave_a_number_open():
    """The mean of one row far from ten thousand others was claimed as 110.27, low as high: no node of the prior had
    any likelihood, and the last one was all that was left.
    """
    coins = np.random.default_rng(4)
    parts = [coins.normal(1, 1, (n, 1)) + (1e4 if n == 1 else 0) for n in (20, 5000, 1, 5000, 5000)]
    claims = run(view_of(parts, ["P1"], ZScoreSac(route="sealed"), seed=4))
    [mean] = [c for c in claims if (c.party, c.statistic) == ("P3", "mean")]
    assert mean.high - mean.low > 1


@every("scaler", [ZScoreSac(), ZScoreSac(sharing="ring"), ZScoreSac(passes=1, route="sealed", sharing="proportional")])
@pytest.mark.parametrize("observers", [("server",), ("P1", "P2", "P4")])
@pytest.mark.parametrize("far", [1e12, 1e-32])
def test_what_rounding_takes_from_a_small_number_beside_large_ones_is_in_the_interval(scaler, observers, far):
    """One party's numbers are 10^12 times the others', and cancel; or all are below the grid of a ring."""
    parts = tables()
    parts = [parts[0] * far, *parts[1:]] if far > 1 else [x * far for x in parts]
    view = view_of(parts, observers, scaler)
    claims = [c for c in claims_in(run(view)) if c.party == "P3" and c.statistic != "quantile"]
    assert claims or "server" in observers
    for c in claims:
        real_one = real(parts, c)
        assert c.low - 1e-12 * abs(real_one) <= real_one <= c.high + 1e-12 * abs(real_one), c


@every("scaler", [FederatedZScore(), Pooled()])
def test_a_deviation_that_rounding_swallows_is_not_called_0(scaler):
    """Around 10^9 a variance of 10^-6 is far below what float64 leaves of squares."""
    for seed in range(6):
        coins = np.random.default_rng(seed)
        parts = [1e9 + coins.normal(0, 1e-3, (n, 2)) for n in (9, 12, 7)]
        for c in claims_in(run(view_of(parts, ["P1", "P2"], scaler))):
            if c.statistic == "std":
                assert c.low < c.high


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("observers", [("P1",), ("P1", "P2")])
def test_intervals_hold_where_rounding_has_swallowed_what_the_others_have_together(passes, observers):
    """Beside an observer's own numbers of 10^12 to 10^15 times the others', means were claimed to within 10^-9, and
    wrong: their sum and its deviation were what float64 leaves of large numbers that cancel.
    """
    held = []
    for seed in range(12):
        parts = [x * scale for x, scale in zip(tables(seed=seed), (10.0 ** (12 + seed % 4), 1, 1, 1), strict=True)]
        for c in claims_in(run(view_of(parts, observers, ZScoreSac(passes=passes, route="sealed"), seed=seed))):
            held.append(c.low <= real(parts, c) <= c.high)
            assert held[-1] or c.high - c.low > 0.1 * abs(c.estimate), c
    assert np.mean(held) >= 0.85


def test_of_a_constant_column_far_from_0_no_deviation_is_claimed_above_0():
    parts = [np.full((n, 2), [6.2, 1e9 / 3]) for n in (20, 35, 38, 34)]
    claims = claims_in(run(view_of(parts, ["P1"], ZScoreSac(route="sealed"))))
    assert {c.low for c in claims if c.statistic == "std"} == {0.0}


def test_a_quartile_is_open_where_rounding_has_swallowed_the_deviation():
    """A deviation between 0 and 1100 made the median of 21 rows exact to within 10^-5, and wrong by 0.26."""
    parts = tables((1, 23, 11, 21), seed=3)
    parts[0] *= 1e11
    claims = claims_in(run(view_of(parts, ["P1", "P2", "P3"], ZScoreSac(passes=1))))
    quartiles = [c for c in claims if c.statistic == "quantile"]
    assert len(quartiles) == 9
    for c in quartiles:
        assert c.low <= real(parts, c) <= c.high, c
    assert {c.low for c in claims if c.statistic == "std"} == {0.0}


@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("integer", [False, True])
def test_a_last_client_of_one_row_is_found_among_those_that_published_figures_leave(features, integer):
    """One row has no deviation: the interval of its count was 6 to 144, and of none of its numbers did one hold."""
    for seed in range(8):
        parts = tables((30, 25, 1), features, seed)
        parts = [(10 * x).round() for x in parts] if integer else parts
        for c in published(parts, ["P1", "P2"], integer):
            assert c.low - 1e-9 <= real(parts, c) <= c.high + 1e-9, c


def published(parts, observers, integer=False):
    claims = claims_in(run(view_of(parts, observers, FederatedZScore(), integer=integer)))
    return [c for c in claims if c.statistic != "quantile"]


@pytest.mark.parametrize("apart", [0.0, 1.0])
def test_intervals_from_published_figures_hold_where_the_last_client_has_any_number_of_rows(apart):
    """Of parties as far apart as the prior says, 24 % of intervals of 90 % held, of like ones 62 %: that few rows
    change little of what is told was left out.
    """
    held = []
    for seed in range(60):
        coins = np.random.default_rng(seed)
        parts = []
        for rows in (30, 25, max(1, int(27 * np.exp(coins.normal())))):
            mean = 2 * apart * 0.5 * coins.standard_t(3, 3)
            std = 2 * np.exp(0.35 * apart * np.clip(coins.standard_t(3, 3), -4, 4))
            parts.append(coins.normal(5 + mean, std, (rows, 3)))
        held += [c.low <= real(parts, c) <= c.high for c in published(parts, ["P1", "P2"])]
    assert np.mean(held) >= 0.85


@pytest.mark.parametrize(
    ("rows", "apart", "features"), [(27, 0.0, 8), (27, 1.0, 1), (270, 0.0, 8), (270, 1.0, 3), (3, 1.0, 3)]
)
def test_intervals_from_published_figures_hold_for_many_alike_columns_and_for_a_much_larger_last_client(
    rows, apart, features
):
    """Whole numbers of which nobody says so. Of eight alike columns 82 to 89 % of intervals of 90 % held, of a last
    client with ten times the rows of an observer 9 to 68 %.
    """
    held = []
    for seed in range(50):
        coins = np.random.default_rng((3, seed))
        parts = []
        for n in (30, 25, max(1, int(rows * np.exp(coins.normal() * (1.0 if rows == 27 else 0.3))))):
            mean = apart * coins.standard_t(3, features)
            std = 2 * np.exp(0.35 * apart * np.clip(coins.standard_t(3, features), -4, 4))
            parts.append(coins.normal(5 + mean, std, (n, features)).round())
        held += [c.low <= real(parts, c) <= c.high for c in published(parts, ["P1", "P2"])]
    assert np.mean(held) >= (0.9 if rows < 100 else 0.7)


@pytest.mark.parametrize(
    ("binary", "sizes"), [(False, (30, 25, 27)), (False, (30, 25, 40, 20, 28)), (True, (30, 25, 27))]
)
def test_intervals_from_published_figures_hold_for_a_last_client_with_a_column_that_is_constant(binary, sizes):
    """Its deviation of 0 was as good as impossible: 38, 10 and 8 % of intervals of 90 % held."""
    held = []
    for seed in range(20):
        coins = np.random.default_rng((7, seed))
        shape = [(n, 3) for n in sizes]
        parts = [(coins.random(s) < 0.3).astype(float) if binary else coins.normal(5, 2, s) for s in shape]
        parts[-1][:, 0] = parts[-1][0, 0]
        for c in published(parts, [f"P{i + 1}" for i in range(len(sizes) - 1)]):
            held.append(c.low - 1e-6 <= real(parts, c) <= c.high + 1e-6)
    assert np.mean(held) >= 0.85


@pytest.mark.parametrize("change", ["scale", "one number"])
def test_intervals_from_published_figures_hold_for_a_last_client_that_is_unlike_all_observers(change):
    """That observers are alike says nothing of this one: tails of t3 in each column made it a client of a thousand
    rows, and of its claims none held.
    """
    held = []
    for seed in range(20):
        parts = tables((30, 25, 40, 20), 3, seed)
        if change == "scale":
            parts[3] *= 1e6
        else:
            parts[3][0] = 1e5
        held += [c.low <= real(parts, c) <= c.high for c in published(parts, ["P1", "P2", "P3"])]
    assert np.mean(held) >= 0.85


@pytest.mark.parametrize(("sizes", "integer"), [((8, 3, 13), False), ((1, 147), True)])
def test_a_count_that_fits_by_chance_is_not_called_exact(sizes, integer):
    """Where nobody says that columns are of whole numbers, and where one own row hides that all are multiples of 10."""
    for seed in range(20):
        parts = [10 * np.random.default_rng((seed, n)).integers(0, 2, (n, 2)).astype(float) for n in sizes]
        observers = [f"P{i + 1}" for i in range(len(sizes) - 1)]
        for c in published(parts, observers, integer):
            assert c.statistic != "count" or c.low < c.high


@pytest.mark.parametrize(("rounded", "whole"), [(0.1, 0.1015625), (19.99, 19.990234375)])
def test_what_rounding_makes_of_the_deviation_of_an_own_constant_tells_nothing(rounded, whole):
    def told(number, seed):
        coins = np.random.default_rng(seed)
        own, other = (
            np.stack([coins.integers(18, 90, n), coins.normal(5, 2, n), coins.normal(19, 1, n)], axis=1)
            for n in coins.integers(5, 60, 2).tolist()
        )
        own[:, 2] = number
        found = run(view_of([own, other], ["P1"], FederatedZScore()))
        kept = [c for c in found if c.feature != "f2" and c.statistic in ("count", "mean")]
        return {(c.feature, c.statistic): (c.low, c.high) for c in kept}

    for seed in range(10):
        near, same = told(rounded, seed), told(whole, seed)
        assert len(same) == 3
        for key, ends in same.items():
            assert near[key] == pytest.approx(ends, rel=0.01)
