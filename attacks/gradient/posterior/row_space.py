"""Rows that a noisy row space supports: where the rows of a batch can be found one by one.

The first layer's gradient is a sum Dᵀ [X | 1] over the batch: every row [x | 1] is a combination c of its rows. Under
noise of standard deviation s per entry only the directions with singular values above (sqrt(out) + sqrt(in + 1)) s
stand out (Marchenko and Pastur 1967). With V those, S their values and V' the rest, a row of the batch leaves a
residual V' [x | 1] whose entries are normal with variance s² |c|², |c|² = |S⁻¹ Vᵀ [x | 1]|². So

    log p(x) = - |V' x|² / (2 s² |c|²) - (entries of V' x) log |c| + log prior(x)

is what one row says of itself, whatever the other rows are, by two quadratic forms in x. Many chains draw rows from it,
cell by cell. Columns with other errors than others are scaled so that all have the same. (Distances to a noisy subspace
instead of membership; for signals the idea is MUSIC, Schmidt 1986.)
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.chains import from_prior
from leakledger.attacks.gradient.posterior.evidence import Evidence

PROPOSALS = 32  # values of a number that one visit weighs
# The temperature begins where rows of the prior move freely, their residuals being hundreds of times the noise.
HOTTEST = 300.0
SMALLEST = 1e-30


def supported(
    evidence: Evidence, cells: Sequence[Cell], coins: torch.Generator, chains: int, sweeps: int, kept: int
) -> Tensor:
    """(n, F) different rows: some of the prior, and `kept` of the `chains` after each of `sweeps` of falling
    temperature. Hot ones differ from each other, cold ones fit.
    """
    space = RowSpace(evidence, cells, from_prior(cells, chains, coins, str(evidence.total[0].device)), coins)
    pool = [space.index[:kept].clone()]
    for step in range(sweeps if space.rank else 0):
        space.sweep(HOTTEST ** (1 - step / max(sweeps - 1, 1)))
        pool.append(space.index[torch.randint(chains, (kept,), generator=coins, device=space.index.device)])
    different: Tensor = torch.unique(torch.cat(pool), dim=0)
    return different


class RowSpace:
    """The two quadratic forms of the first layer's gradient, and chains of single rows `index` (n, F) on them."""

    def __init__(self, evidence: Evidence, cells: Sequence[Cell], index: Tensor, coins: torch.Generator) -> None:
        scale = evidence.equalising
        self.cells = [replace(c, codes=c.codes * scale[c.columns]) for c in cells]
        self.index, self.coins, self.noise = index, coins, evidence.noise
        total = evidence.total[0].double() * scale
        out, width = total.shape
        _, values, directions = torch.linalg.svd(total, full_matrices=True)
        edge = (out**0.5 + width**0.5) * self.noise
        self.rank = min(int((values > edge).sum()), evidence.rows, width - 1)
        signal, rest = directions[: self.rank], directions[self.rank :]
        self.left = len(rest)
        power = values[: self.rank] ** 2 - out * self.noise**2  # what noise adds to a value, in expectation
        self.forms = (rest.T @ rest).float(), (signal.T / power @ signal).float()
        self.rows = total.new_zeros(len(index), width, dtype=torch.float32)
        self.rows[:, -1] = scale[-1]
        for f, cell in enumerate(self.cells):
            self.rows[:, cell.columns] += cell.codes[index[:, f]]

    def fits(self) -> Tensor:
        """(n,) the log likelihoods of the present rows."""
        away, share = ((self.rows @ form * self.rows).sum(-1).clamp_min(SMALLEST) for form in self.forms)
        return self._fit(away, share)

    def _fit(self, away: Tensor, share: Tensor) -> Tensor:
        return -away / (2 * self.noise**2 * share) - self.left / 2 * share.log()

    def sweep(self, temperature: float) -> None:
        """Visits every cell of every row once."""
        for f in torch.randperm(len(self.cells), generator=self.coins, device=self.index.device).tolist():
            cell, now = self.cells[f], self.index[:, f]
            base = self.rows.clone()
            base[:, cell.columns] -= cell.codes[now]
            candidates = None if cell.small else self._near(now, cell)
            log_prior = cell.log_prior if candidates is None else cell.log_prior[candidates]
            away, share = (self._with(base, form, cell, candidates) for form in self.forms)
            log_prior = log_prior + cell.together(self.index, candidates)
            weights = torch.softmax(self._fit(away, share) / temperature + log_prior, -1)
            chosen = torch.multinomial(weights, 1, generator=self.coins)
            picked = chosen[:, 0] if candidates is None else candidates.gather(1, chosen)[:, 0]
            base[:, cell.columns] += cell.codes[picked]
            self.index[:, f], self.rows = picked, base

    def _with(self, base: Tensor, form: Tensor, cell: Cell, candidates: Tensor | None) -> Tensor:
        """(n, m) a quadratic form of rows `base` with each candidate's code added."""
        block = form[:, cell.columns]
        cross = base @ block  # (n, width)
        bare = (base @ form * base).sum(-1, keepdim=True)
        own = ((cell.codes @ block[cell.columns]) * cell.codes).sum(-1)
        if candidates is None:
            return (bare + 2 * cross @ cell.codes.T + own).clamp_min(SMALLEST)
        mixed = (cell.codes[candidates] @ cross[..., None])[..., 0]
        return (bare + 2 * mixed + own[candidates]).clamp_min(SMALLEST)

    def _near(self, now: Tensor, cell: Cell) -> Tensor:
        """(n, m) the present value, draws of the prior, and values around the present one."""
        n, half = len(now), PROPOSALS // 2
        drawn, steps = cell.drawn(n, half, self.coins), cell.strides(n, half, self.coins)
        near = now[:, None] + steps.round().to(torch.int64)
        return torch.cat([now[:, None], drawn, near], 1).clamp(0, cell.size - 1)
