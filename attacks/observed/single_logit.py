"""A binary target's single logit z, as the two logits 0 and z that it is worth.

log(1 + exp(-z)) = -log softmax(0, z)[1], so that both networks compute the same of every row, and the gradient of the
second has the last layer's row of the first, once negated. Attacks are written for one logit per class and read it so.
Not the same are norms of gradients, and noise, which is negated with the row: a likelihood goes back to the one logit.
"""

from dataclasses import replace

import numpy as np

from leakledger.attacks.observed.update import Arrays, ObservedUpdate
from leakledger.preprocess.views import ModelSpec


def one_per_class(spec: ModelSpec) -> ModelSpec:
    """The network with one logit for each class."""
    return replace(spec, outputs=spec.classes) if spec.single_logit else spec


def two_logits(update: ObservedUpdate) -> ObservedUpdate:
    """The gradient of a single logit as that of two; others as they are."""
    if not update.model.single_logit:
        return update
    model = one_per_class(update.model)
    weights, gradient = _last(update, update.weights, 0.0), _last(update, update.gradient, -1.0)
    return replace(update, model=model, weights=weights, gradient=gradient, single=True)


def one_logit(update: ObservedUpdate) -> ObservedUpdate:
    """The gradient that was sent, where it is one of a single logit; others as they are."""
    if not update.single:
        return update
    last = len(update.model.hidden)
    own = (f"{last}.weight", f"{last}.bias")
    weights = {name: w[1:] if name in own else w for name, w in update.weights.items()}
    gradient = {name: g[1:] if name in own else g for name, g in update.gradient.items()}
    return replace(update, model=replace(update.model, outputs=1), weights=weights, gradient=gradient, single=False)


def _last(update: ObservedUpdate, tensors: Arrays, times: float) -> Arrays:
    """The tensors, with a first row of the last layer that is `times` its only one."""
    last = len(update.model.hidden)
    own = {name: tensors[name] for name in (f"{last}.weight", f"{last}.bias")}
    return {**tensors, **{name: np.concatenate([times * t, t]) for name, t in own.items()}}
