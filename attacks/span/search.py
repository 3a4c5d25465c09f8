"""The search for the rows of a batch: kernels of candidates, each of which narrows what the other rows can be.

Kernels and coordinates are dual: q_i . c_j is 0 unless i = j. So each kernel found rules out false candidates, which
mix several real rows, and settles numeric directions that the categories leave open. The search ends when the kernels
are as many as the rows, or when no candidate left yields another.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.span.candidates import Candidates
from attacks.span.kernels import Kernels, Neurons, guided_kernels, verified_kernels
from attacks.span.row_space import Array

AGREEMENT = 1.0  # share of neurons; one that does not agree is what tells false kernels apart
INDEPENDENT = 1e-4  # least singular value of unit kernels
SETTLED = 1e-3  # how much of a unit open direction kernels must see to settle it
ORTHOGONAL = 1e-3  # q . c relative to |c|
CHUNK = 200  # candidates, or cells of them, tried together
FAR = 30.0  # how far along an open direction rows are looked for, in units of the numeric columns


@dataclass(frozen=True, eq=False)
class Found:
    """Unit kernels `directions` (k, r), and the number of the candidate that each came from."""

    directions: Array
    candidates: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.directions)


def search(neurons: Neurons, candidates: Candidates, attempts: int, seed: int) -> Found:
    """At most r independent kernels; `attempts` bounds the chunks of candidates tried."""
    rank = candidates.origin.shape[1]
    found = Found(np.zeros((0, rank)), np.zeros(0, np.int64))
    numbers, left = np.arange(len(candidates.origin)), candidates
    coins = np.random.default_rng(seed)
    trials = tries(neurons, left, None, coins)
    for _ in range(attempts):
        kernels = next(trials, None)
        if kernels is None or len(found) == rank:
            break
        grown = accept(found, kernels, numbers)
        if len(grown) > len(found):
            found = grown
            left, numbers = consistent(candidates, found)
            known = None if len(left.open) else settled_rows(candidates, found)
            trials = tries(neurons, left, known, coins)
    return found


def tries(
    neurons: Neurons, candidates: Candidates, known: Array | None, coins: np.random.Generator
) -> Iterator[Kernels]:
    """Kernels of chunks of `candidates`, the most plausible first: first where their numeric columns are smallest.

    One open direction is then swept cell by cell, a cell being where no sign changes; more are sampled for ever.
    Coordinates of rows already `known` help where a row's own inactive neurons do not single it out.
    """
    order = np.argsort(np.linalg.norm(candidates.origin, axis=1), kind="stable")
    chunks = [order[i : i + CHUNK] for i in range(0, len(order), CHUNK)]
    free = len(candidates.open)
    if free == 0:
        for rows in (None, known):
            for chunk in chunks:
                yield verified_kernels(neurons, chunk, candidates.origin[chunk] @ neurons.planes, rows)
        return
    for chunk in chunks:
        yield guided_kernels(neurons, candidates, chunk, np.zeros((len(chunk), free)))
    if free == 1:
        yield from sweep(neurons, candidates)
        return
    while chunks:
        for chunk in chunks:
            chosen = np.resize(chunk, CHUNK)
            yield guided_kernels(neurons, candidates, chosen, coins.standard_t(2, (CHUNK, free)))


def sweep(neurons: Neurons, candidates: Candidates) -> Iterator[Kernels]:
    """The kernels of every cell along the one open direction, from the nearest to the farthest."""
    signs, slopes = candidates.origin @ neurons.planes, candidates.open[0] @ neurons.planes
    slopes = np.where(np.abs(slopes) > 1e-9, slopes, 1e-9)
    edges = np.sort((-signs / slopes).clip(-FAR, FAR), 1)
    cells = (edges[:, 1:] + edges[:, :-1]) / 2  # (m, H-1)
    wide = np.diff(edges, axis=1) > 1e-9
    chosen, shift = np.nonzero(wide)[0], cells[wide]
    order = np.argsort(np.abs(shift), kind="stable")
    for i in range(0, len(order), 2 * CHUNK):
        some = order[i : i + 2 * CHUNK]
        at = signs[chosen[some]] + shift[some, None] * slopes
        yield verified_kernels(neurons, chosen[some], at)


def accept(found: Found, kernels: Kernels, numbers: NDArray[np.int64]) -> Found:
    """`found` and those of `kernels` that agree with a row and are independent of it, the surest first."""
    directions, candidates = list(found.directions), list(found.candidates)
    for i in np.argsort(-kernels.agreement, kind="stable"):
        if kernels.agreement[i] < AGREEMENT or len(directions) == kernels.directions.shape[1]:
            break
        extended = np.array([*directions, kernels.directions[i]])
        if np.linalg.svd(extended, compute_uv=False)[-1] > INDEPENDENT:
            directions.append(kernels.directions[i])
            candidates.append(numbers[kernels.candidates[i]])
    return Found(np.array(directions).reshape(-1, kernels.directions.shape[1]), np.array(candidates, np.int64))


def consistent(candidates: Candidates, found: Found) -> tuple[Candidates, NDArray[np.int64]]:
    """The candidates for the rows not found yet, at coordinates that every kernel found annihilates; their numbers."""
    origin, open = settled(candidates.origin, candidates.open, found.directions)
    off = np.abs(origin @ found.directions.T).max(1) / np.linalg.norm(origin, axis=1)
    left = np.flatnonzero(off < ORTHOGONAL)
    return Candidates(candidates.categories[left], origin[left], open), left


def settled(origin: Array, open: Array, directions: Array) -> tuple[Array, Array]:
    """`origin` (m, r) moved along `open` (f, r) to where `directions` (k, r) annihilate it best; what stays open."""
    u, s, vt = np.linalg.svd(open @ directions.T, full_matrices=True)
    seen = s > SETTLED
    basis = u.T @ open
    shift = -(origin @ directions.T @ vt[: len(s)].T)[:, seen] / s[seen]
    kept = np.ones(len(open), bool)
    kept[: len(s)] = ~seen
    return origin + shift @ basis[~kept], basis[kept]


def settled_rows(candidates: Candidates, found: Found) -> Array:
    """The coordinates (<= k, r) of the rows found, those that the other kernels settle, at unit length."""
    rows = []
    for i, number in enumerate(found.candidates):
        others = np.delete(found.directions, i, axis=0)
        row, open = settled(candidates.origin[[number]], candidates.open, others)
        if not len(open):
            rows.append(row[0] / np.linalg.norm(row))
    return np.array(rows).reshape(-1, candidates.origin.shape[1])


def settled_coordinates(candidates: Candidates, found: Found) -> Array:
    """The coordinates (n, r), up to scale, of the rows that `found` settles: of all r rows where it holds r kernels.

    Candidates left over are rows too where they are settled and as many as the kernels that are missing.
    """
    rank = candidates.origin.shape[1]
    if len(found) in (0, rank):
        return np.asarray(np.linalg.inv(found.directions.T)) if len(found) else found.directions
    rows = settled_rows(candidates, found)
    left, _ = consistent(candidates, found)
    certain = not len(left.open) and len(left.origin) == rank - len(found)
    return np.concatenate([rows, left.origin]) if certain else rows
