"""`sign`: of every entry of an update only its sign is sent, times the mean magnitude of its tensor. An example.

Source: 1-bit SGD (Seide et al., Interspeech 2014), without its error feedback. It guarantees nothing.
"""

from dataclasses import dataclass

import numpy as np

from leakledger.defenses.base import Defense, Update


@dataclass(frozen=True)
class Sign(Defense):
    name = "sign"
    reference = "Seide et al. (2014), without error feedback"

    def protect(self, update: Update, coins: np.random.Generator) -> Update:
        return {name: (np.sign(a) * np.abs(a).mean()).astype(a.dtype) for name, a in update.items()}
