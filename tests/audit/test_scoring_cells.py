from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leakledger.attacks.base import RecordsClaim
from leakledger.audit.scoring.cells import EDGES, SHARES, bounds, doubt_detail, feature_shares, surest_weights
from leakledger.audit.scoring.records import compare, from_marginals, prior_only, score_records
from tests.audit.example import truth

T = truth()
VICTIM = T.parties[0]
BATCH = T.batch(VICTIM, 0)
doubts = arrays(np.float64, st.integers(1, 30), elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.1, 0.5, 1.0, 2.5]))
shares = st.sampled_from(SHARES)


def claim(rows=BATCH, doubt=0.5, verified=None):
    each = np.broadcast_to(np.asarray(doubt, float), (len(rows),))[:, None]
    entropy = [np.repeat(each, cells.shape[1], 1) for cells in (rows.categories, rows.numbers)]
    return RecordsClaim(VICTIM, 0, rows.categories, rows.numbers, *entropy, (), None, verified)


def measured(claim, draws=5):
    def prior_of(claim, actual, terms):
        return prior_only(actual, terms, np.random.default_rng(0), draws)

    return {m.metric: m for m in score_records([claim], T, prior_of)}


def guess(seed, rows=None):
    rows = len(BATCH) if rows is None else rows
    return from_marginals(T.population, rows, np.random.default_rng(seed))


def one_kind(hits, entropy, verified=None, kind="categorical"):
    """The detail of one column of cells that the prior alone has right half of the time."""
    columns = [np.asarray(x)[:, None] for x in (hits, np.full(len(hits), 0.5), np.asarray(entropy, float))]
    return doubt_detail(kind, *columns, verified)


@given(doubts, shares)
def test_the_surest_share_weighs_its_part_of_the_cells_and_never_a_less_sure_cell_more(doubt, share):
    weights = surest_weights(doubt, share)
    assert weights.sum() == pytest.approx(share * len(doubt))
    assert ((weights >= 0) & (weights <= 1 + 1e-12)).all()
    order = np.argsort(doubt, kind="stable")
    assert (np.diff(weights[order]) <= 1e-12).all()


@given(doubts, shares, st.randoms(use_true_random=False))
def test_the_order_of_tied_cells_does_not_matter(doubt, share, random):
    order = np.array(random.sample(range(len(doubt)), len(doubt)))
    assert surest_weights(doubt[order], share) == pytest.approx(surest_weights(doubt, share)[order])


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(1, len(BATCH)))
def test_the_mean_over_columns_is_the_accuracy_of_the_batch_claimed_in_part_or_not(seed, rows):
    found = measured(claim(guess(seed, rows)))["accuracy"]
    assert np.mean([f.value for f in found.detail.features]) == pytest.approx(found.value)
    assert np.mean([f.baseline for f in found.detail.features]) == pytest.approx(found.baseline)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_buckets_and_the_whole_share_hold_every_claimed_cell_and_no_other(seed):
    rows = guess(seed, 3)
    detail = measured(claim(rows, np.random.default_rng(seed).random(3)))["accuracy"].detail
    for kind, cells in (("categorical", rows.categories), ("numeric", rows.numbers)):
        whole = next(s for s in detail.surest if (s.kind, s.share) == (kind, 1.0))
        buckets = [b for b in detail.buckets if b.kind == kind]
        assert whole.cells == pytest.approx(cells.size)
        assert sum(b.cells for b in buckets) == cells.size
        assert whole.value == pytest.approx(sum(b.correct for b in buckets) / cells.size)
        assert whole.baseline == pytest.approx(sum(b.prior for b in buckets) / cells.size)


def test_only_the_headline_metric_of_records_carries_the_detail():
    assert [name for name, m in measured(claim()).items() if m.detail is not None] == ["accuracy"]


def test_columns_are_scored_one_by_one_and_a_row_without_a_claim_is_wrong():
    hits, prior = np.array([[True, False], [True, True]]), np.array([[0.5, 0.0], [0.5, 0.0], [0.5, 1.0], [0.5, 1.0]])
    found = [(f.feature, f.value, f.baseline) for f in feature_shares(["a", "b"], "numeric", hits, prior)]
    assert found == [("a", 0.5, 0.5), ("b", 0.25, 0.5)]


def test_the_prior_is_that_of_the_true_cells_that_the_claimed_rows_were_matched_to():
    last = BATCH.take(np.array([len(BATCH) - 1]))
    whole, one = (measured(claim(rows), draws=40)["accuracy"].detail for rows in (BATCH, last))
    assert [f.baseline for f in whole.features] == [f.baseline for f in one.features]  # of the batch, always
    easy = {s.kind: s.baseline for s in one.surest if s.share == 1.0}
    coins = np.random.default_rng(0)
    drawn = [from_marginals(T.population, len(BATCH), coins) for _ in range(40)]
    hits = [compare(rows, BATCH, T.deviations).categories[-1].mean() for rows in drawn]
    assert easy["categorical"] == pytest.approx(np.mean(hits))


def test_low_entropy_cells_are_ranked_first_whatever_their_order():
    detail = one_kind([False, True, False, True, False], [0.9, 0.1, 0.8, 0.05, 0.7])
    by_share = {s.share: s for s in detail.surest}
    assert by_share[0.2].value == 1.0
    assert by_share[0.5].value == pytest.approx(2 / 2.5)  # two right cells and half a wrong one
    assert by_share[1.0].value == pytest.approx(0.4)
    assert by_share[0.2].entropy == pytest.approx(0.05)
    assert {s.baseline for s in detail.surest} == {0.5}


def test_proven_rows_come_before_cells_of_lower_entropy():
    verified = np.array([True, False, False, False, False])
    detail = one_kind([True, False, False, False, False], [0.0, -3.0, -2.5, 0.4, 2.5], verified, "numeric")
    assert detail.surest[0].value == 1.0
    assert detail.surest[0].entropy == 0.0  # as the attack states it
    assert (detail.buckets[0].low, detail.buckets[0].cells, detail.buckets[0].correct) == (None, 3, 1)


def test_an_attack_that_is_equally_sure_of_everything_ranks_nothing():
    detail = one_kind([True, False, True, True], [0.0] * 4)
    assert [s.value for s in detail.surest] == pytest.approx([0.75] * len(SHARES))
    assert [(b.low, b.high, b.cells) for b in detail.buckets] == [(0.0, 0.2, 4)]


def test_an_attack_that_states_no_entropy_has_columns_but_neither_buckets_nor_ranking():
    detail = measured(claim(doubt=np.nan))["accuracy"].detail
    assert detail.features
    assert (detail.buckets, detail.surest) == ((), ())


def test_cells_without_an_entropy_are_left_out_of_the_ranking_of_the_others():
    detail = one_kind([True, False, False], [0.1, np.nan, 0.3])
    assert sum(b.cells for b in detail.buckets) == 2
    assert detail.surest[-1].value == 0.5


def test_an_entropy_that_is_not_finite_is_ranked_but_has_no_mean():
    detail = one_kind([True, False], [-np.inf, 0.3], kind="numeric")
    assert [s.value for s in detail.surest if s.share == 0.5] == [1.0]
    assert {s.entropy for s in detail.surest} == {None}


def test_a_claim_of_no_rows_has_columns_that_are_all_wrong():
    found = measured(claim(BATCH.take(np.array([], int))))
    assert {f.value for f in found["accuracy"].detail.features} == {0.0}
    assert found["accuracy"].detail.surest == ()
    assert found["worst_record"].value == 0.0


def test_a_bucket_holds_its_upper_bound_and_not_its_lower_one():
    for kind, edges in EDGES.items():
        at = one_kind([True] * len(edges), edges, kind=kind)
        assert [b.high for b in at.buckets] == list(edges)
        above = one_kind([True] * len(edges), np.nextafter(edges, np.inf), kind=kind)
        assert [b.low for b in above.buckets] == list(edges)


def test_the_buckets_are_those_of_the_paper_with_the_lowest_numeric_one_in_parts():
    assert bounds("categorical") == [(0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0)]
    parts = [(None, -2.0), (-2.0, -1.0), (-1.0, 0.0), (0.0, 0.72)]
    assert bounds("numeric") == [*parts, (0.72, 1.16), (1.16, 1.6), (1.6, 2.04), (2.04, None)]


def test_the_detail_does_not_depend_on_the_order_of_claimed_rows():
    rows, order = guess(4), np.arange(len(BATCH))[::-1]
    doubt = np.linspace(0, 1, len(BATCH))
    a, b = claim(rows, doubt), claim(rows.take(order), doubt[order])
    first, second = (measured(c)["accuracy"].detail for c in (a, b))
    assert first == second
    proven = doubt > 0.5
    a, b = replace(a, verified=proven), replace(b, verified=proven[order])
    third, fourth = (measured(c)["accuracy"].detail for c in (a, b))
    assert third == fourth != first
