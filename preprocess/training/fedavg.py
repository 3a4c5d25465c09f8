"""FedAvg: clients train on all their rows and send weights, the server averages them by rows (eq. 2).

Source: McMahan et al. 2017, and "Privacy-preserving tabular data transformation", eq. 2.
"""

from collections.abc import Mapping
from typing import Any

import torch

from preprocess.models import Weights, as_arrays, as_tensors, gradient
from preprocess.pipeline import Encoded
from preprocess.training.base import WEIGHTS_TOPIC, Batches, weighted_mean
from preprocess.views import ModelSpec, TrainingSpec


class FedAvg:
    topic = WEIGHTS_TOPIC

    def client(
        self, spec: ModelSpec, training: TrainingSpec, model: Mapping[str, Any], data: Encoded, batches: Batches
    ) -> dict[str, Any]:
        """The weights after one SGD step per batch, and the client's row count."""
        weights = as_tensors(model["weights"])
        x, y = torch.from_numpy(data.rows), torch.from_numpy(data.labels)
        for rows in batches:
            step = gradient(spec, weights, x[rows], y[rows])
            for name, w in weights.items():
                w.sub_(step[name], alpha=training.learning_rate)
        return {"rows": len(data), "weights": as_arrays(weights)}

    def server(self, training: TrainingSpec, weights: Weights, *updates: Mapping[str, Any]) -> Weights:
        return weighted_mean([u["weights"] for u in updates], [u["rows"] for u in updates])
