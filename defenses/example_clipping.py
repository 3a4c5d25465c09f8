"""Clipping of the gradient of each row (example), over all tensors, before rows are summed up.

Source: Abadi et al., "Deep Learning with Differential Privacy", CCS 2016, algorithm 1 (DP-SGD), its clipping step. The
clipping happens where the gradient is computed (`preprocess.training.row_gradients`), so only FedSGD can have it.

Guarantee: one more row moves the gradient by at most `clip_norm` / B, with B the number that the sum is divided by.
That is *not* differential privacy: without noise the gradient is a function of the rows, and clipping leaves them in
its row space. Followed by Gaussian noise (`chain`) it is the mechanism of DP-SGD: in exact arithmetic each gradient
that is sent is differentially private for rows, with L2 sensitivity 2 `clip_norm` / B where one row is replaced by
another, and `clip_norm` / B where one is added or removed while B stays what everyone agreed on (Poisson sampling). How
private depends on the noise, the sampling and the number of releases, and is accounted for elsewhere: no epsilon is
stated for it here. Nor does it cover what parties tell each other beside gradients, to agree on encodings for one.
"""

from dataclasses import dataclass

import numpy as np

from leakledger.defenses.base import Defense, Update
from leakledger.preprocess.options import check_options, option


@dataclass(frozen=True)
class ExampleClipping(Defense):
    """Scales the gradient g of each row by min(1, `clip_norm` / |g|); nothing further is done to the update."""

    clip_norm: float = option(above=0, help="largest L2 norm of the gradient of a row, over all tensors")

    name = "example-clipping"
    reference = "Abadi et al. 2016, algorithm 1, clipping"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def row_clip_norm(self) -> float:
        return self.clip_norm

    def protect(self, update: Update, coins: np.random.Generator) -> Update:
        """The update as it is: its rows were clipped when it was computed."""
        return update
