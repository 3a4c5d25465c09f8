"""Moves of two rows at once: what no chain that changes one row at a time gets past.

Gradients of two rows that are alike nearly cancel where their labels differ, and nearly double where they agree: the
update then says what the two are together, and little of either. A value that both rows have wrong stays wrong, since
to put one of them right alone makes the fit worse. So two rows i and j leave the sum together, and the same cell of
both is drawn from the joint conditional,

    log p(x, y | others, update) = (<R, g(x) + g(y)> - |g(x) + g(y)|² / 2) / noise²
                                   + log prior(x) + log prior(y) + const,

over all pairs of candidates. <g(x), g(y)> = sum_l <d_l, d'_l> (<a_l, a'_l> + 1) needs no gradient to be built. The
candidates of each row are those of a single visit, so that this too leaves the posterior as it is. Cells that go
together change together in both rows (`carried`): of two rows whose labels differ neither changes alone.

Where it is not known how many rows there are, two that cancel can be there or not, and no single visit tells: which of
two places have their row is drawn jointly, too (`visit_presence`).
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from leakledger.attacks.gradient.posterior.chains import Chains, Noise, picked, times
from leakledger.attacks.gradient.posterior.network import Share


def sweep_pairs(state: Chains, noise: Noise) -> None:
    """Visits every cell of the two rows of each pair once, rows paired at random."""
    if state.evidence.choices is not None:
        visit_presence(state, noise)
    order = torch.randperm(state.rows, generator=state.coins, device=state.device).tolist()
    for i, j in zip(order[::2], order[1::2], strict=False):
        visited = state.lifted([i, j], noise)
        for f in torch.randperm(len(state.cells), generator=state.coins, device=state.device).tolist():
            visited(partial(visit_pair, state, i, j, f, noise))
        for k in range(len(state.carriers)):
            visited(partial(visit_carried_pair, state, i, j, k, noise))
        state.put(i)
        state.put(j)


def visit_pair(state: Chains, i: int, j: int, f: int, noise: Noise) -> None:
    """Draws cell `f` of two rows that are lifted out anew, jointly."""
    if state.cells[f].size == 1:
        return
    pair = [_offered(state, row, f, noise) for row in (i, j)]
    for row, side, place in zip((i, j), pair, _drawn(state, (i, j), pair, noise), strict=True):
        state.settle(row, f, picked(side.candidates, place[:, None]))


def visit_carried_pair(state: Chains, i: int, j: int, k: int, noise: Noise) -> None:
    """Draws a cell of two rows that are lifted out anew, jointly, with those that it carries."""
    carrier = state.carriers[k]
    takes_part = carrier.held(state.index[:, i]) & carrier.held(state.index[:, j])
    if not bool(takes_part.any()):
        return
    pair = [_carried(state, row, k, noise) for row in (i, j)]
    for row, place in zip((i, j), _drawn(state, (i, j), pair, noise), strict=True):
        state.settle_carried(row, k, place, takes_part)


def visit_presence(state: Chains, noise: Noise) -> None:
    """Draws of each two places, in random order, which of them have their row, where that is not known: rows that
    nearly cancel come and go together. All that changes is which gradients add up, so their inner products are enough.
    """
    evidence, rows = state.evidence, state.columns
    assert evidence.choices is not None
    total = [part.expand(state.chains, -1, -1) for part in evidence.total]
    if evidence.weights is not None:
        total = times(total, evidence.weights)
    first = state.network.first(rows, total, evidence.weights)
    share = state.network.share(first, state.labels, total, evidence.weights)
    kept = state.kept(share)
    gram = state.network.products(share, rows, share, rows, evidence.weights) * kept[..., None] * kept[:, None]
    there = state.present
    left = kept * share.inner - (gram * there[:, None]).sum(-1)  # <residual, g_i>
    own = gram.diagonal(dim1=1, dim2=2) / 2
    pairs = torch.combinations(torch.arange(state.rows, device=state.device))
    for i, j in pairs[torch.randperm(len(pairs), generator=state.coins, device=state.device)].tolist():
        left += gram[:, i] * there[:, i, None] + gram[:, j] * there[:, j, None]
        others = (there.sum(1) - there[:, i] - there[:, j]).long()
        one, other = left[:, i] - own[:, i], left[:, j] - own[:, j]
        gains = torch.stack([torch.zeros_like(one), one, other, one + other - gram[:, i, j]], 1) / noise**2
        odds = torch.stack([evidence.choices[others + k] for k in (0, 1, 1, 2)], 1)
        chosen = state.drawn(torch.softmax(gains + odds, -1))[:, 0]
        there[:, i], there[:, j] = (chosen % 2).float(), (chosen // 2).float()
        left -= gram[:, i] * there[:, i, None] + gram[:, j] * there[:, j, None]
    state.refresh(noise)


class _Offered(NamedTuple):
    """Candidates for one cell of a row: their weights (C, m) were the row alone, what they add, and their columns."""

    candidates: Tensor
    weights: Tensor
    share: Share
    rows: Tensor


def _offered(state: Chains, row: int, f: int, noise: Noise) -> _Offered:
    candidates, log_weights = state.proposed(row, f)
    share = state.share(state.with_value(row, f, candidates), state.labels[:, row, None])
    gain = state.gain(share, noise, state.present[:, row, None])
    return _Offered(candidates, log_weights + gain, share, state.rows_with(row, f, candidates))


def _carried(state: Chains, row: int, k: int, noise: Noise) -> _Offered:
    carrier, log_weights = state.carriers[k], state.weights_carried(row, k)
    share = state.share(state.with_carried(row, k), state.labels[:, row, None])
    gain = state.gain(share, noise, state.present[:, row, None])
    rows = state.columns[:, row, None].repeat(1, len(carrier.codes), 1)
    rows[..., carrier.columns] += carrier.codes - carrier.codes[state.index[:, row, carrier.places[0]]][:, None]
    return _Offered(carrier.values[:, 0], log_weights + gain, share, rows)


def _drawn(state: Chains, rows: tuple[int, int], pair: Sequence[_Offered], noise: Noise) -> tuple[Tensor, Tensor]:
    """(C,) and (C,) which candidates for two rows, drawn from their joint conditional."""
    one, other = pair
    cross = state.network.products(one.share, one.rows, other.share, other.rows, state.evidence.weights)
    kept, also = (state.kept(side.share, state.present[:, row, None]) for row, side in zip(rows, pair, strict=True))
    cross = cross * kept[..., None] * also[:, None]
    power = noise**2 if isinstance(noise, float) else noise[..., None] ** 2
    joint = one.weights[..., None] + other.weights[:, None] - cross / power  # (C, m, n)
    chosen = state.drawn(torch.softmax(joint.flatten(1), -1))[:, 0]
    return chosen // joint.shape[2], chosen % joint.shape[2]
