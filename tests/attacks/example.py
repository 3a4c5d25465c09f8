"""Batches with known rows, and the view of a server that receives what a client sends of them."""

from dataclasses import replace

import numpy as np
import torch

from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.messages import BatchNormStatistics, GlobalModel
from leakledger.preprocess.models import as_arrays, as_tensors, gradient, initial_weights, moved_statistics
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.base import draw_batches
from leakledger.preprocess.training.fedavg import FedAvg
from leakledger.preprocess.views import (
    CategoricalBlock,
    FeatureLayout,
    Message,
    ModelSpec,
    NumericBlock,
    PublicFacts,
    View,
)
from leakledger.preprocess.wire import encode

JOBS = tuple(float(i) for i in range(1, 10))
LAYOUT = FeatureLayout(
    (
        NumericBlock("age", 0, shift=40.0, scale=13.0, integer=True, unit="deviation"),
        CategoricalBlock("job", 1, 9, shift=tuple(1 / (3 + i) for i in JOBS), scale=tuple(0.1 + i / 20 for i in JOBS)),
        CategoricalBlock("city", 10, 8),
        NumericBlock("score", 18),
        CategoricalBlock("school", 19, 9),
        CategoricalBlock("grade", 28, 4, codes=np.array([[0.0], [1.0], [2.0], [3.0]]), shift=(1.5,), scale=(1.1,)),
    )
)
SINGLE, DOUBLE = (float(np.finfo(kind).eps) for kind in (np.float32, np.float64))
NUMERIC = FeatureLayout(tuple(NumericBlock(f"n{i}", i) for i in range(12)))


def rows_of(layout, count, seed, alike=False):
    """Categories (n, K), numbers (n, L) in claim units, encoded rows (n, d); `alike`: two agree in every category."""
    coins = np.random.default_rng(seed)
    categories = coins.integers(0, [b.size for b in layout.categorical], (count, len(layout.categorical)))
    if alike:
        categories[1] = categories[0]
    numbers, encoded = coins.normal(size=(count, len(layout.numeric))), np.zeros((count, layout.width))
    for i, block in enumerate(layout.numeric):
        if block.integer:
            numbers[:, i] = coins.integers(17, 91, count)
        encoded[:, block.start] = (numbers[:, i] - block.shift) / block.scale if block.scaled else numbers[:, i]
    for i, block in enumerate(layout.categorical):
        encoded[:, block.start : block.start + block.width] = block.codebook()[categories[:, i]]
    return categories, numbers, encoded


def observe(encoded, layout=LAYOUT, noise=0.0, hidden=(100, 100), activation="relu", seed=0, defense=None, **between):
    """The server's view of one float32 gradient of the rows `encoded`, behind a defense where there is one."""
    spec = ModelSpec(layout.width, 2, hidden, activation, **between)
    weights = initial_weights(spec, np.random.default_rng(seed))
    told = torch.tensor(encoded, dtype=torch.float32), torch.arange(len(encoded)) % 2
    observed = as_arrays(gradient(spec, as_tensors(weights), *told))
    coins = np.random.default_rng(seed)
    observed = {k: (g + noise * coins.normal(size=g.shape)).astype(np.float32) for k, g in observed.items()}
    observed = observed if defense is None else defense.protect(observed, coins)
    view = server_view(spec, layout, weights, {"gradient": observed}, len(encoded))
    if spec.norm != "batch":
        return view
    told = BatchNormStatistics(len(encoded), as_arrays(moved_statistics(spec, as_tensors(weights), told[0])))
    body = encode(told.to_plain())
    message = replace(view.messages[1], sequence=2, topic=told.topic, body=body, content=body)
    return replace(view, messages=(*view.messages, message))


def observe_training(
    encoded, training, layout=LAYOUT, noise=0.0, hidden=(100, 100), activation="relu", seed=0, **between
):
    """The server's view of the float32 weights after local training on the rows `encoded`."""
    spec, coins = ModelSpec(layout.width, 2, hidden, activation, **between), np.random.default_rng(seed)
    weights = initial_weights(spec, coins)
    data = Encoded(encoded.astype(np.float32), np.arange(len(encoded)) % 2)
    answer = FedAvg().client(spec, training, GlobalModel(weights), data, draw_batches(training, data, coins))
    after = {k: (w + noise * coins.normal(size=w.shape)).astype(np.float32) for k, w in answer.weights.items()}
    return server_view(spec, layout, weights, {"weights": after}, len(encoded), "train.weights", training)


def server_view(spec, layout, weights, observed, rows, topic="train.gradient", training=None):
    """What the server sees of one round with one client: the model that it tells, the update that it gets."""
    payloads = ("train.model", {"weights": weights}), (topic, {"rows": rows, **observed})
    public = PublicFacts(("ann",), "server", layout=layout, model=spec, training=training)
    messages = []
    for i, (topic, payload) in enumerate(payloads):
        ends = ("server", "ann") if topic == "train.model" else ("ann", "server")
        messages.append(Message(i, "train", 0, topic, *ends, None, False, encode(payload), encode(payload)))
    return View(frozenset(["server"]), tuple(messages), public)


def exact(claim, categories, numbers, tolerance=1e-3):
    """For each true row, whether the claim holds it."""
    same = (claim.categories[:, None] == categories).all(2) & (
        np.abs(claim.numbers[:, None] - numbers) < tolerance
    ).all(2)
    return same.any(0)


def update_of(gradient, rows, layout=NUMERIC, precision=SINGLE, **fields):
    """The update whose first-layer gradient [dL/dW | dL/db] is `gradient` (H, d + 1); the weights are not given."""
    spec, labels = ModelSpec(layout.width, 2, (len(gradient),)), np.zeros(0, np.int64)
    named = {"0.weight": gradient[:, :-1], "0.bias": gradient[:, -1]}
    return ObservedUpdate("ann", 0, rows, layout, spec, labels, {}, named, precision, **fields)
