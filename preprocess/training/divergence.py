"""Training that diverged, by name: an attack, a score and a metric of values that are not finite would mean nothing.

A client checks what it is about to send, the server what it is about to adopt, and whoever evaluates the model what it
puts out. In a run with a process per party, the error of the first of them ends all.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from leakledger.preprocess.messages import ClientGradient, ClientWeights
from leakledger.preprocess.models import Weights

U = TypeVar("U", ClientGradient, ClientWeights)


class TrainingDiverged(ValueError):
    """A gradient, a model or its outputs are not finite; the text names party, round and tensor."""


def finite_update(update: U, client: str, round: int, learning_rate: float) -> U:
    """The update itself. Raises TrainingDiverged where a number of it is not finite."""
    arrays = update.gradient if isinstance(update, ClientGradient) else update.weights
    what = "gradient" if isinstance(update, ClientGradient) else "model"
    _check(arrays, f"the {what} of {client} in round {round}", learning_rate)
    return update


def finite_weights(weights: Weights, party: str, round: int, learning_rate: float) -> Weights:
    """The weights themselves, at the party that adopts them. Raises TrainingDiverged where one is not finite."""
    _check(weights, f"the model of {party} after round {round}", learning_rate)
    return weights


def finite_outputs(outputs: Tensor) -> Tensor:
    """The outputs themselves. Raises TrainingDiverged where one of them is not finite."""
    if not bool(outputs.isfinite().all()):
        raise TrainingDiverged("training diverged: the model's outputs are not finite; lower learning_rate")
    return outputs


def _check(arrays: Mapping[str, Any], what: str, learning_rate: float) -> None:
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise TrainingDiverged(
                f"training diverged: {what} is not finite ({name}); lower learning_rate, now "
                f"{learning_rate:g}, or choose a scaler that keeps numeric features within a few units"
            )
