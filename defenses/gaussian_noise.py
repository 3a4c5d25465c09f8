"""Gaussian noise on every entry of an update, without clipping: the defense that the TabLeak paper measures.

Source: TabLeak, appendix C.1 (s = 0.001, 0.01, 0.1). Without a bound on the update's sensitivity this is *not*
differential privacy, whatever s is: no epsilon is stated for it.
"""

from dataclasses import dataclass

import numpy as np

from defenses.base import Defense, Update, require


@dataclass(frozen=True)
class GaussianNoise(Defense):
    """Adds N(0, `sigma`²), in the units of the update."""

    sigma: float

    name = "gaussian-noise"
    reference = "TabLeak, appendix C.1"

    def __post_init__(self) -> None:
        require(0 < self.sigma < np.inf, "sigma", self.sigma, "a finite number above 0")

    def protect(self, update: Update, coins: np.random.Generator) -> Update:
        return {name: a + coins.normal(0, self.sigma, a.shape).astype(a.dtype) for name, a in update.items()}
