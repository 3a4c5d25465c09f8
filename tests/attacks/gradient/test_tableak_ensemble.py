import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from leakledger.attacks.gradient.matching.ensemble import (
    POOLINGS,
    category_entropy,
    differing_share,
    lower_median,
    matching_order,
    number_entropy,
    pool,
)
from leakledger.attacks.observed.tabular import Rows, StructuralPrior
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

TOLERANCE = np.array([3.0, 0.5])


def rows(*records):
    """Records of two categories and two numbers."""
    table = np.array(records, np.float64)
    return Rows(table[..., :2].astype(np.int64), table[..., 2:])


def test_the_share_counts_categories_and_numbers_beyond_the_tolerance():
    one = rows([0, 1, 40.0, 1.0])
    others = rows([0, 1, 43.0, 1.5], [0, 2, 43.1, 1.5], [5, 5, 0.0, 9.0])
    assert differing_share(one, others, TOLERANCE).tolist() == [[0.0, 0.5, 1.0]]


def test_row_by_row_comparison_of_many_restarts_equals_nested_loops():
    draws = np.random.default_rng(0)
    one = Rows(draws.integers(0, 3, (4, 2)), draws.normal(size=(4, 2)))
    others = Rows(draws.integers(0, 3, (5, 4, 2)), draws.normal(size=(5, 4, 2)))
    share = differing_share(one, others, TOLERANCE)
    for r, i, j in np.ndindex(5, 4, 4):
        differ = [one.categories[i, k] != others.categories[r, j, k] for k in range(2)]
        differ += [abs(one.numbers[i, k] - others.numbers[r, j, k]) > TOLERANCE[k] for k in range(2)]
        assert share[r, i, j] == sum(differ) / 4


@given(st.permutations(range(6)), st.integers(0, 2))
def test_restarts_that_hold_the_same_rows_in_any_order_are_put_back(order, best):
    reference = np.array([[i, i, 100.0 * i, 10.0 * i] for i in range(6)])
    shuffled = reference[list(order)]
    order_found = matching_order(rows(reference, shuffled, reference[::-1]), best, TOLERANCE)
    members = np.stack([reference, shuffled, reference[::-1]])
    for member, found in zip(members, order_found, strict=True):
        assert np.array_equal(member[found], members[best])


def test_rows_are_matched_at_the_least_total_cost_not_greedily():
    best = [[0, 0, 0.0, 0.0], [0, 0, 0.0, 9.0]]
    other = [[0, 0, 0.0, 9.0], [0, 7, 7.0, 9.0]]  # the first fits both; the second fits the second row better
    assert matching_order(rows(best, other), 0, TOLERANCE)[1].tolist() == [0, 1]


def test_given_labels_only_rows_of_equal_labels_are_matched_whatever_they_hold():
    best = [[0, 0, 0.0, 0.0], [1, 1, 9.0, 9.0], [2, 2, 5.0, 5.0]]
    other = [best[1], best[2], best[0]]
    assert matching_order(rows(best, other), 0, TOLERANCE)[1].tolist() == [2, 0, 1]
    assert matching_order(rows(best, other), 0, TOLERANCE, np.array([0, 1, 1]))[1].tolist() == [0, 2, 1]


@given(npst.arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 3)), elements=st.floats(-9, 9)))
def test_the_lower_median_is_that_of_torch(members):
    assert np.array_equal(lower_median(members), torch.from_numpy(members).median(dim=0).values.numpy())


def test_of_thirty_the_lower_median_is_the_fifteenth():
    assert lower_median(np.random.default_rng(0).permutation(np.arange(1.0, 31))[:, None]) == [15.0]


def distributions(candidates):
    positive = npst.arrays(np.float64, (4, 3, candidates), elements=st.floats(0, 1)).filter(lambda a: a.sum(-1).all())
    return positive.map(lambda a: a / a.sum(-1, keepdims=True))


@given(st.integers(1, 5).flatmap(distributions))
def test_category_entropy_lies_between_zero_and_one(beliefs):
    entropy = category_entropy(beliefs)
    assert entropy.shape == (3,)
    assert ((entropy >= 0) & (entropy <= 1)).all()


def test_category_entropy_is_zero_in_agreement_and_one_in_even_disagreement():
    agreeing, split = np.tile([0.0, 1.0], (2, 1, 1)), np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    assert category_entropy(agreeing).tolist() == [0.0]
    assert category_entropy(split).tolist() == [1.0]
    assert category_entropy(np.ones((4, 1, 1))).tolist() == [0.0]


def test_category_entropy_is_that_of_the_mean_distribution():
    beliefs = np.array([[[0.5, 0.5, 0.0, 0.0]], [[1.0, 0.0, 0.0, 0.0]]])
    expected = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) / np.log(4)
    assert category_entropy(beliefs) == pytest.approx([expected])


def test_number_entropy_is_that_of_a_gaussian_with_the_unbiased_deviation():
    numbers = np.array([[[1.0, 5.0]], [[3.0, 5.0]]])
    wide, agreed = number_entropy(numbers, np.ones(2))[0]
    assert wide == pytest.approx(0.5 * np.log(2 * np.pi * np.e * 2.0))
    assert agreed < -10
    assert np.isfinite(agreed)


def test_one_restart_is_as_unsure_of_a_number_as_the_prior():
    entropy = number_entropy(np.zeros((1, 1, 2)), np.array([1.0, 0.5]))
    assert entropy[0] == pytest.approx(0.5 * np.log(2 * np.pi * np.e * np.array([1.0, 0.25])))


LAYOUT = FeatureLayout((NumericBlock("age", 0, 0.0, 1.0, 0.0, 10.0), CategoricalBlock("job", 1, 3)))
UNITS = np.array([[0.1, 0.6, 0.4, 0.0], [0.2, 0.4, 0.5, 0.1], [0.9, 0.0, 0.1, 0.9], [0.9, 0.45, 0.55, 0.0]])[:, None]


@pytest.mark.parametrize(
    ("how", "number", "shares"),
    [
        ("median", 0.2, [0.4, 0.4, 0.0]),
        ("mean", 0.525, [0.3625, 0.3875, 0.25]),
        ("mixed", 0.2, [0.3625, 0.3875, 0.25]),
        ("vote", 0.525, [0.0, 1.0, 0.0]),
    ],
)
def test_each_pooling_is_what_it_is_named_for(how, number, shares):
    (pooled,) = pool(how, UNITS, UNITS, StructuralPrior(LAYOUT, {}))
    assert pooled == pytest.approx([number, *shares])


@pytest.mark.parametrize(("how", "over"), [("median-logits", [1.0, 0.0, -2.0]), ("mean-logits", [1.0, 0.0, 6.0])])
def test_pooling_of_logits_softmaxes_afterwards_and_takes_numbers_between_their_bounds(how, over):
    units, logits = np.full((3, 1, 4), 0.5), np.zeros((3, 1, 4))
    units[:, 0, 0] = [0.1, 0.2, 0.6]
    logits[:, 0] = [[9.0, 1.0, 0.0, -2.0], [9.0, 2.0, -1.0, -2.0], [9.0, 0.0, 1.0, 22.0]]
    (pooled,) = pool(how, units, logits, StructuralPrior(LAYOUT, {}))
    assert pooled[0] == pytest.approx(0.2 if how.startswith("median") else 0.3)
    assert pooled[1:] == pytest.approx(np.exp(over) / np.exp(over).sum())


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("how", [h for h in POOLINGS if h != "none"])
@given(st.integers(0, 99))
def test_restarts_that_agree_are_pooled_to_what_they_agree_on_in_any_order(how, softmax, seed):
    prior, draws = StructuralPrior(LAYOUT, {}, softmax=softmax), np.random.default_rng(seed)
    agreed = Rows(draws.integers(0, 3, (4, 1)), draws.uniform(0, 10, (4, 1)))
    units = np.repeat(prior.certain(agreed)[None], 5, 0)
    pooled = prior.project(pool(how, units, 9 * units, prior))
    assert np.array_equal(pooled.categories, agreed.categories)
    assert pooled.numbers == pytest.approx(agreed.numbers)


@pytest.mark.parametrize("how", [h for h in POOLINGS if h != "none"])
@given(st.permutations(range(4)))
def test_the_order_of_the_restarts_does_not_matter(how, order):
    prior = StructuralPrior(LAYOUT, {})
    assert np.allclose(pool(how, UNITS[order], UNITS[order], prior), pool(how, UNITS, UNITS, prior))
