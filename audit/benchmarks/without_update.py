"""What the posterior would claim if it had not seen the update: a yardstick, never an attack of an audit.

It is made of granted rows and of messages before training. So it tells apart what preparing the data has told and what
the update adds; the best guess of an adversary who sees no message (`baselines`) is not told either.
"""

from dataclasses import fields

import numpy as np
import torch

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable, RecordsClaim
from leakledger.attacks.gradient.posterior import Posterior
from leakledger.attacks.gradient.posterior.blind import blind_guess
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.attacks.observed.update import Inverted, ObservedUpdate

NAME = "without the update"


class WithoutUpdate(Posterior):
    """The posterior with its update shut: it knows the rows' number and their labels, where these are granted."""

    @torch.inference_mode()
    def invert(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge) -> Inverted:
        try:
            prior = StructuralPrior(update.layout, knowledge.bounds)
            categorical, numeric, known = self._prior(update, knowledge)
        except ValueError as error:
            return NotApplicable(str(error))
        labels = torch.tensor(update.labels[: update.rows], device=self.device) if len(update.labels) else None
        within, coins = self.tolerance * prior.deviation, self._coins(update)
        cells = [*categorical, *numeric]
        rows = blind_guess(cells, len(categorical), update.rows, within, coins, self.device, labels, known)
        unsure = np.ones_like(rows.categories, float), np.ones_like(rows.numbers)
        return RecordsClaim(update.victim, update.round, rows.categories, rows.numbers, *unsure, update.evidence)


def without_update(attack: Posterior) -> WithoutUpdate:
    """The same attack with the same knowledge, without the update."""
    return WithoutUpdate(**{f.name: getattr(attack, f.name) for f in fields(attack)})
