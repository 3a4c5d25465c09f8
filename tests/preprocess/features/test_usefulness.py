"""What features are worth: F1 with those that have a value, beside F1 without any."""

import numpy as np
import pytest

from leakledger.preprocess.features.usefulness import check_folds, defined, f1_with_and_without

RECORDS = 200


def table(zeros=False):
    """Two columns whose quotient alone tells the class."""
    coins = np.random.default_rng(0)
    columns = coins.uniform(1, 10, (RECORDS, 2))
    labels = (columns[:, 0] / columns[:, 1] > 1).astype(np.int64)
    if zeros:
        columns[0, 1] = 0
    return columns, labels


def test_a_feature_that_tells_the_class_raises_f1():
    columns, labels = table()
    noise = np.column_stack([columns, np.random.default_rng(1).normal(size=RECORDS)])
    coins = np.random.default_rng(2).permutation(labels)
    found, without = f1_with_and_without(noise, labels, [("quotient", (0, 1))], "random-forest", 3, 0)
    assert found > without
    assert found > 0.97
    assert f1_with_and_without(noise, coins, [], "random-forest", 3, 0)[0] < 0.7


def test_what_some_record_has_no_value_of_is_left_out():
    columns, labels = table(zeros=True)
    assert not defined(("quotient", (0, 1)), columns, labels)
    assert defined(("sum", (0, 1)), columns, labels)
    with_it, without = f1_with_and_without(columns, labels, [("quotient", (0, 1))], "logistic-regression", 2, 0)
    assert with_it == without


def test_a_class_needs_a_record_in_every_fold():
    labels = np.array([0] * 10 + [1] * 2)
    check_folds(labels, 2)
    with pytest.raises(ValueError, match="a class has 2 held-out records, too few for 3 folds; use a larger"):
        check_folds(labels, 3)
