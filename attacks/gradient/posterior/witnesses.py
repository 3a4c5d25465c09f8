"""Witnesses: chains that have come to the posterior by themselves, beside those that a search began.

Chains begin at what one search has found, or one population has kept, and share what it has wrong: their samples agree
more with each other than with the truth, and a claim that is made of them is right less often than they say. Chains
that come down from loud noise on their own (`annealing`) have nothing in common with them but the posterior. Where they
end in batches as probable as the search does, the truth is as likely to be like them as like any other sample: so they
say how often a claim of the others is right, and whether it tells more than the best guess without the update
(`held_out`).

Under quiet noise they are caught on their way. Batches that are far less probable than others say nothing of the
posterior; so whichever are, the witnesses or what the search found, are left out.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from leakledger.attacks.gradient.posterior.annealing import annealed
from leakledger.attacks.gradient.posterior.chains import Chains
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.samples import Samples
from leakledger.attacks.gradient.posterior.search import FEW, LEVELS, QUIET, cost
from leakledger.attacks.gradient.posterior.tempering import BEHIND, ladders, sampled

CHAINS, FEW_ROWS_CHAINS = 8, 16  # at most, and no more than the search has; of few rows more cost next to nothing
UNSAMPLED = 4  # sweeps before those that are


def called_for(evidence: Evidence) -> bool:
    """Whether witnesses are worth their time. Few rows that can be told apart one by one are found, and chains that
    come down are caught; where entries are known by intervals, or errors are guessed, these end elsewhere.
    """
    hidden = evidence.size > FEW or evidence.loudest <= QUIET * evidence.noise
    return hidden and evidence.intervals is None and not evidence.approximate


def effort(evidence: Evidence, chains: int, sweeps: int) -> tuple[int, int]:
    """How many witnesses are called, and in how many sweeps they leave as many samples as ladders of so many `chains`
    do in so many `sweeps`.
    """
    own = min(chains, CHAINS if evidence.size > FEW else FEW_ROWS_CHAINS)
    return own, -(-ladders(chains) * sweeps // own)


def witnessed(
    found: Chains, samples: Samples, chains: int, sweeps: int, tell: Callable[[int], None] = lambda steps: None
) -> Samples:
    """The `samples` of chains that a search has `found`, with those of so many `chains` of witnesses in so many
    `sweeps`; without either where it is far less probable than the other.
    """
    alone = annealed(found.network, found.cells, found.evidence, chains, LEVELS, found.coins)
    scatter = (found.rows * len(found.cells)) ** 0.5
    if float(cost(alone).min()) + samples.fit.mean() > 2 * BEHIND * scatter:  # caught, and no sweeps will free them
        return samples
    others = sampled(alone, UNSAMPLED, sweeps, tell, rungs=1)
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
