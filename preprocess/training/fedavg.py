"""FedAvg: clients train on all their rows and send weights, the server averages them by rows (eq. 2).

Source: McMahan et al. 2017, and "Privacy-preserving tabular data transformation", eq. 2.
"""

from collections.abc import Iterable

import numpy as np
import torch

from leakledger.preprocess.messages import ClientWeights, GlobalModel
from leakledger.preprocess.models import (
    Weights,
    as_arrays,
    as_tensors,
    dropout_masks,
    gradient,
    moved_statistics,
    parameters,
)
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.base import Batches, check_training
from leakledger.preprocess.training.local_sgd import Step, descend
from leakledger.preprocess.views import ModelSpec, TrainingSpec


class FedAvg:
    update = ClientWeights

    def client(
        self,
        spec: ModelSpec,
        training: TrainingSpec,
        model: GlobalModel,
        data: Encoded,
        batches: Batches,
        row_clip_norm: float | None = None,
        coins: np.random.Generator | None = None,
    ) -> ClientWeights:
        """The weights after one step of SGD or Adam per batch, and the client's row count. A proximal term adds
        mu / 2 |w - w_0|^2 to each loss (Li et al., FedProx, MLSys 2020, equation 2). Raises ValueError where
        gradients of rows are to be clipped: local steps are taken as they are. Under batch norm the running statistics
        after the last step are among the weights (`norm_state` sends them apart).
        """
        check_training(training, row_clip_norm)
        weights, x, y = as_tensors(model.weights), torch.from_numpy(data.rows), torch.from_numpy(data.labels)
        steps = ((x[rows], y[rows], dropout_masks(spec, len(rows), coins)) for rows in batches)
        if training.optimizer == "sgd":
            descend(spec, weights, steps, training.learning_rate, training.proximal)
        else:
            _descend_by_adam(spec, training, weights, steps)
        return ClientWeights(len(data), as_arrays(weights))

    def step(self, training: TrainingSpec, weights: Weights, mean: Weights) -> Weights:
        return mean


def _descend_by_adam(
    spec: ModelSpec, training: TrainingSpec, weights: dict[str, torch.Tensor], steps: Iterable[Step]
) -> None:
    """Moves `weights` in place, as `descend` does by SGD."""
    learned = parameters(spec, weights)
    begun = {name: w.clone() for name, w in learned.items()}
    optimizer = torch.optim.Adam(learned.values(), lr=training.learning_rate)
    for rows, labels, kept in steps:
        step = gradient(spec, weights, rows, labels, kept)
        weights |= moved_statistics(spec, weights, rows, kept)
        for name, w in learned.items():
            pull = training.proximal * (w - begun[name]) if training.proximal else 0
            w.grad = step[name] + pull  # exempt: a tensor of this call
        optimizer.step()
