import numpy as np
import pytest

from leakledger.attacks.gradient.matching.ensemble import pool
from leakledger.attacks.gradient.tableak.selection import pool_sizes, pooled_rows
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

PRIOR = StructuralPrior(
    FeatureLayout((NumericBlock("age", 0, 40.0, 13.0, 17.0, 90.0), CategoricalBlock("job", 1, 4))), {}
)


def members(count, rows=3):
    draws = np.random.default_rng(0)
    return draws.dirichlet(np.ones(PRIOR.size), (count, rows)), draws.permutation(count) / count


@pytest.mark.parametrize(("restarts", "counts"), [(1, [1]), (4, [1, 2, 4]), (30, [1, 3, 5, 10, 15, 30])])
def test_the_best_one_and_all_are_always_among_the_pools(restarts, counts):
    assert pool_sizes(restarts) == counts


@pytest.mark.parametrize("how", ["median", "mean", "vote"])
def test_each_pool_is_that_of_so_many_restarts_with_the_least_losses(how):
    units, losses = members(30)
    rows = pooled_rows(how, PRIOR, units, units, losses)
    for i, count in enumerate(pool_sizes(30)):
        best = units[losses < count / 30 - 1e-9]
        assert len(best) == count
        own = PRIOR.project(pool(how, best[losses[losses < count / 30 - 1e-9].argsort()], best, PRIOR))
        assert np.array_equal(rows.categories[i], own.categories)
        assert rows.numbers[i] == pytest.approx(own.numbers)
