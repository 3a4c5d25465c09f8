"""Quantisation of an update: each tensor is rounded to few levels, evenly spaced up to its largest magnitude.

Source: Alistarh et al., "QSGD", NeurIPS 2017, section 3.1 (stochastic rounding to levels of each tensor, by its largest
magnitude in place of its L2 norm); nearest rounding is the plain alternative.

Guarantee: none. It is *not* differential privacy: the largest magnitude of each tensor is sent as it is, and an
adversary knows of every entry that it is within one step of what was sent (half a step where rounding is to the
nearest). Stochastic rounding is unbiased, so it averages out over releases.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.defenses.base import Defense, Update
from leakledger.preprocess.options import check_options, option

FEWEST, MOST = 2, 24  # one bit leaves a single level, zero; beyond 24 the levels are finer than float32


@dataclass(frozen=True)
class Quantisation(Defense):
    """Rounds each tensor u to the 2^`bits` - 1 levels k m / (2^(`bits` - 1) - 1), m = max |u|, k a whole number: zero
    and ±m are levels. Nearest: a tie goes to the even k. Stochastic: up or down at random, so that the mean is u.
    """

    bits: int = option(at_least=FEWEST, at_most=MOST, help="levels of a tensor are 2^bits - 1, zero among them")
    rounding: Literal["nearest", "stochastic"] = option("nearest", help='"stochastic" is right in the mean')

    name = "quantisation"
    reference = "Alistarh et al. 2017, section 3.1"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def random(self) -> bool:
        return self.rounding == "stochastic"

    def protect(self, update: Update, coins: np.random.Generator) -> Update:
        return {name: self._rounded(a, coins) for name, a in update.items()}

    def _rounded(self, array: NDArray[np.float32], coins: np.random.Generator) -> NDArray[np.float32]:
        largest = float(np.abs(array).max(initial=0.0))
        if largest == 0:
            return array.copy()
        highest = 2 ** (self.bits - 1) - 1
        place = array.astype(np.float64) / largest * highest  # within ±highest
        level = np.floor(place + coins.random(array.shape)) if self.random else np.rint(place)
        return np.asarray(level / highest * largest, array.dtype)
