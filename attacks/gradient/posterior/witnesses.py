"""Witnesses: chains that have come to the posterior by themselves, beside those that a search began.

Chains of many rows begin at what one search has found, and share what it has wrong: their samples agree more with each
other than with the truth, and a claim that is made of them is right less often than they say. Chains that come down
from loud noise on their own (`annealing`) have nothing in common with them but the posterior. Where they end in batches
as probable as the search does, the truth is as likely to be like them as like any other sample: so they say how often
a claim of the others is right, and whether it tells more than the best guess without the update (`claim`).

Under quiet noise they are caught on their way. Batches that are far less probable than others say nothing of the
posterior; so whichever are, the witnesses or what the search found, are left out.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from leakledger.attacks.gradient.posterior.annealing import annealed
from leakledger.attacks.gradient.posterior.chains import Chains
from leakledger.attacks.gradient.posterior.samples import Samples
from leakledger.attacks.gradient.posterior.search import FEW, LEVELS, cost
from leakledger.attacks.gradient.posterior.tempering import BEHIND, sampled

CHAINS, SWEEPS, BURNT = 8, 16, 4


def called_for(found: Chains) -> bool:
    """Whether witnesses are worth their time: few rows are sought by such chains anyway, and where entries are known by
    intervals, or errors are guessed, chains under normal noise end elsewhere.
    """
    return found.evidence.size > FEW and found.evidence.intervals is None and not found.evidence.approximate


def witnessed(found: Chains, samples: Samples, tell: Callable[[int], None] = lambda steps: None) -> Samples:
    """The `samples` of chains that a search has `found`, with those of witnesses; without either where it is far less
    probable than the other.
    """
    alone = annealed(found.network, found.cells, found.evidence, CHAINS, LEVELS, found.coins)
    scatter = (found.rows * len(found.cells)) ** 0.5
    if float(cost(alone).min()) + samples.fit.mean() > 2 * BEHIND * scatter:  # caught, and no sweeps will free them
        return samples
    others = sampled(alone, BURNT, SWEEPS, tell, rungs=1)
    ahead = others.fit.mean() - samples.fit.mean()
    if not others.settled or ahead < -BEHIND * scatter:
        return samples
    if not samples.settled or ahead > BEHIND * scatter:
        return replace(others, witness=np.ones(len(others.fit), bool))
    return joined(samples, others)


def joined(samples: Samples, others: Samples) -> Samples:
    """Both, each ladder with a number of its own; the `others` are witnesses."""
    return replace(
        samples,
        index=np.concatenate([samples.index, others.index]),
        present=np.concatenate([samples.present, others.present]),
        fit=np.concatenate([samples.fit, others.fit]),
        ladder=np.concatenate([samples.ladder, samples.ladder.max(initial=-1) + 1 + others.ladder]),
        witness=np.concatenate([np.zeros(len(samples.fit), bool), np.ones(len(others.fit), bool)]),
        energy=(samples.energy + others.energy) / 2,
    )
