import numpy as np

from leakledger.attacks.gradient.exact.rows import clear, snapped
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout

CODES = CategoricalBlock("rate", 2, 4, codes=np.array([[0.2], [0.21], [0.21], [0.5]]))
LAYOUT = FeatureLayout((CategoricalBlock("sex", 0, 2), CODES))


def test_a_point_must_be_far_nearer_to_its_code_than_to_the_next_other_one():
    points = np.array([[1, 0, rate, 1] for rate in (0.2, 0.2005, 0.202, 0.2101, 0.495)])
    rows, valid = snapped(LAYOUT, points)
    assert valid.all()
    assert rows.categories[:, 1].tolist() == [0, 0, 0, 1, 3]
    assert clear(LAYOUT, points, rows).tolist() == [True, True, False, True, True]


def test_multiples_of_a_point_are_the_same_point():
    points = np.array([[1, 0, 0.2005, 1], [1, 0, 0.203, 1]])
    rows, _ = snapped(LAYOUT, points)
    assert clear(LAYOUT, -3 * points, rows).tolist() == clear(LAYOUT, points, rows).tolist() == [True, False]


def test_one_hot_columns_that_are_near_enough_are_clear():
    points = np.array([[0.97, 0.02, 0.5, 1]])
    assert clear(LAYOUT, points, snapped(LAYOUT, points)[0]).all()
