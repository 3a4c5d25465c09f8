import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.gradient.matching.ensemble import differing_share
from leakledger.attacks.gradient.tableak_fedavg import TabLeakFedAvg
from leakledger.attacks.observed.tabular import Rows, StructuralPrior
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import train
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import (
    CategoricalBlock,
    FeatureLayout,
    ModelSpec,
    NumericBlock,
    PublicFacts,
    TrainingSpec,
    View,
)
from leakledger.preprocess.wire import encode
from tests.every import every

LAYOUT = FeatureLayout(
    (
        NumericBlock("age", 0, shift=40.0, scale=13.0, low=17.0, high=90.0, integer=True, unit="deviation"),
        CategoricalBlock("job", 1, 4),
        CategoricalBlock("city", 5, 3, codes=np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])),
        NumericBlock("score", 7),
    )
)
BOUNDS = {"score": (-3.0, 3.0)}
FEW = {"restarts": 3, "iterations": 20, "dtype": "float64", "prior_weights": (0.0, 0.1), "trials": 2, "refinement": 20}


def random_rows(seed, count):
    draws = np.random.default_rng(seed)
    categories = np.stack([draws.integers(0, b.size, count) for b in LAYOUT.categorical], -1)
    return Rows(categories, np.stack([draws.integers(17, 91, count), draws.normal(size=count).clip(-3, 3)], -1))


def federation(sizes, epochs=2, batch=2, activation="relu", hidden=(100, 100), seed=0, proximal=0.0):
    """What a server sees of a round of FedAvg with clients of so many rows, and what the labels of the batches were.

    One more client, whose labels are not granted, keeps a single one company.
    """
    fed = Simulated([f"P{i + 1}" for i in range(len(sizes) + 1)], secret=pinned(seed))
    spec = ModelSpec(LAYOUT.width, 2, hidden, activation)
    training = TrainingSpec(
        "fedavg", rounds=1, learning_rate=0.01, batch_size=batch, local_epochs=epochs, proximal=proximal
    )
    prior = StructuralPrior(LAYOUT, BOUNDS)
    tables = {
        c: Encoded(prior.encode(random_rows(i, n)).astype(np.float32), np.arange(n) % 2)
        for i, (c, n) in enumerate(zip(fed.clients, (*sizes, 1), strict=True))
    }
    trained = train(fed, ALGORITHMS["fedavg"], spec, training, {c: fed.at(c, t) for c, t in tables.items()})
    labels = {key: tables[key[0]].labels[np.concatenate(fed.own(b))] for key, b in trained.batches.items()}
    del labels[fed.clients[-1], 0]
    public = PublicFacts(fed.clients, fed.server, layout=LAYOUT, model=spec, training=training)
    return fed.ledger.view([fed.server], public), AuxiliaryKnowledge(labels=labels, bounds=BOUNDS)


def error(claim, truth):
    """The share of cells that are wrong, after matching."""
    share = differing_share(truth, Rows(claim.categories, claim.numbers), 0.319 * np.array([13.0, 1.0]))
    return share[linear_sum_assignment(share)].mean()


def assert_same(claims, others):
    for one, other in zip(*(sorted(c, key=lambda c: c.victim) for c in (claims, others)), strict=True):
        assert one.victim == other.victim
        assert np.array_equal(one.categories, other.categories)
        for name in ("numbers", "category_entropy", "number_entropy"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-6)


@pytest.mark.parametrize(
    ("epochs", "batch", "options"),
    [
        (1, None, {}),
        (1, 1, {}),
        (2, 1, {}),
        (2, 1, {"surrogate": False}),
        (3, None, {"tied": True}),
        (2, 1, {"tied": True, "surrogate": False}),
    ],
    ids=[
        "1 step",
        "2 batches",
        "2 epochs of 2 batches",
        "2 epochs of 2 batches, no head start",
        "3 epochs, tied",
        "2 epochs of 2 batches, tied, no head start",
    ],
)
def test_the_rows_of_every_client_of_a_small_federation_are_recovered(epochs, batch, options):
    view, knowledge = federation((2, 2), epochs, batch, seed=1)
    options = {"restarts": 3, "iterations": 300, "refinement": 50, "prior_weights": (0.0, 0.1), "trials": 1, **options}
    claims = TabLeakFedAvg(**options).run(view, knowledge)
    assert [c.victim for c in claims] == ["P1", "P2"]
    assert np.mean([error(c, random_rows(i, 2)) for i, c in enumerate(claims)]) <= 0.1
    for claim in claims:
        assert {view.messages[i].topic for i in claim.evidence} == {"train.model", "train.weights"}


@pytest.mark.parametrize("tied", [False, True])
def test_a_head_start_finds_what_as_few_iterations_on_the_simulated_training_do_not(tied):
    view, knowledge = federation((2, 2), epochs=3, batch=1)
    settings = {"restarts": 3, "prior_weights": (0.1,), "tied": tied}
    ahead = TabLeakFedAvg(**settings, iterations=300, refinement=10).run(view, knowledge)
    afresh = TabLeakFedAvg(**settings, iterations=10, surrogate=False).run(view, knowledge)
    wrong = [np.mean([error(c, random_rows(i, 2)) for i, c in enumerate(claims)]) for claims in (ahead, afresh)]
    assert wrong[0] <= 0.1 < 0.3 <= wrong[1]


def test_a_single_row_is_recovered_behind_a_smooth_activation():
    view, knowledge = federation((1,), epochs=2, activation="tanh", hidden=(40,))
    (claim,) = TabLeakFedAvg(restarts=2, iterations=120, refinement=10, prior_weights=(0.1,)).run(view, knowledge)
    assert error(claim, random_rows(0, 1)) == 0


@pytest.mark.parametrize("tied", [False, True])
def test_a_claim_has_one_row_per_row_of_the_client_whatever_the_epochs(tied):
    view, knowledge = federation((5,), epochs=3)
    (claim,) = TabLeakFedAvg(**FEW, tied=tied).run(view, knowledge)
    assert claim.categories.shape == claim.category_entropy.shape == (5, 2)
    assert claim.numbers.shape == claim.number_entropy.shape == (5, 2)
    assert ((claim.numbers >= [17, -3]) & (claim.numbers <= [90, 3])).all()
    assert ((claim.category_entropy >= 0) & (claim.category_entropy <= 1)).all()


@settings(max_examples=5, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.sampled_from([1, 2**17, 2**19]), st.booleans())
def test_how_victims_and_restarts_are_grouped_does_not_matter(sizes, memory, tied):
    view, knowledge = federation(sizes, hidden=(20, 20))
    together = TabLeakFedAvg(**FEW, tied=tied).run(view, knowledge)
    assert_same(together, TabLeakFedAvg(**FEW, tied=tied, memory=memory).run(view, knowledge))
    alone = [c for p, _ in knowledge.labels for c in TabLeakFedAvg(**FEW, tied=tied, victims=(p,)).run(view, knowledge)]
    assert_same(together, alone)


def test_the_same_seed_gives_the_same_claims_and_another_seed_others():
    view, knowledge = federation((3,))
    claims = [TabLeakFedAvg(**FEW, seed=s).run(view, knowledge) for s in (4, 4, 5)]
    assert repr(claims[0]) == repr(claims[1])
    assert not np.array_equal(claims[0][0].number_entropy, claims[2][0].number_entropy)


def test_the_chosen_weight_is_one_of_those_offered_and_its_trials_join_the_ensemble():
    view, knowledge = federation((4,), batch=4)
    chosen = TabLeakFedAvg(**FEW).run(view, knowledge)
    each = [TabLeakFedAvg(**{**FEW, "prior_weights": (w,)}).run(view, knowledge) for w in FEW["prior_weights"]]
    assert repr(chosen) in [repr(c) for c in each]
    assert repr(each[0]) != repr(each[1])


def test_the_weight_is_chosen_by_the_loss_of_the_merged_rows():
    view, knowledge = federation((4,), batch=4)
    useless = {**FEW, "surrogate": False, "iterations": 100, "prior_weights": (1e9, 0.01)}  # the first: nothing else
    good = TabLeakFedAvg(**{**useless, "prior_weights": (0.01,)}).run(view, knowledge)
    assert repr(TabLeakFedAvg(**useless).run(view, knowledge)) == repr(good)


def test_one_epoch_needs_no_choice_of_a_weight():
    view, knowledge = federation((4,), epochs=1)
    heard = []
    attack = TabLeakFedAvg(**FEW, progress=lambda done, total: heard.append((done, total)))
    one = TabLeakFedAvg(**{**FEW, "prior_weights": (0.1,)}).run(view, knowledge)
    assert repr(attack.run(view, knowledge)) == repr(one)
    assert heard == [(60, 120), (120, 120)]  # 3 restarts on the surrogate, then on the simulated training


def test_progress_counts_the_iterations_of_all_trials_and_restarts():
    view, knowledge = federation((3, 3))
    heard = []
    TabLeakFedAvg(**FEW, progress=lambda done, total: heard.append((done, total))).run(view, knowledge)
    head_start, refined = 2 * 3 * 20, 2 * 20 * (2 * 2 + 1)  # 2 clients; 2 weights x 2 trials, and 1 restart more
    assert heard == [(120, 320), (200, 320), (280, 320), (320, 320)]
    assert head_start + refined == 320
    heard.clear()
    TabLeakFedAvg(**FEW, surrogate=False, progress=lambda done, total: heard.append((done, total))).run(view, knowledge)
    assert heard == [(80, 200), (160, 200), (200, 200)]


def test_without_labels_the_attack_says_that_it_needs_them():
    view, _ = federation((3,))
    outcome = TabLeakFedAvg().run(view, AuxiliaryKnowledge())
    assert isinstance(outcome, NotApplicable)
    assert "labels of P1 in round 0" in outcome.reason


def test_trainings_on_more_rows_than_the_limit_are_left_alone():
    view, knowledge = federation((3, 2))
    (claim,) = TabLeakFedAvg(**FEW, max_rows=4).run(view, knowledge)  # 2 epochs of 2 rows
    assert claim.victim == "P2"
    outcome = TabLeakFedAvg(max_rows=3).run(view, knowledge)
    assert isinstance(outcome, NotApplicable)
    assert "P1 in round 0 trains on 6 rows, more than max_rows = 3" in outcome.reason


def test_a_layout_that_cannot_be_inverted_is_named():
    view, knowledge = federation((3,))
    outcome = TabLeakFedAvg().run(view, AuxiliaryKnowledge(labels=knowledge.labels, bounds={"score": (2.0, 1.0)}))
    assert isinstance(outcome, NotApplicable)
    assert "score" in outcome.reason


def test_a_diverged_model_is_abstained_from():
    view, knowledge = federation((3,), seed=1)
    told, sent = (m for m in view.messages if "P1" in (m.sender, m.recipient))
    body = encode({"weights": {n: w * np.float32(1e30) for n, w in told.payload.weights.items()}})
    forged = type(told)(**{**told.header(), "body": body, "content": body})
    outcome = TabLeakFedAvg(**FEW).run(View(view.observers, (forged, sent), view.public), knowledge)
    assert isinstance(outcome, Abstained)
    assert "P1 in round 0" in outcome.reason


@every(
    "option",
    [
        {"restarts": 0},
        {"iterations": 0},
        {"trials": 0},
        {"refinement": 0},
        {"seed": -1},
        {"memory": 0},
        {"max_rows": 0},
        {"tolerance": -0.1},
        {"learning_rate": 0.0},
        {"prior_weights": ()},
        {"prior_weights": (-0.5,)},
        {"dtype": "int8"},
        {"device": "abacus"},
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(option):
    (name,) = option
    with pytest.raises(ValueError, match=name):
        TabLeakFedAvg(**option)
