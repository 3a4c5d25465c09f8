"""Features with columns of their own and a known codebook: fewer columns, and one candidate per code.

A row's part in such columns is one of k codes, so it lies in their span. In an orthonormal basis of that span the first
layer reads fewer inputs and is the same network: with x = a @ basis^T, weights W @ basis read a, and the gradient with
respect to them is that of W times the basis. 300 columns of a vector become at most k. What the gradient has outside
of the span shows a value that is no candidate.

Where codes are linearly independent, the gradient tells which of them occur in the batch at all: in the coordinates of
the codes, the column of one that does not is zero.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.candidates.codes import Array, Codes
from leakledger.attacks.candidates.meaning import UNKNOWN

# Singular values below this share of the largest do not span the codes. Too small: rounding in codes makes columns of
# noise; too large: codes that differ little fall together.
RANK = 1e-9
# The share of the gradient that may lie outside the span of the codes. Too small: rounding looks like a value that is
# no candidate; too large: such a value goes unnoticed and its rows are read as others.
OUTSIDE = 1e-3
# Of float32 sums, relative: codes this close are one to the model. Too small: the search has twins that nothing tells
# apart; too large: values with codes of their own are merged.
ROUNDING = 1e-6
# Codes this close may both be behind a recovered one. Too small: a code is read as one value though it may be
# another's; too large: cells stay open that are certain.
RESOLVED = 1e-4
# The column of a code that occurs is above this share of the largest. Too small: rounding keeps codes that no row has;
# too large: a faint row loses its code, and with it its place in the claim.
ABSENT = 1e-3


@dataclass(frozen=True, eq=False)
class Reduced:
    """`basis` (w, n), and in it the distinct `codes` (c, n) that may occur.

    `members`: numbers of the values that each of them may stand for, `own`: of those that have exactly this code.
    """

    basis: Array
    codes: Array
    members: tuple[tuple[int, ...], ...]
    own: tuple[tuple[int, ...], ...]


def distinct_codes(codes: Array) -> NDArray[np.int64]:
    """(k,) the group of each code: codes that no float32 arithmetic tells apart are in one."""
    group = np.full(len(codes), -1, np.int64)
    for i in range(len(codes)):
        if group[i] < 0:
            group[near(codes, codes[i], ROUNDING) & (group < 0)] = i
    return np.asarray(np.unique(group, return_inverse=True)[1].reshape(-1), np.int64)


def near(codes: Array, code: Array, tolerance: float) -> NDArray[np.bool_]:
    """(k,) which codes are as `code` (w,), relative to it where it is large."""
    return np.asarray(np.abs(codes - code).max(1) <= tolerance * max(float(np.abs(code).max()), 1.0))


def reduced(known: Codes, gradient: Array) -> Reduced | None:
    """The codes in few columns, given the `gradient` (H, w) in theirs; None where that shows more than the codes."""
    group = distinct_codes(known.codes)
    own = [np.flatnonzero(group == g) for g in range(group.max() + 1)]
    codes = known.codes[[m[0] for m in own]]
    kept = occurring(codes, gradient)
    codes, own = codes[kept], [own[i] for i in kept]
    basis = span(codes)
    outside = gradient - gradient @ basis @ basis.T
    if np.linalg.norm(outside) > OUTSIDE * np.linalg.norm(gradient):
        return None
    members = [np.flatnonzero(near(known.codes, c, RESOLVED)) for c in codes]
    return Reduced(basis, codes @ basis, _plain(members), _plain(own))


def values_near(known: Codes, code: Array) -> tuple[int, ...]:
    """The numbers of the values that a recovered `code` (w,) may stand for; `UNKNOWN` where it is none of theirs."""
    alike = np.flatnonzero(near(known.codes, code, RESOLVED))
    return tuple(alike.tolist()) or (UNKNOWN,)


def _plain(groups: list[NDArray[np.int64]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(g.tolist()) for g in groups)


def span(codes: Array) -> Array:
    """(w, n) an orthonormal basis of the codes; the columns themselves where there are no fewer."""
    _, values, right = np.linalg.svd(codes, full_matrices=False)
    kept = values > RANK * values.max(initial=0.0)
    return np.eye(codes.shape[1]) if kept.sum() == codes.shape[1] else np.asarray(right[kept].T)


def occurring(codes: Array, gradient: Array) -> NDArray[np.int64]:
    """The codes (n,) that a row of the batch may have."""
    everything = np.arange(len(codes))
    values = np.linalg.svd(codes, compute_uv=False)
    independent = len(codes) <= codes.shape[1] and values[-1] > 0
    if not independent or values[0] / values[-1] * ROUNDING > ABSENT:
        return everything
    inverse = np.linalg.pinv(codes)
    inside = gradient @ inverse @ codes
    size = np.linalg.norm(gradient @ inverse, axis=0)
    if np.linalg.norm(gradient - inside) > OUTSIDE * np.linalg.norm(gradient) or not size.any():
        return everything
    return np.flatnonzero(size > ABSENT * size.max())
