"""Markov chains over whole batches, in parallel: Gibbs sampling from the posterior of the rows behind an update.

With all rows but one fixed, the residual R of the sum that was sent gives the exact conditional of that row,

    log p(x | others, update) = (<R, g(x)> - |g(x)|² / 2) / noise² + log prior(x) + const,

for any number of candidates at once (`network`), at a cost that does not depend on the size of the batch. Clipping of
each row's gradient at C scales g(x) by min(1, C / |g(x)|). A cell with few candidates is drawn from all of them; one of
a number from some about a random centre, which with the present one are exchangeable given the centre (the
multiple-proposal sampler of Tjelmeland 2004), or from independent draws of its prior. Both leave the posterior as it
is.

Shapes: C chains, B rows, F cells, D columns. All chains visit rows and cells in the same random order.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import First, RowGradients

Noise = float | Tensor
PROPOSALS = 24  # values of a number that one visit weighs beside the present one
FROM_PRIOR = 0.3  # share of these visits that draw them from the prior: how a chain crosses to another mode


def encoded(network: RowGradients, cells: Sequence[Cell], index: Tensor) -> Tensor:
    """The columns (..., D) of rows with values `index` (..., F)."""
    columns = network.weights[0].new_zeros(*index.shape[:-1], network.weights[0].shape[1])
    for f, cell in enumerate(cells):
        columns[..., cell.columns] += cell.codes[index[..., f]]
    return columns


def prior_of(cells: Sequence[Cell], index: Tensor) -> Tensor:
    """(...) the log prior of rows with values `index` (..., F)."""
    return sum(
        (c.log_prior[index[..., f]] for f, c in enumerate(cells)), torch.zeros(index.shape[:-1], device=index.device)
    )


def from_prior(cells: Sequence[Cell], number: int, coins: torch.Generator, device: str) -> Tensor:
    """(number, F) values of rows drawn from the prior."""
    drawn = [torch.multinomial(c.log_prior.exp(), number, True, generator=coins) for c in cells]
    return torch.stack(drawn, -1) if drawn else torch.zeros(number, 0, dtype=torch.int64, device=device)


def squared(layers: Sequence[Tensor]) -> Tensor:
    """(C,) the squared norms of what has layers (C, out, in + 1)."""
    return torch.stack([(layer**2).sum((1, 2)) for layer in layers]).sum(0)


class Chains:
    """State of C chains: `index` (C, B, F) which value each cell has, `labels` (C, B), `columns` (C, B, D) and the
    `residual` (C, out, in + 1) per layer of what all rows leave of the sum.
    """

    def __init__(
        self,
        network: RowGradients,
        cells: Sequence[Cell],
        evidence: Evidence,
        index: Tensor,
        coins: torch.Generator,
        labels: Tensor | None = None,
    ) -> None:
        self.network, self.cells, self.evidence, self.coins = network, cells, evidence, coins
        self.device = index.device
        self.chains, self.rows = index.shape[:2]
        self.index = index
        self.pushes = [c.codes @ network.weights[0][:, c.columns].T for c in cells]
        self.squares = [(c.codes**2).sum(-1) for c in cells]
        if labels is not None:
            self.labels = labels
        elif evidence.labels is not None:
            self.labels = evidence.labels.expand(self.chains, -1).clone()
        else:
            self.labels = self.drawn(evidence.label_prior.exp().expand(self.chains, -1), self.rows)
        self.scale = torch.ones(self.chains, 1, device=self.device)
        self.columns = encoded(network, cells, index)
        self.refresh()

    def drawn(self, weights: Tensor, number: int = 1) -> Tensor:
        """(C, number) drawn by `weights` (C, m)."""
        return torch.multinomial(weights, number, replacement=True, generator=self.coins)

    def refresh(self) -> None:
        """Recomputes the residual from the rows, without the rounding errors of many steps."""
        own = self.network.sums(self.columns, self.labels, self.factors(self.columns, self.labels))
        if self.evidence.shrunk:
            self._draw_scale(own)
        scale = self.scale[..., None]
        self.residual = [total - scale * part for total, part in zip(self.evidence.total, own, strict=True)]

    def _draw_scale(self, own: Sequence[Tensor]) -> None:
        """Draws the factor of each chain anew, evenly over [0, 1] before the update is seen, given the sum `own`."""
        square = squared(own)
        products = [(part * total).sum((1, 2)) for part, total in zip(own, self.evidence.total, strict=True)]
        deviation = self.evidence.noise / square.sqrt().clamp_min(1e-30)
        mean = torch.stack(products).sum(0) / square.clamp_min(1e-30)
        low, high = (torch.special.ndtr((edge - mean) / deviation) for edge in (0.0, 1.0))
        share = torch.rand(self.chains, generator=self.coins, device=self.device)
        drawn = mean + deviation * torch.special.ndtri((low + (high - low) * share).clamp(1e-6, 1 - 1e-6))
        self.scale = drawn.clamp(1e-3, 1)[:, None]

    def factors(self, columns: Tensor, labels: Tensor) -> Tensor:
        """(C, m) what clipping leaves of the gradients of rows (C, m, D)."""
        if self.evidence.clip_norm is None:
            return torch.ones_like(columns[..., 0])
        return self.evidence.clipped(self.network.square(self.network.first(columns), labels))

    def fit(self, first: First, labels: Tensor, noise: Noise) -> Tensor:
        """(C, m) the log likelihood of candidates for the row that is lifted out, up to a constant of the chain."""
        share = self.network.share(first, labels, self.residual)
        factor = self.scale * self.evidence.clipped(share.square)
        return (factor * share.inner - factor**2 * share.square / 2) / noise**2

    def energy(self) -> Tensor:
        """(C,) half the squared residual over the noise's variance: at the truth half a chi-square of all entries."""
        return squared(self.residual) / (2 * self.evidence.noise**2)

    def log_prior(self) -> Tensor:
        """(C,) of the rows and, where they are not known, of the labels."""
        total = prior_of(self.cells, self.index).sum(-1)
        return total if self.evidence.labels is not None else total + self.evidence.label_prior[self.labels].sum(-1)

    def become(self, index: Tensor, labels: Tensor) -> None:
        """Takes rows (C, B, F) with labels (C, B) for the present ones."""
        self.index, self.labels = index.clone(), labels.clone()
        self.columns = encoded(self.network, self.cells, self.index)
        self.refresh()

    def reorder(self, order: Tensor) -> None:
        """Lets chain c go on from where chain `order[c]` is; `order` (C,)."""
        self.index, self.labels, self.columns = self.index[order], self.labels[order], self.columns[order]
        self.scale = self.scale[order]
        self.residual = [rest[order] for rest in self.residual]

    def sweep(self, noise: Noise) -> None:
        """Visits every cell of every row once, as if the noise were `noise`, one for all or (C, 1)."""
        for i in torch.randperm(self.rows, generator=self.coins, device=self.device).tolist():
            self.lift(i)
            for f in torch.randperm(len(self.cells), generator=self.coins, device=self.device).tolist():
                self.visit(i, f, noise)
            if self.evidence.labels is None:
                self.visit_label(i, noise)
            self.put(i)
        self.refresh()

    def lift(self, row: int) -> None:
        self._add(row, 1.0)

    def put(self, row: int) -> None:
        self._add(row, -1.0)

    def _add(self, row: int, sign: float) -> None:
        columns, labels = self.columns[:, row : row + 1], self.labels[:, row : row + 1]
        own = self.network.sums(columns, labels, sign * self.scale * self.factors(columns, labels))
        for rest, part in zip(self.residual, own, strict=True):
            rest += part

    def visit(self, row: int, f: int, noise: Noise) -> None:
        """Draws cell `f` of the row that is lifted out anew."""
        cell = self.cells[f]
        if cell.size == 1:
            return
        candidates, log_weights = self._proposed(self.index[:, row, f], cell)
        first = self._with(row, f, candidates)
        log_weights = log_weights + self.fit(first, self.labels[:, row, None], noise)
        chosen = self.drawn(torch.softmax(log_weights, -1))
        self.settle(row, f, candidates.gather(1, chosen)[:, 0] if candidates.dim() == 2 else chosen[:, 0])

    def _proposed(self, now: Tensor, cell: Cell) -> tuple[Tensor, Tensor]:
        """Values to choose among, (n,) all or (C, m) some, and their logarithmic weights before the update is seen."""
        if cell.small:
            return torch.arange(cell.size, device=self.device), cell.log_prior
        if float(torch.rand((), generator=self.coins, device=self.device)) < FROM_PRIOR:
            drawn = self.drawn(cell.log_prior.exp().expand(self.chains, -1), PROPOSALS)
            return torch.cat([now[:, None], drawn], 1), torch.zeros((), device=self.device)
        reach = math.exp(float(torch.rand((), generator=self.coins, device=self.device)) * math.log(cell.size / 2))
        centre = now[:, None] + self._steps(1, reach)
        near = torch.cat([now[:, None], centre + self._steps(PROPOSALS, reach)], 1)
        inside = (near >= 0) & (near < cell.size)
        near = near.clamp(0, cell.size - 1)
        return near, torch.where(inside, cell.log_prior[near], -torch.inf)

    def _steps(self, number: int, reach: float) -> Tensor:
        """(C, number) whole steps, as likely forth as back."""
        normal = torch.randn(self.chains, number, generator=self.coins, device=self.device)
        return (normal * reach).round().to(torch.int64)

    def _with(self, row: int, f: int, candidates: Tensor) -> First:
        """The lifted row with each candidate for cell `f`, (n,) or (C, m)."""
        cell, columns = self.cells[f], self.cells[f].columns
        base = self.columns[:, row].clone()
        base[:, columns] -= cell.codes[self.index[:, row, f]]
        bare = self.network.first(base[:, None], self.residual)
        assert bare.inner is not None
        cross = base[:, columns]
        part = self.residual[0][..., columns]  # (C, out, width)
        if candidates.dim() == 1:
            inner = cell.codes @ part.mT
            mixed = cross @ cell.codes.T
            before, square = self.pushes[f], self.squares[f]
        else:
            codes = cell.codes[candidates]  # (C, m, width)
            inner = codes @ part.mT
            mixed = (codes @ cross[..., None])[..., 0]
            before, square = self.pushes[f][candidates], self.squares[f][candidates]
        return First(bare.before + before, bare.inner + inner, bare.square + square + 2 * mixed)

    def settle(self, row: int, f: int, chosen: Tensor) -> None:
        """Gives cell `f` of a row the values `chosen` (C,)."""
        cell = self.cells[f]
        self.columns[:, row, cell.columns] += cell.codes[chosen] - cell.codes[self.index[:, row, f]]
        self.index[:, row, f] = chosen

    def visit_label(self, row: int, noise: Noise) -> None:
        """Draws the label of the row that is lifted out anew."""
        classes = self.network.classes
        columns = self.columns[:, row : row + 1].expand(-1, classes, -1)
        labels = torch.arange(classes, device=self.device).expand(self.chains, -1)
        log_weights = self.evidence.label_prior + self.fit(self.network.first(columns, self.residual), labels, noise)
        self.labels[:, row] = self.drawn(torch.softmax(log_weights, -1))[:, 0]
