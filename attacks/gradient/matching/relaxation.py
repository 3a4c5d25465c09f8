"""The prior on tensors: encoded rows of the optimiser's variables, and gradients back to the variables.

Variables and units are (V, size, R·B), feature by feature, so that each feature's softmax runs over contiguous memory.
Tensors are reused by every iteration: fresh memory costs more than the arithmetic.
"""

from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.observed.tabular import StructuralPrior


class Relaxation:
    """Encoded rows (`columns`) and gradients (`pull`) for V victims with R restarts of B rows."""

    def __init__(self, prior: StructuralPrior, shape: tuple[int, int, int], device: str, dtype: torch.dtype) -> None:
        victims, restarts, batch = shape

        def tensor(array: NDArray[np.float64]) -> Tensor:
            return torch.tensor(array, dtype=dtype, device=device)

        self.spread, self.centre = tensor(prior.spread).unsqueeze(-1), tensor(prior.centre).unsqueeze(-1)
        self.matrix, self.offset, self.groups = tensor(prior.matrix), tensor(prior.offset), tensor(_groups(prior))
        diagonal = np.diag(prior.matrix)
        self.gain = tensor(diagonal) if np.array_equal(np.diagflat(diagonal), prior.matrix) else None
        free = ~_groups(prior).any(0)
        self.free = torch.tensor(free, device=device).unsqueeze(-1) if free.any() else None
        self.logits, self.units, self.units_bar, self.shares = self.matrix.new_empty(
            4, victims, prior.size, restarts * batch
        )
        self.encoded = self.matrix.new_empty(victims, restarts * batch, prior.width)
        self.shape = (victims, restarts, batch, prior.width)
        self.temperature = 1.0
        numbers = [self._views(s) for s in _runs(prior.positions)]
        choices = [self._views(s) for s in prior.choices]
        self.sigmoids = numbers if prior.sigmoid else []
        self.softmaxes = choices if prior.softmax else []
        self.copies = ([] if prior.sigmoid else numbers) + ([] if prior.softmax else choices)
        self.soft = prior.choices if prior.softmax else []

    def columns(self, variables: Tensor, temperature: float = 1.0) -> Tensor:
        """Encoded rows (V, R, B, width) of variables (V, size, R·B). Leaves `units` alike.

        `temperature` divides the logits of the softmaxes.
        """
        torch.addcmul(self.centre, self.spread, variables, out=self.logits)
        for logits, units in self.sigmoids:
            torch.sigmoid(logits, out=units)
        self.temperature = temperature
        for logits, units in self.softmaxes:
            torch.softmax(logits if temperature == 1 else logits.div_(temperature), 1, out=units)
        for logits, units in self.copies:
            units.copy_(logits)
        if self.gain is not None:
            torch.addcmul(self.offset, self.units.mT, self.gain, out=self.encoded)
        else:
            torch.matmul(self.units.mT, self.matrix, out=self.encoded).add_(self.offset)
        return self.encoded.view(self.shape)

    def pull(self, columns_bar: Tensor) -> Tensor:
        """The gradient for the variables (V, size, R·B) from that for the encoded rows, after `columns`.

        A sigmoid's derivative u (1 - u) is a softmax's with one candidate written down, so that both are one formula.
        """
        bar = columns_bar.flatten(1, 2).mT
        if self.gain is not None:
            torch.mul(bar, self.gain.unsqueeze(-1), out=self.units_bar)
        else:
            torch.matmul(self.matrix, bar, out=self.units_bar)
        weighted = torch.mul(self.units_bar, self.units, out=self.logits)
        if self.free is not None:
            weighted = torch.where(self.free, self.units_bar, weighted)
        torch.matmul(self.groups.T, self.groups @ weighted, out=self.shares)
        pulled = weighted.addcmul_(self.units, self.shares, value=-1).mul_(self.spread)
        for place in self.soft if self.temperature != 1 else ():
            pulled[:, place].div_(self.temperature)
        return pulled

    def _views(self, place: slice) -> tuple[Tensor, Tensor]:
        return self.logits[:, place], self.units[:, place]


def _groups(prior: StructuralPrior) -> NDArray[np.float64]:
    """(groups, size): which variables share a sigmoid or softmax."""
    places = [*(prior.positions if prior.sigmoid else []), *(prior.choices if prior.softmax else [])]
    groups = np.zeros((len(places), prior.size))
    for i, place in enumerate(places):
        groups[i, place] = 1
    return groups


def _runs(positions: NDArray[np.int64]) -> list[slice]:
    """Positions as few slices."""
    runs = groupby(enumerate(positions.tolist()), lambda pair: pair[1] - pair[0])
    places = [[p for _, p in run] for _, run in runs]
    return [slice(run[0], run[-1] + 1) for run in places]
