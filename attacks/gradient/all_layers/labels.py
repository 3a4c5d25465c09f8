"""Which labels a row occurs with: its output errors decide between few possible ones.

In a mean over B rows, a row with probabilities p that occurs c_y times with label y has the output errors
(sum(c) p - c) / B. A coefficient that is none of these is of no row: false mixtures have 0.
"""

from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.exact.rows import Mask
from leakledger.attacks.observed.affine import Array

Counts = NDArray[np.int64]
# How far output errors may be from possible ones, relative to them. Too small: rounding hides labels; too large: two
# rows that the network sees alike pass for one. Those of true rows were off by at most 2e-5.
LABEL = 1e-4
ROUGH = 1e-3  # and while rows are looked for, in what others left of their rounding
# Times farther the next possible errors must be. Fewer leave chance a say; more leave faint rows undecided.
CLEAR = 10.0
MOST = 6  # times that a row is looked for: more cost time, fewer lose rows that many others are nearly like
CHOICES = 2_000  # ways to have labels that are looked at: of many classes, fewer times


def possible_counts(classes: int, rows: int) -> Counts:
    """(m, C): how often each label may occur with one row of a batch of `rows`."""
    counts = np.eye(classes, dtype=np.int64)
    for times in range(2, min(MOST, rows) + 1):
        more = [np.bincount(c, minlength=classes) for c in combinations_with_replacement(range(classes), times)]
        if len(counts) + len(more) > CHOICES:
            break
        counts = np.concatenate([counts, np.array(more)])
    return counts


def errors_of(probabilities: Array, counts: Counts, rows: int) -> Array:
    """The output errors (..., C) of rows with `probabilities` (..., C) and label `counts` (..., C)."""
    return np.asarray((counts.sum(-1, keepdims=True) * probabilities - counts) / rows)


def decided(
    probabilities: Array, error: Array, off: Array, rows: int, roundoff: float = 0.0, label: float = LABEL
) -> tuple[Counts, Mask]:
    """The fewest occurrences (n, C) whose output errors are `error` (n, C), known up to `off` (n,) relative to them,
    up to the `roundoff` of probabilities and up to `label` of them in any case; whether there are any, and only one way
    to have as few.

    Where p is near 1/2 a row shows no difference to one that occurs twice more, with both labels.
    """
    possible = possible_counts(probabilities.shape[1], rows)
    wanted = errors_of(probabilities[:, None], possible[None], rows)  # (n, m, C)
    distance = np.linalg.norm(wanted - error[:, None], axis=2)
    size = np.linalg.norm(wanted, axis=2).clip(max=np.linalg.norm(error, axis=1)[:, None])
    granted = np.maximum(label, CLEAR * off)[:, None] * size + CLEAR * roundoff / rows
    counts, clear = np.zeros((len(error), probabilities.shape[1]), np.int64), np.zeros(len(error), bool)
    for times in range(MOST, 0, -1):
        of = np.flatnonzero(possible.sum(1) == times)
        if not len(of):
            continue
        fits = distance[:, of] <= granted[:, of]
        apart = (distance[:, of] > CLEAR * granted[:, of]).sum(1) == len(of) - 1
        some = fits.any(1)
        counts[some], clear[some] = possible[of[distance[:, of].argmin(1)]][some], apart[some]
    return counts, clear
