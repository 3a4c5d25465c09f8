"""Exact attacks on the weights after local training."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.gradient.exact.neurons import drift, ever_active, live_neurons
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.portfolio.claims import some
from leakledger.attacks.gradient.portfolio.exact import exact_rows
from leakledger.attacks.gradient.posterior import Posterior
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.gradient.spear import Spear
from leakledger.attacks.gradient.tableak_fedavg import TabLeakFedAvg
from leakledger.attacks.observed.row_space import RowSpace
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.views import FeatureLayout, ModelSpec, TrainingSpec
from tests.attacks.example import LAYOUT, NUMERIC, exact, observe_training, rows_of, server_view
from tests.attacks.gradient.test_span_attack import table_layout

NOTHING = AuxiliaryKnowledge()
# The scale of every number is public, so that one row tells what is near.
SCALE = {"shift": 0.0, "scale": 1.0, "unit": "deviation"}
STATED = FeatureLayout(tuple(replace(b, **SCALE) if b.feature == "score" else b for b in LAYOUT.blocks))
FEW = {"restarts": 2, "iterations": 20, "refinement": 10, "prior_weights": (0.1,)}
BRIEF = {"chains": 8, "repairs": 2, "pool": 128}  # a posterior that need not find anything


def spec(batch=None, epochs=1, rate=0.01, proximal=0.0):
    return TrainingSpec(
        "fedavg", rounds=1, learning_rate=rate, batch_size=batch, local_epochs=epochs, proximal=proximal
    )


def labels(count, epochs=1):
    return AuxiliaryKnowledge(labels={("ann", 0): np.tile(np.arange(count) % 2, epochs)})


SCHEDULES = [spec(), spec(4), spec(4, 5), spec(4, 20), spec(1, 3), spec(4, 5, 0.1), spec(4, 10, 0.1)]


@pytest.mark.parametrize("training", SCHEDULES, ids=lambda t: f"{t.batch_size}x{t.local_epochs} at {t.learning_rate}")
@pytest.mark.parametrize("count", [1, 8, 12])
def test_every_row_behind_weights_is_recovered_whatever_the_local_steps(training, count):
    categories, numbers, encoded = rows_of(STATED, count, 3)
    (claim,) = Span().run(observe_training(encoded, training, STATED), NOTHING)
    assert exact(claim, categories, numbers, 2e-3).all()
    assert claim.verified.mean() > 0.7
    right = true_rows(claim, categories, numbers)
    assert right[claim.verified].all()


@pytest.mark.parametrize("attack", [Span(), Portfolio()], ids=lambda a: a.technique)
@pytest.mark.parametrize("mu", [0.01, 1.0, 5.0])
def test_a_proximal_term_hides_no_row_of_local_training(attack, mu):
    categories, numbers, encoded = rows_of(STATED, 8, 3)
    (claim,) = attack.run(observe_training(encoded, spec(4, 5, 0.1, mu), STATED), NOTHING)
    assert exact(claim, categories, numbers, 2e-3).all()
    assert true_rows(claim, categories, numbers)[claim.verified].all()
    assert claim.verified.mean() > 0.7


def true_rows(claim, categories, numbers):
    """For each claimed row, whether it is a true one to a thousandth."""
    same = (claim.categories[:, None] == categories).all(2)
    return (same & (np.abs(claim.numbers[:, None] - numbers) < 1e-3).all(2)).any(1)


@pytest.mark.parametrize("noise", [1e-5, 1e-3])
def test_noise_on_the_weights_is_abstained_from_with_the_rank(noise):
    outcome = Span().run(observe_training(rows_of(LAYOUT, 8, 0)[2], spec(4, 2), noise=noise), NOTHING)
    assert isinstance(outcome, Abstained)
    assert "rank" in outcome.reason


@pytest.mark.parametrize(
    "attack", [Span(), LinearLayer(), Portfolio(tableak_fedavg=FEW, posterior=BRIEF)], ids=lambda a: a.technique
)
@pytest.mark.parametrize("moved", ["2.bias", "0.bias"])
def test_weights_that_moved_in_one_tensor_alone_show_no_row(attack, moved):
    layers = ModelSpec(LAYOUT.width, 2, (100, 100))
    before = initial_weights(layers, np.random.default_rng(0))
    after = {**before, moved: before[moved] + np.float32(0.01)}
    view = server_view(layers, LAYOUT, before, {"weights": after}, 4, "train.weights", spec())
    assert isinstance(attack.run(view, NOTHING), Abstained | NotApplicable)


def test_rows_whose_numbers_are_lost_in_rounding_are_claimed_and_not_verified():
    categories, _, encoded = rows_of(LAYOUT, 6, 1)
    (claim,) = Span().run(observe_training(encoded, spec(rate=1e-4)), NOTHING)
    assert {tuple(c) for c in claim.categories.tolist()} <= {tuple(c) for c in categories.tolist()}
    assert not claim.verified.any()
    assert (claim.number_entropy == 1).all()


def test_a_neuron_may_have_been_active_that_ends_on_the_other_side():
    gradient = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])  # the weights of three neurons on one input, and biases
    rows, weight, bias = np.array([[1.0]]), np.full((3, 1), -0.04), np.zeros(3)
    still, moved = (RowSpace(gradient, gradient, np.eye(2), rate=rate) for rate in (0.0, 0.1))
    assert ever_active(still, weight, bias, rows).tolist() == [[False, False, False]]
    assert ever_active(moved, weight, bias, rows).tolist() == [[True, True, True]]
    assert ever_active(moved, 10 * weight, bias, rows).tolist() == [[False, False, False]]
    signs = live_neurons(moved, weight, bias).signs(np.eye(2)[:1])
    assert signs.values[0] == pytest.approx([-0.09, 0.01])
    assert drift(np.array([[0.0, -0.2]]))[0] == pytest.approx([0.02, 0.22])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_client_of_one_row_shows_it_on_every_neuron_after_many_steps(activation):
    categories, numbers, encoded = rows_of(STATED, 1, 5)
    (claim,) = LinearLayer().run(observe_training(encoded, spec(1, 20), STATED, activation=activation), NOTHING)
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


def test_a_single_number_behind_weights_is_not_certain_where_its_scale_may_be_a_range():
    categories, numbers, encoded = rows_of(LAYOUT, 1, 5)
    (claim,) = LinearLayer().run(observe_training(encoded, spec(1, 20)), NOTHING)
    assert exact(claim, categories, numbers).all()
    assert not claim.verified.any()


def test_a_single_row_whose_numbers_are_lost_in_rounding_is_not_verified():
    categories, numbers, encoded = rows_of(LAYOUT, 1, 5)
    (claim,) = LinearLayer().run(observe_training(encoded, spec(rate=1e-4)), NOTHING)
    assert exact(claim, categories, numbers, 0.1).all()
    assert not claim.verified.any()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("adult", 0.95), ("german", 0.99)])
@pytest.mark.parametrize("training", [spec(), spec(8, 5), spec(8, 10)], ids=["1 step", "20 steps", "40 steps"])
def test_clients_of_32_rows_of_real_tables_are_recovered_whole_and_none_is_verified_falsely(
    datasets, name, least, training
):
    layout, categories, numbers, encoded = table_layout(datasets, name)
    deviation = np.array([b.scale for b in layout.numeric])
    recovered = []
    for seed in range(6):
        drawn = np.random.default_rng(seed).choice(len(encoded), 32, replace=False)
        outcome = Span().run(observe_training(encoded[drawn], training, layout, seed=seed), NOTHING)
        for claim in outcome if isinstance(outcome, list) else []:
            told = replace(claim, numbers=claim.numbers / deviation)
            assert true_rows(told, categories[drawn], numbers[drawn] / deviation)[claim.verified].all()
            recovered += exact(told, categories[drawn], numbers[drawn] / deviation).tolist()
    assert sum(recovered) >= least * 6 * 32


def test_the_portfolio_solves_a_training_without_labels():
    categories, numbers, encoded = rows_of(LAYOUT, 12, 0)
    (claim,) = Portfolio().run(observe_training(encoded, spec(4, 5)), NOTHING)
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


def test_where_nothing_is_exact_the_portfolio_goes_on_from_tableak_on_fedavg():
    categories, _, encoded = rows_of(LAYOUT, 6, 0)
    view = observe_training(encoded, spec(3, 2), noise=1e-4)
    (found,), (theirs,) = (a.run(view, labels(6, 2)) for a in (Portfolio(tableak_fedavg=FEW), TabLeakFedAvg(**FEW)))
    assert sorted(map(tuple, found.categories.tolist())) == sorted(map(tuple, categories.tolist()))
    assert sorted(map(tuple, theirs.categories.tolist())) != sorted(map(tuple, categories.tolist()))
    assert found.verified is None


def test_where_noise_hides_the_rows_the_portfolio_is_tableak_on_fedavg():
    view = observe_training(rows_of(LAYOUT, 6, 0)[2], spec(3, 2), noise=1e-2)
    outcome = Posterior(**BRIEF).run(view, labels(6, 2))
    assert isinstance(outcome, Abstained)
    assert "better than chance" in outcome.reason
    (found,), (theirs,) = (
        a.run(view, labels(6, 2))
        for a in (Portfolio(seed=3, tableak_fedavg=FEW, posterior=BRIEF), TabLeakFedAvg(seed=3, **FEW))
    )
    assert np.array_equal(found.categories, theirs.categories)
    assert np.array_equal(found.numbers, theirs.numbers)


def test_tables_without_categories_are_left_to_the_guess_on_local_training():
    view, knowledge = observe_training(rows_of(NUMERIC, 6, 0)[2], spec(3, 2), NUMERIC), labels(6, 2)
    known = AuxiliaryKnowledge(knowledge.labels, bounds={b.feature: (-4.0, 4.0) for b in NUMERIC.numeric})
    (found,) = Portfolio(seed=3, tableak_fedavg=FEW).run(view, known)
    (theirs,) = TabLeakFedAvg(seed=3, **FEW).run(view, known)
    assert found.numbers.shape == theirs.numbers.shape


def test_rows_that_are_proven_stay_and_tableak_on_fedavg_fills_the_training(monkeypatch):
    categories, numbers, encoded = rows_of(LAYOUT, 8, 0)
    view = observe_training(encoded, spec(4, 2))

    def three(*arguments):
        return some(exact_rows(*arguments), np.arange(3))

    monkeypatch.setattr("leakledger.attacks.gradient.portfolio.portfolio.exact_rows", three)
    (claim,) = Portfolio(tableak_fedavg=FEW, posterior=BRIEF).run(view, labels(8, 2))
    assert len(claim.numbers) == 8
    assert claim.verified.tolist() == [True] * 3 + [False] * 5
    assert exact(claim, categories, numbers).sum() >= 3
    (unlabelled,) = Portfolio(posterior=BRIEF).run(view, NOTHING)
    assert unlabelled.verified.tolist() == [True] * 3 + [False] * 5
    assert exact(unlabelled, categories, numbers).sum() >= 3


def test_spear_which_takes_single_gradients_is_not_asked_about_local_training(monkeypatch):
    monkeypatch.setattr(Spear, "invert", lambda *given: pytest.fail("a sum over local steps is no single gradient"))
    outcome = Portfolio(posterior=BRIEF).run(
        observe_training(rows_of(LAYOUT, 6, 0)[2], spec(3, 2), noise=1e-2), NOTHING
    )
    assert isinstance(outcome, NotApplicable)


def test_without_labels_and_without_proof_the_reason_is_that_of_tableak_on_fedavg():
    outcome = Portfolio(posterior=BRIEF).run(
        observe_training(rows_of(LAYOUT, 6, 0)[2], spec(3, 2), noise=1e-2), NOTHING
    )
    assert "labels of ann" in outcome.reason


def test_a_faint_neuron_and_its_noise_are_not_blown_up_to_the_size_of_the_others():
    left = np.diag([1.0, 1.0, 1.0, 0.01, 1e-5])
    weight, bias = np.zeros((5, 4)), np.zeros(5)
    neurons = live_neurons(RowSpace(left, left, np.eye(5), noise=1e-7), weight, bias)
    assert np.linalg.norm(neurons.left, axis=1) == pytest.approx([1, 1, 1, 0.1])
    assert neurons.noise == pytest.approx([1e-7, 1e-7, 1e-7, 1e-6])
    precise = live_neurons(RowSpace(left, left, np.eye(5)), weight, bias)
    assert np.linalg.norm(precise.left, axis=1) == pytest.approx([1, 1, 1, 1])
