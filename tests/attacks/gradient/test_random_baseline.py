import numpy as np
import pytest

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.gradient.random_baseline import RandomBaseline
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, Message, NumericBlock, PublicFacts, View
from leakledger.preprocess.wire import encode
from tests.every import every

SHARES = (0.7, 0.2, 0.1)
LAYOUT = FeatureLayout(
    (
        NumericBlock("age", 0, shift=40.0, scale=10.0, integer=True),
        NumericBlock("dose", 1, shift=0.0, scale=5.0, low=0.0, high=5.0),
        NumericBlock("score", 2),
        CategoricalBlock("ward", 3, 3, ("a", "b", "c"), shift=SHARES, scale=(0.5, 0.4, 0.3)),
        CategoricalBlock("diet", 6, 4),
        CategoricalBlock("sex", 10, 1),
    )
)


def view(*payloads, layout=LAYOUT, observers=("server",), sealed=False):
    messages = []
    for i, payload in enumerate(payloads):
        body = encode(payload)
        sender = ("ann", "bob")[i % 2]
        content = None if sealed else body
        messages.append(Message(i, "train", i // 2, "train.gradient", sender, "server", None, sealed, body, content))
    return View(frozenset(observers), tuple(messages), PublicFacts(("ann", "bob"), "server", layout=layout))


def batch(rows, gradient=0.0):
    return {"rows": rows, "gradient": {"0.bias": np.full(2, gradient, np.float32)}}


NOTHING = AuxiliaryKnowledge()


def guess(payload=None, knowledge=NOTHING, **options):
    (claim,) = RandomBaseline(**options).run(view(batch(4_000) if payload is None else payload), knowledge)
    return claim


def test_nothing_but_the_number_of_rows_is_read_of_a_gradient():
    claims = [guess(p) for p in (batch(50), batch(50, 9.9))]
    for claim in claims[1:]:
        assert np.array_equal(claim.categories, claims[0].categories)
        assert np.array_equal(claim.numbers, claims[0].numbers)


def test_cells_follow_what_the_layout_makes_public():
    claim = guess()
    wards = np.bincount(claim.categories[:, 0], minlength=3) / 4_000
    diets = np.bincount(claim.categories[:, 1], minlength=4) / 4_000
    assert wards == pytest.approx(SHARES, abs=0.03)
    assert diets == pytest.approx([0.25] * 4, abs=0.03)
    assert not claim.categories[:, 2].any()
    assert claim.numbers.mean(0) == pytest.approx([40, 2.5, 0], abs=0.5)
    assert claim.numbers.std(0) == pytest.approx([10, 5 / 12**0.5, 1], abs=0.4)
    assert np.array_equal(claim.numbers[:, 0], claim.numbers[:, 0].round())
    assert not np.array_equal(claim.numbers[:, 1], claim.numbers[:, 1].round())


def test_doubt_is_that_of_the_distribution_that_is_drawn_from():
    claim = guess(batch(2))
    expected = -np.dot(SHARES, np.log(SHARES)) / np.log(3)
    assert claim.category_entropy == pytest.approx(np.array([[expected, 1.0, 0.0]] * 2))
    assert claim.number_entropy == pytest.approx(np.full((2, 3), 0.5 * np.log(2 * np.pi * np.e)))


def test_granted_marginals_and_bounds_are_used():
    marginals = {"age": ([20.0, 30.0], np.array([0.9, 0.1])), "ward": (["c", "a"], np.array([0.5, 0.5]))}
    claim = guess(knowledge=AuxiliaryKnowledge(marginals=marginals, bounds={"score": (-0.5, 0.5), "age": (0, 1)}))
    assert np.bincount(claim.categories[:, 0], minlength=3) / 4_000 == pytest.approx([0.5, 0, 0.5], abs=0.03)
    assert set(claim.numbers[:, 0]) == {20.0, 30.0}
    assert (claim.numbers[:, 0] == 20).mean() == pytest.approx(0.9, abs=0.03)
    assert (claim.numbers[:, 2].min(), claim.numbers[:, 2].max()) == (-0.5, 0.5)


def test_per_batch_every_row_has_the_same_numbers_and_per_row_it_has_its_own():
    row, whole = guess(batch(40)), guess(batch(40), per="batch")
    assert (len(np.unique(row.numbers[:, 2])), len(np.unique(whole.numbers, axis=0))) == (40, 1)
    assert len(np.unique(whole.categories[:, 1])) == 4


def test_batches_clients_rounds_and_seeds_are_guessed_apart():
    attack, seen = RandomBaseline(), view(*[batch(5)] * 4)
    claims = [*attack.run(seen, AuxiliaryKnowledge()), *RandomBaseline(seed=1).run(seen, AuxiliaryKnowledge())]
    assert [(c.victim, c.round, c.evidence) for c in claims[:4]] == [
        ("ann", 0, (0,)),
        ("bob", 0, (1,)),
        ("ann", 1, (2,)),
        ("bob", 1, (3,)),
    ]
    assert len({c.numbers.tobytes() for c in claims}) == 8


def test_rounds_and_victims_restrict_what_is_guessed():
    seen = view(*[batch(5)] * 4)
    found = [RandomBaseline(**o).run(seen, AuxiliaryKnowledge()) for o in ({"rounds": (1,)}, {"victims": ("bob",)})]
    assert [[(c.victim, c.round) for c in claims] for claims in found] == [
        [("ann", 1), ("bob", 1)],
        [("bob", 0), ("bob", 1)],
    ]


@every(
    ("seen", "options", "reason"),
    [
        (view(), {}, "no readable train.gradient"),
        (view(batch(4)), {"rounds": (7,)}, "no readable train.gradient"),
        (view(batch(4), observers=("ann",)), {}, "no readable train.gradient"),
        (view(batch(4), sealed=True), {}, "no readable train.gradient"),
        (view(batch(4), layout=None), {}, "no feature layout"),
        (view(batch(4), layout=FeatureLayout(())), {}, "no feature layout"),
        (view(batch(0)), {}, "stated number of rows"),
        (view(batch(None)), {}, "stated number of rows"),
        (view(batch(True)), {}, "stated number of rows"),
        (view(["rows", 4]), {}, "stated number of rows"),
        (view(batch(10**12)), {}, "up to 100000"),
        (view(batch(5)), {"max_rows": 4}, "up to 4"),
    ],
)
def test_a_missing_precondition_is_named(seen, options, reason):
    outcome = RandomBaseline(**options).run(seen, AuxiliaryKnowledge())
    assert isinstance(outcome, NotApplicable)
    assert reason in outcome.reason


def test_a_marginal_of_a_value_that_the_layout_lacks_is_abstained_from():
    knowledge = AuxiliaryKnowledge(marginals={"ward": (["a", "z"], np.array([0.5, 0.5]))})
    outcome = RandomBaseline().run(view(batch(4)), knowledge)
    assert isinstance(outcome, Abstained)
    assert "ward has 'z'" in outcome.reason


@pytest.mark.parametrize("option", [{"per": "cell"}, {"seed": -1}, {"max_rows": 0}], ids=str)
def test_a_setting_out_of_range_is_refused_by_name(option):
    ((name, value),) = option.items()
    with pytest.raises(ValueError, match=rf"{name}.*{value}"):
        RandomBaseline(**option)


def test_it_says_that_it_calibrates():
    assert RandomBaseline.calibrator
