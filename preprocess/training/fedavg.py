"""FedAvg: clients train on all their rows and send weights, the server averages them by rows (eq. 2).

Source: McMahan et al. 2017, and "Privacy-preserving tabular data transformation", eq. 2.
"""

import numpy as np
import torch

from leakledger.preprocess.messages import ClientWeights, GlobalModel
from leakledger.preprocess.models import Weights, as_arrays, as_tensors, dropout_masks
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.base import Batches, check_training
from leakledger.preprocess.training.local_steps import descend
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
        descend(spec, training, weights, steps)
        return ClientWeights(len(data), as_arrays(weights))

    def step(self, training: TrainingSpec, weights: Weights, mean: Weights) -> Weights:
        return mean
