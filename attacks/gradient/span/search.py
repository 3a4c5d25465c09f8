"""The search for the rows of a batch: kernels of candidates, each of which narrows what the other rows can be.

Kernels and coordinates are dual: q_i . c_j is 0 unless i = j. So each kernel found rules out false candidates, which
mix several real rows, and settles numeric directions that the categories leave open. The search ends when the kernels
are as many as the rows, or when no candidate left yields another.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from leakledger.attacks.gradient.exact.kernels import Candidates, Kernels, agreeing, guided_kernels, verified_kernels
from leakledger.attacks.gradient.exact.neurons import Neurons
from leakledger.attacks.observed.affine import Array

AGREEMENT = 1.0  # share of neurons; one that does not agree is what tells false kernels apart
# Least singular value of unit kernels. Too small: a kernel that follows from others counts as a new row; too large:
# rows that are nearly dependent are lost.
INDEPENDENT = 1e-4
# How much of a unit open direction kernels must see to settle it. Too small: rounding settles it anywhere; too large:
# it stays open and its rows are never complete.
SETTLED = 1e-3
# q . c relative to |c|. Too small: rounding rules true candidates out; too large: mixtures stay in.
ORTHOGONAL = 1e-3
NOISY = 10.0  # times the precision of the row space: what noise makes of these three, if that is more
CHUNK = 200  # candidates, or cells of them, tried together: time per attempt
PART = 2**14  # candidates whose signs are looked at together: memory
# How far along an open direction rows are looked for, in units of the numeric columns. Too small: outlying rows are not
# reached; too large: cells that hold no row take the time.
FAR = 30.0
FLAT = 1e-9  # a slope, or the width of a cell, below this is rounding: too large, and thin cells are not looked into


def search(neurons: Neurons, candidates: Candidates, attempts: int, seed: int) -> Array:
    """At most r independent unit kernels (k, r); `attempts` bounds the chunks of candidates tried."""
    rank = candidates.origin.shape[1]
    directions, rng = np.zeros((0, rank)), np.random.default_rng(seed)
    trials = tries(neurons, candidates, lambda: None, rng)
    for _ in range(attempts):
        kernels = next(trials, None)
        if kernels is None or len(directions) == rank:
            break
        grown = accept(directions, kernels, beyond_noise(INDEPENDENT, candidates))
        if len(grown) > len(directions):
            directions = grown
            known = partial(settled_rows, neurons, candidates, directions)
            trials = tries(neurons, consistent(candidates, directions), known, rng)
    return directions


def tries(
    neurons: Neurons, candidates: Candidates, known: Callable[[], Array | None], rng: np.random.Generator
) -> Iterator[Kernels]:
    """Kernels of chunks of `candidates`, the most plausible first: first where their numeric columns are smallest.

    One open direction is then swept cell by cell, a cell being where no sign changes; more are sampled for ever.
    Coordinates of rows already `known` help where a row's own inactive neurons do not single it out.
    """
    order = np.argsort(np.linalg.norm(candidates.origin, axis=1), kind="stable")
    chunks = [order[i : i + CHUNK] for i in range(0, len(order), CHUNK)]
    free = len(candidates.open)
    if free == 0:
        for rows in (lambda: None, known):
            coordinates = rows()
            for chunk in chunks:
                yield verified_kernels(neurons, chunk, neurons.signs(candidates.origin[chunk]), coordinates)
        return
    for chunk in chunks:
        yield guided_kernels(neurons, candidates, chunk, np.zeros((len(chunk), free)))
    if free == 1:
        yield from sweep(neurons, candidates)
        return
    while chunks:
        for chunk in chunks:
            chosen = np.resize(chunk, CHUNK)
            yield guided_kernels(neurons, candidates, chosen, rng.standard_t(2, (CHUNK, free)))


def sweep(neurons: Neurons, candidates: Candidates) -> Iterator[Kernels]:
    """The kernels of every cell along the one open direction, from the nearest to the farthest."""
    signs, slopes = candidates.origin @ neurons.planes, candidates.open[0] @ neurons.planes
    slopes = np.where(np.abs(slopes) > FLAT, slopes, FLAT)
    edges = np.sort((-signs / slopes).clip(-FAR, FAR), 1)
    cells = (edges[:, 1:] + edges[:, :-1]) / 2  # (m, H-1)
    wide = np.diff(edges, axis=1) > FLAT
    chosen, shift = np.nonzero(wide)[0], cells[wide]
    order = np.argsort(np.abs(shift), kind="stable")
    for i in range(0, len(order), 2 * CHUNK):
        some = order[i : i + 2 * CHUNK]
        at = candidates.origin[chosen[some]] + shift[some, None] * candidates.open[0]
        yield verified_kernels(neurons, chosen[some], neurons.signs(at))


def accept(directions: Array, kernels: Kernels, independent: float = INDEPENDENT) -> Array:
    """`directions` (k, r) and those of `kernels` that agree with a row and are `independent`, the surest first."""
    accepted = list(directions)
    for i in np.argsort(-kernels.agreement, kind="stable"):
        if kernels.agreement[i] < AGREEMENT or len(accepted) == directions.shape[1]:
            break
        extended = np.array([*accepted, kernels.directions[i]])
        if np.linalg.svd(extended, compute_uv=False)[-1] > independent:
            accepted.append(kernels.directions[i])
    return np.array(accepted).reshape(-1, directions.shape[1])


def consistent(candidates: Candidates, directions: Array) -> Candidates:
    """The candidates at coordinates that all kernels `directions` (k, r) annihilate: what the rows not found can be."""
    origin, open = settled(candidates.origin, candidates.open, directions, beyond_noise(SETTLED, candidates))
    off = np.abs(origin @ directions.T).max(1, initial=0) / np.linalg.norm(origin, axis=1)
    left = np.flatnonzero(off < beyond_noise(ORTHOGONAL, candidates))
    return replace(candidates, categories=candidates.categories[left], origin=origin[left], open=open)


def beyond_noise(threshold: float, candidates: Candidates) -> float:
    """The threshold, or what noise in the row space of the candidates makes of it."""
    return max(threshold, NOISY * candidates.precision)


def settled(origin: Array, open: Array, directions: Array, least: float = SETTLED) -> tuple[Array, Array]:
    """`origin` (m, r) moved along `open` (f, r) to where `directions` (k, r) annihilate it best; what stays open."""
    u, s, vt = np.linalg.svd(open @ directions.T, full_matrices=True)
    seen = s > least
    basis = u.T @ open
    shift = -(origin @ directions.T @ vt[: len(s)].T)[:, seen] / s[seen]
    kept = np.ones(len(open), bool)
    kept[: len(s)] = ~seen
    return origin + shift @ basis[~kept], basis[kept]


def settled_rows(neurons: Neurons, candidates: Candidates, directions: Array) -> Array:
    """The coordinates (<= k, r) of the rows behind the kernels `directions` (k, r) that are settled, at unit length.

    The row of a kernel is a candidate that all other kernels annihilate and whose signs agree with the kernel's zeros;
    it is settled where that leaves no direction open and is true of one candidate only.
    """
    rows, numbers = [], np.arange(len(directions))
    for half in (0, 1):
        pool = consistent(candidates, directions[numbers % 2 != half])  # of few, so that each kernel costs little
        for i in numbers[numbers % 2 == half]:
            left = consistent(pool, np.delete(directions, i, axis=0))
            fits = agreeing_with(neurons, directions[i], left.origin)
            if len(fits) == 1 and not len(left.open):
                rows.append(fits[0] / np.linalg.norm(fits[0]))
    return np.array(rows).reshape(-1, directions.shape[1])


def agreeing_with(neurons: Neurons, kernel: Array, origin: Array) -> Array:
    """Those of the coordinates `origin` (m, r) whose signs agree with the zeros of the kernel (r,)."""
    signal = np.abs(kernel @ neurons.left.T)
    parts = [origin[i : i + PART] for i in range(0, len(origin), PART)]
    return np.concatenate(
        [origin[:0], *(p[agreeing(signal, neurons.signs(p), neurons.noise) >= AGREEMENT] for p in parts)]
    )


def settled_coordinates(neurons: Neurons, candidates: Candidates, directions: Array) -> Array:
    """The coordinates (n, r), up to scale, of the rows that `directions` (k, r) settles: of all r rows where k is r.

    Rows settled without a kernel of their own help each other to one, and so to rows whose numbers only a full set of
    kernels settles.
    """
    rank = candidates.origin.shape[1]
    while 0 < len(directions) < rank:
        rows, others = settled_rows(neurons, candidates, directions), left_over(candidates, directions)
        grown = with_kernels_of(neurons, candidates, directions, rows, others)
        if len(grown) == len(directions):
            return np.concatenate([rows, others])
        directions = grown
    return np.asarray(np.linalg.inv(directions.T)) if len(directions) else directions


def left_over(candidates: Candidates, directions: Array) -> Array:
    """The coordinates (n, r), at unit length, of rows that have none of the kernels `directions` (k, r).

    A single one is what all kernels annihilate; several are the candidates left, where these are settled and as many.
    """
    missing = candidates.origin.shape[1] - len(directions)
    if missing == 1:
        line = np.linalg.svd(directions)[2][-1:]
        ones = np.linalg.lstsq(candidates.origin, np.ones(len(candidates.origin)), rcond=None)[0]
        return np.asarray(line * np.sign(line @ ones))  # the bias of every row is 1
    left = consistent(candidates, directions)
    certain = not len(left.open) and len(left.origin) == missing
    return unit(left.origin) if certain else left.origin[:0]


def with_kernels_of(neurons: Neurons, candidates: Candidates, directions: Array, rows: Array, others: Array) -> Array:
    """`directions` (k, r) with kernels of the `others` (n, r), which all other settled rows help to single out."""
    for i in range(len(others)):
        known = np.concatenate([rows, np.delete(others, i, axis=0)])
        kernels = verified_kernels(neurons, np.zeros(1, np.int64), neurons.signs(others[[i]]), known)
        directions = accept(directions, kernels, beyond_noise(INDEPENDENT, candidates))
    return directions


def unit(coordinates: Array) -> Array:
    return np.asarray(coordinates / np.linalg.norm(coordinates, axis=1, keepdims=True))
