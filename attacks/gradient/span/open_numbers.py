"""Numbers that categories leave open, behind an activation norm: found by where the column of a row comes to lie.

Rows that agree in their categories, or whose categories depend on each other linearly, leave directions along which
numbers of a candidate may move within the row space. Only for the numbers of a row of the batch does its column lie in
the column space of the gradient (`recomputed`): a root of few unknowns in many equations, searched by Gauss-Newton from
random starts. One candidate may have several roots: rows with equal categories. Of many candidates those go first, and
from there, that miss least at some random points: of two batches of 32 rows of Adult half were among the first
thousandth, and the last in the first half. Not every root is found, and need not be: what others leave is a smaller
batch (`taken_out`).
"""

from collections.abc import Callable

import numpy as np

from leakledger.attacks.gradient.exact.kernels import Candidates
from leakledger.attacks.observed.affine import Array

Missed = Callable[[Array], Array]
"""Encoded rows (n, d) -> (n, H) what of each row's column lies outside the column space, of columns of length 1."""

MOST_OPEN = 5  # directions: more were not tried
MOST = 2**15  # candidates that are tried; more, and the categories say too little
EVALUATED = 2**12  # rows at a time: memory; of few candidates as many starts for each as that leaves
# Of many candidates, points that each is probed at, where most rows of the batch miss less than others do; then of the
# `FIRST` by that. Starts are the best of these points, of which more miss fewer roots.
PROBES, FIRST, THOROUGH, STARTS = 8, 2**11, 2**8, 8
STEPS = 25  # of Gauss-Newton; roots are reached in about ten
SPREAD = 1.5  # of starts, in encoded units: numbers of most scalers lie within twice that
DONE = 1e-6  # of what a root leaves: what rounding of float32 gradients leaves is above
STUCK = 1e3  # a start whose steps have to be damped this much is at no root
LITTLE = 1e-3  # of what is left: a start that a step brings no nearer by more is at no root
ROUNDING, TINY = 1e-12, 1e-300  # keep equations solvable whose slopes are alike, or 0
NUDGE = 1e-6  # of a difference quotient in float64
# A root leaves no more than this. Too small: rounding of the gradient hides roots; too large: valleys pass for roots.
ROOT = 1e-3
APART = 1e-3  # rows nearer than this in every column are one


def rows_along(
    candidates: Candidates, right: Array, missed: Missed, rng: np.random.Generator, wanted: int
) -> Array | str:
    """Encoded rows (n, d) of the batch among candidates with open directions, or why they are not searched: all that
    are found, or once so many as are `wanted` are.
    """
    count, free = len(candidates.origin), len(candidates.open)
    if free > MOST_OPEN or count > MOST:
        return f"categories leave {free} directions of numbers open in {count} candidates, too many to search"
    moves, origins = candidates.open @ right[:, :-1], candidates.origin @ right[:, :-1]  # (f, d), (n, d)
    if count * STARTS <= EVALUATED:
        starts = EVALUATED // max(1, count)
        begin = _steps((count, starts), moves, rng)
        begin[:, 0] = 0.0  # one start of each candidate is where its numbers are centred
        return apart(*_searched(np.repeat(origins, starts, 0), begin.reshape(-1, free), moves, missed))[0]
    _, off = _probed(origins, PROBES, 1, moves, missed, rng)
    origins = origins[off[:, 0].argsort()][:FIRST]
    rows, left = np.zeros((0, origins.shape[1])), np.zeros(0)
    for some in np.array_split(origins, -(-len(origins) * STARTS // EVALUATED)):
        begin, _ = _probed(some, THOROUGH, STARTS, moves, missed, rng)
        new = _searched(np.repeat(some, STARTS, 0), begin.reshape(-1, free), moves, missed)
        rows, left = apart(np.concatenate([rows, new[0]]), np.concatenate([left, new[1]]))
        if len(rows) >= wanted:
            break
    return rows


def _probed(
    origins: Array, points: int, kept: int, moves: Array, missed: Missed, rng: np.random.Generator
) -> tuple[Array, Array]:
    """(n, kept, f) steps from each of the `origins` (n, d) to the best of so many points, and (n, kept) what is left
    there.
    """
    best, left = np.zeros((len(origins), kept, len(moves))), np.full((len(origins), kept), np.inf)
    for k in range(points):
        steps = _steps((len(origins),), moves, rng) * (k > 0)  # at first where numbers are centred
        off = np.linalg.norm(missed(origins + steps @ moves), axis=1)
        worst = left.argmax(1)
        better = np.flatnonzero(off < left.max(1))
        best[better, worst[better]], left[better, worst[better]] = steps[better], off[better]
    return best, left


def _steps(shape: tuple[int, ...], moves: Array, rng: np.random.Generator) -> Array:
    """(*shape, f) random steps along the `moves` (f, d), as far as numbers of a row may be from others."""
    return np.asarray(rng.standard_t(3, (*shape, len(moves))) * SPREAD / np.abs(moves).max(1))


def _searched(origins: Array, at: Array, moves: Array, missed: Missed) -> tuple[Array, Array]:
    """Encoded rows (n, d) where columns of rows come to lie in the column space, and what each leaves (n,): from the
    `origins` (m, d), begun `at` steps (m, f) along the `moves` (f, d).
    """
    free = len(moves)
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
        before, after = np.linalg.norm(here, axis=1), np.linalg.norm(tried, axis=1)
        better = after < before
        hopeless = better & (after > (1 - LITTLE) * before) & (after > ROOT)
        at[going], off[going] = np.where(better[:, None], trial, now), np.where(better[:, None], tried, here)
        damping[going] = np.where(hopeless, STUCK, np.where(better, damping[going] / 10, damping[going] * 10))
    left = np.linalg.norm(off, axis=1)
    return (origins + at @ moves)[left < ROOT], left[left < ROOT]


def apart(rows: Array, left: Array) -> tuple[Array, Array]:
    """The rows (n, d) that differ, of those that do not the one with least `left` (n,); and what these leave."""
    kept: list[int] = []
    for i in np.argsort(left, kind="stable").tolist():
        if not kept or np.abs(rows[kept] - rows[i]).max(1).min() > APART:
            kept.append(i)
    return rows[kept], left[kept]
