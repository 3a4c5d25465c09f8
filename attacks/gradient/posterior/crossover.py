"""Crossover: two chains exchange rows, so that what one has found and what the other has found come together.

Chains that are caught have wrong cells in different rows, and rows that one has wrong make up for each other: to put
one of them right alone makes its fit worse. So two chains a and b, under noises s_a and s_b, exchange any of k rows at
once. With d_i = g(b_i) - g(a_i) for the rows in place i, an exchange in the places S changes their joint log
probability by

    <R_a, d_S> / s_a² - <R_b, d_S> / s_b² - |d_S|² (1 / s_a² + 1 / s_b²) / 2,        d_S the sum of d_i over S,

R being their residuals; the prior has all rows alike. All 2^k follow from k inner products with each residual and k²
with each other, and one is drawn. That leaves the joint distribution of the chains as it is, since every exchange of
these places has the same 2^k outcomes. (Evolutionary Monte Carlo, Liang and Wong 2000, with a draw in place of their
acceptance.) Rows of a batch have no order; `aligned` brings those of all chains into that of the best, like beside
like.
"""

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from leakledger.attacks.gradient.posterior.chains import Chains, Noise

PLACES = 8  # that an exchange looks at: 256 outcomes; each more doubles them
LABEL = 1e6  # a distance that keeps rows among those of their label


def crossed(state: Chains, noise: Noise, times: int = 1) -> None:
    """Lets chains exchange rows so many times, paired at random, in places at random, where that is known how to."""
    for _ in range(times if exchangeable(state) else 0):
        _cross(state, noise)


def exchangeable(state: Chains) -> bool:
    """Whether there are two chains, and none of what the formula leaves out: entries known by intervals, whose
    likelihood is no square, or a number of rows that is not known.
    """
    return state.chains > 1 and state.evidence.intervals is None and state.evidence.choices is None


def aligned(state: Chains) -> None:
    """Brings the rows of each chain into the order of those of the chain that explains the update best, where chains
    may exchange rows.
    """
    if not exchangeable(state):
        return
    best = int((state.energy() - state.log_prior()).argmin())
    cost = torch.cdist(state.columns, state.columns[best].expand_as(state.columns))
    cost = cost + LABEL * (state.labels[:, :, None] != state.labels[best][None, None])
    assigned = np.stack([linear_sum_assignment(c)[1] for c in cost.mT.cpu().numpy()])
    order = torch.as_tensor(assigned, device=state.device)
    chain = torch.arange(state.chains, device=state.device)[:, None]
    state.index, state.labels, state.columns = (x[chain, order] for x in (state.index, state.labels, state.columns))


def outcomes(places: int, device: str | torch.device = "cpu") -> Tensor:
    """(2^k, k) which of k `places` exchange their rows, 1 or 0: all ways."""
    return torch.cartesian_prod(*[torch.arange(2.0, device=device)] * places).view(-1, places)


def weighed(state: Chains, noise: Noise, sides: tuple[Tensor, Tensor], places: Tensor) -> Tensor:
    """(P, 2^k) by how much each outcome raises the joint log posterior of the P pairs of chains `sides`, which may
    exchange the rows in `places` (k,); `noise` one for all or (C, 1).
    """
    k, network, weights = len(places), state.network, state.evidence.weights
    ways = outcomes(k, state.device)
    rows = torch.cat([state.columns[side][:, places] for side in sides], 1)  # (P, 2k, D)
    labels = torch.cat([state.labels[side][:, places] for side in sides], 1)
    shares = []
    for side in sides:
        heard = [part[side] for part in state.heard]
        shares.append(network.share(network.first(rows, heard, weights), labels, heard, weights))
    kept = state.evidence.clipped(shares[0].norm)
    gram = network.products(shares[0], rows, shares[0], rows, weights) * kept[..., None] * kept[:, None]
    gram = gram[:, k:, k:] - gram[:, k:, :k] - gram[:, :k, k:] + gram[:, :k, :k]
    square = ((ways @ gram) * ways).sum(-1)
    total = torch.zeros_like(square)
    for side, share, sign in zip(sides, shares, (1.0, -1.0), strict=True):
        inner, scale = kept * share.inner, state.scale[side]
        along = sign * (inner[:, k:] - inner[:, :k]) @ ways.T
        power = noise[side] ** 2 if isinstance(noise, Tensor) else noise**2
        total += (scale * along - scale**2 * square / 2) / power
    return total


def exchanged(
    state: Chains, sides: tuple[Tensor, Tensor], places: Tensor, taken: Tensor, noise: Noise | None = None
) -> None:
    """Lets the pairs of chains `sides` exchange the rows in those of the `places` that are `taken` (P, k); `noise` as
    in `Chains.refresh`.
    """
    one, other = (side[:, None].expand(-1, len(places))[taken] for side in sides)
    where = places.expand(len(taken), -1)[taken]
    index, labels = state.index.clone(), state.labels.clone()
    for changed, now in ((index, state.index), (labels, state.labels)):
        changed[one, where], changed[other, where] = now[other, where], now[one, where]
    state.become(index, labels, noise=noise)


def _cross(state: Chains, noise: Noise) -> None:
    pairs = state.chains // 2
    order = torch.randperm(state.chains, generator=state.coins, device=state.device)
    sides = order[:pairs], order[pairs : 2 * pairs]
    places = torch.randperm(state.rows, generator=state.coins, device=state.device)[:PLACES]
    drawn = state.drawn(torch.softmax(weighed(state, noise, sides, places), -1))[:, 0]
    exchanged(state, sides, places, outcomes(len(places), state.device)[drawn] > 0, noise)
