"""Which restarts to pool: all of them, as TabLeak does, or the best so many, as many as fit the gradient best.

The median of 30 restarts carries the errors of the worst half along. Pools of the best 1, 3, 5, 10, 15 and 30 of 30 are
made, and the one is taken whose rows match the observed gradient best: a score that the adversary has, at the cost of
one evaluation of the loss.
"""

from math import ceil

import numpy as np

from leakledger.attacks.gradient.matching.ensemble import pool
from leakledger.attacks.observed.tabular import Array, Rows, StructuralPrior

MEMBERS = ("fitting", "all")
SHARES = (30, 10, 6, 3, 2, 1)  # the best one in so many restarts: more pools cost an evaluation of the loss each


def pool_sizes(restarts: int) -> list[int]:
    """How many of the best restarts are pooled, for each pool that is tried."""
    return sorted({ceil(restarts / share) for share in SHARES})


def pooled_rows(how: str, prior: StructuralPrior, units: Array, logits: Array, losses: Array) -> Rows:
    """The rows (pools, B, ·) that the best restarts are pooled to, for each of `pool_sizes`.

    `units` and `logits` (R, B, size) are in matching order, `losses` (R,) those of each restart's rows; `how` is one of
    `POOLINGS` but "none".
    """
    ranks = losses.argsort(kind="stable")
    pools = [pool(how, units[ranks[:n]], logits[ranks[:n]], prior) for n in pool_sizes(len(losses))]
    return prior.project(np.stack(pools))
