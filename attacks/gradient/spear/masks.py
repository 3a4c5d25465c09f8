"""Blind search for the activation masks of a layer whose back-propagated direction is known, by draws of equalities.

Let column i of D^T be c_i w * m_i, with w known and m_i (out,) of zeros and ones: any layer under a single error
direction, as the last hidden one of a network with two classes. Divided by w, the left factor U (out, r) of the
gradient has a q_i with U q_i = m_i. SPEAR (Dimitrov et al., NeurIPS 2024) draws r - 1 neurons and hopes that row i is
inactive on all of them, which is rare: about 2^-r. Here a draw takes r - 1 *pairs* of neurons and hopes that row i does
not tell the two apart. Neurons whose gradients are close differ in few rows, h say, and a draw of close pairs succeeds
with about exp(-h). A kernel counts where it takes two values only, on all neurons.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.gradient.exact.rows import Mask
from leakledger.attacks.observed.affine import Array

NEAR = 12  # neurons that a neuron may be paired with: fewer repeat draws, more draw pairs that differ in many rows
# How far from 0 or 1 a kernel may be on any neuron. Too small: rounding loses kernels; too large: mixtures pass.
TWO_VALUED = 0.02
# Gradients nearer than this share of the largest are those of neurons active on the same rows. Too small: twins use up
# the pairs of a draw; too large: neurons that differ in a faint row are one.
SAME = 1e-4
CHUNK = 2048  # draws solved together: memory, and how often what is found helps the next draws
NEAREST = 1e-300  # a distance of zero between neurons: keeps its logarithm finite
SPREAD = (
    0.5  # of the logarithm of the distances, at random in each draw: less repeats draws, more forgets which are near
)


@dataclass(frozen=True, eq=False)
class DividedNeurons:
    """Neurons of one layer: `left` (n, r), where left @ q_i = m_i, and their gradients `seen` (n, k).

    Both are divided by `weight` (n,), the known direction w.
    """

    left: Array = field(repr=False)
    seen: Array = field(repr=False)
    weight: Array = field(repr=False)


def draw_masks(
    neurons: DividedNeurons, draws: int, rng: np.random.Generator, device: str
) -> Iterator[tuple[Mask, int]]:
    """After each chunk of draws: the distinct masks (m, n) found so far, and the draws spent.

    Ends when there are r or `draws` are spent. What known masks explain does not count in the distance of two neurons.
    """
    rank = neurons.left.shape[1]
    some = distinct(neurons.seen)
    masks_seen: dict[bytes, Mask] = {}
    left = torch.tensor(neurons.left, device=device)
    nodes = torch.tensor(np.concatenate([neurons.left[some], np.zeros((1, rank))]), device=device)
    for start in range(0, draws if len(some) >= rank else 0, CHUNK):
        masks = np.array(list(masks_seen.values()), bool).reshape(-1, len(neurons.left))
        near, length = neighbours(unexplained(neurons.seen, masks)[some])
        generator = torch.Generator(device=device).manual_seed(int(rng.integers(2**62)))
        pairs = torch.tensor(near, device=device), torch.tensor(length, device=device)
        for mask in two_valued(nodes, *pairs, left, min(CHUNK, draws - start), generator):
            masks_seen.setdefault(mask.tobytes(), mask)
        yield np.array(list(masks_seen.values()), bool).reshape(-1, len(neurons.left)), min(CHUNK, draws - start)


def unexplained(seen: Array, masks: Mask) -> Array:
    """What is left of `seen` (n, k) after a fit by the known `masks` (m, n)."""
    known = masks.T.astype(np.float64)
    return seen - known @ np.linalg.lstsq(known, seen, rcond=None)[0] if len(masks) else seen


def distinct(seen: Array) -> NDArray[np.int64]:
    """The first neuron of each gradient that is not zero."""
    size = np.linalg.norm(seen, axis=1)
    apart = np.linalg.norm(seen[:, None] - seen[None], axis=2) > SAME * size.max(initial=0)
    live = np.flatnonzero(size > SAME * size.max(initial=0))
    return np.array([j for j in live if apart[j, live[live < j]].all()], np.int64)


def neighbours(seen: Array) -> tuple[NDArray[np.int64], Array]:
    """For each neuron (n, NEAR) the nearest others and the logarithm of their distance; number n is a dead neuron."""
    neurons = len(seen)
    nodes = np.concatenate([seen, np.zeros((1, seen.shape[1]))])
    distance = np.linalg.norm(seen[:, None] - nodes[None], axis=2)
    distance[np.arange(neurons), np.arange(neurons)] = np.inf
    near = np.argsort(distance, 1, kind="stable")[:, : min(NEAR, neurons)]
    near[:, -1] = neurons
    return near, np.log(np.take_along_axis(distance, near, 1).clip(NEAREST))


def two_valued(
    nodes: Tensor, near: Tensor, length: Tensor, left: Tensor, count: int, generator: torch.Generator
) -> Mask:
    """The masks (m, out) of `left` that are kernels of `count` draws of pairs of `nodes` (n + 1, r).

    Each neuron is paired with a near one that comes before it in a random order. Pairs of that kind form a forest, so
    none follows from the others; the closest r - 1 are drawn.
    """
    neurons, rank = near.shape[0], nodes.shape[1]
    place = torch.rand((count, neurons + 1), generator=generator, device=nodes.device)
    place[:, -1] = -1.0
    jitter = SPREAD * torch.randn((count, *near.shape), generator=generator, device=nodes.device)
    allowed = place[:, near] < place[:, :-1, None]  # (count, n, NEAR)
    shortest, which = (length + jitter).masked_fill(~allowed, math.inf).min(2)
    child = shortest.topk(rank - 1, dim=1, largest=False).indices  # (count, r - 1)
    parent = near[child, which.gather(1, child)]
    system = torch.empty((count, rank, rank), dtype=nodes.dtype, device=nodes.device)
    system[:, :-1] = nodes[child] - nodes[parent]
    system[:, -1].normal_(generator=generator)
    goal = torch.zeros((count, rank, 1), dtype=nodes.dtype, device=nodes.device)
    goal[:, -1] = 1
    value = torch.linalg.solve_ex(system, goal)[0][..., 0] @ left.T
    value = value / value.gather(1, value.abs().argmax(1, keepdim=True))
    off = torch.minimum(value.abs(), (value - 1).abs()).amax(1)
    return np.asarray((value[off < TWO_VALUED] > 0.5).cpu().numpy())
