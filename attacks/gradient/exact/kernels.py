"""Guided kernels: for a row of known categories, the direction in which the gradient's left factor shows it alone.

There is an invertible Q with D^T = left @ Q and [X | 1] = Q^-1 @ right. ReLU makes column i of D^T zero wherever row i
is inactive: left[A] @ q_i = 0 (Dimitrov et al., SPEAR, NeurIPS 2024). SPEAR draws sets A at random, about 2^(B-1)/B
draws per hit; here a candidate's own pre-activations say where it is inactive, and one draw or a few are enough. A
kernel belongs to a real row where its zeros agree with the signs of the candidate's pre-activations on all neurons, but
for those on which the signs are not sure (`neurons`) or noise covers a faint signal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.gradient.exact.choices import Choices
from leakledger.attacks.gradient.exact.neurons import Mask, Neurons, Signs
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.row_space import PRECISION

# What counts as zero in left @ q, with unit rows: in a first guess, at most in the end. Too small: a kernel that is
# slightly off, or of a faint row, loses its zeros; too large: signals count as zeros, and mixtures look like rows.
ROUGH, FINE = 2e-3, 2e-5
FAINTEST = FINE / 100  # and at least, however exactly a kernel annihilates its neurons: below is rounding
LOUDER = 10  # times what a kernel leaves of the neurons that it must annihilate: a signal above that is one
# Zero beside a kernel's own largest signal, guess after guess. Larger at the end: false zeros; smaller at the
# beginning: a rough guess has no zeros to go on from. So rows with faint errors are seen too, which an absolute zero
# lost.
GUESSES = (1e-2, 1e-3, 1e-4)
# The least singular value of unit rows that counts as not zero. Too small: a kernel of several rows passes for one; too
# large: rows that are nearly dependent are lost.
UNIQUE = 1e-4
MARGINS = (
    2,
    6,
    12,
    20,
)  # neurons drawn beyond those that make a kernel: few may miss it, many may include a false zero
SPARE = (
    2  # neurons that a kernel must annihilate beyond those that any kernel does: fewer prove nothing, more cost rows
)
STEPS = 30  # of Gauss-Newton: fewer stop before the signs agree, more cost time
MARGIN = 1e-3  # of the mean pre-activation, by which signs shall agree: smaller ends on the edge, larger overshoots
RIDGE = 1e-13  # of unit size, so that singular equations can be solved: smaller fails, larger turns the solution
SHIFT_RIDGE = 1e-9  # the same for shifts, whose equations are few and often singular
HEARD = 10  # standard deviations of the noise above which a signal is one: fewer refute true rows, more pass false ones
QUIET = 6  # and below which it may be none, in a guess
# The share of neurons on which noise may cover the signal of a row. Too small: faint rows are lost; too large: a
# mixture that misses some signals passes.
COVERED = 0.03


@dataclass(frozen=True, eq=False)
class Candidates:
    """`categories` (m, K) that lie in the row space, at coordinates `origin` (m, r) + t @ `open` (f, r), any t (f,).

    `open` are the directions of the row space that no categorical column sees: differences of rows that agree in every
    category, for one. They are scaled to move the numeric columns by a distance of 1. Of `choices` with equal codes
    only the first are among the categories. `precision` is that of the row space.
    """

    categories: NDArray[np.int64]
    origin: Array
    open: Array
    choices: Sequence[Choices] = ()
    precision: float = PRECISION


@dataclass(frozen=True, eq=False)
class Kernels:
    """Unit `directions` (m, r), the number of the candidate behind each, and the share of neurons that agree."""

    directions: Array
    candidates: NDArray[np.int64]
    agreement: Array


def guided_kernels(neurons: Neurons, candidates: Candidates, chosen: NDArray[np.int64], shift: Array) -> Kernels:
    """The kernels of the candidates `chosen` (n,), guided by their rows at origin + shift (n, f) @ open.

    The neurons that these rows make most negative give a first kernel; its zeros correct the shift, that the kernel.
    """
    guessed = candidates.origin[chosen] + shift @ candidates.open
    signs = guessed @ neurons.planes
    slopes = candidates.open @ neurons.planes
    ranks = np.argsort(np.argsort(signs, 1), 1)
    needed = neurons.left.shape[1] - 1
    drawn = np.concatenate([ranks < needed + margin for margin in MARGINS])
    origin = np.tile(np.arange(len(chosen)), len(MARGINS))
    q = kernel_guess(neurons.left, drawn)
    for share in GUESSES:
        zero = silent(np.abs(q @ neurons.left.T), share, neurons.noise)
        sparse = zero.sum(1) >= needed + SPARE  # a kernel of fewer neurons than that is one by construction
        origin, zero = origin[sparse], zero[sparse]
        q = kernel(neurons.left, zero)[0]
    active = ~silent(np.abs(q @ neurons.left.T), GUESSES[-1], neurons.noise)
    corrected = guessed[origin] + fitted_shift(active, signs[origin], slopes) @ candidates.open
    return verified_kernels(neurons, chosen[origin], neurons.signs(corrected))


def verified_kernels(neurons: Neurons, chosen: NDArray[np.int64], signs: Signs, known: Array | None = None) -> Kernels:
    """The kernels of all neurons that `signs` of n rows make inactive, and how well their zeros agree with `signs`.

    Kernels annihilate the coordinates `known` (k, r) of other rows too. The agreement is 0 where there is not just one.
    """
    inactive = signs.inactive
    q, second = kernel(neurons.left, inactive, known)
    agreement = agreeing(np.abs(q @ neurons.left.T), signs, neurons.noise)
    rank = neurons.left.shape[1]
    annihilated = inactive.sum(1) + (0 if known is None else len(known))
    unsure = HEARD * np.sqrt(inactive @ neurons.noise**2)
    evidence = (second > np.maximum(UNIQUE, unsure)) & (annihilated >= rank + SPARE)
    return Kernels(q, chosen, np.where(evidence | (rank == 1), agreement, 0.0))  # one row alone needs no kernel


def agreeing(signal: Array, signs: Signs, noise: Array) -> Array:
    """(n,) the share of neurons on which a kernel's `signal` (n, H), or (H,), is zero just where `signs` say.

    Neurons that should give a signal and give none above `noise` (H,) count as agreeing, up to a share of `COVERED`.
    """
    rounding = (signal * signs.inactive).max(1, keepdims=True, initial=0)
    active = signal > np.minimum((LOUDER * rounding).clip(FAINTEST), np.maximum(FINE, HEARD * noise))
    sure = np.abs(signs.values) >= signs.uncertainty
    heard, missed = sure & active & (signs.values <= 0), sure & ~active & (signs.values > 0)
    covered = noise.any() & (missed.mean(1) <= COVERED)
    return np.asarray(1.0 - heard.mean(1) - np.where(covered, 0.0, missed.mean(1)))


def silent(signal: Array, share: float, noise: Array) -> Mask:
    """Which entries of signals (n, H) are zero beside the largest of their row, or the `noise` (H,); rows of faint
    signals are rows too.
    """
    zero = np.minimum(ROUGH, share * signal.max(1, keepdims=True, initial=0))
    return np.asarray(signal < np.maximum(zero, QUIET * noise))


def kernel(left: Array, drawn: Mask, known: Array | None = None) -> tuple[Array, Array]:
    """The unit vectors (n, r) that come closest to annihilating the rows of `left` drawn (n, H), and all of `known`.

    With the length (n,) of what they leave of the next best vector: zero where the kernel is not a line.
    """
    rank, gram = left.shape[1], grams(left, drawn)
    if known is not None:
        gram += known.T @ known
    values, vectors = np.linalg.eigh(gram)
    return vectors[:, :, 0], np.sqrt(values[:, min(1, rank - 1)].clip(0))


def kernel_guess(left: Array, drawn: Mask) -> Array:
    """As `kernel`, by inverse iteration: several times faster, and as good where the kernel is a line."""
    rank = left.shape[1]
    inverse = np.linalg.inv(grams(left, drawn) + RIDGE * np.eye(rank))
    q = inverse @ np.ones((rank, 1))
    for _ in range(2):
        q = inverse @ (q / np.linalg.norm(q, axis=1, keepdims=True))
    return np.asarray((q / np.linalg.norm(q, axis=1, keepdims=True))[..., 0])


def grams(left: Array, drawn: Mask) -> Array:
    """(n, r, r): the Gram matrix of the rows of `left` drawn (n, H)."""
    rank = left.shape[1]
    squares = (left[:, :, None] * left[:, None, :]).reshape(len(left), -1)
    return (drawn.astype(np.float64) @ squares).reshape(-1, rank, rank)


def fitted_shift(active: Mask, signs: Array, slopes: Array) -> Array:
    """The shifts t (n, f) for which the signs of signs (n, H) + t @ slopes (f, H) come closest to `active`."""
    want = np.where(active, 1.0, -1.0)
    shift = np.zeros((len(signs), len(slopes)))
    squares = (slopes.T[:, :, None] * slopes.T[:, None, :]).reshape(slopes.shape[1], -1)
    margin = MARGIN * np.abs(signs).mean() if signs.size else 0.0
    for _ in range(STEPS):
        short = np.maximum(0, margin - want * (signs + shift @ slopes))
        gram = ((short > 0) @ squares).reshape(-1, len(slopes), len(slopes)) + SHIFT_RIDGE * np.eye(len(slopes))
        shift = shift + np.linalg.solve(gram, ((want * short) @ slopes.T)[..., None])[..., 0]
    return shift
