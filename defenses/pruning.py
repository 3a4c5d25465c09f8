"""Pruning of an update: in each tensor the entries that are smallest in magnitude are not sent.

Source: Zhu, Liu, Han, "Deep Leakage from Gradients", NeurIPS 2019, section 5.2 (gradient compression as a defense); the
choice of entries is that of Lin et al., "Deep Gradient Compression", ICLR 2018; what is not sent is not kept for later.

Guarantee: none. It is *not* differential privacy: entries that are kept are exact, and which ones are kept depends on
the rows. An adversary knows from the zeros which entries were pruned, and that those were no larger than the rest.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.defenses.base import Defense, Update
from leakledger.preprocess.options import check_options, option


@dataclass(frozen=True)
class Pruning(Defense):
    """Sets floor(`share` n) of the n entries of each tensor to zero, those smallest in magnitude; of equal ones those
    that come first. The others are sent unchanged.
    """

    share: float = option(above=0, below=1, help="share of each tensor's entries that is set to zero")

    name = "pruning"
    reference = "Zhu et al. 2019, section 5.2"

    def __post_init__(self) -> None:
        check_options(self)

    def protect(self, update: Update, coins: np.random.Generator) -> Update:
        return {name: self._pruned(a) for name, a in update.items()}

    def _pruned(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        kept = array.flatten()
        kept[np.argsort(np.abs(kept), kind="stable")[: int(self.share * kept.size)]] = 0
        return kept.reshape(array.shape)
