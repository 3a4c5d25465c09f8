"""Clipping of a client's whole update, over all tensors: of a gradient, or of what local training added to the weights.

Source: McMahan et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018, section 2.3 (flat
clipping).

Guarantee: no update that is sent is longer than `clip_norm`. That is *not* differential privacy, for clients or for
rows: its direction tells as much as before, and all that is lost is the length of updates that are too long. With noise
added to it (`chain`) a bound for clients can be accounted for elsewhere; none is stated here.
"""

from dataclasses import dataclass

import numpy as np

from leakledger.defenses.base import Defense, Update
from leakledger.preprocess.options import check_options, option


@dataclass(frozen=True)
class ClientClipping(Defense):
    """Scales the update u by min(1, `clip_norm` / |u|); the bound holds up to rounding to float32."""

    clip_norm: float = option(above=0, help="largest L2 norm of an update, over all tensors")

    name = "client-clipping"
    reference = "McMahan et al. 2018, section 2.3"

    def __post_init__(self) -> None:
        check_options(self)

    def protect(self, update: Update, coins: np.random.Generator) -> Update:
        norm = float(np.sqrt(sum(np.square(a, dtype=np.float64).sum() for a in update.values())))
        factor = self.clip_norm / max(norm, self.clip_norm)
        return {name: (a * factor).astype(a.dtype) for name, a in update.items()}
