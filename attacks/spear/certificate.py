"""The check of the rows found on the gradient of every layer, after a polish that fits their numbers to it.

The rows of a whole batch leave only their output errors open: C - 1 numbers per row, against thousands of equations.
They are proven where the gradient follows from them and each is alone in its activation patterns. A row of an
incomplete batch is proven where its point and its column of D both lie in the spaces of the layer, and the error that
goes with them is that of one row with some label: rows that all neurons see alike would add up to another.
"""

import numpy as np

from attacks.span.polish import with_integers
from attacks.span.row_space import Array
from attacks.span.rows import Mask, Rows
from attacks.spear.network import affine, depth, forward, signals
from attacks.spear.rest import fit, norm
from attacks.spear.search import FINE, Found, Problem

ROUNDS = 10  # of alternating least squares


def certified(problem: Problem, found: Found, limit: float) -> tuple[Rows, Array, Mask]:
    """The rows, polished, the relative residual behind each (n,), and whether it proves the row (up to `limit`)."""
    rows = found.rows
    if len(rows) == problem.rows:
        encoded, residual = polished(problem, rows.encoded)
        return Rows(rows.categories, encoded), residual, alone(problem, encoded) & (residual <= limit)
    encoded = with_integers(problem.layout.numeric, rows.encoded)
    before, after = (fit(problem.weights, problem.space, e, problem.rows) for e in (rows.encoded, encoded))
    better = after.residual <= 2 * before.residual
    encoded = np.where(better[:, None], encoded, rows.encoded)
    fits = fit(problem.weights, problem.space, encoded, problem.rows)
    proven = fits.single & (fits.off < FINE) & (fits.residual <= limit)
    return Rows(rows.categories, encoded), fits.residual, proven


def polished(problem: Problem, encoded: Array) -> tuple[Array, Array]:
    """A whole batch (n, d) with its numeric columns fitted to the first layer's gradient; what is left (n,) of each."""
    columns = [b.start for b in problem.layout.numeric]
    best, least = encoded, np.full(len(encoded), np.inf)
    for _ in range(ROUNDS):
        residual, first = explained(problem, encoded)
        if residual.max(initial=0) >= 0.9 * least.max(initial=0):
            break
        best, least = encoded, residual
        encoded = encoded.copy()
        encoded[:, columns] = np.linalg.lstsq(first.T, problem.gradient["0.weight"][:, columns], rcond=None)[0]
    whole = with_integers(problem.layout.numeric, best)
    residual, _ = explained(problem, whole)
    return (whole, residual) if residual.max(initial=0) < 2 * least.max(initial=0) else (best, least)


def explained(problem: Problem, encoded: Array) -> tuple[Array, Array]:
    """What the rows leave of the gradient in the worst layer, relative to the share of each (n,), and D of layer 0.

    The output errors are those that explain all layers best.
    """
    passed = forward(problem.weights, encoded)
    basis = signals(problem.weights, passed)
    seen = [affine(problem.gradient, layer) for layer in range(depth(problem.weights) + 1)]
    weight = [1 / max(float(np.linalg.norm(g)), 1e-300) for g in seen]
    design = np.concatenate(
        [
            w * np.einsum("nko,ni->nkoi", s, p).reshape(s.shape[0] * s.shape[1], -1)
            for w, s, p in zip(weight, basis, passed.points, strict=True)
        ],
        axis=1,
    )
    goal = np.concatenate([w * g.ravel() for w, g in zip(weight, seen, strict=True)])
    error = np.linalg.lstsq(design.T, goal, rcond=None)[0].reshape(len(encoded), -1)
    columns = [np.einsum("nk,nkw->nw", error, s) for s in basis]
    worst = np.zeros(len(encoded))
    for d, p, g in zip(columns, passed.points, seen, strict=True):
        share = norm(d) * norm(p)
        worst = np.maximum(worst, np.linalg.norm(g - d.T @ p) / share.clip(1e-300))
    return worst, columns[0]


def alone(problem: Problem, encoded: Array) -> Mask:
    """Whether no other row (n, d) has the same activation patterns in every layer."""
    patterns = np.concatenate(forward(problem.weights, encoded).active, axis=1)
    return np.asarray((patterns[:, None] == patterns).all(2).sum(1) == 1)
