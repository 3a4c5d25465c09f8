"""Rows behind a first layer that an activation norm follows: told apart, and proven, by computing the gradient again.

A norm that goes row by row (layer, group, instance norm) leaves the first layer what it is: its gradient is still
D^T [X | 1], and the rows lie in its row space. But every unit of a row hears of all others, so D has no zeros where
ReLU silences a unit, and no row is alone on any (`kernels` has nothing to work with). What is left is enough:

1. given a candidate row, its column of D is known up to the error of its outputs, C - 1 numbers in the basis of
   `exact.network`. It must lie in the column space of the gradient, r of H dimensions. False candidates do not. Rows
   that are found so leave the batch (`taken_out`), and those that are left are sought in a smaller row space;
2. the label of each row is read off the gradient of the last layer, given the inputs of that layer;
3. with categories and labels the gradient of all layers is a function of the numbers, fitted by Gauss-Newton;
4. the gradient of all layers, computed again in float64, is the observed one or it is not: all rows are
   proven, or none. Of a gradient with noise beyond its rounding (a sum over clients) none is.

Batch norm mixes the rows of a batch: no column of D belongs to one row, and the first layer's gradient is that of rows
less their mean. Where running statistics tell the mean (`observed.batch_norm`), the row space is that of rows again.
Which candidates are in the batch the variances of the first layer's sums say, in place of step 1. The rest holds for
the batch as a whole. A gradient says nothing of the mean, so the mean sum of the first layer is checked beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import grad, vmap

from leakledger.attacks.gradient.exact.certificate import granted
from leakledger.attacks.gradient.exact.kernels import Candidates
from leakledger.attacks.gradient.exact.network import error_basis
from leakledger.attacks.gradient.exact.polish import Fit, with_integers
from leakledger.attacks.gradient.exact.rows import EncodedRows, snapped
from leakledger.attacks.gradient.span.open_numbers import MOST, rows_along
from leakledger.attacks.observed.affine import Array, affine, with_ones
from leakledger.attacks.observed.batch_norm import mean_row, members, with_mean
from leakledger.attacks.observed.row_space import RowSpace, row_space
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.models import as_tensors, forward, layers, mean_loss
from leakledger.preprocess.views import ModelSpec

# How far, relative to its length, the column of a row may lie outside the column space of the gradient. Too small: the
# rounding of a row's numbers rules it out; too large: false candidates pass, and no batch of them is right.
OUTSIDE = 1e-2
PART = 2**12  # candidates at a time: memory
NUDGE = 1e-6  # of a difference quotient in float64
AT_ONCE = 64  # gradients of difference quotients: memory
LARGEST = 600  # numbers of a batch that are fitted: a slope is as large as the network
TINY = 1e-300  # keeps a quotient by a gradient of zero finite
# How far the mean of the rows may be from what running statistics tell. Too small: their rounding refutes true rows;
# too large: rows that are all off by the same pass.
MEAN_OFF = 1e-4
FITS = 6  # Gauss-Newton steps: it converges in two or three, or not at all


@dataclass(frozen=True, eq=False)
class Recomputed:
    """As many rows as the batch has, the relative `residual` of the gradient computed from them, and standard errors
    (n, L) of their numbers.
    """

    rows: EncodedRows
    residual: float
    error: Array = field(repr=False)


def unfit(update: ObservedUpdate) -> str:
    """Why an update behind a norm cannot be read this way; "" where it can."""
    if update.model.norm == "batch" and isinstance(found := mean_row(update), str):
        return found
    return ""


def moved_scales(spec: ModelSpec) -> str:
    """Why local training behind a norm cannot be read this way."""
    return f"local steps move the scales of {spec.norm} norm, and no column of a sum of them is known"


def space_of(update: ObservedUpdate, tolerance: float) -> RowSpace | str:
    """The row space of the rows behind the first layer, as `row_space`."""
    mean = mean_row(update) if update.model.norm == "batch" else None
    return row_space(with_mean(update, mean[0]) if isinstance(mean, tuple) else update, tolerance)


def recomputed(update: ObservedUpdate, space: RowSpace, candidates: EncodedRows, limit: float) -> Recomputed | str:
    """The batch among candidate rows, or why there is none: rows that leave a residual above `limit`, or above what
    noise leaves, are refused.
    """
    if not 0 < len(candidates) <= MOST:
        return f"{len(candidates)} candidate rows are tried behind a norm only from 1 to {MOST}"
    weights = as_tensors(update.weights, dtype=torch.float64)
    told = mean_row(update) if update.model.norm == "batch" else None
    if isinstance(told, tuple):
        rows = candidates.where(members(update, told[0], candidates.encoded))
    else:
        rows = fitting(update, space, candidates)
    if len(rows) != update.rows:
        return f"{len(rows)} of {len(candidates)} candidate rows fit the gradient behind the norm, not {update.rows}"
    batch = Batch(update, weights, labels_of(update, weights, rows.encoded), told if isinstance(told, tuple) else None)
    encoded, error = fitted(batch, rows.encoded)
    rows = EncodedRows(rows.categories, with_integers(update.layout.numeric, encoded))
    residual = float(np.linalg.norm(batch.missed(rows.encoded)) / np.linalg.norm(batch.seen))
    if residual > granted(batch.seen, update.noise, limit):
        return f"the gradient computed again is off by {residual:.1e} of it"
    if batch.mean is not None and (off := mean_off(update, rows.encoded)) > MEAN_OFF:
        return f"the mean of the rows found is not the one that running statistics tell: off by {off:.1e}"
    return Recomputed(rows, residual, error)


def fitting(update: ObservedUpdate, space: RowSpace, candidates: EncodedRows) -> EncodedRows:
    """The candidate rows whose columns lie in the column space of the gradient."""
    weights = as_tensors(update.weights, dtype=torch.float64)
    return candidates.where(np.linalg.norm(outside(update, weights, space, candidates.encoded), axis=1) < OUTSIDE)


@dataclass(frozen=True, eq=False)
class Batch:
    """The gradient of a batch as a function of its rows: `weights` and `labels` are known, and under batch norm the
    `mean` of the rows with its standard errors, of which the gradient says nothing.
    """

    update: ObservedUpdate
    weights: Mapping[str, Tensor]
    labels: NDArray[np.int64]
    mean: tuple[Array, Array] | None

    @cached_property
    def names(self) -> list[str]:
        """The tensors compared: under batch norm not the biases before it, whose gradient is rounding alone."""
        batch, hidden = self.update.model.norm == "batch", range(len(self.update.model.hidden))
        return [n for n in self.weights if not batch or n not in {f"{i}.bias" for i in hidden}]

    @cached_property
    def seen(self) -> Array:
        return np.concatenate([np.ravel(self.update.gradient[n]) for n in self.names])

    @cached_property
    def columns(self) -> list[int]:
        return [b.start for b in self.update.layout.numeric]

    def made(self, rows: Tensor) -> Tensor:
        """The entries compared of the gradient of encoded rows (n, d), differentiable."""
        model, labels = self.update.model, torch.from_numpy(self.labels)
        found = grad(lambda w: mean_loss(model, forward(model, w, rows), labels))(dict(self.weights))
        return torch.cat([found[n].flatten() for n in self.names])

    def missed(self, encoded: Array) -> Array:
        return np.asarray(self.seen - self.made(torch.from_numpy(encoded)).numpy())

    def slopes(self, encoded: Array) -> Array:
        """(entries, n L) how the entries move with the numbers of rows (n, d), by difference quotients."""
        shape = len(encoded), len(self.columns)
        moved = torch.from_numpy(encoded).repeat(shape[0] * shape[1], 1, 1)
        for k, (row, column) in enumerate(np.ndindex(shape)):
            moved[k, row, self.columns[column]] += NUDGE
        found = vmap(self.made, chunk_size=AT_ONCE)(moved) - self.made(torch.from_numpy(encoded))
        return np.asarray(found.T.numpy() / NUDGE)

    def system(self, encoded: Array, entry: float) -> tuple[Array, Array]:
        """What the numbers miss, and how that moves with them, in standard errors: entries, and the mean if known."""
        goal, matrix = [self.missed(encoded) / entry], [self.slopes(encoded) / entry]
        if self.mean is not None:
            mean, doubt = (part[self.columns] for part in self.mean)
            goal.append((mean - encoded[:, self.columns].mean(0)) / doubt)
            matrix.append(np.tile(np.eye(len(self.columns)), (1, len(encoded))) / len(encoded) / doubt[:, None])
        return np.concatenate(goal), np.vstack(matrix)


def fitted(batch: Batch, encoded: Array) -> tuple[Array, Array]:
    """Rows (n, d) with the numbers that fit the gradient best, by Gauss-Newton, and standard errors (n, L) of these:
    infinite where there are too many to fit.
    """
    shape = len(encoded), len(batch.columns)
    if not batch.columns or shape[0] * shape[1] > LARGEST:
        return encoded, np.full(shape, np.inf)
    least = float(np.abs(batch.missed(encoded)).max())
    entry = max(batch.update.roundoff * float(np.sqrt((batch.seen**2).mean())), TINY)
    for _ in range(FITS):
        goal, matrix = batch.system(encoded, entry)
        step = np.linalg.lstsq(matrix, goal, rcond=None)[0].reshape(shape)
        trial = encoded.copy()
        trial[:, batch.columns] += step
        left = float(np.abs(batch.missed(trial)).max())
        if not left < least:
            break
        encoded, least = trial, left
    missed = batch.missed(encoded)
    worse = max(1.0, float(np.sqrt((missed**2).mean())) / entry)  # than the rounding of what was sent
    _, matrix = batch.system(encoded, entry)
    _, variances = Fit(0.0, matrix.T @ matrix, np.zeros(matrix.shape[1])).solved(0.0)
    return encoded, worse * np.sqrt(variances).reshape(shape)


def mean_off(update: ObservedUpdate, encoded: Array) -> float:
    """How far the mean of the first layer's sums over rows (n, d) is from what running statistics tell, as a share."""
    assert update.sums is not None  # `unfit`
    own = update.weights["0.weight"] @ encoded.mean(0) + update.weights["0.bias"]
    return float(np.linalg.norm(own - update.sums.mean) / np.linalg.norm(update.sums.mean))


def outside(update: ObservedUpdate, weights: Mapping[str, Tensor], space: RowSpace, encoded: Array) -> Array:
    """(n, H) what of the column of each row, of length 1, lies outside the column space of the gradient: for the error
    of the outputs for which that is least.
    """
    left, errors = np.linalg.qr(space.left)[0], error_basis(update.model.outputs)
    found = []
    for part in np.array_split(encoded, max(1, -(-len(encoded) // PART))):
        columns = first_columns(update, weights, part, errors)  # (n, C - 1, H)
        basis = np.linalg.qr(columns.transpose(0, 2, 1))[0]
        beyond = basis - left @ (left.T @ basis)
        least = np.linalg.svd(beyond, full_matrices=False)[2][:, -1]
        found.append((beyond @ least[..., None])[..., 0])
    return np.concatenate(found)


def first_columns(update: ObservedUpdate, weights: Mapping[str, Tensor], encoded: Array, errors: Array) -> Array:
    """(n, k, H) the gradients of the first layer's sums of rows (n, d) whose outputs have each of `errors` (k, C)."""
    rows = torch.from_numpy(encoded).requires_grad_()
    passed = layers(update.model, weights, rows)
    sums, outputs = passed[0][1], passed[-1][1]
    told = [torch.from_numpy(e).expand_as(outputs) for e in errors]
    found = [torch.autograd.grad(outputs, sums, e, retain_graph=True)[0] for e in told]
    return np.asarray(torch.stack(found, 1).numpy())


def labels_of(update: ObservedUpdate, weights: Mapping[str, Tensor], encoded: Array) -> NDArray[np.int64]:
    """(n,) the label of each row: its own output is the one with a negative error."""
    last = len(update.model.hidden)
    with torch.no_grad():
        inputs = with_ones(layers(update.model, weights, torch.from_numpy(encoded))[last][0].numpy())
    errors = np.linalg.lstsq(inputs.T, affine(update.gradient, last).T, rcond=None)[0]  # (n, C)
    found: NDArray[np.int64] = errors.argmin(1)
    return found


def settled(
    update: ObservedUpdate, space: RowSpace, candidates: Candidates, rng: np.random.Generator
) -> EncodedRows | str:
    """The candidate rows, each once; of those whose numbers categories leave open the ones that fit the gradient."""
    if not len(candidates.open):
        points = candidates.origin @ space.right
    elif update.model.norm == "batch":
        return "categories leave numbers open, and behind batch norm no column is of one row"
    else:
        weights = as_tensors(update.weights, dtype=torch.float64)
        found = rows_along(
            candidates, space.right, lambda rows: outside(update, weights, space, rows), rng, update.rows
        )
        if isinstance(found, str):
            return found
        points = with_ones(found)
    rows, valid = snapped(update.layout, points)
    rows = rows.where(valid)
    _, first = np.unique(rows.encoded.round(4), axis=0, return_index=True)
    return rows.where(np.sort(first))
