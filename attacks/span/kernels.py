"""Guided kernels: for a row of known categories, the direction in which the gradient's left factor shows it alone.

There is an invertible Q with D^T = left @ Q and [X | 1] = Q^-1 @ right. ReLU makes column i of D^T zero wherever row i is
inactive: left[A] @ q_i = 0 (Dimitrov et al., SPEAR, section 4). SPEAR draws sets A at random, about 2^(B-1)/B draws per
hit; here a candidate's own pre-activations say where it is inactive, and one draw or a few are enough. A kernel belongs
to a real row where its zeros agree with the candidate's signs on all neurons.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attacks.span.candidates import Candidates
from attacks.span.row_space import Array, RowSpace

ROUGH, FINE = 2e-3, 2e-4  # what counts as zero in left @ q, with unit rows, before and after q is refined
MARGINS = (2, 6, 12, 20)  # neurons drawn beyond the r - 1 that make a kernel


@dataclass(frozen=True, eq=False)
class Kernels:
    """Unit directions `directions` (m, r), the candidate each came from, and the share of neurons that agree with it."""

    directions: Array
    candidates: NDArray[np.int64]
    agreement: Array


@dataclass(frozen=True, eq=False)
class Neurons:
    """What the first layer shows: unit rows `left` (H, r) of the live neurons, and their weights seen from the row space.

    `planes` (r, H): coordinates @ planes are pre-activations.
    """

    left: Array = field(repr=False)
    planes: Array = field(repr=False)


def live_neurons(space: RowSpace, weight: Array, bias: Array) -> Neurons:
    """Neurons that some row activates; the rest say nothing."""
    size = np.linalg.norm(space.left, axis=1)
    live = size > 1e-6 * size.max()
    planes = space.right @ np.column_stack([weight, bias])[live].T
    return Neurons(space.left[live] / size[live, None], planes)


def guided(neurons: Neurons, candidates: Candidates, chosen: NDArray[np.int64], shift: Array, known: Array) -> Kernels:
    """The kernels of `chosen` candidates, taken at origin + shift (n, f) @ open; `known` (k, r): rows found before."""
    at = candidates.origin[chosen] + shift @ candidates.open
    signs = at @ neurons.planes
    rank = neurons.left.shape[1]
    order = np.argsort(signs, 1)
    ranks = np.argsort(order, 1)
    found = []
    for drawn in drawn_sets(signs, ranks, rank - len(known), len(candidates.open) == 0):
        q = kernel(neurons.left, drawn, known)
        for zero in (ROUGH, ROUGH, FINE):
            q = kernel(neurons.left, np.abs(q @ neurons.left.T) < zero, known)
        active = np.abs(q @ neurons.left.T) > FINE
        agreement = agreeing(active, signs, candidates.open @ neurons.planes)
        found.append(Kernels(q, chosen, agreement))
    parts = zip(*((k.directions, k.candidates, k.agreement) for k in found), strict=True)
    return Kernels(*(np.concatenate(p) for p in parts))


def drawn_sets(signs: Array, ranks: NDArray[np.int64], needed: int, certain: bool) -> Iterator[NDArray[np.bool_]]:
    """Sets (n, H) of neurons where a row is inactive: all with a negative sign, or the most negative ones."""
    if certain:
        yield signs < -1e-4 * np.abs(signs).max(1, keepdims=True)
        return
    for margin in MARGINS:
        yield ranks < needed - 1 + margin


def kernel(left: Array, drawn: NDArray[np.bool_], known: Array) -> Array:
    """The unit vectors (n, r) that `left` of the drawn neurons and `known` come closest to annihilating."""
    n, rank = len(drawn), left.shape[1]
    outer = (left[:, :, None] * left[:, None, :]).reshape(len(left), -1)
    gram = (drawn.astype(np.float64) @ outer).reshape(n, rank, rank) + known.T @ known
    return np.asarray(np.linalg.eigh(gram)[1][:, :, 0])


def agreeing(active: NDArray[np.bool_], signs: Array, slopes: Array, steps: int = 30) -> Array:
    """The share (n,) of neurons where `active` is what the sign of signs + t @ slopes says, for the best t found."""
    want = np.where(active, 1.0, -1.0)
    shift = np.zeros((len(signs), len(slopes)))
    scale = np.abs(signs).mean()
    for _ in range(steps if len(slopes) else 0):
        short = np.maximum(0, 1e-3 * scale - want * (signs + shift @ slopes)) # (n, H)
        hit = (short > 0).astype(np.float64)
        outer = (slopes.T[:, :, None] * slopes.T[:, None, :]).reshape(slopes.shape[1], -1)
        gram = (hit @ outer).reshape(len(signs), len(slopes), len(slopes)) + 1e-9 * np.eye(len(slopes))
        shift = shift + np.linalg.solve(gram, ((want * short) @ slopes.T)[..., None])[..., 0]
    return np.asarray(((signs + shift @ slopes > 0) == active).mean(1))
