from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.gradient.matching.initialisation import INITIALISATIONS, initial_variables, initialisation
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock
from tests.attacks.example import update_of

LAYOUT = FeatureLayout(
    (
        NumericBlock("age", 0, shift=40.0, scale=10.0, low=17.0, high=90.0),
        CategoricalBlock("job", 1, 3, shift=(0.7, 0.2, 0.1), scale=(0.5, 0.45, 0.4)),
        CategoricalBlock("city", 4, 4, codes=np.array([[0.0, 0.0], [1.0, 0.5], [2.0, -1.0], [3.0, 3.0]])),
        NumericBlock("score", 6),
    )
)
ROWS = 500


def of_victim(name):
    return replace(update_of(np.zeros((1, 1)), ROWS), victim=name)


def variables(name, softmax=True, sigmoid=True, seed=0, restarts=range(2), victim="ann"):
    prior = StructuralPrior(LAYOUT, {}, softmax=softmax, sigmoid=sigmoid)
    update, draw = of_victim(victim), initialisation(name, prior, LAYOUT)
    return prior, initial_variables(seed, update, (ROWS, prior.size), restarts, draw)


@pytest.mark.parametrize(
    ("name", "mean", "deviation", "low", "high"),
    [("uniform", 0, 3**-0.5, -1, 1), ("unit-uniform", 0.5, 12**-0.5, 0, 1), ("gaussian", 0, 1, -6, 6)],
)
def test_starts_are_drawn_from_the_distribution_that_they_are_named_for(name, mean, deviation, low, high):
    _, z = variables(name)
    assert (z.mean(), z.std()) == (pytest.approx(mean, abs=0.03), pytest.approx(deviation, abs=0.03))
    assert low <= z.min() < mean < z.max() <= high


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("sigmoid", [True, False])
def test_starts_from_the_marginals_stand_for_plausible_rows(softmax, sigmoid):
    prior, z = variables("marginals", softmax, sigmoid)
    logits = prior.centre + prior.spread * z.T
    units = logits.copy()
    if sigmoid:
        units[:, prior.positions] = 1 / (1 + np.exp(-logits[:, prior.positions]))
    rows = prior.project(units)
    jobs = np.bincount(rows.categories[:, 0], minlength=3) / len(rows.categories)
    assert jobs == pytest.approx([0.7, 0.2, 0.1], abs=0.05)
    assert set(rows.categories[:, 1]) == {0, 1, 2, 3}
    assert (rows.numbers[:, 0].mean(), rows.numbers[:, 0].std()) == pytest.approx((40, 10), abs=1.5)
    assert rows.numbers[:, 1].std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("name", INITIALISATIONS)
def test_a_restart_starts_from_a_point_of_its_own_whatever_runs_beside(name):
    (_, both), (_, second), (_, other) = (
        variables(name, **o) for o in ({}, {"restarts": range(1, 2)}, {"victim": "bob"})
    )
    assert np.array_equal(both[:, ROWS:], second)
    assert not np.array_equal(both[:, :ROWS], both[:, ROWS:])
    assert not np.array_equal(both, other)


def test_starts_are_uniform_unless_told_otherwise():
    prior, z = variables("uniform")
    assert np.array_equal(initial_variables(0, of_victim("ann"), (ROWS, prior.size), range(2)), z)
