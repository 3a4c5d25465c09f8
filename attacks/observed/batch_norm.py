"""What batch norm's running statistics tell of a batch: the mean of its rows.

A client that took one step (FedSGD) moved the running mean of the first layer's sums from r to r' = 0.9 r + 0.1 m, both
of which the server has: m = W x + b, with x the mean of the encoded rows of the batch. Where the layer has about as
many units as there are columns, x follows (that the columns of a one-hot feature add up to 1 is public). It holds the
batch's means of numbers, and its shares of categories.

Batch norm takes just this mean off the gradient of the first layer, D^T [X | 1] with columns of D that sum to zero: the
gradient's row space is that of the differences of rows, one dimension short, and no row lies in it. With the mean put
back (`with_mean`) it is the row space of a batch again.

Running variances tell as much again: (B - 1) v_j is the sum over the batch of (w_j (x_i - x))^2. Of candidate rows, H
such equations and the mean say which are in the batch (`members`), as long as there are fewer candidates than units.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from leakledger.attacks.observed.affine import Array, affine
from leakledger.attacks.observed.update import BatchSums, ObservedUpdate
from leakledger.preprocess.messages import BatchNormStatistics
from leakledger.preprocess.models import OF_FIRST_LAYER, told_of_batch
from leakledger.preprocess.views import FeatureLayout, Message, View

# Singular values of the first layer's weights below this share of the largest: directions of rows that it does not see.
# Too small: rounding of the statistics is blown up; too large: layers that tell the mean are passed over.
SEEN = 1e-4
TENTH = 10.0  # by which the rounding of a running mean counts in the mean of one batch


def told_sums(view: View, model: Message, update: Message) -> BatchSums | None:
    """What running statistics tell of the first layer's sums over the batch behind `update`; None where none do."""
    told = [m for m in view.received(BatchNormStatistics) if (m.sender, m.round) == (update.sender, update.round)]
    for m in told:
        pairs = [(model.payload.weights.get(n), m.payload.statistics.get(n)) for n in OF_FIRST_LAYER]
        known = [(before, after) for before, after in pairs if before is not None and after is not None]
        if len(known) == len(pairs) and len({np.shape(a) for pair in known for a in pair}) == 1:
            mean, variance = (told_of_batch(before, after) for before, after in known)
            if np.isfinite(mean).all() and np.isfinite(variance).all():
                return BatchSums(mean, variance, m.sequence)
    return None


def mean_row(update: ObservedUpdate) -> tuple[Array, Array] | str:
    """The mean (d,) of the encoded rows and its standard errors (d,), or why it is not known."""
    weight, bias = update.weights["0.weight"], update.weights["0.bias"]
    if update.sums is None or update.sums.mean.shape != bias.shape:
        return "batch norm takes the mean of the rows off the first layer, and no running statistics tell it"
    sure, totals = one_hot_sums(update.layout)
    if len(weight) + len(sure) < weight.shape[1]:
        return (
            f"the mean of the rows has {weight.shape[1]} columns, and running statistics tell {len(weight)} sums of it"
        )
    equations = np.vstack([weight, sure * float(np.linalg.norm(weight, axis=1).mean())])
    values = np.linalg.svd(equations, compute_uv=False)
    if values[-1] < SEEN * values[0]:
        return "the first layer does not see every column: running statistics do not tell the mean of the rows"
    goal = np.concatenate([update.sums.mean - bias, totals * float(np.linalg.norm(weight, axis=1).mean())])
    inverse = np.linalg.pinv(equations)
    rounding = TENTH * update.precision * float(np.abs(update.sums.mean).max())
    return inverse @ goal, rounding * np.linalg.norm(inverse[:, : len(weight)], axis=1)


def one_hot_sums(layout: FeatureLayout) -> tuple[Array, Array]:
    """(k, d) and (k,): the equations, at unit length, by which the columns of each one-hot feature add up to 1, scaled
    as they are. Features that share columns have none.
    """
    hits = Counter(c for b in layout.blocks for c in range(b.start, b.start + b.width))
    alone = [b for b in layout.categorical if b.codes is None and all(hits[b.start + i] == 1 for i in range(b.width))]
    left, right = np.zeros((len(alone), layout.width)), np.ones(len(alone))
    for k, block in enumerate(alone):
        scaled = block.shift is not None and block.scale is not None
        left[k, block.start : block.start + block.width] = np.asarray(block.scale) if scaled else 1.0
        right[k] -= float(np.sum(np.asarray(block.shift))) if scaled else 0.0
    length = np.linalg.norm(left, axis=1, keepdims=True)
    return left / length, right / length[:, 0]


def with_mean(update: ObservedUpdate, mean: Array) -> ObservedUpdate:
    """The update with the mean row put back into the first layer's gradient, on a direction that no unit has in it: its
    row space is that of the rows themselves. For the row space alone: it is no gradient.
    """
    gradient, point = affine(update.gradient, 0), np.append(mean, 1.0)
    gradient[:, -1] = 0.0  # what is there is rounding
    left, values, _ = np.linalg.svd(gradient, full_matrices=False)
    unused = left[:, min(update.rows, left.shape[1] - 1)]
    size = float(values[: max(1, update.rows - 1)].mean()) / float(np.linalg.norm(point))
    whole = gradient + size * np.outer(unused, point)
    return replace(update, gradient={**update.gradient, "0.weight": whole[:, :-1], "0.bias": whole[:, -1]})


def members(update: ObservedUpdate, mean: Array, encoded: Array) -> NDArray[np.bool_]:
    """(n,) which of n > 0 candidate rows (n, d) add up to the batch's mean and variances: those whose share, by
    non-negative least squares, is near 1.
    """
    assert update.sums is not None  # `mean_row`
    weight = update.weights["0.weight"]
    away = (encoded - mean) @ weight.T  # (n, H)
    goal = (update.rows - 1) * update.sums.variance
    scale = np.maximum(np.abs(goal), np.abs(goal).mean())
    equations = np.vstack([(away**2).T / scale[:, None], away.T / np.sqrt(scale)[:, None], np.ones(len(encoded))])
    shares, _ = nnls(equations, np.concatenate([goal / scale, np.zeros(len(goal)), [update.rows]]))
    return np.asarray(shares > 0.5)
