"""Gaussian noise on every entry of an update; alone, without clipping, the defense that the TabLeak paper measures.

Source: TabLeak, appendix C.1 (s = 0.001, 0.01, 0.1). Without a bound on the update's sensitivity this is *not*
differential privacy, whatever s is: no epsilon is stated for it. After `example-clipping` it is the noise of DP-SGD.
"""

from dataclasses import dataclass

import numpy as np

from leakledger.defenses.base import Defense, Update
from leakledger.preprocess.options import check_options, option


@dataclass(frozen=True)
class GaussianNoise(Defense):
    """Adds N(0, `sigma`²), in the units of the update."""

    sigma: float = option(above=0, help="standard deviation of the noise, in the units of the update")

    name = "gaussian-noise"
    reference = "TabLeak, appendix C.1"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def random(self) -> bool:
        return True

    def protect(self, update: Update, coins: np.random.Generator) -> Update:
        return {name: a + coins.normal(0, self.sigma, a.shape).astype(a.dtype) for name, a in update.items()}
