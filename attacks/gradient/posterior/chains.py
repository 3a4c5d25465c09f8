"""Markov chains over whole batches, in parallel: Gibbs sampling from the posterior of the rows behind an update.

With all rows but one fixed, the residual R of the sum that was sent gives the exact conditional of that row,

    log p(x | others, update) = (<R, g(x)> - |g(x)|² / 2) / noise² + log prior(x) + const,

for any number of candidates at once (`network`), at a cost that does not depend on the size of the batch. Clipping of
each row's gradient at C scales g(x) by min(1, C / |g(x)|). A cell with few candidates is drawn from all of them; one of
a number from some about a random centre, which with the present one are exchangeable given the centre (the
multiple-proposal sampler of Tjelmeland 2004), or from independent draws of its prior. Both leave the posterior as it
is. Cells that another one nearly determines are drawn together with it, too (`carried`).

Where only the client knows how many rows there are (`sample_size`), a place has a row or none: one that is not there
adds nothing to the sum, and its cells follow the prior. Whether it is there is drawn together with its label.

Shapes: C chains, B rows or places for them, F cells, D columns. All chains visit rows and cells in the same random
order.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from leakledger.attacks.gradient.posterior.carried import carriers
from leakledger.attacks.gradient.posterior.cells import Cell, Link
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import First, RowGradients, Share, Weights

Noise = float | Tensor
PROPOSALS = 24  # values of a number that one visit weighs beside the present one
FROM_PRIOR = 0.3  # share of these visits that draw them from the prior: how a chain crosses to another mode


def encoded(network: RowGradients, cells: Sequence[Cell], index: Tensor) -> Tensor:
    """The columns (..., D) of rows with values `index` (..., F)."""
    columns = network.weights[0].new_zeros(*index.shape[:-1], network.weights[0].shape[1])
    for f, cell in enumerate(cells):
        columns[..., cell.columns] += cell.codes[index[..., f]]
    return columns


def labelled(index: Tensor, labels: Tensor) -> Tensor:
    """(..., F + 1) rows with values `index` (..., F) and `labels` (...), as links have it."""
    return torch.cat([index, labels[..., None]], -1)


def prior_of(cells: Sequence[Cell], index: Tensor, labels: Tensor | None = None) -> Tensor:
    """(...) the log prior of rows with values `index` (..., F), given their `labels` (...) where they are known."""
    total = torch.zeros(index.shape[:-1], device=index.device)
    whole = index if labels is None else labelled(index, labels)
    for f, cell in enumerate(cells):
        total = total + cell.log_prior[index[..., f]]
        for link in cell.links:
            if link.other < f or f < len(cells) == link.other < whole.shape[-1]:  # its neighbour has it too, or none
                total = total + link.ratio[link.own[whole[..., f]], link.others[whole[..., link.other]]]
    return total


def from_prior(
    cells: Sequence[Cell], number: int, coins: torch.Generator, device: str, labels: Tensor | None = None
) -> Tensor:
    """(number, F) values of rows drawn from the prior, given their `labels` (number,) where these are known: along its
    tree, each cell given the one before.
    """
    index = torch.zeros(number, len(cells), dtype=torch.int64, device=device)
    drawn: set[int] = set() if labels is None else {len(cells)}
    told = [f for f, cell in enumerate(cells) if any(link.other in drawn for link in cell.links)]
    for root in [*told, *range(len(cells))]:
        ahead = [root] if root not in drawn else []
        while ahead:
            f = ahead.pop()
            cell, before = cells[f], [link for link in cells[f].links if link.other in drawn]
            whole, given = index if labels is None else labelled(index, labels), replace(cell, links=tuple(before))
            for rows in _alike(before, whole):
                weights = cell.log_prior + given.together(whole[rows[:1]])
                shares = torch.softmax(weights.flatten(), -1)
                index[rows, f] = torch.multinomial(shares, len(rows), True, generator=coins)
            drawn.add(f)
            ahead += [link.other for link in cell.links if link.other not in drawn and link.other < len(cells)]
    return index


def _alike(links: Sequence[Link], rows: Tensor) -> list[Tensor]:
    """The numbers of `rows` (n, F) in groups whose values are as likely: what their `links` go by is the same."""
    if not links:
        return [torch.arange(len(rows), device=rows.device)]
    given = torch.stack([link.others[rows[:, link.other]] for link in links], -1)
    different, group = torch.unique(given, dim=0, return_inverse=True)
    return [torch.nonzero(group == k)[:, 0] for k in range(len(different))]


def squared(layers: Sequence[Tensor], weights: Weights = None) -> Tensor:
    """(C,) the squared norms of what has layers (C, out, in + 1), whose entries count by `weights`."""
    own = [layer**2 for layer in layers] if weights is None else times([layer**2 for layer in layers], weights)
    return torch.stack([part.sum((1, 2)) for part in own]).sum(0)


def times(layers: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    """Layers (C, out, in + 1), each entry times its weight."""
    return [layer * weight for layer, weight in zip(layers, weights, strict=True)]


def picked(candidates: Tensor, places: Tensor) -> Tensor:
    """(C,) the candidates, (n,) or (C, m), at `places` (C, 1)."""
    return (candidates[places] if candidates.dim() == 1 else candidates.gather(1, places))[:, 0]


class Chains:
    """State of C chains: `index` (C, B, F) which value each cell has, `labels` (C, B), `present` (C, B) 1 where a place
    has a row and else 0, `columns` (C, B, D) and the `residual` (C, out, in + 1) per layer of what all rows leave of
    the sum.
    """

    def __init__(
        self,
        network: RowGradients,
        cells: Sequence[Cell],
        evidence: Evidence,
        index: Tensor,
        coins: torch.Generator,
        labels: Tensor | None = None,
        present: Tensor | None = None,
    ) -> None:
        self.network, self.cells, self.evidence, self.coins = network, cells, evidence, coins
        self.device = index.device
        self.chains, self.rows = index.shape[:2]
        self.index = index
        self.pushes = [c.codes @ network.weights[0][:, c.columns].T for c in cells]
        self.squares = [(c.codes**2).sum(-1) for c in cells]
        self.carriers = carriers(cells)
        self.carried_pushes = [c.codes @ network.weights[0][:, c.columns].T for c in self.carriers]
        self.carried_squares = [(c.codes**2).sum(-1) for c in self.carriers]
        self.of_label = [(f, link) for f, c in enumerate(cells) for link in c.links if link.other == len(cells)]
        if labels is not None:
            self.labels = labels
        elif evidence.labels is not None:
            self.labels = evidence.labels.expand(self.chains, -1).clone()
        else:
            self.labels = self.drawn(evidence.label_prior.exp().expand(self.chains, -1), self.rows)
        self.present = self._drawn_presence() if present is None else present
        self.scale = torch.ones(self.chains, 1, device=self.device)
        self.columns = encoded(network, cells, index)
        self.exact = False
        self.refresh()

    def drawn(self, weights: Tensor, number: int = 1) -> Tensor:
        """(C, number) drawn by `weights` (C, m)."""
        return torch.multinomial(weights, number, replacement=True, generator=self.coins)

    def _drawn_presence(self) -> Tensor:
        """(C, B) which places have a row, as many as are expected, before the update is seen."""
        everywhere = torch.ones(self.chains, self.rows, device=self.device)
        if self.evidence.choices is None:
            return everywhere
        share = torch.rand(self.chains, self.rows, generator=self.coins, device=self.device)
        return everywhere * (share < self.evidence.size / self.rows)

    def refresh(self, noise: Noise | None = None) -> None:
        """Recomputes the residual from the rows, without the rounding errors of many steps. Where the sum was shrunk,
        draws by how much, as if the noise were `noise`, one for all or (C, 1), and not the true one.
        """
        own = self.network.sums(self.columns, self.labels, self.present * self.factors(self.columns, self.labels))
        if self.evidence.shrunk:
            self._draw_scale(own, self.evidence.noise if noise is None else noise)
        scale = self.scale[..., None]
        self.residual = [total - scale * part for total, part in zip(self.evidence.total, own, strict=True)]
        self._hear()

    def _draw_scale(self, own: Sequence[Tensor], noise: Noise) -> None:
        """Draws the factor of each chain anew, evenly over [0, 1] before the update is seen, given the sum `own`."""
        square = squared(own, self.evidence.weights)
        heard = own if self.evidence.weights is None else times(own, self.evidence.weights)
        products = [(part * total).sum((1, 2)) for part, total in zip(heard, self.evidence.total, strict=True)]
        deviation = (noise[:, 0] if isinstance(noise, Tensor) else noise) / square.sqrt().clamp_min(1e-30)
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

    def fit(self, first: First, labels: Tensor, noise: Noise, there: Tensor | float = 1.0) -> Tensor:
        """(C, m) the log likelihood of candidates for the row that is lifted out, up to a constant of the chain;
        `there` (C, 1): 0 where its place has none.
        """
        return self.gain(self.share(first, labels), noise, there)

    def share(self, first: First, labels: Tensor) -> Share:
        """What candidates for the row that is lifted out would add to the sum."""
        return self.network.share(first, labels, self.heard, self.evidence.weights)

    def _hear(self) -> None:
        """Notes the residual as it counts, `heard`: each entry times its weight."""
        weights = self.evidence.weights
        self.heard = self.residual if weights is None else times(self.residual, weights)

    def gain(self, share: Share, noise: Noise, there: Tensor | float = 1.0) -> Tensor:
        """(C, m) the same of what these candidates would add."""
        factor = self.kept(share, there)
        return (factor * share.inner - factor**2 * share.square / 2) / noise**2

    def kept(self, share: Share, there: Tensor | float = 1.0) -> Tensor:
        """(C, m) what clipping leaves of the gradients of candidates."""
        return there * self.scale * self.evidence.clipped(share.norm)

    def energy(self) -> Tensor:
        """(C,) half the squared residual over the noise's variance: at the truth half a chi-square of all entries."""
        return squared(self.residual, self.evidence.weights) / (2 * self.evidence.noise**2)

    def misfit(self) -> Tensor:
        """(C,) minus the log likelihood up to a constant: the energy, or where entries are known by intervals, more."""
        if self.evidence.intervals is None:
            return self.energy()
        return self.energy() - self.advantage(self.residual)

    def log_prior(self) -> Tensor:
        """(C,) of the rows and, where they are not known, of the labels and of how many rows there are."""
        each = prior_of(self.cells, self.index, self.labels)
        if self.evidence.labels is None:
            each = each + self.evidence.label_prior[self.labels]
        if self.evidence.choices is None:
            return each.sum(-1)
        return (self.present * each).sum(-1) + self.evidence.choices[self.present.sum(-1).long()]

    def become(self, index: Tensor, labels: Tensor, present: Tensor | None = None, noise: Noise | None = None) -> None:
        """Takes rows (C, B, F) with labels (C, B) for those that it has; `present` (C, B): in which places. `noise` as
        in `refresh`.
        """
        self.index, self.labels = index.clone(), labels.clone()
        if present is not None:
            self.present = present.clone()
        self.columns = encoded(self.network, self.cells, self.index)
        self.refresh(noise)

    def reorder(self, order: Tensor) -> None:
        """Lets chain c go on from where chain `order[c]` is; `order` (C,)."""
        self.index, self.labels, self.columns = self.index[order], self.labels[order], self.columns[order]
        self.scale, self.present = self.scale[order], self.present[order]
        self.residual = [rest[order] for rest in self.residual]
        self._hear()

    def sweep(self, noise: Noise) -> None:
        """Visits every cell of every row once, as if the noise were `noise`, one for all or (C, 1)."""
        for i in torch.randperm(self.rows, generator=self.coins, device=self.device).tolist():
            visited = self.lifted([i], noise)
            for f in torch.randperm(len(self.cells), generator=self.coins, device=self.device).tolist():
                visited(partial(self.visit, i, f, noise))
            for k in range(len(self.carriers)):
                visited(partial(self.visit_carried, i, k, noise))
            if self.evidence.labels is None:
                visited(partial(self.visit_label, i, noise))
            self.put(i)
        self.refresh(noise)

    def lifted(self, rows: Sequence[int], noise: Noise) -> Callable[[Callable[[], None]], None]:
        """Lifts rows out, and returns what carries out a visit of theirs: as it is, or where the likelihood is `exact`,
        chain by chain if it is accepted.
        """
        for i in rows:
            self.lift(i)
        if not self.exact:
            return lambda visit: visit()
        advantage = self._advantage(rows)
        power = (self.evidence.noise / noise) ** 2
        tempered = power[:, 0] if isinstance(power, Tensor) else power

        def accepted(visit: Callable[[], None]) -> None:
            nonlocal advantage
            before = self.index[:, rows].clone(), self.labels[:, rows].clone(), self.columns[:, rows].clone()
            visit()
            if torch.equal(before[0], self.index[:, rows]) and torch.equal(before[1], self.labels[:, rows]):
                return
            after = self._advantage(rows)
            chance = torch.rand(self.chains, generator=self.coins, device=self.device)
            taken = chance.log() < (after - advantage) * tempered
            advantage = torch.where(taken, after, advantage)
            for state, old in zip((self.index, self.labels, self.columns), before, strict=True):
                shape = (-1,) + (1,) * (old.dim() - 1)
                state[:, rows] = torch.where(taken.view(shape), state[:, rows], old)

        return accepted

    def _advantage(self, rows: Sequence[int]) -> Tensor:
        """(C,) of the whole batch, while some of its `rows` are lifted out."""
        columns, labels = self.columns[:, rows], self.labels[:, rows]
        own = self.network.sums(columns, labels, self.scale * self.factors(columns, labels))
        return self.advantage([rest - part for rest, part in zip(self.residual, own, strict=True)])

    def advantage(self, residual: Sequence[Tensor]) -> Tensor:
        """(C,) how much likelier a residual is than normal errors have it, where entries are known by intervals."""
        evidence = self.evidence
        assert evidence.intervals is not None
        assert evidence.weights is not None
        return evidence.intervals.advantage(residual, evidence.weights, evidence.noise)

    def lift(self, row: int) -> None:
        self._add(row, 1.0)

    def put(self, row: int) -> None:
        self._add(row, -1.0)

    def _add(self, row: int, sign: float) -> None:
        columns, labels = self.columns[:, row : row + 1], self.labels[:, row : row + 1]
        factor = self.present[:, row : row + 1] * self.factors(columns, labels)
        own = self.network.sums(columns, labels, sign * self.scale * factor)
        for rest, part in zip(self.residual, own, strict=True):
            rest += part
        self._hear()

    def visit(self, row: int, f: int, noise: Noise) -> None:
        """Draws cell `f` of the row that is lifted out anew."""
        cell = self.cells[f]
        if cell.size == 1:
            return
        candidates, log_weights = self.proposed(row, f)
        first = self.with_value(row, f, candidates)
        log_weights = log_weights + self.fit(first, self.labels[:, row, None], noise, self.present[:, row, None])
        self.settle(row, f, picked(candidates, self.drawn(torch.softmax(log_weights, -1))))

    def visit_carried(self, row: int, k: int, noise: Noise) -> None:
        """Draws a cell of the row that is lifted out anew, with those that it carries."""
        takes_part = self.carriers[k].held(self.index[:, row])
        if not bool(takes_part.any()):
            return
        weights = self.weights_carried(row, k)
        fit = self.fit(self.with_carried(row, k), self.labels[:, row, None], noise, self.present[:, row, None])
        chosen = self.drawn(torch.softmax(weights + fit, -1))[:, 0]
        self.settle_carried(row, k, chosen, takes_part)

    def weights_carried(self, row: int, k: int) -> Tensor:
        """(C, n) the log weights of every value of carrier `k` in a row before the update is seen."""
        return self.carriers[k].weights(labelled(self.index[:, row], self.labels[:, row]))

    def settle_carried(self, row: int, k: int, chosen: Tensor, takes_part: Tensor) -> None:
        """Gives the cells of carrier `k` their values number `chosen` (C,), in the chains that take part (C,)."""
        carrier = self.carriers[k]
        for n, place in enumerate(carrier.places):
            self.settle(row, place, torch.where(takes_part, carrier.values[chosen, n], self.index[:, row, place]))

    def proposed(self, row: int, f: int) -> tuple[Tensor, Tensor]:
        """Values of cell `f` of a row to choose among, (n,) all or (C, m) some, and their logarithmic weights before
        the update is seen.
        """
        cell, now = self.cells[f], self.index[:, row, f]
        whole = labelled(self.index[:, row], self.labels[:, row])
        if cell.small:
            return torch.arange(cell.size, device=self.device), cell.log_prior + cell.together(whole)
        if float(torch.rand((), generator=self.coins, device=self.device)) < FROM_PRIOR:
            drawn = torch.cat([now[:, None], cell.drawn(self.chains, PROPOSALS, self.coins)], 1)
            return drawn, cell.together(whole, drawn)
        reach = math.exp(float(torch.rand((), generator=self.coins, device=self.device)) * math.log(cell.size / 2))
        centre = now[:, None] + self._steps(1, reach)
        near = torch.cat([now[:, None], centre + self._steps(PROPOSALS, reach)], 1)
        inside = (near >= 0) & (near < cell.size)
        near = near.clamp(0, cell.size - 1)
        return near, torch.where(inside, cell.log_prior[near] + cell.together(whole, near), -torch.inf)

    def _steps(self, number: int, reach: float) -> Tensor:
        """(C, number) whole steps, as likely forth as back."""
        normal = torch.randn(self.chains, number, generator=self.coins, device=self.device)
        return (normal * reach).round().to(torch.int64)

    def with_value(self, row: int, f: int, candidates: Tensor) -> First:
        """The lifted row with each candidate for cell `f`, (n,) or (C, m)."""
        cell, all_of_them = self.cells[f], candidates.dim() == 1
        codes, before, square = (
            x if all_of_them else x[candidates] for x in (cell.codes, self.pushes[f], self.squares[f])
        )
        return self._with_codes(row, cell.columns, codes, before, square)

    def with_carried(self, row: int, k: int) -> First:
        """The lifted row with every value of carrier `k`, of a chain that has one of them."""
        carrier = self.carriers[k]
        return self._with_codes(row, carrier.columns, carrier.codes, self.carried_pushes[k], self.carried_squares[k])

    def _with_codes(self, row: int, columns: slice | Tensor, codes: Tensor, before: Tensor, square: Tensor) -> First:
        """A row with each of the `codes`, (n, width) or (C, m, width), in place of what it has in some `columns`;
        `before` and `square` are what the first layer makes of codes, and their squared lengths.
        """
        heard, weights = self.heard, self.evidence.weights
        base = self.columns[:, row].clone()
        base[:, columns] = 0
        bare = self.network.first(base[:, None], heard, weights)
        assert bare.inner is not None
        own = bare.weighted
        if own is not None and weights is not None:
            own = own + codes**2 @ weights[0][:, columns].T
        inner = codes @ heard[0][..., columns].mT
        return First(bare.before + before, bare.inner + inner, bare.square + square, own)

    def rows_with(self, row: int, f: int, candidates: Tensor) -> Tensor:
        """(C, m, D) the columns of a row with each candidate for cell `f`, (n,) or (C, m)."""
        cell = self.cells[f]
        rows = self.columns[:, row, None].repeat(1, candidates.shape[-1], 1)
        rows[..., cell.columns] += cell.codes[candidates] - cell.codes[self.index[:, row, f]][:, None]
        return rows

    def settle(self, row: int, f: int, chosen: Tensor) -> None:
        """Gives cell `f` of a row the values `chosen` (C,)."""
        cell = self.cells[f]
        self.columns[:, row, cell.columns] += cell.codes[chosen] - cell.codes[self.index[:, row, f]]
        self.index[:, row, f] = chosen

    def visit_label(self, row: int, noise: Noise) -> None:
        """Draws the label of the row that is lifted out anew, and whether it is there where that is not known."""
        classes = self.network.classes
        columns = self.columns[:, row : row + 1].expand(-1, classes, -1)
        labels = torch.arange(classes, device=self.device).expand(self.chains, -1)
        fit = self.fit(self.network.first(columns, self.heard, self.evidence.weights), labels, noise)
        log_weights = self.evidence.label_prior.expand_as(fit)
        for f, link in self.of_label:
            log_weights = log_weights + link.ratio[link.own[self.index[:, row, f]]]
        if self.evidence.choices is None:
            self.labels[:, row] = self.drawn(torch.softmax(log_weights + fit, -1))[:, 0]
            return
        others = (self.present.sum(1) - self.present[:, row]).long()
        odds = self.evidence.choices[others + 1] - self.evidence.choices[others]
        either = torch.cat([log_weights, log_weights + fit + odds[:, None]], 1)  # none, then one of each label
        chosen = self.drawn(torch.softmax(either, -1))[:, 0]
        self.labels[:, row] = chosen % classes
        self.present[:, row] = (chosen >= classes).to(self.present.dtype)
