"""Cells that another one nearly determines change with it: what no chain that changes one cell at a time gets past.

Where a number follows from a category, as years at school from a degree, to change one of both alone is next to
impossible under the prior, and chains keep the pair that they began with. So the values v of such a cell are drawn
together with the likeliest values m(v) of those cells that it determines, by the measure lambda of Goodman and Kruskal
(1954): the share of wrong guesses that knowing v spares. Only a row that has v and m(v) takes part, and it has some v'
and m(v') after. Within these the draw is from the exact conditional, so that it leaves the posterior as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leakledger.attacks.gradient.posterior.cells import Cell, Link

DETERMINED = 0.5  # lambda, from which on a cell is carried
TINY = 1e-6  # the share of wrong guesses below which there is nothing to spare


@dataclass(frozen=True, eq=False)
class Carrier:
    """Cell number `places[0]` of a row with those that it carries, `places[1:]`, in terms of its n values: the `values`
    (n, k) of all k cells, their `codes` (n, width) in the `columns` (width,), and the `log_prior` (n,) of these values
    together. `cells` are the k cells with their links to others alone.
    """

    places: tuple[int, ...]
    values: Tensor
    codes: Tensor
    columns: Tensor
    log_prior: Tensor
    cells: tuple[Cell, ...]

    def held(self, index: Tensor) -> Tensor:
        """(C,) whether rows `index` (C, F) have values that go together."""
        return (index[:, list(self.places)] == self.values[index[:, self.places[0]]]).all(-1)

    def weights(self, rows: Tensor) -> Tensor:
        """(C, n) the log prior of each group of values, given the other cells and the labels of rows (C, F + 1)."""
        total = self.log_prior.expand(len(rows), -1)
        for k, cell in enumerate(self.cells):
            total = total + cell.together(rows, self.values[:, k])
        return total


def carriers(cells: Sequence[Cell]) -> list[Carrier]:
    """One for each cell, of those with few values, that determines some of those which it has links to; of two cells
    that determine each other, and no others, one is enough.
    """
    found: list[Carrier] = []
    for f, cell in enumerate(cells):
        links = [x for x in cell.links if x.other < len(cells)] if cell.small else []
        carried = [(x, v) for x, v, spared in (_likeliest(cell, x, cells) for x in links) if spared >= DETERMINED]
        if carried and {f, *(x.other for x, _ in carried)} not in [{*c.places} for c in found]:
            found.append(_carrier(cells, f, carried))
    return found


def _likeliest(cell: Cell, link: Link, cells: Sequence[Cell]) -> tuple[Link, Tensor, float]:
    """The link, (n,) the likeliest value of the cell at its other end given each of n values, and lambda."""
    other = cells[link.other]
    together = cell.log_prior[:, None] + other.log_prior + link.ratio[link.own][:, link.others]
    shares = torch.softmax(together.flatten(), 0).view_as(together)
    wrong = 1 - float(torch.softmax(other.log_prior, 0).max())
    spared = 1 - (1 - float(shares.max(1).values.sum())) / wrong if wrong > TINY else 0.0
    return link, together.argmax(1), spared


def _carrier(cells: Sequence[Cell], f: int, carried: Sequence[tuple[Link, Tensor]]) -> Carrier:
    cell = cells[f]
    places = (f, *(link.other for link, _ in carried))
    values = torch.stack([torch.arange(cell.size, device=cell.codes.device), *(v for _, v in carried)], 1)
    log_prior = cell.log_prior
    for link, likeliest in carried:
        log_prior = log_prior + cells[link.other].log_prior[likeliest] + link.ratio[link.own, link.others[likeliest]]
    own = [cells[p] for p in places]
    return Carrier(
        places,
        values,
        torch.cat([c.codes[values[:, k]] for k, c in enumerate(own)], 1),
        torch.cat([torch.arange(c.columns.start, c.columns.stop, device=values.device) for c in own]),
        log_prior,
        tuple(replace(c, links=tuple(x for x in c.links if x.other not in places)) for c in own),
    )
