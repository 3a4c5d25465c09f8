"""FedAvg: clients train on all their rows and send weights, the server averages them by rows (eq. 2).

Source: McMahan et al. 2017, and "Privacy-preserving tabular data transformation", eq. 2.
"""

import torch

from leakledger.preprocess.messages import ClientWeights, GlobalModel
from leakledger.preprocess.models import Weights, as_arrays, as_tensors, gradient
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.base import Batches, check_training, weighted_mean
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
    ) -> ClientWeights:
        """The weights after one SGD step per batch, and the client's row count. Raises ValueError where gradients of
        rows are to be clipped: local steps are taken as they are.
        """
        check_training(training, row_clip_norm)
        weights = as_tensors(model.weights)
        x, y = torch.from_numpy(data.rows), torch.from_numpy(data.labels)
        for rows in batches:
            step = gradient(spec, weights, x[rows], y[rows])
            for name, w in weights.items():
                w.sub_(step[name], alpha=training.learning_rate)
        return ClientWeights(len(data), as_arrays(weights))

    def server(self, training: TrainingSpec, weights: Weights, *updates: ClientWeights) -> Weights:
        return weighted_mean([u.weights for u in updates], [u.rows for u in updates])
