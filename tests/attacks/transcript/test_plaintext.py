import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable, StatisticClaim, VocabularyClaim
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.preprocess.views import FeatureLayout, Message, NumericBlock, PublicFacts, View
from leakledger.preprocess.wire import encode

LAYOUT = FeatureLayout((NumericBlock("age", 0), NumericBlock("dose", 1)))
PUBLIC = PublicFacts(("P1", "P2"), "server", layout=LAYOUT)


def view(*messages, observer="server"):
    """A view of (topic, sender, recipient, payload) messages."""
    built = [
        Message(i, "s", 0, topic, sender, to, None, False, body := encode(payload), body)
        for i, (topic, sender, to, payload) in enumerate(messages)
    ]
    return View(frozenset([observer]), tuple(built), PUBLIC)


def run(*messages, observer="server"):
    return Plaintext().run(view(*messages, observer=observer), AuxiliaryKnowledge())


def claimed(claims):
    return {(c.party, c.feature, c.statistic): c.estimate for c in claims}


def test_a_local_dictionary_is_claimed_as_it_was_sent():
    claims = run(("dictionary.local", "P1", "server", {"ward": ["b", "a"]}))
    assert claims == [
        VocabularyClaim("P1", "ward", ("a", "b"), (0,), certain=True),
        StatisticClaim("P1", "ward", "size", 2, 2, 2, (0,)),
    ]


def test_pooled_columns_give_the_vocabulary_once():
    assert run(("pooled.categorical", "P2", "server", {"ward": ["x", "y", "x"]}))[0].values == ("x", "y")


def test_local_extremes_are_claimed_exactly():
    claims = run(("minmax.local", "P1", "server", {"minimum": np.array([1.0, 2.0]), "maximum": np.array([3.0, 4.0])}))
    assert claimed(claims) == {
        ("P1", "age", "minimum"): 1,
        ("P1", "dose", "minimum"): 2,
        ("P1", "age", "maximum"): 3,
        ("P1", "dose", "maximum"): 4,
    }
    assert all(c.low == c.estimate == c.high and c.evidence == (0,) for c in claims)


def test_the_local_deviation_follows_from_both_rounds_of_the_zscore():
    x, pooled_mean = np.array([[1.0, 5.0], [4.0, 5.0], [10.0, 8.0]]), np.array([3.0, 7.0])
    claims = run(
        ("zscore.mean", "P1", "server", {"count": 3, "mean": x.mean(0)}),
        ("zscore.global-mean", "server", "P1", pooled_mean),
        ("zscore.variance", "P1", "server", ((x - pooled_mean) ** 2).sum(0)),
    )
    found = claimed(claims)
    assert found["P1", "", "count"] == 3
    assert found["P1", "age", "mean"] == 5
    assert found["P1", "age", "std"] == pytest.approx(x[:, 0].std())
    assert found["P1", "dose", "std"] == pytest.approx(x[:, 1].std())


@pytest.mark.parametrize(
    ("column", "pooled_mean", "exact"),
    [
        (np.full(7, 0.1), 3.3, False),  # the difference of two equal numbers is what rounding leaves of them
        (np.random.default_rng(0).normal(0, 1, 50), 1e9, False),
        (np.random.default_rng(0).normal(2000, 5, 50), 1990.0, True),
        (np.full(8, 0.5), 0.5, True),
    ],
)
def test_a_deviation_is_claimed_exactly_while_rounding_leaves_it_its_digits(column, pooled_mean, exact):
    (claim,) = (
        c
        for c in run(
            ("zscore.mean", "P1", "server", {"count": len(column), "mean": column.mean(keepdims=True)}),
            ("zscore.global-mean", "server", "P1", np.array([pooled_mean])),
            ("zscore.variance", "P1", "server", ((column - pooled_mean) ** 2).sum(keepdims=True)),
        )
        if c.statistic == "std"
    )
    real = column.std() if np.ptp(column) else 0.0
    assert claim.low - 1e-9 * real <= real <= claim.high + 1e-9 * real
    assert (claim.low == claim.high) == exact
    assert claim.evidence == (0, 2)


def test_sizes_and_row_counts_are_read_out_once_each():
    claims = run(
        ("local.sizes", "P1", "server", {"ward": 7}),
        ("train.weights", "P1", "server", {"rows": 40, "weights": {}}),
        ("train.weights", "P1", "server", {"rows": 40, "weights": {}}),
    )
    assert claimed(claims) == {("P1", "ward", "size"): 7, ("P1", "", "count"): 40}
    assert len(claims) == 2


def test_columns_beyond_the_numeric_ones_are_not_named():
    claims = run(("pooled.columns", "P1", "server", np.arange(12.0).reshape(3, 4)))
    assert {c.feature for c in claims if isinstance(c, StatisticClaim)} == {"", "age", "dose"}


def test_what_the_observer_sent_itself_is_no_finding():
    assert isinstance(run(("dictionary.local", "P1", "server", {"ward": ["a"]}), observer="P1"), NotApplicable)


def test_a_sealed_message_that_was_only_relayed_gives_nothing():
    sealed = Message(0, "s", 0, "dictionary.local", "P1", "P2", "server", True, b"\x01" * 40, None)
    found = Plaintext().run(View(frozenset(["server"]), (sealed,), PUBLIC), AuxiliaryKnowledge())
    assert isinstance(found, NotApplicable)


def test_an_open_message_that_was_relayed_is_read():
    body = encode({"ward": ["a"]})
    relayed = Message(0, "s", 0, "dictionary.local", "P1", "P2", "server", False, body, body)
    found = Plaintext().run(View(frozenset(["server"]), (relayed,), PUBLIC), AuxiliaryKnowledge())
    assert found[0] == VocabularyClaim("P1", "ward", ("a",), (0,), certain=True)


def test_an_empty_view_makes_it_abstain():
    assert isinstance(run(), NotApplicable)
