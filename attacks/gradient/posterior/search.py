"""The way to the rows that explain an update: the relaxed batch, annealing, and repairs.

1. The batch is relaxed, from rows that the row space supports (`row_space`): each row may be there in part, so that the
   best weights of rows are found without being caught on the way (`relaxation`). Batches of rows with weight, chosen to
   fit (`assembly`), begin as chains under little noise. A batch that another attack has found begins beside them. Few
   rows are told apart best by the few of a relaxation that fits no better than the truth; more rows are missed by it.
   Of more rows the batches come down from loud noise as a population, and chains begin under the true noise: under a
   little more, what fits comes apart sooner than they put it together again.
2. Repairs, until a chain is where the truth must be and gains no more: rows of one, those above all that its residual
   points at, leave the batch, and what they leave of the sum is solved like a batch of its own, from rows of all chains
   and of its own row space.
3. Where noise hides what single rows are, few rows are found best by a population of chains that comes down from loud
   noise (`annealing`): it goes first there, and is all if it ends where the truth must be. More rows are left to it
   where repairs fail.
4. Chains of more rows come down once more, from a little more than the true noise: rows that make up for each other
   come loose, and the chains, which repairs have brought near one mode, go apart. Where they do not come back to what
   they had found, as of very many rows, that is kept.

All this aims at the mode; what is claimed rests on sweeps after it, which sample (`tempering`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from leakledger.attacks.gradient.posterior.annealing import annealed, descend
from leakledger.attacks.gradient.posterior.assembly import Assembly
from leakledger.attacks.gradient.posterior.atoms import atoms_of, with_labels
from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.chains import Chains, encoded, from_prior, squared
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import RowGradients
from leakledger.attacks.gradient.posterior.relaxation import relaxed
from leakledger.attacks.gradient.posterior.row_space import supported

# Slow cooling counts for more than many chains. In six batches of 8 rows of German under noise of 0.02, 32 chains over
# 28 noises end 3 nats below chains from the truth, 48 over 18 end 8, and 48 over 12, which exchange no rows, about 14.
POPULATION, LEVELS = 2, 28  # chains that come down for each one that is kept, and noises on their way
QUIET = 5.0  # where noise must be louder by more to drown the update, rows can be told apart one by one
LOUD = 2.0  # times the true noise: where wrong cells come loose, after an assembly and after all repairs
COOLING, SMALL_COOLING = 8, 4  # sweeps from there to the true noise, of a whole batch and in a repair
LEFT = 1.5  # times the assumed noise: what chains leave that have found the rows
BEGUN = 4  # chains that begin at a batch which another attack has found
CHOICES, TRIED = 80, 4  # sweeps over atoms, of little cost; of more rows so many batches for each chain that begins
SWEEPS, SMALL_SWEEPS = 30, 20  # of chains on the row space
KEPT, SMALL_KEPT = 17, 13  # one of so many chains is kept after each sweep
SMALL = 4  # a repair has so many times fewer that seek rows
SMALL_CHAINS = 6
STIRS = 10  # noises on the way down from there, after all repairs of more rows
SETTLING = 2  # sweeps
LIFTED = 6  # rows that a repair takes out at least, and of more these shares in turn: half a batch is seldom caught
SHARES = 1 / 2, 2 / 3
EMPTY = 2  # places without a row that it looks at besides
HIGH = 2.0  # of chi-square deviations: an energy above by more shows rows that are wrong
SURPRISED = 5.0  # deviations of the log likelihood of bounded entries, from which on they show the same
# Nats; and repairs in a row that gained less before a batch that fits is left as it is, one of few rows sooner, and
# before one that does not fit is.
GAIN, PATIENCE, SMALL_PATIENCE, GIVEN_UP = 10.0, 6, 3, 8
FEW = 16  # rows up to which a search that ends well is all; of more, one energy has many batches with a few wrong rows


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
    pool: int = 384,
    start: Tensor | None = None,
) -> Chains:
    """Chains as near to the mode as the relaxed batch and, if that fails, `repairs` and annealing bring them. `pool`:
    how many chains seek rows in the row space. `start`: (B, F) rows to begin at, too, in the order of the labels, which
    are known then.
    """

    def descended() -> Chains:
        return annealed(network, cells, evidence, POPULATION * chains, LEVELS, coins)

    few, exact = evidence.size <= FEW, evidence.intervals is None
    ends = []
    if few and not (exact and evidence.loudest > QUIET * evidence.noise):
        ends.append(descended())
        if exact and bool(plausible(ends[0]).any()):
            # Of those that the weights kept, any: the least costly alone would be surer than the posterior is.
            kept = torch.randperm(ends[0].chains, generator=coins, device=ends[0].device)[:chains]
            return _some(ends, kept)
    rows = supported(evidence, cells, coins, pool, SWEEPS, -(-pool // KEPT))
    ends.append(_assembled(network, cells, evidence, rows, chains, COOLING, coins, not few))
    if start is not None:
        ends.append(_cooled(Chains(network, cells, evidence, start.repeat(BEGUN, 1, 1), coins), COOLING))
    found = _best(ends, chains)
    if few and exact and bool(plausible(found).any()):
        return found
    found = repaired(found, repairs, tell, pool)
    if few:
        return found
    if not bool(plausible(found).any()):
        found = repaired(_best([found, descended()], chains), repairs, pool=pool)
    return _loosened_once(found)


def _loosened_once(found: Chains) -> Chains:
    """The chains after they came down once more from a little more than the true noise; without that, where it ends
    in batches less probable by more than samples of one posterior differ.
    """
    found = _swept(found)
    loose = _chains(found, found.index, found.labels, found.present)
    descend(loose, _loosening(found.evidence), STIRS)
    lost = float(cost(loose).mean() - cost(found).mean())
    return found if lost > (found.rows * len(found.cells)) ** 0.5 else loose


def _best(ends: Sequence[Chains], chains: int) -> Chains:
    """The most probable of the chains that different ways have led to."""
    return _some(ends, torch.cat([cost(e) for e in ends]).argsort()[:chains])


def _some(ends: Sequence[Chains], order: Tensor) -> Chains:
    """Those of all `ends`, one after the other, in this order."""
    index, labels, present = (torch.cat([getattr(e, n) for e in ends])[order] for n in ("index", "labels", "present"))
    return _chains(ends[0], index, labels, present)


def repaired(found: Chains, repairs: int, tell: Callable[[int], None] = lambda steps: None, pool: int = 384) -> Chains:
    """The chains after so many repairs, or fewer where one is where the truth must be, or nothing more is gained."""
    idle = 0
    for step in range(repairs):
        least = float(cost(found).min())
        chain = _any(found) if step % 3 == 2 else int(cost(found).argmin())
        _repair(found, chain, -(-pool // SMALL), SHARES[step % 2])
        tell(1)
        idle = 0 if float(cost(found).min()) < least - GAIN else idle + 1
        patience = PATIENCE if found.rows > FEW else SMALL_PATIENCE
        if idle >= GIVEN_UP or (idle >= patience and bool(plausible(found).any())):
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
    cooling: int,
    coins: torch.Generator,
    thorough: bool,
) -> Chains:
    """Chains that begin at batches of rows that the relaxed batch is made of, from the rows of the pool on; the best of
    more such batches where it is `thorough`, which has more rows to choose from.
    """
    scale = _likely_scale(network, cells, evidence, coins) if evidence.shrunk else 1.0
    atoms = atoms_of(network, cells, evidence, *with_labels(evidence, pool, network.classes), scale)
    found = relaxed(network, cells, evidence, atoms, coins, scale, thorough=thorough)
    choice = Assembly(evidence, found.atoms)
    noises = np.geomspace(evidence.loudest, evidence.noise, CHOICES).tolist()
    start = choice.start(TRIED * chains if thorough else chains, coins, found.weights)
    chosen = choice.choose(start, noises, coins, population=thorough)
    if thorough:
        chosen = chosen[choice.costs(chosen).argsort()[:chains]]
    begun = Chains(network, cells, evidence, choice.index[chosen], coins, choice.labels[chosen], choice.present[chosen])
    return _swept(begun) if thorough else _cooled(begun, cooling)


def _swept(found: Chains) -> Chains:
    """The chains after a few sweeps under the true noise, which choices of atoms, and rows kept for fitting best, have
    not had.
    """
    for _ in range(SETTLING):
        found.sweep(found.evidence.noise)
    return found


def _cooled(found: Chains, cooling: int) -> Chains:
    """The chains after so many sweeps under less and less noise, down to the true one."""
    for level in np.geomspace(_loosening(found.evidence), found.evidence.noise, cooling).tolist():
        found.sweep(level)
    return found


def _loosening(evidence: Evidence) -> float:
    """The noise under which wrong cells come loose, and most right ones stay."""
    return min(LOUD * evidence.noise, evidence.loudest)


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


def _repair(found: Chains, chain: int, seekers: int, share: float) -> None:
    """Solves some rows of one chain anew, from those that so many `seekers` find, and keeps what is more probable."""
    chosen = _suspects(found, chain, max(LIFTED, round(share * found.rows)))
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
    thorough = found.rows > FEW
    small = _assembled(found.network, found.cells, evidence, pool, SMALL_CHAINS, SMALL_COOLING, found.coins, thorough)
    now = found.index[own, chosen].clone()
    before = Chains(found.network, found.cells, evidence, now, found.coins, labels.clone(), present.clone())
    costs = cost(small)
    best = int(costs.argmin())
    if float(costs[best]) < float(cost(before)[0]):
        index, labels, present = found.index.clone(), found.labels.clone(), found.present.clone()
        index[chain, chosen], labels[chain, chosen] = small.index[best], small.labels[best]
        present[chain, chosen] = small.present[best]
        found.become(index, labels, present)


def _suspects(found: Chains, chain: int, most: int = LIFTED) -> Tensor:
    """(k,) rows of a chain: likelier, the more of a row lies in the directions that stand out of its residual, and the
    fewer other chains have that row. Where places have none, some of these too.
    """
    scale = found.evidence.equalising
    _, values, directions = torch.linalg.svd((found.residual[0][chain] * scale).double(), full_matrices=False)
    out, width = found.residual[0].shape[1:]
    count = max(2, int((values > (out**0.5 + width**0.5) * found.evidence.noise).sum()))
    rows = (torch.cat([found.columns[chain], torch.ones(found.rows, 1, device=found.device)], 1) * scale).double()
    inside = ((rows @ directions[:count].T) ** 2).sum(1) / (rows**2).sum(1)
    named = [f for f, cell in enumerate(found.cells) if cell.raw is None]
    held = found.index[..., named]
    same = ((held[chain][:, None, None] == held[None]).all(-1) & (found.present > 0)).any(2).double().mean(1)
    seen = (inside**2).sum().clamp_min(1e-30)  # 0 where nothing is left that any row has
    weights = inside**2 / seen + (1.05 - same) / (1.05 - same).sum() / 2
    there = found.present[chain] > 0
    number, empty = min(most, int(there.sum())), torch.nonzero(~there)[:EMPTY, 0]
    if not number:
        return empty
    return torch.cat([torch.multinomial(weights * there, number, generator=found.coins), empty])
