"""Numbers that categories leave open, behind an activation norm: found by where the column of a row comes to lie.

Rows that agree in their categories, or whose categories depend on each other linearly, leave directions along which
numbers of a candidate may move within the row space. Only for the numbers of a row of the batch does its column lie in
the column space of the gradient (`recomputed`): a root of few unknowns in many equations, searched by Gauss-Newton from
random starts. One candidate may have several roots: rows with equal categories.
"""

from collections.abc import Callable

import numpy as np

from leakledger.attacks.gradient.exact.kernels import Candidates
from leakledger.attacks.observed.affine import Array

Missed = Callable[[Array], Array]
"""Encoded rows (n, d) -> (n, H) what of each row's column lies outside the column space, of columns of length 1."""

MOST_OPEN = 3  # directions: more take more starts than are tried
EVALUATED = 2**12  # rows at a time: as many starts for each candidate as that leaves
LEAST_STARTS = 4  # for a candidate; fewer miss roots
STEPS = 25  # of Gauss-Newton; roots are reached in about ten
SPREAD = 1.5  # of starts, in encoded units: numbers of most scalers lie within twice that
DONE = 1e-6  # of what a root leaves: what rounding of float32 gradients leaves is above
STUCK = 1e3  # a start whose steps have to be damped this much is at no root
ROUNDING, TINY = 1e-12, 1e-300  # keep equations solvable whose slopes are alike, or 0
NUDGE = 1e-6  # of a difference quotient in float64
# A root leaves no more than this. Too small: rounding of the gradient hides roots; too large: valleys pass for roots.
ROOT = 1e-3
APART = 1e-3  # rows nearer than this in every column are one


def rows_along(candidates: Candidates, right: Array, missed: Missed, rng: np.random.Generator) -> Array | str:
    """Encoded rows (n, d) of the batch among candidates with open directions, or why they are not searched."""
    count, free = len(candidates.origin), len(candidates.open)
    starts = EVALUATED // max(1, count)
    if free > MOST_OPEN or starts < LEAST_STARTS:
        return f"categories leave {free} directions of numbers open in {count} candidates, too many to search"
    moves = candidates.open @ right[:, :-1]  # (f, d)
    origins = np.repeat(candidates.origin @ right[:, :-1], starts, 0)  # (n, d)
    scale = SPREAD / np.abs(moves).max(1)
    at = rng.standard_t(3, (len(origins), free)) * scale
    at[::starts] = 0.0  # one start of each candidate is where its numbers are centred
    damping, off = np.full(len(at), 1e-3), missed(origins + at @ moves)
    for _ in range(STEPS):
        going = np.flatnonzero((np.linalg.norm(off, axis=1) > DONE) & (damping < STUCK))
        if not len(going):
            break
        begin, now, here = origins[going], at[going], off[going]
        slopes = np.stack([(missed(begin + (now + n) @ moves) - here) / NUDGE for n in NUDGE * np.eye(free)], 1)
        normal = slopes @ slopes.transpose(0, 2, 1)  # (n, f, f)
        size = np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(free)
        damped = normal + (damping[going, None, None] + ROUNDING) * size + TINY * np.eye(free)
        trial = now - np.linalg.solve(damped, slopes @ here[..., None])[..., 0]
        tried = missed(begin + trial @ moves)
        better = np.linalg.norm(tried, axis=1) < np.linalg.norm(here, axis=1)
        at[going], off[going] = np.where(better[:, None], trial, now), np.where(better[:, None], tried, here)
        damping[going] = np.where(better, damping[going] / 10, damping[going] * 10)
    left = np.linalg.norm(off, axis=1)
    return apart((origins + at @ moves)[left < ROOT], left[left < ROOT])


def apart(rows: Array, left: Array) -> Array:
    """The rows (n, d) that differ, of those that do not the one with least `left`."""
    kept = np.zeros((0, rows.shape[1]))
    for i in np.argsort(left, kind="stable"):
        if not len(kept) or np.abs(kept - rows[i]).max(1).min() > APART:
            kept = np.vstack([kept, rows[i]])
    return kept
