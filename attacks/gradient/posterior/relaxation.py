"""The relaxed batch: how much of each possible row the update is made of, if rows need not be whole.

Let every possible row have any weight c >= 0, the weights of each label adding up to the rows that have it. Then

    |G - sum_m c_m g_m|² / 2 - noise² sum_m c_m log prior_m

is convex in c: the best weights of given rows are found, where chains over whole batches are caught. The possible rows
are too many to list, so they come in as they are needed (column generation; for sums of few atoms out of a continuum
the conditional gradient method of Bredies and Pikkarainen 2013, fully corrective). It begins with a pool that the row
space supports. In each round the weights are solved for (`least_squares`), rows without weight are dropped, and of all
rows that differ in one cell from a row with weight those enter whose gradients point most along what is left of the
update. Under little noise most of the weight ends on rows of the batch, also where the pool had few of them; under more
it is spread over rows that are like them. Whole batches of the rows with weight are what chains begin at (`assembly`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from leakledger.attacks.gradient.posterior.atoms import Atoms, atoms_of
from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.least_squares import non_negative
from leakledger.attacks.gradient.posterior.network import RowGradients

ROUNDS = 12
GAIN, LITTLE = 1.0, 20.0  # nats: without the first a round counts for nothing, without the second it is the last
ENTERING = 600  # rows that enter in a round, at most
VARIED = 300  # rows of most weight, whose neighbours are looked at
NEAR, FAR = 16, 8  # values of a number that are tried around the present one, and from its prior
AT_ONCE = 4096  # rows whose gradients are held in memory
WEIGHTY = 1e-4  # of a row
HELD = 10.0  # times the mean square of a gradient: what a row too many or too few of a label costs
RIDGE = 4.0  # times the noise's variance: near twins share what cannot be told apart


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Atoms with their `gram` (M, M), and the `weights` (M,) of each, all above zero; the `energy`, half the squared
    residual over the noise's variance; and the `worth` (G,) of a row more of each label, as the cost goes.
    """

    atoms: Atoms
    gram: Tensor
    weights: Tensor
    energy: float
    worth: Tensor


def relaxed(
    network: RowGradients,
    cells: Sequence[Cell],
    evidence: Evidence,
    atoms: Atoms,
    coins: torch.Generator,
    scale: float = 1.0,
    rounds: int = ROUNDS,
    thorough: bool = False,
) -> Relaxed:
    """The relaxed batch, from `atoms` on, after so many rounds, or once its energy is that of the truth, or no rows are
    found any more that improve it. `thorough`: on below the truth's energy, as far as rows improve it by more than a
    `LITTLE`: the truth is only one of the batches that it is relaxed from. Weights are spread then, and more rows of
    the batch among the atoms: 29 of 32 of Adult under noise of 0.003, in place of 21. `scale`: the factor that the sum
    was shrunk by.
    """
    found = _solved(evidence, atoms, atoms.gram(), None)
    for _ in range(rounds):
        if not thorough and found.energy < evidence.entries / 2:
            break
        near = _neighbours(found, cells, network.classes if evidence.labels is None else 0, coins)
        new = _entering(network, cells, evidence, found, near, scale)
        if not len(new):
            break
        start = functional.pad(found.weights, (0, len(new)))
        more = _solved(evidence, found.atoms.joined(new), _extended(found, new), start)
        gain = found.energy - more.energy
        if gain < GAIN:  # near twins of what is there already
            break
        found = more
        if thorough and gain < LITTLE:
            break
    return found


def _extended(found: Relaxed, new: Atoms) -> Tensor:
    """(M, M) the inner products of all atoms, of which only those of `new` ones are not known."""
    across = found.atoms.gram(new)
    return torch.cat([torch.cat([found.gram, across], 1), torch.cat([across.T, new.gram()], 1)])


def _solved(evidence: Evidence, atoms: Atoms, gram: Tensor, start: Tensor | None) -> Relaxed:
    """The best weights of these atoms, with their `gram` (M, M); atoms without weight are dropped, but for one."""
    target, variance = atoms.towards(evidence.total), evidence.noise**2
    members, rows = _labelled(evidence, atoms.labels)
    price = HELD * float(gram.diagonal().mean())
    held = gram + price * members @ members.T
    aims = target + variance * atoms.log_prior + price * members @ rows
    weights = non_negative(held, aims, RIDGE * variance, start)
    square = evidence.square - 2 * float(weights @ target) + float(weights @ gram @ weights)
    kept = weights > WEIGHTY
    kept[(members * (1 + weights[:, None])).argmax(0)] = True  # something of each label
    kept[weights.argmax()] = True  # and of a sample that may have no row what others enter beside
    worth = price * (rows - weights @ members)
    above = weights[kept].clamp_min(WEIGHTY)
    return Relaxed(atoms.some(kept), gram[kept][:, kept], above, square / (2 * variance), worth)


def _labelled(evidence: Evidence, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(M, G) which of G groups atoms with `labels` (M,) belong to, 1 or 0, and (G,) how many rows these are. One for
    each label where they are known, else one for all; none where it is not known how many rows there are.
    """
    if evidence.choices is not None:
        return labels.new_zeros(len(labels), 0, dtype=torch.float64), labels.new_zeros(0, dtype=torch.float64)
    if evidence.labels is None:
        return torch.ones_like(labels, dtype=torch.float64)[:, None], labels.new_tensor([evidence.rows]).double()
    each, counts = torch.unique(evidence.labels, return_counts=True)
    return (labels[:, None] == each).double(), counts.double()


def _entering(
    network: RowGradients, cells: Sequence[Cell], evidence: Evidence, found: Relaxed, rows: Tensor, scale: float
) -> Atoms:
    """Of `rows` (n, F + 1), which end in labels, those that lessen the cost, by the slope: the steepest."""
    left = [total - part for total, part in zip(evidence.total, found.atoms.added(found.weights), strict=True)]
    gains = []
    for part in torch.split(rows, AT_ONCE):
        some = atoms_of(network, cells, evidence, part[:, :-1], part[:, -1], scale)
        members, _ = _labelled(evidence, some.labels)
        gains.append(some.towards(left) + evidence.noise**2 * some.log_prior + members @ found.worth)
    gain, best = torch.cat(gains).sort(descending=True)
    chosen = rows[best[gain > 0][:ENTERING]]
    return atoms_of(network, cells, evidence, chosen[:, :-1], chosen[:, -1], scale)


def _neighbours(found: Relaxed, cells: Sequence[Cell], classes: int, coins: torch.Generator) -> Tensor:
    """(n, F + 1) the rows that differ in one cell from those with most weight, or in the label, which comes last, if it
    has `classes` to choose from; none twice, none that has weight.
    """
    present = torch.cat([found.atoms.index, found.atoms.labels[:, None]], 1)
    rows = present[found.weights.argsort(descending=True)[:VARIED]]
    varied = [rows[:0]]
    values = [*(_offered(cell, rows[:, f], coins) for f, cell in enumerate(cells)), _all(classes, rows)]
    for place, offered in enumerate(values):
        new = rows[:, None].repeat(1, offered.shape[1], 1)
        new[:, :, place] = offered
        varied.append(new.flatten(0, 1))
    different, which = torch.unique(torch.cat([present, *varied]), dim=0, return_inverse=True)
    fresh = torch.ones(len(different), dtype=torch.bool, device=rows.device)
    fresh[which[: len(present)]] = False
    new_rows: Tensor = different[fresh]
    return new_rows


def _offered(cell: Cell, now: Tensor, coins: torch.Generator) -> Tensor:
    """(n, m) values for cells that have the values `now` (n,): all, or where there are many, some near and some of the
    prior.
    """
    if cell.small:
        return _all(cell.size, now)
    steps = cell.strides(len(now), NEAR, coins)
    near = now[:, None] + steps.sign().to(now.dtype) * steps.abs().ceil().to(now.dtype)
    drawn = cell.drawn(len(now), FAR, coins)
    return torch.cat([near, drawn], 1).clamp(0, cell.size - 1)


def _all(size: int, rows: Tensor) -> Tensor:
    """(n, size) every value there is, for each of n rows."""
    return torch.arange(size, device=rows.device).expand(len(rows), -1)
