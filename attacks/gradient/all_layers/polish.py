"""The numbers of a whole batch fitted to the gradient of all layers: Gauss-Newton with labels and categories held.

A row's gradient d [h | 1]^T moves with a number of the row by d' [h | 1]^T + d [h' | 0]^T (`tangents`): the normal
equations are sums of products of inner products again (`gram`). There are thousands of equations for each number.
Output errors are fitted too, as a client's arithmetic leaves each of them wrong by more than the entries of a sum; they
must be those of the labels in the end (`labels`).

What a client's arithmetic leaves of a row's column or point is in all entries of a line alike and does not average out
as their own rounding does. Standard errors have both, the second `LINES` times as large as what is left shows, since
numbers that are fitted take up most of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from leakledger.attacks.gradient.all_layers.gram import Problem
from leakledger.attacks.gradient.all_layers.labels import Counts, errors_of
from leakledger.attacks.gradient.all_layers.layers import TINY
from leakledger.attacks.gradient.all_layers.tangents import column_moves, columns_of, error_moves, point_moves
from leakledger.attacks.gradient.exact.deflation import norm
from leakledger.attacks.gradient.exact.network import Pass, depth, error_basis, forward, signals
from leakledger.attacks.gradient.exact.polish import (
    DAMPING,
    DAMPING_FACTOR,
    LARGEST,
    SINGULAR,
    WHOLE_COSTS,
    Fit,
    with_integers,
)
from leakledger.attacks.observed.affine import Array, Weights
from leakledger.preprocess.views import FeatureLayout

# Roundings of a probability by which the arithmetic of a client may leave a row's output errors wrong. Too small: it is
# taken for wrong numbers; too large: rows that are nearly alike trade errors for numbers.
OWN_ERROR = 16.0
# Times what a layer is left with that lines are taken to be off. Too small: numbers are called exact that are not;
# too large: fewer are exact. At 1, 4 % of the numbers of cc_fraud behind sigmoid are off by over four standard errors;
# at 3 a tenth of a percent is, the farthest by 4.02.
LINES = 3.0
# Times their usual relative error from which on lines count less: smaller mistrusts what is right, larger lets a neuron
# whose ways out cancel, as those of one in a thousand do to a thousandth, refute true rows.
CANCELLED = 4.0
# What rows may leave of a layer, root mean square in units of the errors of its entries. Too small: the arithmetic of a
# client refutes true rows; too large: a gradient that is not theirs passes. A change of float32 entries by a 100,000th
# of their size is 84.
LEFT = 64.0
PIECEWISE_LINEAR = ("relu", "leaky-relu")  # between kinks: there a mixture of rows is a row to the network
ROUNDS = 25  # of steps: fewer stop short of the fit, more cost time where nothing converges
# Times that lines are weighed anew, and steps after each: fewer leave rows with numbers that are off by a tenth of a
# deviation where they are, more cost time where rows are wrong.
WEIGHED, BETWEEN = 12, 4
DONE = 0.1  # a step that promises less, in squares of the errors of single entries, is the last: smaller fits noise


@dataclass(frozen=True, eq=False)
class Moves:
    """In one layer the `columns` (n, o) and `points` (n, i) of rows, and how k unknowns of each move them: by `turned`
    (n, k, o) and `slopes` (n, k, i).
    """

    columns: Array
    points: Array
    turned: Array
    slopes: Array

    def products(self) -> Array:
        """(n k, n k) inner products of the moves of all unknowns in this layer."""
        k = self.turned.shape[1]
        c, p = np.repeat(self.columns, k, 0), np.repeat(self.points, k, 0)
        turned, slopes = self.turned.reshape(len(c), -1), self.slopes.reshape(len(c), -1)
        mixed = (turned @ c.T) * (p @ slopes.T)
        return np.asarray((turned @ turned.T) * (p @ p.T) + mixed + mixed.T + (c @ c.T) * (slopes @ slopes.T))

    def along(self, left: Array) -> Array:
        """(n k,) inner products of the moves with `left` (o, i)."""
        own = (self.turned @ left * self.points[:, None]).sum(2)
        return np.asarray(own + ((self.columns @ left)[:, None] * self.slopes).sum(2)).ravel()

    def along_lines(self) -> Array:
        """(n k, n (o + i)) inner products of the moves with what an error of each entry of each row's column, and of
        its point, makes of the gradient, relative to the entry.
        """
        n, k = self.turned.shape[:2]
        inner, moved = self.points @ self.points.T, self.slopes.reshape(n * k, -1) @ self.points.T
        of_columns = self.turned[:, :, None] * inner[:, None, :, None]
        of_columns = of_columns + self.columns[:, None, None] * moved.reshape(n, k, n, 1)
        of_columns *= self.columns
        inner, turned = self.columns @ self.columns.T, self.turned.reshape(n * k, -1) @ self.columns.T
        of_points = turned.reshape(n, k, n, 1) * self.points[:, None, None]
        of_points = (of_points + inner[:, None, :, None] * self.slopes[:, :, None]) * self.points
        return np.concatenate([of_columns.reshape(n * k, -1), of_points.reshape(n * k, -1)], 1)


@dataclass(frozen=True, eq=False)
class Explained:
    """A whole batch held against a gradient: what it `misses` of each layer, root mean square in units of the errors of
    entries, and the same of what is `outside` the spans of its points and of its columns, where only the rounding of
    entries is: about 1 for the rows of the batch. What it leaves of each `relative` to the sizes of the rows' shares,
    which is what a client's arithmetic is relative to where they cancel. `strain`: how far output errors are off those
    of the labels at most, in units of what that arithmetic makes of them.
    """

    missed: Array
    outside: Array
    relative: list[float]
    strain: float
    fit: Fit = field(repr=False)
    moves: list[Moves] = field(repr=False)

    @property
    def left(self) -> float:
        return float(self.missed.max(initial=0.0))

    @property
    def residual(self) -> float:
        return max(self.relative)

    def errors(self) -> Array:
        """(n k,) standard errors of the unknowns: of entries by themselves, and of lines as a client computes them."""
        scale = np.sqrt(np.maximum(np.diag(self.fit.normal), TINY))
        inverse = np.linalg.pinv(self.fit.normal / np.outer(scale, scale), rcond=SINGULAR, hermitian=True)
        inverse /= np.outer(scale, scale)
        variance = max(1.0, self.left) ** 2 * self.fit.solved(0.0)[1]
        for moves, relative in zip(self.moves, self.relative, strict=True):
            variance = variance + ((LINES * relative * inverse @ moves.along_lines()) ** 2).sum(1)
        return np.asarray(np.sqrt(variance))


def priced(problem: Problem, rows: Array, counts: Counts, batch: int) -> Problem:
    """The problem with the errors of entries that the rows' shares leave, which may be far larger than their sum."""
    passed = forward(problem.weights, rows, problem.activation)
    columns = columns_of(problem.weights, passed, errors_of(passed.probabilities, counts, batch))
    layers, cancelled = [], cancellation(problem.weights, passed, columns)
    for layer, c, p, more in zip(problem.layers, columns, passed.points, cancelled, strict=True):
        size = layer.roundoff * share(c / layer.out, p / layer.inputs) / np.sqrt(len(layer.out) * len(layer.inputs))
        layers.append(replace(layer, out=layer.out * np.maximum(1.0, more / CANCELLED), unit=max(1.0, size)))
    return replace(problem, layers=layers)


def cancellation(weights: Weights, passed: Pass, columns: Sequence[Array]) -> list[Array]:
    """For each layer l = 0..L how many times as large, relative to them, the errors of its lines (out_l,) are as those
    of the outputs: many times where what is propagated back from the neurons above cancels. Errors of these, and of
    their products, are taken as independent.
    """
    squares, found = columns[-1] ** 2, [np.ones(columns[-1].shape[1])]
    for layer in range(depth(weights) - 1, -1, -1):
        squares = (squares @ weights[f"{layer + 1}.weight"] ** 2) * passed.slopes[layer] ** 2
        found.insert(0, np.sqrt(squares.sum(0) / np.maximum((columns[layer] ** 2).sum(0), TINY)))
    return found


def share(columns: Array, points: Array) -> float:
    """The root of the sum of the squares of what rows with these columns (n, o) and points (n, i) have in a layer."""
    return float(np.linalg.norm(norm(columns) * norm(points)))


@dataclass(frozen=True, eq=False)
class Guess:
    """Rows (n, d) with labels `counts` (n, C) in a mean over `batch` rows, whose output errors are `off` (n, C) off."""

    rows: Array = field(repr=False)
    counts: Counts = field(repr=False)
    off: Array = field(repr=False)
    batch: int

    def moved(self, numeric: list[int], step: Array) -> "Guess":
        """By steps (n, L + C - 1) of the `numeric` columns and of the output errors."""
        rows, span = self.rows.copy(), error_basis(self.counts.shape[1])
        rows[:, numeric] += step[:, : len(numeric)]
        return replace(self, rows=rows, off=self.off + step[:, len(numeric) :] @ span)


class Compared(NamedTuple):
    """A guess beside a gradient: rows in the network (`passed`), and for each layer their `columns` (n, o); in units
    of errors the columns again, `wide` (n, o), their `points` (n, i), and what is `left` of the gradient (o, i).
    """

    passed: Pass
    columns: list[Array]
    wide: list[Array]
    points: list[Array]
    left: list[Array]


def compared(problem: Problem, guess: Guess) -> Compared:
    """A guess, with the output errors that it has, held against the gradient of each layer."""
    passed = forward(problem.weights, guess.rows, problem.activation)
    errors = errors_of(passed.probabilities, guess.counts, guess.batch) + guess.off
    columns = columns_of(problem.weights, passed, errors)
    wide, points = problem.columns(columns), problem.points(passed.points)
    left = [g - c.T @ p for g, c, p in zip(problem.seen(), wide, points, strict=True)]
    return Compared(passed, columns, wide, points, left)


def explained(problem: Problem, guess: Guess, numeric: list[int]) -> Explained:
    """A guess held against the gradient, with the normal equations of its `numeric` columns and output errors."""
    passed, columns, wide, points, left = compared(problem, guess)
    missed = np.array([np.sqrt((r**2).mean()) for r in left])
    relative = [float(np.linalg.norm(r)) / max(share(c, p), TINY) for r, c, p in zip(left, wide, points, strict=True)]

    slopes, before = point_moves(problem.weights, passed, np.eye(guess.rows.shape[1])[numeric][None])
    turn = guess.counts.sum(1)[:, None, None] * error_moves(passed.probabilities, before[-1]) / guess.batch
    turned = column_moves(problem.weights, passed, problem.activation, columns, before, turn)
    basis = signals(problem.weights, passed)
    turned = problem.columns([np.concatenate(both, 1) for both in zip(turned, basis, strict=True)])
    still = np.zeros((len(guess.rows), basis[0].shape[1], 1))
    slopes = [np.concatenate([s, np.broadcast_to(still, (*still.shape[:2], s.shape[2]))], 1) for s in slopes]
    moves = [Moves(c, p, dc, dp) for c, p, dc, dp in zip(wide, points, turned, problem.points(slopes), strict=True)]
    own = guess.batch / (OWN_ERROR * problem.layers[0].roundoff * guess.counts.sum(1))  # (n,)
    off = (guess.off @ error_basis(guess.off.shape[1]).T) * own[:, None]
    weight = np.concatenate([np.zeros((len(own), len(numeric))), np.repeat(own[:, None], off.shape[1], 1)], 1)
    squares = float(sum((r**2).sum() for r in left) + (off**2).sum())
    normal = np.sum([m.products() for m in moves], 0) + np.diag(weight.ravel() ** 2)
    goal = np.sum([m.along(r) for m, r in zip(moves, left, strict=True)], 0)
    goal -= np.concatenate([np.zeros((len(own), len(numeric))), off * own[:, None]], 1).ravel()
    outside = np.array([outside_of(r, c, p) for r, c, p in zip(left, wide, points, strict=True)])
    return Explained(missed, outside, relative, float(np.abs(off).max(initial=0.0)), Fit(squares, normal, goal), moves)


def outside_of(left: Array, columns: Array, points: Array) -> float:
    """The root mean square of `left` (o, i) outside the spans of `columns` (n, o) and of `points` (n, i)."""
    (o, i), n = left.shape, len(points)
    if n >= min(o, i):
        return 0.0
    across, along = (np.linalg.qr(v.T)[0] for v in (columns, points))
    rest = left - across @ (across.T @ left)
    rest = rest - rest @ along @ along.T
    return float(np.linalg.norm(rest) / np.sqrt((o - n) * (i - n)))


def polished(
    problem: Problem, layout: FeatureLayout, rows: Array, counts: Counts, batch: int
) -> tuple[Array, Array, Explained]:
    """A whole batch (n, d) with its numbers fitted to all layers, whole where that costs nothing; standard errors
    (n, L) of the numbers, infinite where they are not determined; and what it leaves of the gradient.

    Numbers that are too many for normal equations stay as they are, and have no standard errors.
    """
    numeric = [b.start for b in layout.numeric]
    few = len(rows) * len(numeric) <= LARGEST
    fitted = numeric if few else []
    start = Guess(rows, counts, np.zeros(counts.shape), batch)
    best, now = descended(problem, start, fitted)
    if now.left > LEFT and fitted and problem.activation in PIECEWISE_LINEAR:
        other, after = descended(problem, across_kinks(problem, start, fitted), fitted)
        best, now = (other, after) if after.fit.left < now.fit.left else (best, now)
    whole, after = descended(problem, replace(best, rows=with_integers(layout.numeric, best.rows)), [])
    if after.left <= WHOLE_COSTS * max(now.left, 1.0):
        best, now = whole, explained(problem, whole, fitted)
    if not few:
        return best.rows, np.full((len(rows), len(numeric)), np.inf), now
    return best.rows, now.errors().reshape(len(rows), -1)[:, : len(numeric)], now


def across_kinks(problem: Problem, guess: Guess, numeric: list[int]) -> Guess:
    """A guess with numbers nearer to the true ones than kinks let it come: of a neuron that is taken for active where a
    true row is beyond its kink, or the other way, the line in the gradient is far off, and the others tell the numbers.
    Lines count by the inverse square of what they are left with, anew after some steps (iteratively reweighted least
    squares: Holland and Welsch 1977).
    """
    for _ in range(WEIGHED):
        off = [np.sqrt((r**2).mean(1)) for r in compared(problem, guess).left]
        layers = [replace(k, out=k.out * np.maximum(1.0, m)) for k, m in zip(problem.layers, off, strict=True)]
        guess, _ = descended(replace(problem, layers=layers), guess, numeric, BETWEEN)
    return guess


def descended(problem: Problem, guess: Guess, numeric: list[int], rounds: int = ROUNDS) -> tuple[Guess, Explained]:
    """The guess with the `numeric` columns and output errors that fit best: Levenberg-Marquardt."""
    now, damping = explained(problem, guess, numeric), 0.0
    for _ in range(rounds):
        step, _ = now.fit.solved(damping)
        if now.fit.goal @ step <= DONE:
            break
        trial = guess.moved(numeric, step.reshape(len(guess.rows), -1))
        after = explained(problem, trial, numeric)
        if after.fit.left < now.fit.left:
            guess, now, damping = trial, after, damping / DAMPING_FACTOR if damping > DAMPING else 0.0
        else:
            damping = max(DAMPING_FACTOR * damping, DAMPING)
    return guess, now
