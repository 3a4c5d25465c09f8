import numpy as np
import pytest
import torch

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.gradient.spear import Spear
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.audit.benchmarks.base import Options
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.case import cases
from leakledger.audit.federate import federate
from leakledger.audit.truth import Truth
from leakledger.preprocess.models import as_arrays, as_tensors, gradient, initial_weights
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, ModelSpec, NumericBlock, View
from tests.attacks.example import NUMERIC, rows_of, server_view
from tests.every import every

NARROW = FeatureLayout(  # 9 columns; with the ones column they span 7 dimensions
    (
        NumericBlock("age", 0, shift=40.0, scale=13.0, integer=True, unit="deviation"),
        CategoricalBlock("sex", 1, 2, shift=(0.4, 0.6), scale=(0.49, 0.49)),
        NumericBlock("score", 3),
        CategoricalBlock("ward", 4, 3),
        CategoricalBlock("smoker", 7, 2),
    )
)
LAYOUTS = {"numeric": NUMERIC, "narrow": NARROW}


def observe(encoded, layout, noise=0.0, hidden=(100, 100), activation="relu", seed=0, classes=2, change=lambda g: g):
    """The server's view of one float32 gradient of the rows `encoded`."""
    task = "binary" if classes == 2 else "multiclass"
    spec = ModelSpec(layout.width, classes, hidden, activation, task)
    coins = np.random.default_rng(seed)
    weights = initial_weights(spec, coins)
    told = torch.tensor(encoded, dtype=torch.float32), torch.tensor(coins.integers(0, classes, len(encoded)))
    observed = as_arrays(gradient(spec, as_tensors(weights), *told))
    observed = {k: (g + noise * coins.normal(size=g.shape)).astype(np.float32) for k, g in change(observed).items()}
    return server_view(spec, layout, weights, {"gradient": observed}, len(encoded))


def attack(view, **options):
    return Spear(**options).run(view, AuxiliaryKnowledge())


def exact(claim, categories, numbers, tolerance=1e-3):
    """(claimed, true): which claimed row is which true row."""
    same = (claim.categories[:, None] == categories).all(2)
    return same & (np.abs(claim.numbers[:, None] - numbers) < tolerance).all(2)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("count", [1, 2, 8, 16])
def test_every_row_of_a_batch_is_recovered_exactly_and_verified(layout, count):
    categories, numbers, encoded = rows_of(LAYOUTS[layout], count, count)
    (claim,) = attack(observe(encoded, LAYOUTS[layout], seed=count))
    assert len(claim.numbers) == count
    assert exact(claim, categories, numbers).any(0).all()
    assert claim.verified.all()
    assert (claim.residual < 1e-5).all()
    assert not claim.category_entropy.any()
    assert not claim.number_entropy.any()
    assert (claim.victim, claim.round, claim.evidence) == ("ann", 0, (0, 1))


def test_rows_are_recovered_where_their_columns_depend_on_each_other_and_are_fewer_than_the_rows():
    categories, numbers, encoded = rows_of(NARROW, 16, 0)
    assert np.linalg.matrix_rank(np.column_stack([encoded, np.ones(16)])) < 8
    (claim,) = attack(observe(encoded, NARROW))
    assert exact(claim, categories, numbers).any(0).all()
    assert claim.verified.all()


@pytest.mark.parametrize("hidden", [(100,), (60, 120), (100, 100, 100)])
def test_networks_of_other_depths_and_widths_give_their_rows_away_too(hidden):
    categories, numbers, encoded = rows_of(NUMERIC, 6, 2)
    (claim,) = attack(observe(encoded, NUMERIC, hidden=hidden))
    assert exact(claim, categories, numbers).any(0).all()
    assert claim.verified.all()


def test_whole_numbers_come_back_as_whole_numbers_where_the_layout_promises_them():
    _, numbers, encoded = rows_of(NARROW, 8, 0)
    (claim,) = attack(observe(encoded, NARROW))
    assert sorted(claim.numbers[:, 0].round(9)) == sorted(numbers[:, 0])


def test_a_promise_of_whole_numbers_that_does_not_hold_is_not_kept():
    categories, numbers, encoded = rows_of(NARROW, 8, 0)
    encoded[:, 0] += 0.05 / 13
    (claim,) = attack(observe(encoded, NARROW))
    assert exact(claim, categories, numbers + np.array([0.05, 0])).any(0).all()


@every("layout", LAYOUTS)
@every("noise", [0.001, 0.01, 0.1])
@every("count", [1, 4, 16])
def test_a_noisy_gradient_is_abstained_from(layout, count, noise):
    outcome = attack(
        observe(rows_of(LAYOUTS[layout], count, 0)[2], LAYOUTS[layout], noise=noise), starts=300, draws=2048
    )
    assert isinstance(outcome, Abstained)
    assert "rank" in outcome.reason
    assert f"{count} row" in outcome.reason


def test_a_gradient_zero_in_every_entry_is_abstained_from():
    view = observe(rows_of(NARROW, 4, 0)[2], NARROW, change=lambda g: {k: 0 * v for k, v in g.items()})
    assert isinstance(attack(view), Abstained)


def test_a_batch_as_large_as_the_layer_is_abstained_from():
    outcome = attack(observe(rows_of(NARROW, 100, 0)[2], NARROW))
    assert isinstance(outcome, Abstained)
    assert "100 rows" in outcome.reason


@pytest.mark.parametrize("options", [{"activation": "tanh"}, {"activation": "leaky-relu"}, {"hidden": ()}])
def test_a_network_without_relu_is_not_applicable(options):
    outcome = attack(observe(rows_of(NARROW, 4, 0)[2], NARROW, **options))
    assert isinstance(outcome, NotApplicable)
    assert "ReLU" in outcome.reason


def test_no_gradient_in_the_clear_is_not_applicable():
    assert isinstance(attack(observe(rows_of(NARROW, 4, 0)[2], NARROW), victims=("bob",)), NotApplicable)


@pytest.mark.parametrize("seed", range(4))
def test_a_row_that_occurs_twice_is_claimed_once_and_not_verified_and_the_others_are(seed):
    categories, numbers, encoded = rows_of(NUMERIC, 7, seed)
    outcome = attack(observe(np.concatenate([encoded, encoded[:1]]), NUMERIC, seed=seed))
    (claim,) = outcome
    same = exact(claim, categories, numbers)
    assert same[claim.verified].any(1).all()
    assert same[claim.verified].any(0)[1:].all()
    assert not same[claim.verified, 0].any()


@pytest.mark.parametrize("seed", range(6))
def test_twins_that_every_neuron_sees_alike_are_not_verified_and_the_others_are_true(seed):
    categories, numbers, encoded = rows_of(NUMERIC, 8, seed)
    numbers[1] = encoded[1] = encoded[0] + 1e-2 * np.eye(12)[0]
    outcome = attack(observe(encoded, NUMERIC, seed=seed), starts=300, draws=4096)
    if not isinstance(outcome, Abstained):
        (claim,) = outcome
        assert exact(claim, categories, numbers)[claim.verified].any(1).all()


def of_another_network(encoded):
    """A gradient of the right rank, from rows that the stated model would not have activated so."""
    view, other = observe(encoded, NARROW, seed=0), observe(encoded, NARROW, seed=1)
    return View(view.observers, (other.messages[0], view.messages[1]), view.public)


def test_rows_that_do_not_explain_the_gradient_are_not_claimed():
    assert isinstance(attack(of_another_network(rows_of(NARROW, 6, 0)[2]), starts=300, draws=2048), Abstained)


@pytest.mark.parametrize("count", [4, 10])
def test_three_classes_do_not_hide_the_rows(count):
    categories, numbers, encoded = rows_of(NUMERIC, count, 1)
    (claim,) = attack(observe(encoded, NUMERIC, classes=3))
    assert exact(claim, categories, numbers).any(0).all()
    assert claim.verified.all()


def test_a_residual_above_the_threshold_verifies_nothing():
    assert isinstance(attack(observe(rows_of(NARROW, 6, 0)[2], NARROW), residual=1e-13), Abstained)


def test_a_scaled_gradient_gives_a_whole_batch_away_too():
    categories, numbers, encoded = rows_of(NARROW, 8, 1)
    view = observe(encoded, NARROW, change=lambda g: {k: 0.25 * v for k, v in g.items()})
    (claim,) = attack(view)
    assert claim.verified.all()
    assert exact(claim, categories, numbers).any(0).all()


def test_the_same_seed_gives_the_same_claims():
    view = observe(rows_of(NARROW, 20, 3)[2], NARROW)
    (one,), (other,) = attack(view, starts=300, draws=4096), attack(view, starts=300, draws=4096)
    assert np.array_equal(one.numbers, other.numbers)
    assert np.array_equal(one.categories, other.categories)


def test_progress_ends_at_the_starts_and_draws_granted_where_nothing_is_found():
    heard = []
    view = of_another_network(rows_of(NARROW, 6, 0)[2])
    attack(view, starts=400, draws=2100, progress=lambda *p: heard.append(p))
    assert heard == [(300, 2500), (400, 2500), (2448, 2500), (2500, 2500)]


@pytest.mark.parametrize(
    "options", [{"draws": -1}, {"starts": -1}, {"seed": -1}, {"residual": 0.0}, {"rank_tolerance": 0.0}]
)
def test_settings_out_of_range_are_refused_with_their_value(options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        Spear(**options)


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match=r"^device 'gpuu' is unknown; write cpu, cuda"):
        Spear(device="gpuu")


def test_rows_known_beforehand_lead_to_the_others_where_nothing_else_would():
    categories, numbers, encoded = rows_of(NARROW, 48, 5)
    view = observe(encoded, NARROW)
    (update,) = find_gradients(view, AuxiliaryKnowledge())
    pairs_alone = Spear(starts=0, draws=0)
    blind, led = (pairs_alone.invert(update, AuxiliaryKnowledge(), known) for known in (None, encoded[:40]))
    assert isinstance(blind, Abstained) or len(blind.numbers) < 40
    assert exact(led, categories, numbers).any(0).all()
    assert led.verified.all()


def test_rows_known_beforehand_that_are_not_in_the_batch_are_dropped():
    categories, numbers, encoded = rows_of(NARROW, 12, 5)
    view = observe(encoded[:8], NARROW)
    (update,) = find_gradients(view, AuxiliaryKnowledge())
    claim = Spear().invert(update, AuxiliaryKnowledge(), encoded[4:])
    assert exact(claim, categories[:8], numbers[:8]).any(1).all()
    assert len(claim.numbers) == 8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bank_churn", "framingham", "breast_cancer_wisconsin"])
def test_real_tables_give_every_row_away_at_batches_of_8(datasets, name):
    config = settings(Options(), str(datasets / f"{name}.csv.gz"), "published", "recovered", 8, 1)
    config = config.model_copy(update={"data": config.data.model_copy(update={"missing": "drop"})})
    (case,) = cases(config)
    truth = Truth(federate(config, case, PUBLIC_MASTER))
    federated = truth.federated
    claims = attack(federated.ledger.view([federated.public.server], federated.public))
    assert len(claims) == 4
    for claim in claims:
        actual = truth.batch(claim.victim, claim.round)
        deviation = np.array([b.scale for b in truth.layout.numeric])
        same = (claim.categories[:, None] == actual.categories).all(2)
        same &= (np.abs(claim.numbers[:, None] - actual.numbers) < 1e-3 * deviation).all(2)
        assert same.any(0).all()
        assert claim.verified.all()
