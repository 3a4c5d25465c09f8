from dataclasses import replace

import numpy as np
import pytest

from attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from attacks.linear_layer import LinearLayer
from attacks.portfolio import Portfolio
from attacks.portfolio.attack import some
from attacks.portfolio.remainder import labels_left, remainder
from attacks.span import Span
from attacks.spear import Spear
from attacks.tableak import TabLeak
from attacks.tableak.targets import find_targets
from preprocess.models import as_arrays, as_tensors, gradient
from preprocess.views import View
from tests.attacks.example import LAYOUT, exact, observe, rows_of

SHORT = {"restarts": 3, "iterations": 40}


def labels(count):
    return AuxiliaryKnowledge(labels={("ann", 0): np.arange(count) % 2})


def played(view, knowledge, **options):
    outcome = Portfolio(tableak=SHORT, **options).run(view, knowledge)
    return outcome[0] if isinstance(outcome, list) else outcome


def target_of(view, knowledge):
    (target,) = find_targets(view, knowledge, labels_needed=False)
    return target


@pytest.mark.parametrize("count", [1, 8])
def test_a_batch_that_exact_attacks_solve_needs_no_labels(count):
    categories, numbers, encoded = rows_of(LAYOUT, count, 0)
    claim = played(observe(encoded), AuxiliaryKnowledge())
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


def test_what_remains_of_a_batch_is_the_gradient_of_the_rows_that_are_left():
    _, _, encoded = rows_of(LAYOUT, 8, 0)
    view = observe(encoded)
    whole = target_of(view, labels(8))
    left = remainder(LAYOUT, whole, encoded[[1, 4, 6]])
    kept = [0, 2, 3, 5, 7]
    weights = as_tensors(whole.weights)
    x, y = as_tensors({"x": encoded[kept]})["x"], np.array(kept) % 2
    expected = as_arrays(gradient(view.public.model, weights, x, as_tensors({"y": y})["y"].long()))
    assert left.rows == 5
    assert left.labels.tolist() == sorted(y.tolist())
    for name, g in expected.items():
        assert np.allclose(left.gradient[name], g, atol=1e-5 * np.abs(g).max())


def test_rows_that_are_not_in_the_batch_leave_no_remainder():
    _, _, encoded = rows_of(LAYOUT, 8, 0)
    target = target_of(observe(encoded), labels(8))
    assert remainder(LAYOUT, target, rows_of(LAYOUT, 2, 9)[2]) is None


@pytest.mark.parametrize(
    ("labels", "taken", "left"), [([0, 0, 1], [0], [0, 1]), ([0, 1], [1, 1], None), ([], [1], []), ([2, 2], [2], [2])]
)
def test_the_labels_left_are_those_that_known_rows_do_not_take(labels, taken, left):
    found = labels_left(np.array(labels, np.int64), np.array(taken, np.int64))
    assert (found is None) if left is None else found.tolist() == left


@pytest.mark.parametrize("noise", [0.001, 0.1])
def test_under_noise_the_portfolio_is_tableak(noise):
    view = observe(rows_of(LAYOUT, 6, 0)[2], noise=noise)
    mine = played(view, labels(6), seed=3)
    (theirs,) = TabLeak(seed=3, **SHORT).run(view, labels(6))
    assert np.array_equal(mine.categories, theirs.categories)
    assert np.array_equal(mine.numbers, theirs.numbers)


def test_proven_rows_stay_and_tableak_fills_the_batch(monkeypatch):
    categories, numbers, encoded = rows_of(LAYOUT, 8, 0)
    view = observe(encoded)
    whole = Portfolio._exact

    def three(self, *arguments):
        prior, (claim,) = whole(self, *arguments)
        return prior, [some(claim, np.arange(3))]

    monkeypatch.setattr(Portfolio, "_exact", three)
    claim = played(view, labels(8))
    assert len(claim.numbers) == 8
    assert claim.verified.tolist() == [True] * 3 + [False] * 5
    assert exact(claim, categories, numbers).sum() >= 3
    assert np.isinf(claim.residual[3:]).all()
    assert (claim.number_entropy[:3] == 0).all()
    only_exact = played(view, AuxiliaryKnowledge())
    assert len(only_exact.numbers) == 3


def test_without_labels_and_without_proof_the_reason_is_tableaks():
    outcome = played(observe(rows_of(LAYOUT, 6, 0)[2], noise=0.01), AuxiliaryKnowledge())
    assert isinstance(outcome, NotApplicable)
    assert "labels" in outcome.reason


def test_another_activation_is_left_to_tableak():
    view = observe(rows_of(LAYOUT, 4, 0)[2], activation="tanh")
    claim = played(view, labels(4))
    (theirs,) = TabLeak(**SHORT).run(view, labels(4))
    assert np.array_equal(claim.categories, theirs.categories)


def test_no_gradient_is_not_applicable():
    view = observe(rows_of(LAYOUT, 4, 0)[2])
    assert isinstance(played(View(view.observers, view.messages[:1], view.public), labels(4)), NotApplicable)


@pytest.mark.parametrize("options", [{"draws": -1}, {"seed": -1}, {"tableak": {"restarts": 0}}])
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="must be at least"):
        Portfolio(**options)


def test_rows_that_a_search_found_without_proof_go_before_those_that_tableak_guesses(monkeypatch):
    categories, numbers, encoded = rows_of(LAYOUT, 8, 0)
    (found,) = Spear().run(observe(encoded), AuxiliaryKnowledge())
    six = some(found, np.arange(6))
    unsure = replace(found, residual=np.full(8, 1e-4), verified=np.arange(8) > 6)
    monkeypatch.setattr(Span, "attack", lambda *arguments: six)
    monkeypatch.setattr(Spear, "attack", lambda *arguments: unsure)
    claim = played(observe(encoded), AuxiliaryKnowledge())
    assert exact(claim, categories, numbers).all()
    assert claim.verified.tolist() == [True] * 6 + [False, True]
    assert claim.residual[6:].tolist() == [1e-4, 1e-4]
    monkeypatch.setattr(Spear, "attack", lambda *arguments: replace(unsure, residual=np.full(8, 0.1)))
    assert len(played(observe(encoded), AuxiliaryKnowledge()).numbers) == 6


def test_rows_that_single_neurons_show_are_no_batch_unless_they_are_proven(monkeypatch):
    _, _, encoded = rows_of(LAYOUT, 8, 0)
    (found,) = Spear().run(observe(encoded), AuxiliaryKnowledge())
    monkeypatch.setattr(LinearLayer, "attack", lambda *arguments: replace(found, verified=np.zeros(8, bool)))
    monkeypatch.setattr(Span, "attack", lambda *arguments: Abstained("nothing"))
    monkeypatch.setattr(Spear, "attack", lambda *arguments: Abstained("nothing"))
    assert isinstance(played(observe(encoded), AuxiliaryKnowledge()), NotApplicable)
    monkeypatch.setattr(LinearLayer, "attack", lambda *arguments: found)
    assert played(observe(encoded), AuxiliaryKnowledge()).verified.all()
