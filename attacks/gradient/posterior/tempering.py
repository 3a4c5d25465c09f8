"""Sampling from the posterior by replica exchange: chains under more noise lend their freedom to the others.

Ladders of chains run side by side, the first rung under the true noise, each next one under a little more. After each
sweep any two chains may exchange rows (`crossover`), and neighbours on a ladder change places with the probability that
leaves all of their distributions as they are (Swendsen and Wang 1986; Geyer 1991). What the first rungs pass through
are samples of the posterior.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from leakledger.attacks.gradient.posterior.chains import Chains
from leakledger.attacks.gradient.posterior.crossover import aligned, crossed
from leakledger.attacks.gradient.posterior.pairs import sweep_pairs
from leakledger.attacks.gradient.posterior.samples import Samples
from leakledger.attacks.gradient.posterior.search import plausible, settled

RUNGS = 4  # of a ladder; fewer chains than this are one ladder
PAIRED = 4  # sweeps, of which one is followed by one over pairs of rows, which costs as much again
# Log posteriors of chains in one mode scatter by about the root of half their cells: far below is another mode.
BEHIND = 3.0


def sampled(
    found: Chains, burnt: int, sweeps: int, tell: Callable[[int], None] = lambda steps: None, rungs: int = RUNGS
) -> Samples:
    """The batches that the first of so many `rungs` pass through in so many sweeps, after some that are `burnt`."""
    rungs = min(rungs, found.chains)
    step = 1 + 2 / (2 * found.rows * len(found.cells)) ** 0.5  # neighbours change places in a good share of sweeps
    rung = torch.arange(found.chains, device=found.device) % rungs
    noise = found.evidence.noise * step ** rung[:, None].float()
    first = torch.nonzero(rung == 0)[:, 0]
    found.exact = found.evidence.intervals is not None
    follow_the_best(found)
    aligned(found)
    index, present, fits, energies = [], [], [], []
    for number in range(burnt + sweeps):
        found.sweep(noise)
        if number % PAIRED == 0:
            sweep_pairs(found, noise)
        crossed(found, noise)
        exchange(found, noise[:, 0], rung, number % 2, rungs)
        tell(1)
        if number >= burnt:
            energy = found.energy()
            energies.append(energy[first])
            fits.append((found.log_prior() - found.misfit())[first].double().cpu().numpy())
            index.append(found.index[first].cpu().numpy())
            present.append(found.present[first].cpu().numpy() > 0)
    mean = torch.stack(energies).mean(0)
    calm = plausible(found)[first] if found.exact else settled(mean, found.evidence.entries)
    batches, there, fit = np.concatenate(index), np.concatenate(present), np.concatenate(fits)
    ladder = np.tile(np.arange(len(first)), sweeps)
    return Samples(batches, there, fit, ladder, bool(calm.all()), float(mean.mean()))


def ladders(chains: int) -> int:
    """Of how many ladders so many chains are."""
    return -(-chains // min(RUNGS, chains))


def exchange(found: Chains, noise: Tensor, rung: Tensor, parity: int, rungs: int) -> None:
    """Lets neighbours on the ladders change places: those on even rungs with the next, or those on odd ones."""
    lower = torch.nonzero(
        (rung % 2 == parity) & (rung < rungs - 1) & (torch.arange(len(rung), device=rung.device) < len(rung) - 1)
    )[:, 0]
    lower = lower[rung[lower + 1] == rung[lower] + 1]
    square = found.misfit() * 2 * found.evidence.noise**2
    gain = (square[lower] - square[lower + 1]) * (1 / noise[lower] ** 2 - 1 / noise[lower + 1] ** 2) / 2
    chance = torch.rand(len(lower), generator=found.coins, device=found.device)
    swapped = lower[chance.log() < gain]
    order = torch.arange(found.chains, device=found.device)
    order[swapped], order[swapped + 1] = swapped + 1, swapped
    found.reorder(order)


def follow_the_best(found: Chains) -> None:
    """Chains whose log posterior is far below the best one's become copies of it."""
    fits = found.log_prior() - found.misfit()
    best = int(fits.argmax())
    behind = fits < fits[best] - BEHIND * (found.rows * len(found.cells)) ** 0.5
    found.reorder(torch.where(behind, best, torch.arange(found.chains, device=found.device)))
