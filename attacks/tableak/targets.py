"""What a view offers to invert: one observed gradient each, with the model it was computed on and its labels."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from attacks.labels import recover_labels
from preprocess.models import check_weights
from preprocess.views import FeatureLayout, Message, ModelSpec, View

GRADIENT, MODEL = "train.gradient", "train.model"
Arrays = dict[str, NDArray[np.float64]]
Read = TypeVar("Read")
LARGEST_CODEBOOK = 2**26  # numbers, half a gigabyte; attacks hold a few copies


@dataclass(frozen=True, eq=False)
class Target:
    """A batch of `rows` rows of `victim` in `round`: labels (rows,), weights and gradient by name.

    The labels are empty where they are not known and the attack does not need them. A `rate` other than 0 says that
    the gradient is a sum over several local steps, on which the weights moved by -rate * gradient; `noise` is the
    standard deviation of errors in its entries beyond the rounding of a single gradient (`attacks.updates`).
    """

    victim: str
    round: int
    rows: int
    labels: NDArray[np.int64] = field(repr=False)
    weights: Arrays = field(repr=False)
    gradient: Arrays = field(repr=False)
    evidence: tuple[int, ...] = ()
    rate: float = 0.0
    noise: float = 0.0


def find_targets(
    view: View,
    knowledge: AuxiliaryKnowledge,
    *,
    rounds: Collection[int] | None = None,
    victims: Collection[str] | None = None,
    recover: bool = False,
    labels_needed: bool = True,
) -> list[Target] | NotApplicable | Abstained:
    """The gradients in `view` that can be inverted, of chosen rounds and victims, or why there is none.

    `recover` takes the labels that nobody granted from the gradient itself (`attacks.labels`); `labels_needed=False`
    does without them.
    """
    if reason := unsuitable(view.public.layout, view.public.model, shared=False):
        return NotApplicable(reason)
    return read_each(view, GRADIENT, rounds, victims, lambda m: read_target(view, m, knowledge, recover, labels_needed))


def read_each(
    view: View,
    topic: str,
    rounds: Collection[int] | None,
    victims: Collection[str] | None,
    read: Callable[[Message], Read | NotApplicable | Abstained],
) -> list[Read] | NotApplicable | Abstained:
    """What `read` makes of the messages on `topic`, of chosen rounds and victims, or why it makes nothing of any."""
    messages = chosen_messages(view, topic, rounds, victims)
    if not messages:
        return NotApplicable(f"no {topic} message of these rounds and victims reached the observers in the clear")
    found = [read(m) for m in messages]
    refusals = [r for r in found if isinstance(r, NotApplicable | Abstained)]
    return [r for r in found if not isinstance(r, NotApplicable | Abstained)] or refusals[0]


def chosen_messages(
    view: View, topic: str, rounds: Collection[int] | None, victims: Collection[str] | None
) -> list[Message]:
    """The messages that the observers received on `topic`, of chosen rounds and senders (None: of all)."""
    return [
        m
        for m in view.received(topic)
        if (rounds is None or m.round in rounds) and (victims is None or m.sender in victims)
    ]


def unsuitable(layout: FeatureLayout | None, spec: ModelSpec | None, *, shared: bool = True) -> str | None:
    """Why a model of this kind, on columns of this layout, cannot be inverted; None where it can.

    `shared=False` does not count the codes of features that share their columns: these are restated in fewer columns
    before anything is inverted (`attacks.candidates`).
    """
    if spec is None or layout is None:
        return f"the public facts name no {'model' if spec is None else 'feature layout'}"
    if spec.task == "regression" or spec.outputs < 2:
        return f"the model must be a classifier with one logit per class, not {spec.task} with {spec.outputs} output(s)"
    places = Counter((b.start, b.width) for b in layout.categorical)
    codes = sum(b.size * b.width for b in layout.categorical if shared or places[b.start, b.width] == 1)
    if codes > LARGEST_CODEBOOK:
        return f"the codes of all candidates are {codes:.1e} numbers, at most {LARGEST_CODEBOOK:.1e} fit: list fewer"
    if not layout.blocks or layout.width != spec.inputs:
        return f"the layout describes {layout.width} columns, the model takes {spec.inputs}"
    return None


def read_target(
    view: View, message: Message, knowledge: AuxiliaryKnowledge, recover: bool = False, labels_needed: bool = True
) -> Target | NotApplicable | Abstained:
    """The target in one gradient message; all that is wrong with it is a reason, never an error."""
    source = f"the gradient of {message.sender} in round {message.round}"
    spec, layout = view.public.model, view.public.layout
    model = model_told(view, message)
    labels = knowledge.labels.get((message.sender, message.round))
    if spec is None or layout is None or model is None:
        return NotApplicable(f"{source} has no readable {MODEL} message before it in its round")
    if labels is None and labels_needed and not recover:
        return NotApplicable(f"labels of {message.sender} in round {message.round} are not known")
    try:
        weights = tensors(spec, model, "weights")
        gradient = tensors(spec, message, "gradient")
        rows = row_count(message)
        if labels is None and recover:
            labels = recover_labels(spec, layout, weights, gradient, rows)
        known = np.zeros(0, np.int64) if labels is None else check_labels(np.asarray(labels), rows, spec.outputs)
    except ValueError as error:
        return NotApplicable(f"{source}: {error}")
    if not any(g.any() for g in gradient.values()):
        return Abstained(f"{source} is zero in every tensor ({', '.join(gradient)})")
    return Target(message.sender, message.round, rows, known, weights, gradient, (model.sequence, message.sequence))


def model_told(view: View, gradient: Message) -> Message | None:
    """The model that the sender had: the last one told in that round before the gradient, if possible to the sender."""
    told = [
        m
        for m in view.on(MODEL)
        if m.round == gradient.round and m.sequence < gradient.sequence and m.content is not None
    ]
    return max(told, key=lambda m: (m.recipient == gradient.sender, m.sequence), default=None)


def tensors(spec: ModelSpec, message: Message, key: str) -> Arrays:
    """The named tensors under `key`, as `spec` shapes them."""
    payload = message.payload
    if not isinstance(payload, Mapping) or not isinstance(payload.get(key), Mapping):
        raise ValueError(f"message {message.sequence} ({message.topic}) has no {key}")
    for name, value in payload[key].items():
        if not isinstance(value, np.ndarray) or not np.issubdtype(value.dtype, np.floating):
            raise ValueError(f"{key} {name} of message {message.sequence} is not an array of floating-point numbers")
    try:
        check_weights(spec, payload[key])
    except ValueError as error:
        raise ValueError(f"{key} of message {message.sequence}: {error}") from None
    return {name: np.asarray(value, np.float64) for name, value in payload[key].items()}


def row_count(message: Message) -> int:
    rows = message.payload.get("rows")
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise ValueError(f"message {message.sequence} ({message.topic}) does not say over how many rows, but {rows!r}")
    return rows


def check_labels(labels: NDArray[Any], rows: int, classes: int) -> NDArray[np.int64]:
    if labels.shape != (rows,):
        raise ValueError(f"labels of shape {labels.shape} do not fit {rows} rows")
    if not np.isin(labels, np.arange(classes)).all():
        raise ValueError(f"labels must be class numbers from 0 to {classes - 1}")
    return labels.astype(np.int64)
