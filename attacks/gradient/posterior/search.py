"""The way to the rows that explain an update: annealing; where that fails, a pool, batches of it, and repairs.

1. A population of chains comes down from loud noise (`annealing`). Where one of them ends where the truth must be, and
   rows are few, that is all; but not where entries are known by intervals, which wrong rows may keep to.
2. A pool of rows that the row space supports, and of rows of the prior (`row_space`). The batches of it that explain
   all layers best (`assembly`) begin as chains under some noise, and so does a batch that another attack has found.
   They find rows under little noise, and join the others.
3. Repairs, until a chain is where the truth must be and gains no more: a few rows of one, those above all that its
   residual points at, leave the batch, and what they leave of the sum is solved like a small batch of its own, from
   rows of all chains and of its own row space.

All this aims at the mode; what is claimed rests on sweeps after it, which sample (`tempering`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from leakledger.attacks.gradient.posterior.annealing import annealed
from leakledger.attacks.gradient.posterior.assembly import Assembly
from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.chains import Chains, encoded, from_prior, squared
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import RowGradients
from leakledger.attacks.gradient.posterior.row_space import supported

# Slow cooling counts for more than many chains. In six batches of 8 rows of German under noise of 0.02, 32 chains over
# 28 noises end 3 nats below chains from the truth, 48 over 18 end 8, and 48 over 12, which exchange no rows, about 14.
POPULATION, LEVELS = 2, 28  # chains that come down for each one that is kept, and noises on their way
LOUD = 4.0  # times the true noise: where sweeps after an assembly begin, so that wrong cells come loose
COOLING = 30  # sweeps from there to the true noise
LEFT = 1.5  # times the assumed noise: what chains leave that have found the rows
BEGUN = 4  # chains that begin at a batch which another attack has found
CHOICES = 40  # sweeps over a pool, of little cost
SWEEPS, SMALL_SWEEPS = 30, 20  # of chains on the row space, for a whole batch and in a repair
KEPT, SMALL_KEPT = 17, 13  # one of so many chains is kept after each sweep
SMALL = 4  # a repair has so many times fewer chains
SMALL_CHAINS, SMALL_COOLING = 6, 8
LIFTED = 6  # rows that a repair takes out: batches as small are solved nearly always
EMPTY = 2  # places without a row that it looks at besides
# Of chi-square deviations: an energy above by more shows rows that are wrong.
HIGH = 2.0
# Nats; and repairs in a row that gained less before a batch that fits is left as it is, and before one that does not.
SURPRISED = 5.0  # deviations of the log likelihood of bounded entries, from which on they show the same
GAIN, PATIENCE, GIVEN_UP = 1.0, 3, 8
FEW = 16  # rows up to which annealing that ends well is all; of more, one energy has many batches with a few wrong rows


def settled(energy: Tensor, entries: int) -> Tensor:
    """Which energies (C,) are as low as that of the truth is, half a chi-square of so many entries."""
    return torch.lt(energy, entries / 2 + HIGH * (entries / 2) ** 0.5)


def plausible(found: Chains) -> Tensor:
    """Which chains (C,) are where the truth may be: their energy is as low, and no bounds of entries are broken."""
    intervals = found.evidence.intervals
    if intervals is None:
        return settled(found.energy(), found.evidence.entries)
    free = found.misfit() + intervals.log_likelihood(found.residual)  # the energy of entries that have no bounds
    calm = settled(free, intervals.free) if intervals.free else torch.ones_like(free, dtype=torch.bool)
    return calm & (intervals.surprise(found.residual) < SURPRISED)


def search(
    network: RowGradients,
    cells: Sequence[Cell],
    evidence: Evidence,
    chains: int,
    repairs: int,
    coins: torch.Generator,
    tell: Callable[[int], None] = lambda steps: None,
    pool: int = 1024,
    start: Tensor | None = None,
) -> Chains:
    """Chains as near to the mode as annealing and, if it fails, `repairs` bring them. `pool`: how many chains seek rows
    in the row space. `start`: (B, F) rows to begin at, too, in the order of the labels, which are known then.
    """
    population = annealed(network, cells, evidence, POPULATION * chains, LEVELS, coins)
    best = cost(population).argsort()[:chains]
    if evidence.size <= FEW and evidence.intervals is None and bool(plausible(population).any()):
        # Of those that the weights kept, any: the least costly alone would be surer than the posterior is.
        best = torch.randperm(population.chains, generator=coins, device=population.device)[:chains]
        return _chains(population, population.index[best], population.labels[best], population.present[best])
    rows = supported(evidence, cells, coins, pool, SWEEPS, -(-pool // KEPT))
    other = _assembled(network, cells, evidence, rows, chains, CHOICES, COOLING, coins)
    ends = [_chains(population, population.index[best], population.labels[best], population.present[best]), other]
    if start is not None:
        ends.append(_cooled(Chains(network, cells, evidence, start.repeat(BEGUN, 1, 1), coins), COOLING))
    index, labels, present = (torch.cat([getattr(e, n) for e in ends]) for n in ("index", "labels", "present"))
    both = _chains(population, index, labels, present)
    order = cost(both).argsort()[:chains]
    found = _chains(population, index[order], labels[order], present[order])
    return repaired(found, repairs, tell, pool)


def repaired(found: Chains, repairs: int, tell: Callable[[int], None] = lambda steps: None, pool: int = 1024) -> Chains:
    """The chains after so many repairs, or fewer where one is where the truth must be, or nothing more is gained."""
    idle = 0
    for step in range(repairs):
        least = float(cost(found).min())
        _repair(found, _any(found) if step % 3 == 2 else int(cost(found).argmin()), -(-pool // SMALL))
        tell(1)
        idle = 0 if float(cost(found).min()) < least - GAIN else idle + 1
        if idle >= GIVEN_UP or (idle >= PATIENCE and bool(plausible(found).any())):
            break
    return found


def loosened(found: Chains) -> Chains:
    """Chains under the noise that the best of them leaves in the update, where that is more than was assumed."""
    evidence = found.evidence
    level = math.sqrt(2 * float(found.energy().min()) / evidence.entries)
    if level <= LEFT:
        return found
    return _chains(found, found.index, found.labels, found.present, replace(evidence, noise=level * evidence.noise))


def _chains(like: Chains, index: Tensor, labels: Tensor, present: Tensor, evidence: Evidence | None = None) -> Chains:
    """Chains on the same evidence as `like`, or other, at batches of rows `index` (C, B, F) with `labels` (C, B), in
    the places that are `present` (C, B).
    """
    given = like.evidence if evidence is None else evidence
    return Chains(like.network, like.cells, given, index.clone(), like.coins, labels.clone(), present.clone())


def _assembled(
    network: RowGradients,
    cells: Sequence[Cell],
    evidence: Evidence,
    pool: Tensor,
    chains: int,
    choices: int,
    cooling: int,
    coins: torch.Generator,
) -> Chains:
    """Chains that begin at batches of rows of the pool, chosen to fit."""
    scale = _likely_scale(network, cells, evidence, coins) if evidence.shrunk else 1.0
    atoms = Assembly(network, cells, evidence, pool, scale)
    noises = np.geomspace(evidence.loudest, evidence.noise, choices)
    chosen = atoms.choose(atoms.start(chains, coins), noises.tolist(), coins)
    found = Chains(network, cells, evidence, atoms.index[chosen], coins, atoms.labels[chosen], atoms.present[chosen])
    return _cooled(found, cooling)


def _cooled(found: Chains, cooling: int) -> Chains:
    """The chains after so many sweeps under less and less noise, down to the true one."""
    noise = found.evidence.noise
    for level in np.geomspace(min(LOUD * noise, found.evidence.loudest), noise, cooling).tolist():
        found.sweep(level)
    return found


def _likely_scale(network: RowGradients, cells: Sequence[Cell], evidence: Evidence, coins: torch.Generator) -> float:
    """By how much the sum was shrunk, if its rows are like those of the prior."""
    device = str(evidence.total[0].device)
    index = from_prior(cells, evidence.size, coins, device)[None]
    labels = (
        evidence.labels if evidence.labels is not None else torch.zeros(evidence.size, dtype=torch.int64, device=device)
    )
    columns = encoded(network, cells, index)
    sums = network.sums(columns, labels[None], torch.ones_like(columns[..., 0]))
    expected = float(squared(sums, evidence.weights))
    signal = max(evidence.square - evidence.entries * evidence.noise**2, 0.0)
    return float(np.clip(np.sqrt(signal / max(expected, 1e-30)), 1e-3, 1.0))


def cost(found: Chains) -> Tensor:
    """(C,) minus the log posterior."""
    return found.misfit() - found.log_prior()


def _any(found: Chains) -> int:
    """A chain at random: the best one alone would keep its mistakes."""
    return int(torch.randint(found.chains, (), generator=found.coins, device=found.device))


def _repair(found: Chains, chain: int, seekers: int) -> None:
    """Solves some rows of one chain anew, from those that so many `seekers` find, and keeps what is more probable."""
    chosen = _suspects(found, chain)
    own = slice(chain, chain + 1)
    columns, labels, present = (x[own, chosen] for x in (found.columns, found.labels, found.present))
    parts = found.network.sums(columns, labels, found.scale[own] * present * found.factors(columns, labels))
    left = [rest[chain] + part[0] for rest, part in zip(found.residual, parts, strict=True)]
    evidence = found.evidence.of_rows(chosen, left, int(found.present[chain].sum() - present.sum()))
    if evidence.shrunk:
        left = [part / float(found.scale[chain]) for part in left]
        evidence = evidence.unshrunk(left, float(found.scale[chain]))
    known = found.index[found.present > 0]
    new = supported(evidence, found.cells, found.coins, seekers, SMALL_SWEEPS, -(-seekers // SMALL_KEPT))
    pool = torch.unique(torch.cat([known, new]), dim=0)
    small = _assembled(
        found.network, found.cells, evidence, pool, SMALL_CHAINS, CHOICES // 2, SMALL_COOLING, found.coins
    )
    now = found.index[own, chosen].clone()
    before = Chains(found.network, found.cells, evidence, now, found.coins, labels.clone(), present.clone())
    costs = cost(small)
    best = int(costs.argmin())
    if float(costs[best]) < float(cost(before)[0]):
        index, labels, present = found.index.clone(), found.labels.clone(), found.present.clone()
        index[chain, chosen], labels[chain, chosen] = small.index[best], small.labels[best]
        present[chain, chosen] = small.present[best]
        found.become(index, labels, present)


def _suspects(found: Chains, chain: int) -> Tensor:
    """(k,) rows of a chain: likelier, the more of a row lies in the directions that stand out of its residual, and the
    fewer other chains have that row. Where places have none, some of these too.
    """
    _, values, directions = torch.linalg.svd(found.residual[0][chain].double(), full_matrices=False)
    out, width = found.residual[0].shape[1:]
    count = max(2, int((values > (out**0.5 + width**0.5) * found.evidence.noise_of_first).sum()))
    rows = torch.cat([found.columns[chain], torch.ones(found.rows, 1, device=found.device)], 1).double()
    inside = ((rows @ directions[:count].T) ** 2).sum(1) / (rows**2).sum(1)
    named = [f for f, cell in enumerate(found.cells) if cell.raw is None]
    held = found.index[..., named]
    same = ((held[chain][:, None, None] == held[None]).all(-1) & (found.present > 0)).any(2).double().mean(1)
    seen = (inside**2).sum().clamp_min(1e-30)  # 0 where nothing is left that any row has
    weights = inside**2 / seen + (1.05 - same) / (1.05 - same).sum() / 2
    there = found.present[chain] > 0
    number, empty = min(LIFTED, int(there.sum())), torch.nonzero(~there)[:EMPTY, 0]
    if not number:
        return empty
    return torch.cat([torch.multinomial(weights * there, number, generator=found.coins), empty])
