"""A gradient of one's own, or weights before and after local training, as the view of a server that received it.

What a `torch.nn.Sequential` of linear layers and one activation computes is what `preprocess.models` computes, under
other names. A single logit is taken for that of a binary target, under binary cross-entropy, unless it is said to be a
regression's output.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from leakledger.audit.records import plural
from leakledger.audit.stated_defenses import refuse_undefended, taken_on_trust
from leakledger.defenses import defense_of
from leakledger.preprocess.messages import ClientGradient, ClientWeights, GlobalModel, Payload
from leakledger.preprocess.models import ACTIVATIONS, check_weights
from leakledger.preprocess.options import check_options
from leakledger.preprocess.views import (
    Block,
    CategoricalBlock,
    FeatureLayout,
    Mechanism,
    Message,
    ModelSpec,
    NumericBlock,
    PublicFacts,
    Task,
    TrainingSpec,
    View,
)
from leakledger.preprocess.wire import encode

SERVER, CLIENT = "server", "client"
Arrays = dict[str, NDArray[np.floating[Any]]]
Tensors = Mapping[str, Any] | Sequence[Any] | nn.Module
Column = str | tuple[float, float] | Sequence[str] | None
LAYERS = {  # of torch, and what it is called here
    nn.ReLU: "relu",
    nn.LeakyReLU: "leaky-relu",
    nn.ELU: "elu",
    nn.GELU: "gelu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
}
OPTIONS: Mapping[type[nn.Module], Mapping[str, object]] = {  # with which they are known
    nn.LeakyReLU: {"negative_slope": 0.01},
    nn.ELU: {"alpha": 1.0},
    nn.GELU: {"approximate": "none"},
}
SILENT = (nn.Identity, nn.Flatten)


def layout_of(columns: Mapping[str, Column]) -> FeatureLayout:
    """What is public about the inputs of a network, feature by feature in the order of its columns.

    A list of values is a one-hot feature, a pair (mean, deviation) a number that was standardised with these, None a
    number as it is. Raises ValueError for anything else, such as a value that is listed twice.
    """
    if not isinstance(columns, Mapping):
        raise ValueError(f"layout is of type {type(columns).__name__}; give a dictionary of features")
    blocks: list[Block] = []
    start = 0
    for name, column in columns.items():
        blocks.append(_block(name, start, column))
        start += blocks[-1].width
    return FeatureLayout(tuple(blocks))


def _block(name: str, start: int, column: Column) -> Block:
    if column is None:
        return NumericBlock(name, start)
    if isinstance(column, list | tuple) and column and all(isinstance(v, str) for v in column):
        if len(set(column)) < len(column):  # two columns of one name: nobody could tell which one a row has
            raise ValueError(f"layout: {name!r} lists a value twice; name every column")
        return CategoricalBlock(name, start, len(column), tuple(map(str, column)))
    numbers = isinstance(column, tuple) and len(column) == 2 and all(isinstance(v, int | float) for v in column)
    if numbers and np.isfinite(column).all() and float(column[1]) > 0:
        return NumericBlock(name, start, float(column[0]), float(column[1]), unit="deviation")
    raise ValueError(f"layout: {name!r} is {column!r}; write a list of values, (mean, deviation), or None for a number")


def view_of_update(
    model_state: Tensors,
    update: Tensors,
    *,
    trained: bool,
    layout: FeatureLayout,
    rows: int,
    task: Task | None = None,
    activation: str | None = None,
    training: TrainingSpec | None = None,
    mechanisms: Iterable[Mechanism] = (),
) -> View:
    """What a server holds that sent `model_state` and received `update`: a gradient, or the weights after local
    training (`trained`). Tensors in the order of the layers; see `leakledger.attack`. Raises ValueError.
    """
    if task is not None and task not in get_args(Task):
        raise ValueError(f"task is {task!r}; choose one of {', '.join(get_args(Task))}")
    between = _between(model_state, update, activation)
    before, found = layers_of(model_state, "model_state"), layers_of(update, "the update")
    if not between and len(before) > 2:  # rows would be sought, and planted in controls, behind another network
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"no module tells what is between the layers; give activation=, one of {known}")
    spec = _spec(before, between or "relu", task)
    check_weights(spec, before)
    check_weights(spec, found)
    if spec.inputs != layout.width:
        width = plural(layout.width, "column")
        raise ValueError(f"layout has {width}, the network {plural(spec.inputs, 'input')}; name every column")
    stated, steps = _stated(mechanisms), training_of(training, trained)
    refuse_undefended(stated, *_told(before, found, trained), rows, steps)
    sent: Payload = ClientWeights(rows, found) if trained else ClientGradient(rows, found)
    messages = (_message(0, GlobalModel(before), SERVER, CLIENT), _message(1, sent, CLIENT, SERVER))
    facts = PublicFacts(
        (CLIENT,),
        SERVER,
        mechanisms=stated,
        layout=layout,
        model=spec,
        training=steps,
    )
    return View(frozenset([SERVER]), messages, facts)


def _stated(mechanisms: Iterable[Mechanism]) -> tuple[Mechanism, ...]:
    """The defenses. Raises ValueError for what is none, and for what no defense has."""
    stated = tuple(mechanisms) if isinstance(mechanisms, Iterable) else (mechanisms,)
    if strange := [m for m in stated if not isinstance(m, Mechanism)]:
        raise ValueError(
            f"mechanisms: one is of type {type(strange[0]).__name__}; give a list of Mechanism(kind, parameters)"
        )
    defense_of(stated)
    return stated


def on_trust(view: View) -> tuple[str, ...]:
    """Which of the defenses that are stated of its update a view of `view_of_update` would not show to be missing."""
    model, sent = (m.payload for m in view.messages)
    assert isinstance(model, GlobalModel)
    assert view.public.training is not None
    assert isinstance(sent, ClientGradient | ClientWeights)
    trained = isinstance(sent, ClientWeights)
    arrays = sent.weights if isinstance(sent, ClientWeights) else sent.gradient
    told = _told(dict(model.weights), dict(arrays), trained)
    return taken_on_trust(view.public.mechanisms, *told, sent.rows, view.public.training)


def _told(before: Arrays, found: Arrays, trained: bool) -> tuple[Arrays, dict[str, float]]:
    """What training adds to weights, or the gradient; and by how much floating point may have moved its entries."""
    update = {n: found[n] - before[n] if trained else found[n] for n in found}
    held = [found, before] if trained else [found]
    rounding = {n: max(float(np.finfo(a[n].dtype).eps * np.abs(a[n]).max(initial=0.0)) for a in held) for n in found}
    return update, rounding


def training_of(told: TrainingSpec | None, trained: bool) -> TrainingSpec:
    """The training that sends weights (`trained`) or a gradient: as told, or else one step on all rows.

    Raises ValueError for one that sends something else, or whose options are out of range.
    """
    algorithm: Literal["fedavg", "fedsgd"] = "fedavg" if trained else "fedsgd"
    if told is None:
        return TrainingSpec(algorithm, batch_size=None)
    if not isinstance(told, TrainingSpec):
        raise ValueError(f"training is of type {type(told).__name__}; give a TrainingSpec")
    if told.algorithm != algorithm:
        sent = "weights (after=)" if trained else "a gradient (gradient=)"
        raise ValueError(f"training: clients of {told.algorithm!r} do not send {sent}; those of {algorithm!r} do")
    check_options(told)
    return told


def layers_of(given: Tensors, what: str) -> Arrays:
    """Weights and biases of the linear layers, named as messages name them ("0.weight", "0.bias", "1.weight", ...).

    Raises ValueError for anything but pairs of a matrix and a vector whose sizes fit.
    """
    if not isinstance(given, Iterable | nn.Module) or isinstance(given, str | bytes):
        raise ValueError(
            f"{what} is of type {type(given).__name__}; give a module, its state_dict() or its tensors in order"
        )
    tensors = [_array(t) for t in _in_order(given)]
    if not tensors or len(tensors) % 2:
        raise ValueError(f"{what} has {len(tensors)} tensors; a weight and a bias for each linear layer are needed")
    pairs = list(zip(tensors[::2], tensors[1::2], strict=True))
    for i, (weight, bias) in enumerate(pairs):
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise ValueError(
                f"{what}: tensors of shapes {weight.shape} and {bias.shape} are no linear layer with a bias (layer {i})"
            )
    for i, (one, other) in enumerate(pairwise(w for w, _ in pairs)):
        if other.shape[1] != one.shape[0]:
            raise ValueError(f"{what}: layer {i + 1} takes {other.shape[1]} inputs, layer {i} gives {one.shape[0]}")
    return {f"{i}.{n}": t for i, pair in enumerate(pairs) for n, t in zip(("weight", "bias"), pair, strict=True)}


def _in_order(given: Tensors) -> Iterator[Any]:
    if isinstance(given, nn.Module):
        yield from given.state_dict().values()
    else:
        yield from given.values() if isinstance(given, Mapping) else given


def _array(tensor: Any) -> NDArray[np.floating[Any]]:
    if tensor is None:
        raise ValueError(
            "a gradient is None: call backward() before, on the same network; of one with frozen or unused parameters "
            "not every gradient is there, and no attack here reads the others alone"
        )
    if isinstance(tensor, torch.Tensor) and tensor.dtype is torch.bfloat16:
        raise ValueError("a tensor is of bfloat16, which NumPy does not know; pass it as .float()")
    if isinstance(tensor, torch.Tensor) and (tensor.is_meta or tensor.layout is not torch.strided):
        raise ValueError("a tensor is sparse or holds no values; pass it as .to_dense(), with its values")
    array = tensor.detach().cpu().numpy() if isinstance(tensor, torch.Tensor) else np.asarray(tensor)
    if not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"a tensor of {array.dtype} is no weight; floating point is needed")
    return array.copy()


def _between(model_state: Tensors, update: Tensors, said: str | None) -> str | None:
    """The activation between the layers: of the modules, else as it is said. Raises ValueError where these contradict
    each other.
    """
    first, second = _activation(model_state), _activation(update)
    if first and second and first != second:
        raise ValueError(f"model_state has {first!r} between its layers, and the update {second!r}; give one network's")
    applied = first or second
    if said and applied and said != applied:
        raise ValueError(f"activation is {said!r}, and the network has {applied!r}; leave activation= out")
    return said or applied


def _activation(model: Tensors) -> str | None:
    """The one between the layers of a torch module; None where only tensors are given."""
    if not isinstance(model, nn.Module):
        return None
    layers = [m for m in _layers(model) if type(m) not in SILENT]
    between = [m for m in layers if type(m) is not nn.Linear]
    if unknown := [type(m).__name__ for m in between if type(m) not in LAYERS]:
        mixing = [name for name in unknown if name.startswith("BatchNorm")]
        if mixing:
            raise ValueError(
                f"a layer {mixing[0]} is not known, and it mixes the rows of a batch, so that DP-SGD bounds none of "
                "them (Opacus refuses it too); take it out"
            )
        raise ValueError(
            f"a layer {unknown[0]} is not known; networks of Linear and one of {', '.join(ACTIVATIONS)} are"
        )
    if len(kinds := {type(m) for m in between}) > 1:
        raise ValueError(f"several activations ({', '.join(sorted(k.__name__ for k in kinds))}); one is known")
    for m in between:
        for option, known in OPTIONS.get(type(m), {}).items():
            if getattr(m, option) != known:
                raise ValueError(f"{type(m).__name__} has {option} {getattr(m, option)!r}; {known!r} is known")
    if [type(m) is nn.Linear for m in layers] != [k % 2 == 0 for k in range(2 * (len(layers) - len(between)) - 1)]:
        order = ", ".join(type(m).__name__ for m in layers)
        raise ValueError(f"layers are {order}; known are Linear layers with one activation between each two")
    return next((LAYERS[kind] for kind in kinds), None)


def _layers(model: nn.Module) -> Iterator[nn.Module]:
    """The layers in the order in which they are applied, one that is applied twice twice. Raises ValueError for one
    with a hook, which may change what it computes.
    """
    if model._forward_hooks or model._forward_pre_hooks:
        raise ValueError(f"{type(model).__name__} has a forward hook; remove it, or pass the tensors")
    if type(model) is nn.Sequential:
        for m in model:
            yield from _layers(m)
    else:
        yield model


def _spec(weights: Arrays, activation: str, task: Task | None) -> ModelSpec:
    widths = [weights["0.weight"].shape[1], *(len(t) for name, t in weights.items() if name.endswith("bias"))]
    inferred: Task = "binary" if widths[-1] <= 2 else "multiclass"
    return ModelSpec(widths[0], widths[-1], tuple(widths[1:-1]), activation, task or inferred)


def _message(sequence: int, payload: Payload, sender: str, recipient: str) -> Message:
    body = encode(payload.to_plain())
    return Message(sequence, "train", 0, payload.topic, sender, recipient, None, False, body, body)
