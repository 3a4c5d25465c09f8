"""Guided kernels: for a row of known categories, the direction in which the gradient's left factor shows it alone.

There is an invertible Q with D^T = left @ Q and [X | 1] = Q^-1 @ right. ReLU makes column i of D^T zero wherever row i
is inactive: left[A] @ q_i = 0 (Dimitrov et al., SPEAR, NeurIPS 2024). SPEAR draws sets A at random, about 2^(B-1)/B
draws per hit; here a candidate's own pre-activations say where it is inactive, and one draw or a few are enough. A
kernel belongs to a real row where its zeros agree with the signs of the candidate's pre-activations on all neurons, but
for those on which the signs are not sure (`neurons`) or noise covers a faint signal.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.span.candidates import Candidates
from attacks.span.neurons import Mask, Neurons, Signs
from attacks.span.row_space import Array

ROUGH, FINE = 2e-3, 2e-5  # what counts as zero in left @ q, with unit rows: in a first guess, at most in the end
UNIQUE = 1e-4  # the least singular value of unit rows that counts as not zero
MARGINS = (2, 6, 12, 20)  # neurons drawn beyond those that make a kernel
SPARE = 2  # neurons that a kernel must annihilate beyond those that any kernel does
STEPS = 30  # of Gauss-Newton
HEARD = 10  # standard deviations of the noise above which a signal is one
QUIET = 6  # and below which it may be none
COVERED = 0.03  # the share of neurons on which noise may cover the signal of a row


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
    start = candidates.origin[chosen] + shift @ candidates.open
    signs = start @ neurons.planes
    slopes = candidates.open @ neurons.planes
    ranks = np.argsort(np.argsort(signs, 1), 1)
    needed = neurons.left.shape[1] - 1
    drawn = np.concatenate([ranks < needed + margin for margin in MARGINS])
    origin = np.tile(np.arange(len(chosen)), len(MARGINS))
    q = kernel_guess(neurons.left, drawn)
    for share in (1e-2, 1e-3, 1e-4):
        zero = silent(np.abs(q @ neurons.left.T), share, neurons.noise)
        sparse = zero.sum(1) >= needed + SPARE  # a kernel of fewer neurons than that is one by construction
        origin, zero = origin[sparse], zero[sparse]
        q = kernel(neurons.left, zero)[0]
    active = ~silent(np.abs(q @ neurons.left.T), 1e-4, neurons.noise)
    end = start[origin] + fitted_shift(active, signs[origin], slopes) @ candidates.open
    return verified_kernels(neurons, chosen[origin], neurons.signs(end))


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
    active = signal > np.minimum((10 * rounding).clip(FINE / 100), np.maximum(FINE, HEARD * noise))
    sure = np.abs(signs.values) >= signs.doubt
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
    inverse = np.linalg.inv(grams(left, drawn) + 1e-13 * np.eye(rank))
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
    margin = 1e-3 * np.abs(signs).mean() if signs.size else 0.0
    for _ in range(STEPS):
        short = np.maximum(0, margin - want * (signs + shift @ slopes))
        gram = ((short > 0) @ squares).reshape(-1, len(slopes), len(slopes)) + 1e-9 * np.eye(len(slopes))
        shift = shift + np.linalg.solve(gram, ((want * short) @ slopes.T)[..., None])[..., 0]
    return shift
