"""What an aggregation is: how the updates of a round become their mean, and where the mean and the model live.

The mean is weighted by rows (eq. 1 and 2 of "Privacy-preserving tabular data transformation"). Protocols that hide
updates add up one vector per client: rows times every entry, and the rows themselves at the end. The mean is the
quotient of the two sums, so nobody has to tell how many rows it has.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import ClientGradient, ClientWeights
from leakledger.preprocess.options import check_options

Update = ClientGradient | ClientWeights
Arrays = Mapping[str, NDArray[Any]]
Weights = dict[str, NDArray[np.float32]]
Located = Mapping[str, At[Any]]


@dataclass(frozen=True)
class Aggregation(ABC):
    """One way to aggregate; its options are fields of the subclass."""

    name: ClassVar[str]
    reference: ClassVar[str]
    at_clients: ClassVar[bool] = False  # where the mean comes out and the model lives: at every client, not the server
    extra: ClassVar[str] = ""  # of the installation, with the library that ciphertexts need; empty: none

    def __post_init__(self) -> None:
        check_options(self)

    def check(self, participants: int) -> None:  # noqa: B027  # most fit any number
        """Raises ValueError where the options do not fit so many clients a round."""

    def begin(self, fed: Federation) -> Located:
        """What clients keep for all rounds; nothing where there is nothing to keep."""
        return {}

    def offer(self, fed: Federation, client: str, update: At[Any], kind: type[Update]) -> At[Any]:
        """The update as `mean` takes it, as soon as the client has it."""
        return update

    @abstractmethod
    def mean(self, fed: Federation, kept: Located, offered: Located, weights: Located) -> Located:
        """The mean of what this round's clients offered: at the server, or at every client (`at_clients`).

        `weights` is the model where it lives: it has the names and shapes of the mean.
        """


def arrays_of(update: Update) -> Arrays:
    """The named arrays of an update: the gradient, or the weights after local training."""
    return update.gradient if isinstance(update, ClientGradient) else update.weights


def weighted_mean(arrays: Sequence[Arrays], rows: Sequence[int]) -> Weights:
    """The mean of each named array, weighted by rows."""
    shares = np.asarray(rows, np.float64) / sum(rows)
    with np.errstate(over="ignore"):  # what is not finite has an error of its own (`training.divergence`)
        return {
            name: sum(share * a[name].astype(np.float64) for share, a in zip(shares, arrays, strict=True)).astype(
                np.float32
            )
            for name in arrays[0]
        }


def to_vector(update: Update) -> NDArray[np.float64]:
    """(d + 1,) rows times every entry, in the order of the names, then the rows."""
    arrays = arrays_of(update)
    entries = [np.asarray(arrays[name], np.float64).reshape(-1) for name in sorted(arrays)]
    return np.concatenate([*(update.rows * e for e in entries), [float(update.rows)]])


def mean_of_sum(total: NDArray[np.float64], weights: Arrays) -> Weights:
    """The mean that a sum of vectors stands for, in the names and shapes of `weights`."""
    rows, mean, start = np.rint(total[-1]), {}, 0
    for name in sorted(weights):
        size = weights[name].size
        mean[name] = (total[start : start + size] / rows).astype(np.float32).reshape(weights[name].shape)
        start += size
    return {name: mean[name] for name in weights}
