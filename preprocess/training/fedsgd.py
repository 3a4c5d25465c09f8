"""FedSGD: clients send the gradient of one batch, the server takes one weighted step (eq. 1).

Source: McMahan et al. 2017, and "Privacy-preserving tabular data transformation", eq. 1. The gradient of a small
batch is what gradient inversion attacks read.
"""

from collections.abc import Mapping
from typing import Any

import torch

from preprocess.models import Weights, as_arrays, as_tensors, gradient
from preprocess.pipeline import Encoded
from preprocess.training.base import GRADIENT_TOPIC, Batches, weighted_mean
from preprocess.views import ModelSpec, TrainingSpec


class FedSGD:
    topic = GRADIENT_TOPIC

    def client(
        self, spec: ModelSpec, training: TrainingSpec, model: Mapping[str, Any], data: Encoded, batches: Batches
    ) -> dict[str, Any]:
        """The mean gradient over the batch, and its row count."""
        rows = batches[0]
        x, y = torch.from_numpy(data.rows[rows]), torch.from_numpy(data.labels[rows])
        return {"rows": len(rows), "gradient": as_arrays(gradient(spec, as_tensors(model["weights"]), x, y))}

    def server(self, training: TrainingSpec, weights: Weights, *updates: Mapping[str, Any]) -> Weights:
        step = weighted_mean([u["gradient"] for u in updates], [u["rows"] for u in updates])
        return {name: w - training.learning_rate * step[name] for name, w in weights.items()}
