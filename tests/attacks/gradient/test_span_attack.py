import numpy as np
import pandas as pd
import pytest

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.gradient.span import Span
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock, View
from tests.attacks.example import LAYOUT, NUMERIC, exact, observe, rows_of


def attack(view, **options):
    return Span(**options).run(view, AuxiliaryKnowledge())


@pytest.mark.parametrize("count", [1, 2, 8, 16])
@pytest.mark.parametrize("seed", range(3))
def test_every_row_of_a_batch_is_recovered_exactly_and_verified(count, seed):
    categories, numbers, encoded = rows_of(LAYOUT, count, seed)
    (claim,) = attack(observe(encoded, seed=seed))
    assert len(claim.numbers) == count
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()
    assert (claim.residual < 1e-6).all()
    assert not claim.category_entropy.any()
    assert not claim.number_entropy.any()
    assert (claim.victim, claim.round, claim.evidence) == ("ann", 0, (0, 1))


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_agree_in_every_category_are_told_apart(seed):
    categories, numbers, encoded = rows_of(LAYOUT, 10, seed, alike=True)
    (claim,) = attack(observe(encoded, seed=seed))
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


def test_whole_numbers_come_back_as_whole_numbers_where_the_layout_promises_them():
    _, numbers, encoded = rows_of(LAYOUT, 8, 0)
    (claim,) = attack(observe(encoded))
    assert sorted(claim.numbers[:, 0].round(9)) == sorted(numbers[:, 0])


def test_a_promise_of_whole_numbers_that_does_not_hold_is_not_kept():
    categories, numbers, encoded = rows_of(LAYOUT, 8, 0)
    encoded[:, 0] += 0.05 / 13
    (claim,) = attack(observe(encoded))
    assert exact(claim, categories, numbers + np.array([0.05, 0])).all()


def test_small_batches_without_categories_are_recovered_too():
    categories, numbers, encoded = rows_of(NUMERIC, 3, 1)
    (claim,) = attack(observe(encoded, NUMERIC))
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("count", [1, 4, 16])
def test_a_noisy_gradient_is_abstained_from_with_rank_and_batch_size(count, noise):
    outcome = attack(observe(rows_of(LAYOUT, count, 0)[2], noise=noise))
    assert isinstance(outcome, Abstained)
    assert "rank" in outcome.reason
    assert f"{count} row" in outcome.reason


def test_rows_that_depend_on_each_other_are_abstained_from():
    encoded = rows_of(LAYOUT, 6, 0)[2]
    outcome = attack(observe(np.concatenate([encoded, encoded[:1]])))
    assert isinstance(outcome, Abstained)
    assert "rank is 6 and the batch has 7 rows" in outcome.reason


def test_a_batch_wider_than_the_layer_is_abstained_from():
    outcome = attack(observe(rows_of(LAYOUT, 32, 0)[2]))
    assert isinstance(outcome, Abstained)
    assert "32 rows" in outcome.reason


@pytest.mark.parametrize(("option", "reason"), [("budget", "budget of 10"), ("candidates", "over 3 combinations")])
def test_the_attack_abstains_where_the_search_is_over_a_budget(option, reason):
    options = {"budget": 10} if option == "budget" else {"candidates": 3}
    outcome = attack(observe(rows_of(LAYOUT, 8, 0)[2]), **options)
    assert isinstance(outcome, Abstained)
    assert reason in outcome.reason


@pytest.mark.parametrize("options", [{"activation": "tanh"}, {"activation": "leaky-relu"}, {"hidden": ()}])
def test_a_first_layer_without_relu_is_not_applicable(options):
    outcome = attack(observe(rows_of(LAYOUT, 4, 0)[2], **options))
    assert isinstance(outcome, NotApplicable)
    assert "ReLU" in outcome.reason


def test_no_gradient_in_the_clear_is_not_applicable():
    assert isinstance(attack(observe(rows_of(LAYOUT, 4, 0)[2]), victims=("bob",)), NotApplicable)


def test_rows_that_do_not_explain_the_gradient_are_not_verified():
    """A gradient of the right rank and categories, from rows that the stated model would not have activated so."""
    _, _, encoded = rows_of(LAYOUT, 6, 0)
    view = observe(encoded, seed=0)
    other = observe(encoded, seed=1)
    swapped = View(view.observers, (other.messages[0], view.messages[1]), view.public)
    outcome = attack(swapped)
    assert isinstance(outcome, Abstained)
    assert "explains" in outcome.reason


@pytest.mark.parametrize("seed", range(6))
def test_twins_that_every_neuron_sees_alike_are_not_verified_and_the_others_are_true(seed):
    categories, numbers, encoded = rows_of(LAYOUT, 8, seed, alike=True)
    numbers[1], encoded[1] = numbers[0] + [0, 0.01], encoded[0]
    encoded[1, 18] += 0.01
    outcome = attack(observe(encoded, seed=seed))
    if not isinstance(outcome, Abstained):
        (claim,) = outcome
        verified = claim.categories[claim.verified], claim.numbers[claim.verified]
        assert not (verified[0] == categories[0]).all(1).any()
        same = (verified[0][:, None] == categories).all(2) & (np.abs(verified[1][:, None] - numbers) < 1e-3).all(2)
        assert same.any(1).all()


def test_a_residual_above_the_threshold_verifies_nothing():
    outcome = attack(observe(rows_of(LAYOUT, 6, 0)[2]), residual=1e-12)
    assert isinstance(outcome, Abstained)


def test_the_same_view_gives_the_same_claim():
    view = observe(rows_of(LAYOUT, 10, 3, alike=True)[2])
    (one,), (other,) = attack(view), attack(view)
    assert np.array_equal(one.numbers, other.numbers)
    assert np.array_equal(one.categories, other.categories)


@pytest.mark.parametrize(
    "options",
    [{"budget": 0}, {"candidates": 0}, {"attempts": 0}, {"seed": -1}, {"residual": 0.0}, {"rank_tolerance": np.inf}],
)
def test_settings_out_of_range_are_refused_with_their_value(options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        Span(**options)


def table_layout(folder, name):
    """A real table: its layout with every column standardised, and its rows."""
    schema = pd.read_json(folder / f"{name}.schema.json", typ="series")
    table = pd.read_csv(folder / f"{name}.csv.gz", na_values=[""], keep_default_na=False).dropna()
    blocks, parts, picks, start = [], [], [], 0
    for column in schema["categorical"]:
        codes, values = pd.factorize(table[column].astype(str))
        columns = np.eye(len(values))[codes]
        shift, scale = columns.mean(0), columns.std(0)
        blocks.append(CategoricalBlock(column, start, len(values), shift=tuple(shift), scale=tuple(scale)))
        parts.append((columns - shift) / scale)
        picks.append(codes)
        start += len(values)
    for column in schema["numeric"]:
        values = table[column].to_numpy(float)
        blocks.append(NumericBlock(column, start, shift=values.mean(), scale=values.std(), unit="deviation"))
        parts.append((values[:, None] - values.mean()) / values.std())
        start += 1
    return FeatureLayout(tuple(blocks)), np.stack(picks, -1), table[schema["numeric"]].to_numpy(float), np.hstack(parts)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count", "least"), [("adult", 16, 0.97), ("adult", 24, 0.8), ("german", 32, 0.99)])
def test_rows_of_real_tables_are_recovered_and_none_is_verified_falsely(datasets, name, count, least):
    layout, categories, numbers, encoded = table_layout(datasets, name)
    deviation = np.array([b.scale for b in layout.numeric])
    recovered = []
    for seed in range(5):
        drawn = np.random.default_rng(seed).choice(len(encoded), count, replace=False)
        (claim,) = attack(observe(encoded[drawn], layout, seed=seed))
        truth = categories[drawn], numbers[drawn] / deviation
        claimed = claim.categories, claim.numbers / deviation
        same = (claimed[0][:, None] == truth[0]).all(2) & (np.abs(claimed[1][:, None] - truth[1]) < 1e-3).all(2)
        assert same.any(1)[claim.verified].all()
        recovered.append(same.any(0).mean())
    assert np.mean(recovered) >= least
