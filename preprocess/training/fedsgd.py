"""FedSGD: clients send the gradient of one batch, the server takes one weighted step (eq. 1).

Source: McMahan et al. 2017, and "Privacy-preserving tabular data transformation", eq. 1. The gradient of a small
batch is what gradient inversion attacks read. Batches have a fixed size or are Poisson samples, as in DP-SGD (Abadi et
al. 2016, algorithm 1).
"""

import numpy as np
import torch

from leakledger.preprocess.messages import ClientGradient, GlobalModel
from leakledger.preprocess.models import Weights, as_arrays, as_tensors, dropout_masks, gradient, moved_statistics
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.base import Batches
from leakledger.preprocess.training.row_gradients import summed_gradient
from leakledger.preprocess.views import ModelSpec, TrainingSpec


class FedSGD:
    update = ClientGradient

    def client(
        self,
        spec: ModelSpec,
        training: TrainingSpec,
        model: GlobalModel,
        data: Encoded,
        batches: Batches,
        row_clip_norm: float | None = None,
        coins: np.random.Generator | None = None,
    ) -> ClientGradient:
        """The mean gradient over the batch, and its row count; of Poisson samples, the sum over the expected number of
        rows, and that number. With `row_clip_norm` the gradient of each row is clipped to it first. Under batch norm
        the running statistics after the batch are among the tensors (`norm_state` sends them apart).
        """
        rows = batches[0]
        x, y = torch.from_numpy(data.rows[rows]), torch.from_numpy(data.labels[rows])
        if row_clip_norm is None and training.sampling == "fixed":
            kept, weights = dropout_masks(spec, len(rows), coins), as_tensors(model.weights)
            found = gradient(spec, weights, x, y, kept) | moved_statistics(spec, weights, x, kept)
            return ClientGradient(len(rows), as_arrays(found))
        if spec.dropout:
            raise ValueError(
                f"dropout is {spec.dropout}, and the gradients of single rows are asked for; set it to 0, or take "
                "fixed batches and clip no rows"
            )
        expected = len(rows) if training.sampling == "fixed" else training.batch_size
        assert expected is not None  # `check_training`
        total = summed_gradient(spec, model.weights, x, y, row_clip_norm)
        return ClientGradient(expected, as_arrays({name: g / expected for name, g in total.items()}))

    def step(self, training: TrainingSpec, weights: Weights, mean: Weights) -> Weights:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite has an error of its own (`divergence`)
            return {name: weights[name] - training.learning_rate * g for name, g in mean.items()}
