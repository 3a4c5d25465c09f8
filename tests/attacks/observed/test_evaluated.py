"""What evaluation and early stopping state is claimed as what it is: exact of held-out rows, bounds of the others."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.evaluated import possible_rows, rows_behind
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.audit.play import view_of
from leakledger.audit.scoring.statistics import score_statistics
from leakledger.preprocess.messages import ErrorSums, LocalLoss, PredictionCounts
from leakledger.preprocess.views import MalformedMessage, Message, PublicFacts, TrainingSpec, View
from leakledger.preprocess.wire import encode
from tests.audit.example import truth
from tests.preprocess.example import table

PUBLIC = PublicFacts(("P1", "P2"), "server", schema={"classes": ["no", "yes"]}, training=TrainingSpec(validation=0.1))


def claimed(*payloads, public=PUBLIC):
    """The claims about P1 from these messages of its: (statistic, value) -> (low, estimate, high)."""
    bodies = [(p.topic, encode(p.to_plain())) for p in payloads]
    messages = [Message(i, "s", 0, t, "P1", "server", None, False, b, b) for i, (t, b) in enumerate(bodies)]
    claims = Plaintext().run(View(frozenset(["server"]), tuple(messages), public), AuxiliaryKnowledge())
    return {(c.statistic, c.value): (c.low, c.estimate, c.high) for c in claims}


def counts(confusion):
    return PredictionCounts(np.array(confusion), np.zeros((len(confusion), 2, 3), np.int64))


def test_rows_of_each_class_are_read_off_the_confusion_matrix_whatever_was_predicted():
    assert claimed(counts([[5, 1], [2, 0]])) == {
        ("held_out_count", ""): (8, 8, 8),
        ("held_out_rate", "no"): (0.75, 0.75, 0.75),
        ("held_out_rate", "yes"): (0.25, 0.25, 0.25),
    }


def test_rates_are_not_named_where_the_matrix_has_other_classes_than_the_public_ones():
    assert set(claimed(counts(np.ones((3, 3), np.int64)))) == {("held_out_count", "")}


def test_mean_and_deviation_of_a_numeric_target_follow_from_its_sums():
    y = np.array([1.0, 4.0, 10.0])
    found = claimed(ErrorSums(3, 1.0, 1.0, float(y.sum()), float((y**2).sum())))
    assert found["held_out_count", ""] == (3, 3, 3)
    assert found["held_out_mean", ""][1] == pytest.approx(y.mean())
    low, std, high = found["held_out_std", ""]
    assert std == pytest.approx(y.std())
    assert low - 1e-9 < y.std() < high + 1e-9


def test_validation_rows_leave_few_numbers_of_training_rows_and_are_claimed_once_however_often_they_are_told():
    found = claimed(LocalLoss(3.0, 5), LocalLoss(2.5, 5))
    assert found == {("count", ""): (46, 50, 54)}


@given(
    rows=st.integers(2, 120), share=st.sampled_from([0.05, 0.1, 0.2, 0.25, 1 / 3, 0.5, 0.8]), seed=st.integers(0, 99)
)
def test_held_out_rows_say_how_many_rows_a_client_trains_on_and_how_many_of_them_are_positive(rows, share, seed):
    """The server had both to a few rows, and no attack said so."""
    train, test = table(rows, seed).split(share, np.random.default_rng(seed))
    classes = [[int((test.labels() == c).sum()), 0] for c in (0, 1)]
    found = claimed(counts(classes), public=replace(PUBLIC, held_out=share))
    low, estimate, high = found["count", ""]
    assert low <= len(train) <= high
    assert low <= estimate <= high
    assert high - low <= 1.5 / share + 1
    low, estimate, high = found["target_rate", ""]
    assert low - 1e-12 <= (train.labels() == 1).mean() <= high + 1e-12
    assert 0 <= low <= high <= 1
    assert high - low <= 4 / min(len(test), len(train))
    errors = claimed(ErrorSums(len(test), 1.0, 1.0, 1.0, 1.0), public=replace(PUBLIC, held_out=share))
    assert errors["count", ""] == found["count", ""]


def test_held_out_rows_and_validation_rows_together_leave_what_either_leaves():
    """The bounds of the second were claimed alone, so that early stopping made a number of rows less known."""
    held_out, public = counts([[21, 0], [21, 0]]), replace(PUBLIC, held_out=0.2)
    assert claimed(held_out, public=public)["count", ""] == (166, 168, 170)
    for validation, rows, left in (
        (0.05, 8, (166, 168, 170)),
        (0.0505, 9, (169, 170, 170)),
        (0.1, 16, (155, 160, 165)),
    ):
        both = replace(public, training=TrainingSpec(validation=validation))
        assert claimed(held_out, LocalLoss(3.0, rows), public=both)["count", ""] == left  # the last ones do not fit


def test_without_a_known_share_held_out_rows_say_nothing_of_the_others():
    assert not {("count", ""), ("target_rate", "")} & claimed(counts([[5, 1], [2, 0]])).keys()


@given(rows=st.integers(2, 5_000), share=st.floats(0.01, 0.99))
def test_the_true_number_of_training_rows_is_always_possible(rows, share):
    kept = min(max(1, round(share * rows)), rows - 1)
    assert rows in possible_rows(kept, share)


@given(part=st.integers(1, 300), share=st.floats(0.01, 0.99))
def test_possible_numbers_of_rows_are_those_that_a_search_of_all_finds(part, share):
    rows = np.arange(1, int((part + 1) / min(share, 1 - share)) + 3)
    kept = np.minimum(np.maximum(1, np.round(share * rows)), rows - 1)
    assert possible_rows(part, share).tolist() == rows[kept == part].tolist()
    assert rows_behind(part, share).tolist() == rows[rows - kept == part].tolist()


@pytest.mark.parametrize(("kept", "share"), [(2**40, 0.1), (2**53, 1e-5), (2**33, 1e-300), (1, 1e-9)])
def test_few_numbers_of_rows_are_looked_at_however_many_a_message_states(kept, share):
    assert len(possible_rows(kept, share)) <= 2 / share
    assert len(possible_rows(kept, share)) < 1e6


def test_sums_that_no_numbers_have_are_those_of_a_malformed_message():
    with pytest.raises(MalformedMessage, match=r"evaluate\.errors, from .*no numbers have this sum"):
        claimed(ErrorSums(4, 1.0, 1.0, 1e308, 1.0))


@pytest.mark.parametrize(("kept", "share"), [(0, 0.1), (3, 0.0), (3, 1.0)])
def test_nothing_is_possible_where_no_share_is_kept(kept, share):
    assert len(possible_rows(kept, share)) == 0


def test_of_a_real_training_all_claims_hold_and_those_of_held_out_rows_are_exact():
    found = truth(training={"rounds": 2, "batch_size": 4, "patience": 2})
    view = view_of(["server"], found)
    claims = Plaintext().run(view.restricted(Plaintext.accepts), AuxiliaryKnowledge())
    own = [c for c in claims if getattr(c, "statistic", "") in ("held_out_count", "held_out_rate", "count")]
    assert {(c.party, c.statistic) for c in own} == {
        (p, s) for p in found.parties for s in ("held_out_count", "held_out_rate", "count")
    }
    for c in own:
        assert c.low <= found.statistic(c.party, c.feature, c.statistic, c.value) <= c.high
    scores = {m.metric: m for m in score_statistics(own, found)}
    assert (scores["held_out_rate"].value, scores["held_out_rate"].certain) == (1.0, 2)
    assert scores["held_out_rate"].baseline < 1.0


def test_a_numeric_target_is_scored_against_the_held_out_rows():
    found = truth(data={"source": "fair", "rows": 400})
    labels = {p: np.linspace(0, k + 1, 20) for k, p in enumerate(found.parties)}
    test = {p: replace(d, labels=labels[p], rows=d.rows[:1].repeat(20, 0)) for p, d in found.federated.test.items()}
    other = replace(found, federated=replace(found.federated, test=test))
    for p, y in labels.items():
        assert other.statistic(p, "", "held_out_mean") == y.mean()
        assert other.statistic(p, "", "held_out_std") == y.std()
    assert other.pooled_statistic("", "held_out_count") == 20
