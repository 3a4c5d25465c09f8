"""Rows that may be in a batch, the likeliest first.

Rows that other attacks know; then the combinations of categories that lie in the first layer's row space (`span`),
where these settle the numbers or leave few directions open; then the same from random starts; then rows drawn from what
the layout makes public, with nothing held. Each is moved to where it lies in the second layer's row space (`roots`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Dependencies
from leakledger.attacks.gradient.all_layers.layers import Layer
from leakledger.attacks.gradient.all_layers.roots import sieved
from leakledger.attacks.gradient.all_layers.spaces import Spaces
from leakledger.attacks.gradient.atoms.annealed import annealed
from leakledger.attacks.gradient.exact.candidates import find_candidates
from leakledger.attacks.gradient.exact.kernels import Candidates
from leakledger.attacks.gradient.exact.network import depth
from leakledger.attacks.gradient.exact.rows import EncodedRows, snapped, with_codes
from leakledger.attacks.observed.affine import Array, affine, with_ones
from leakledger.attacks.observed.labels import plausible_rows
from leakledger.attacks.observed.tabular import Bounds
from leakledger.preprocess.views import FeatureLayout

TOGETHER = 2**14  # candidates of which the likeliest are tried first, before the others are looked at: memory
STARTS = 1_024  # random starts made together: memory, and how many are spent before what they find is used
# The length of a neuron's gradient, in errors of its entries, from which the point that it sees is looked at, and the
# share of it that the bias has at least. Too small: points of rounding, a test each; too large: faint rows are lost.
SHOWN, FAINT = 1e3, 1e-6
FEW = 8  # rows of which a neuron may see one alone: of more hardly any does, and each neuron costs a test
ZERO = 1e-4  # relative to the largest entry, h below this is taken for zero: rounding above it is taken for a signal
ANNEALED = 2  # times that rows come down to the spaces, where these find none: fewer lose rows, more cost time
FREE = 384  # and starts with nothing held, which have more unknowns each


@dataclass(frozen=True)
class Budget:
    """`combinations` of half combinations of categories, `candidates` among them, `attempts` of random starts, and the
    `tolerance` of distances from the row space.
    """

    combinations: int
    candidates: int
    attempts: int
    tolerance: float
    bounds: Bounds = field(default_factory=dict)
    dependencies: Dependencies = field(default_factory=dict)


def proposals(
    spaces: Spaces, layout: FeatureLayout, known: Array, budget: Budget, rng: np.random.Generator
) -> Iterator[EncodedRows]:
    """Rows to be held against the spaces; ends when `budget` is spent."""
    if len(known):
        rows, valid = snapped(layout, with_ones(known))
        yield rows.where(valid)
    rows, valid = snapped(layout, shown(spaces))
    yield rows.where(valid)
    right, precision = row_basis(spaces.layers[0]), spaces.layers[0].precision
    found = find_candidates(
        layout,
        right,
        max(budget.tolerance, precision * layout.width**0.5),
        budget.combinations,
        budget.candidates,
        budget.bounds,
        budget.dependencies,
        precision,
    )
    candidates = None if isinstance(found, str) or not len(found.categories) else likeliest_first(found)
    if candidates is not None:
        yield from of_candidates(spaces, layout, right, candidates, rng)
    for _ in range(ANNEALED if budget.attempts else 0):
        yield from annealed(spaces, layout, rng)
    if candidates is not None:
        yield from from_starts(spaces, layout, right, candidates, budget.attempts, rng)
    for _ in range(budget.attempts):
        rows, valid = snapped(layout, with_ones(freely(spaces, layout, rng)))
        yield rows.where(valid)


def shown(spaces: Spaces) -> Array:
    """Points [x | 1] (n, d+1) behind what single neurons of the first two layers see, of few rows behind ReLU: rows of
    the batch where just one is active. Two rows that no layer's row space tells apart are told apart so: those that
    one layer sees with one mask another mostly does not.
    """
    first, second = spaces.layers[:2]
    if spaces.activation != "relu" or spaces.rank > FEW:
        return np.zeros((0, len(first.inputs)))
    found = seen_by_neurons(first)
    return (
        np.concatenate([found, inputs_of(spaces, seen_by_neurons(second))])
        if second.number < depth(spaces.weights)
        else found
    )


def seen_by_neurons(layer: Layer) -> Array:
    """(m, i): the inputs [h | 1] that each neuron sees, where these are beyond rounding: a mean over its rows."""
    seen = layer.left * layer.values @ layer.right  # (o, i)
    seen = seen[np.linalg.norm(seen, axis=1) > SHOWN * layer.unit] * layer.inputs
    seen = seen[np.abs(seen[:, -1]) > FAINT * np.linalg.norm(seen, axis=1)]
    return np.asarray(seen / seen[:, -1:])


def inputs_of(spaces: Spaces, points: Array) -> Array:
    """[x | 1] (m, d+1) in the first layer's row space that come nearest to the positive entries of what it puts out,
    `points` [h | 1] (m, H+1): there ReLU is linear.
    """
    basis = row_basis(spaces.layers[0])  # (r, d+1)
    hidden, plane = points[:, :-1], affine(spaces.weights, 0) @ basis.T  # (m, H), (H, r)
    positive = (hidden > ZERO * np.abs(hidden).max(1, keepdims=True, initial=0)).astype(np.float64)
    equations = np.einsum("mh,hr,hs->mrs", positive, plane, plane) + np.outer(basis[:, -1], basis[:, -1])
    goal = (positive * hidden) @ plane + basis[:, -1]
    inside = np.einsum("mrs,ms->mr", np.linalg.pinv(equations, hermitian=True), goal) @ basis
    inside = inside[inside[:, -1] > ZERO]
    return np.asarray(inside / inside[:, -1:])


def row_basis(layer: Layer) -> Array:
    """(r, d+1): an orthonormal basis of a layer's row space, in the units of the columns."""
    return np.asarray(np.linalg.qr((layer.right * layer.inputs).T)[0].T)


def likeliest_first(candidates: Candidates) -> Candidates:
    """Those with the smallest numbers first."""
    order = np.argsort(np.linalg.norm(candidates.origin, axis=1), kind="stable")
    return replace(candidates, categories=candidates.categories[order], origin=candidates.origin[order])


def of_candidates(
    spaces: Spaces, layout: FeatureLayout, right: Array, candidates: Candidates, rng: np.random.Generator
) -> Iterator[EncodedRows]:
    """The candidates, in their order."""
    for i in range(0, len(candidates.origin), TOGETHER):
        some = np.arange(i, min(i + TOGETHER, len(candidates.origin)))
        yield at_roots(spaces, layout, right, candidates, some, np.zeros((len(some), len(candidates.open))), rng)


def from_starts(
    spaces: Spaces,
    layout: FeatureLayout,
    right: Array,
    candidates: Candidates,
    attempts: int,
    rng: np.random.Generator,
) -> Iterator[EncodedRows]:
    """The candidates from random starts, where numbers are open."""
    every, open = np.arange(len(candidates.origin)), len(candidates.open)
    for attempt in range(attempts if open else 0):
        some = np.resize(np.roll(every, -attempt * STARTS), STARTS)
        yield at_roots(spaces, layout, right, candidates, some, rng.standard_t(2, (STARTS, open)), rng)


def at_roots(
    spaces: Spaces,
    layout: FeatureLayout,
    right: Array,
    candidates: Candidates,
    some: NDArray[np.int64],
    shift: Array,
    rng: np.random.Generator,
) -> EncodedRows:
    """The candidates `some` (n,), moved to roots of the second layer's equations from a `shift` (n, f) along what is
    open.
    """
    open = (candidates.open @ right)[:, :-1]
    starts = (candidates.origin[some] @ right)[:, :-1] + shift @ open
    return with_codes(layout, candidates.categories[some], sieved(spaces, starts, open, rng))


def freely(spaces: Spaces, layout: FeatureLayout, rng: np.random.Generator) -> Array:
    """Encoded rows (n, d) that plausible ones lead to, within the first layer's row space."""
    rows, first = plausible_rows(layout, FREE, rng), spaces.layers[0]
    if first not in spaces.sides:
        return sieved(spaces, rows, np.eye(layout.width), rng)
    right = row_basis(first)
    bias = right[:, -1] / np.linalg.norm(right[:, -1])
    inside = with_ones(rows) @ right.T
    inside += np.outer(1 / np.linalg.norm(right[:, -1]) - inside @ bias, bias)
    directions = np.linalg.svd(bias[None], full_matrices=True)[2][1:] @ right
    return sieved(spaces, (inside @ right)[:, :-1], directions[:, :-1], rng)
