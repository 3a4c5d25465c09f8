"""Batches of a made-up table of skewed whole amounts, scaled by their range: the case in which certificates were false.

Rows agree in their few categories and have amounts up to a million, of which most are a small part of the range.
"""

import numpy as np

from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

AMOUNTS, COUNTS, KINDS, TABLE = 11, 2, 8, 2_000


def table(seed):
    """The layout of a table, and its categories (N, 1), numbers (N, L) and encoded rows (N, d)."""
    coins = np.random.default_rng(seed)
    logs = coins.normal(coins.uniform(6, 11, AMOUNTS), coins.uniform(0.8, 2.2, AMOUNTS), (TABLE, AMOUNTS))
    steps = coins.choice([10, 100, 1000], AMOUNTS)
    amounts = np.minimum(np.round(np.exp(logs) / steps) * steps, 1e6)
    numbers = np.hstack([amounts, coins.poisson(coins.uniform(1, 6, COUNTS), (TABLE, COUNTS))])
    categories = coins.choice(KINDS, (TABLE, 1), p=coins.dirichlet(np.full(KINDS, 2.0)))
    low, high = numbers.min(0), numbers.max(0)
    blocks = [
        NumericBlock(f"n{k}", k, shift=a, scale=b - a, low=a, high=b, integer=True, unit="range")
        for k, (a, b) in enumerate(zip(low, high, strict=True))
    ]
    layout = FeatureLayout((*blocks, CategoricalBlock("kind", len(blocks), KINDS)))
    return layout, categories, numbers, np.hstack([(numbers - low) / (high - low), np.eye(KINDS)[categories[:, 0]]])


def false(claim, categories, numbers, deviations):
    """(m,) which of the verified rows of a claim are none of the true ones."""
    verified = claim.categories[claim.verified], claim.numbers[claim.verified]
    same = (verified[0][:, None] == categories).all(2)
    near = np.abs(verified[1][:, None] - numbers) <= 0.001 * deviations
    return ~(same & near.all(2)).any(1)
