import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.observed.tabular import Rows, StructuralPrior, encoded_bounds, tells_candidates
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

AGE = NumericBlock("age", 0, shift=40.0, scale=10.0, low=17.0, high=90.0, integer=True)
JOB = CategoricalBlock("job", 1, 3, shift=(0.5, 0.3, 0.2), scale=(0.5, 0.45, 0.4))
CITY = CategoricalBlock("city", 4, 4, codes=np.array([[0.0, 0.0], [1.0, 0.5], [2.0, -1.0], [3.0, 3.0]]))
SCORE = NumericBlock("score", 6)
SEX = CategoricalBlock("sex", 7, 2)
LAYOUT = FeatureLayout((AGE, JOB, CITY, SCORE, SEX))
BOTH = pytest.mark.parametrize("softmax", [True, False])


def prior(**options):
    return StructuralPrior(LAYOUT, {"score": (-2.0, 6.0)}, **options)


def random_rows(seed, shape=(5,)):
    draws = np.random.default_rng(seed)
    categories = np.stack([draws.integers(0, size, shape) for size in (3, 4, 2)], -1)
    return Rows(categories, np.stack([draws.integers(17, 91, shape), draws.uniform(-2, 6, shape)], -1).astype(float))


@BOTH
@given(st.integers(0, 2**32))
def test_units_of_rows_project_to_the_rows(softmax, seed):
    rows = random_rows(seed, (2, 5))
    projected = prior(softmax=softmax).project(prior(softmax=softmax).certain(rows))
    assert np.array_equal(projected.categories, rows.categories)
    assert np.allclose(projected.numbers, rows.numbers)


@BOTH
@given(st.integers(0, 2**32))
def test_units_of_rows_stand_for_the_encoded_rows(softmax, seed):
    known, rows = prior(softmax=softmax), random_rows(seed)
    assert np.allclose(known.certain(rows) @ known.matrix + known.offset, known.encode(rows))


def test_a_row_is_encoded_as_the_layout_says():
    encoded = prior().encode(Rows(np.array([[1, 2, 0]]), np.array([[50.0, 1.5]])))
    assert encoded[0] == pytest.approx([1.0, -1.0, 0.7 / 0.45, -0.5, 2.0, -1.0, 1.5, 1.0, 0.0])


def test_only_a_scaled_one_hot_column_slows_its_candidates_down():
    known = prior()
    assert known.spread.tolist() == [1, 0.5, 0.45, 0.4, 1, 1, 1, 1, 1, 1, 1]
    assert known.centre.tolist() == [0, 0.5, 0.3, 0.2, 0, 0, 0, 0, 0, 0, 0]


def test_a_variable_stands_for_a_candidate_with_softmax_and_for_a_column_without():
    assert (prior().size, prior(softmax=False).size) == (11, 9)


def test_scaled_whole_numbers_are_rounded_and_the_rest_are_not():
    known = prior()
    ages, scores = known.project(np.array([[0.4999], [0.505]]) * np.ones(known.size)).numbers.T
    assert ages.tolist() == [53.0, 54.0]  # of 53.49 and 53.87
    assert scores == pytest.approx([-2 + 8 * 0.4999, -2 + 8 * 0.505])


def test_without_softmax_the_nearest_code_before_scaling_is_chosen():
    known = prior(softmax=False)
    units = np.zeros((1, known.size))
    units[0, known.choices[0]] = (np.array([0.2, 0.6, 0.5]) - [0.5, 0.3, 0.2]) / [0.5, 0.45, 0.4]
    units[0, known.choices[1]] = [1.8, -0.2]  # nearest is (2, -1), though (3, 3) has the largest product
    assert known.project(units).categories[0, :2].tolist() == [1, 2]


def test_beliefs_are_the_softmaxed_units_or_certain_choices():
    units = prior().certain(random_rows(1))
    assert [b.shape for b in prior().beliefs(units)] == [(5, 3), (5, 4), (5, 2)]
    free = prior(softmax=False)
    beliefs = free.beliefs(np.random.default_rng(0).normal(size=(5, free.size)))
    assert [b.shape for b in beliefs] == [(5, 3), (5, 4), (5, 2)]
    assert all(set(b.flat) == {0.0, 1.0} and (b.sum(-1) == 1).all() for b in beliefs)


@pytest.mark.parametrize(
    ("block", "known", "expected"),
    [
        (AGE, (30.0, 60.0), (-1.0, 2.0)),
        (AGE, None, (-2.3, 5.0)),
        (NumericBlock("x", 0, 40.0, 10.0), None, (-4.0, 4.0)),
        (NumericBlock("x", 0, 40.0, 10.0, low=30.0), None, (-1.0, 4.0)),
        (NumericBlock("x", 0), (-2.0, 6.0), (-2.0, 6.0)),
        (NumericBlock("x", 0, low=17.0, high=90.0), None, (-4.0, 4.0)),
    ],
    ids=["known", "public", "neither", "half public", "known, unscaled", "public in raw units that nothing converts"],
)
def test_bounds_are_what_is_known_then_what_is_public_then_four_scales(block, known, expected):
    assert encoded_bounds(block, known) == pytest.approx(expected)


def test_the_assumed_deviation_is_the_scale_or_that_of_a_uniform_distribution_if_less():
    layout = FeatureLayout((AGE, NumericBlock("share", 1, shift=20.0, scale=50.0, low=20.0, high=70.0)))
    assert StructuralPrior(layout, {}).deviation == pytest.approx([10.0, 50 / np.sqrt(12)])


@pytest.mark.parametrize(
    "block",
    [
        NumericBlock("age", 0, 40.0, 0.0),
        NumericBlock("age", 0, 40.0, 10.0, low=90.0, high=17.0),
        NumericBlock("age", 0, float("nan"), 10.0),
        CategoricalBlock("age", 0, 2, shift=(0.5, 0.5), scale=(0.5, 0.0)),
        NumericBlock("age", 1),
    ],
)
def test_a_layout_that_cannot_be_inverted_is_refused(block):
    with pytest.raises(ValueError, match=r"age|columns \[0\]"):
        StructuralPrior(FeatureLayout((block,)), {})


def test_bounds_the_wrong_way_round_are_refused():
    with pytest.raises(ValueError, match="score"):
        StructuralPrior(LAYOUT, {"score": (6.0, -2.0)})


def test_a_free_number_is_its_encoded_column_and_is_clipped_to_its_bounds():
    known = prior(sigmoid=False)
    variables = np.zeros((3, known.size))
    variables[:, known.positions] = [[1.0, 3.0], [-9.0, -9.0], [9.0, 9.0]]
    units = known.centre + known.spread * variables
    columns = (units @ known.matrix + known.offset)[:, [AGE.start, SCORE.start]]
    assert columns == pytest.approx(variables[:, known.positions])
    assert known.project(units).numbers == pytest.approx(np.array([[50.0, 3.0], [17.0, -2.0], [90.0, 6.0]]))


LEVELS = np.array([[0.0], [0.2], [0.5], [0.5], [1.0]])  # one number per candidate; two have the same
LEVEL = CategoricalBlock("level", 0, 5, codes=LEVELS, shift=(0.4,), scale=(0.2,))


def test_a_mixture_tells_its_candidates_unless_a_code_is_a_mean_of_others():
    dense = np.random.default_rng(0).normal(size=(4, 30))
    told = [JOB, CITY, LEVEL, *(CategoricalBlock("x", 0, len(c), codes=c) for c in (dense, dense.T, LEVELS[:2]))]
    assert [tells_candidates(b) for b in told] == [True, False, False, True, False, True]
    assert tells_candidates(CategoricalBlock("x", 0, 3, codes=np.array([[0.0, 0, 0], [1, 1, 1], [2, 2, 2]]))) is False
    assert tells_candidates(CategoricalBlock("x", 0, 1, codes=np.ones((1, 2))))


def test_where_a_mixture_does_not_tell_its_candidates_the_nearest_code_is_chosen():
    known = StructuralPrior(FeatureLayout((LEVEL,)), {})
    mixtures = np.array([[0.5, 0, 0, 0, 0.5], [0.6, 0, 0, 0, 0.4], [0.8, 0, 0, 0, 0.2], [0, 0, 0, 0, 1.0]])
    assert known.project(mixtures).categories[:, 0].tolist() == [2, 2, 1, 4]
    assert np.allclose(mixtures @ known.matrix + known.offset, (mixtures @ LEVELS - 0.4) / 0.2)


def test_candidates_with_the_same_code_share_the_certainty():
    known = StructuralPrior(FeatureLayout((LEVEL,)), {})
    (beliefs,) = known.beliefs(np.array([[0.5, 0, 0, 0, 0.5], [0, 0, 0, 0, 1.0]]))
    assert beliefs.tolist() == [[0, 0, 0.5, 0.5, 0], [0, 0, 0, 0, 1]]


def test_mixtures_that_do_not_tell_their_candidates_are_pooled_by_their_mean_codes():
    known = StructuralPrior(FeatureLayout((LEVEL, NumericBlock("age", 1))), {})
    members = np.zeros((3, 1, 6))
    members[:, 0, :5] = [[0, 1, 0, 0, 0], [0.8, 0, 0, 0, 0.2], [0, 0, 0, 0, 1]]  # 0.2, 0.2 and 1
    members[:, 0, 5] = [0.1, 0.3, 0.9]
    pooled = known.pooled(members, lambda m: np.median(m, 0))
    assert pooled.tolist() == [[0, 1, 0, 0, 0, 0.3]]


def test_features_that_share_columns_add_up_and_are_taken_apart_by_the_softmax_only():
    bits = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    layout = FeatureLayout((CategoricalBlock("a", 0, 3, codes=bits), CategoricalBlock("b", 0, 2, codes=bits[1:])))
    known = StructuralPrior(layout, {})
    rows = Rows(np.array([[0, 0], [1, 1]]), np.zeros((2, 0)))
    assert known.encode(rows).tolist() == [[1, 2, 1, 0], [0, 1, 2, 1]]
    assert np.allclose(known.certain(rows) @ known.matrix + known.offset, known.encode(rows))
    assert np.array_equal(known.project(known.certain(rows)).categories, rows.categories)
    with pytest.raises(ValueError, match="a, b share columns"):
        StructuralPrior(layout, {}, softmax=False)
