"""The updates that FedSGD clients send: one gradient each, with the model it was computed on and its labels."""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.observed.aggregation import error_of_mean
from leakledger.attacks.observed.batch_norm import told_sums
from leakledger.attacks.observed.single_logit import one_per_class, two_logits
from leakledger.attacks.observed.update import Arrays, ObservedUpdate, last_places, unit_roundoff
from leakledger.preprocess.messages import ClientGradient, GlobalModel, Payload
from leakledger.preprocess.models import check_weights, parameters
from leakledger.preprocess.views import FeatureLayout, Message, ModelSpec, View

Read = TypeVar("Read")
LARGEST_CODEBOOK = 2**26  # numbers, half a gigabyte; more, and the few copies that attacks hold exhaust a machine


def find_gradients(
    view: View,
    knowledge: AuxiliaryKnowledge,
    *,
    rounds: Collection[int] | None = None,
    victims: Collection[str] | None = None,
    any_loss: bool = False,
) -> list[ObservedUpdate] | NotApplicable | Abstained:
    """The gradients in `view`, of chosen rounds and victims, labels granted or not, or why there is none. `any_loss`:
    of models too that are `unmodelled`.
    """
    spec = view.public.model and one_per_class(view.public.model)
    if reason := unsuitable(view.public.layout, spec, shared=False, any_loss=any_loss):
        return NotApplicable(reason)
    return read_each(view, ClientGradient, rounds, victims, lambda m: read_gradient(view, m, knowledge))


def read_each(
    view: View,
    kind: type[Payload],
    rounds: Collection[int] | None,
    victims: Collection[str] | None,
    read: Callable[[Message], Read | NotApplicable | Abstained],
) -> list[Read] | NotApplicable | Abstained:
    """What `read` makes of the messages of `kind`, of chosen rounds and victims, or why it makes nothing of any."""
    messages = chosen_messages(view, kind, rounds, victims)
    if not messages:
        return NotApplicable(f"no {kind.topic} message of these rounds and victims reached the observers in the clear")
    outcomes = [read(m) for m in messages]
    refusals = [r for r in outcomes if isinstance(r, NotApplicable | Abstained)]
    return [r for r in outcomes if not isinstance(r, NotApplicable | Abstained)] or refusals[0]


def chosen_messages(
    view: View, kind: type[Payload], rounds: Collection[int] | None, victims: Collection[str] | None
) -> list[Message]:
    """The messages of `kind` that the observers received, of chosen rounds and senders (None: of all)."""
    return [
        m
        for m in view.received(kind)
        if (rounds is None or m.round in rounds) and (victims is None or m.sender in victims)
    ]


def unsuitable(
    layout: FeatureLayout | None, spec: ModelSpec | None, *, shared: bool = True, any_loss: bool = False
) -> str | None:
    """Why a model of this kind, on columns of this layout, cannot be inverted; None where it can.

    `shared=False` does not count the codes of features that share their columns: these are restated in fewer columns
    before anything is inverted (`attacks.candidates`). `any_loss` does not ask whether it is `unmodelled`.
    """
    if spec is None or layout is None:
        return f"the public facts name no {'model' if spec is None else 'feature layout'}"
    if not any_loss and (reason := unmodelled(spec)):
        return reason
    places = Counter((b.start, b.width) for b in layout.categorical)
    codes = sum(b.size * b.width for b in layout.categorical if shared or places[b.start, b.width] == 1)
    if codes > LARGEST_CODEBOOK:
        return f"the codes of all candidates are {codes:.1e} numbers, at most {LARGEST_CODEBOOK:.1e} fit: list fewer"
    if not layout.blocks or layout.width != spec.inputs:
        return f"the layout is {layout.width} wide, the model takes {spec.inputs}"
    return None


def unmodelled(spec: ModelSpec | None) -> str | None:
    """Why the gradient of a row cannot be computed from the row, as most attacks do; None where it can. What a quotient
    of the first layer's entries tells is the same whatever the loss is, and whichever units are left out.
    """
    if spec is not None and (spec.task == "regression" or spec.outputs < 2):
        return f"the model must be a classifier with one logit per class, not {spec.task} with {spec.outputs} output(s)"
    if spec is not None and spec.dropout:
        return f"hidden units are left out at random (dropout {spec.dropout}), which the attack does not model"
    return None


def read_gradient(
    view: View, message: Message, knowledge: AuxiliaryKnowledge
) -> ObservedUpdate | NotApplicable | Abstained:
    """The update in one gradient message, with one logit per class; all that is wrong with it is a reason, never an
    error.

    Of a Poisson sample the message states the rows to expect. Where labels are granted, they tell how many there are,
    and the gradient is the mean over these.
    """
    source = f"the gradient of {message.sender} in round {message.round}"
    spec, layout = view.public.model, view.public.layout
    model = model_before(view, message)
    granted = knowledge.labels.get((message.sender, message.round))
    if spec is None or layout is None or model is None:
        return NotApplicable(f"{source} has no readable {GlobalModel.topic} message before it in its round")
    try:
        weights = tensors(spec, model, "weights")
        gradient = tensors(spec, message, "gradient")
        rows, stretched = row_count(message), 1.0
        if granted is not None and poisson(view):
            if not len(granted):
                return Abstained(f"{source} is of no row: the labels granted for its batch are none")
            stretched = rows / len(granted)
            gradient = {name: g * stretched for name, g in gradient.items()}
            rows = len(granted)
        read = one_per_class(spec)
        usable = None if unmodelled(read) else granted  # of others they only say how many rows there are
        labels = np.zeros(0, np.int64) if usable is None else check_labels(np.asarray(usable), rows, read.outputs)
    except ValueError as error:
        return NotApplicable(f"{source}: {error}")
    precision = precision_of(message, "gradient")
    if not any(g.any() for g in gradient.values()):
        return Abstained(f"{source} is zero in every tensor ({', '.join(gradient)})")
    update = ObservedUpdate(
        message.sender,
        message.round,
        rows,
        layout,
        spec,
        labels,
        weights,
        gradient,
        precision,
        (model.sequence, message.sequence),
        noise=_noise(gradient, precision, error_of_mean(view, 1, rows)),
        mechanisms=view.public.mechanisms,
        stretched=stretched,
        guessed_size=granted is None and poisson(view),
        sums=told_sums(view, model, message),
    )
    return two_logits(update)


def _noise(gradient: Arrays, precision: float, error: float) -> float:
    """The standard deviation of errors in the entries where a protocol left `error` in each, and rounding came after
    that: 0 where this alone is the larger one, which is no news to those who read it.
    """
    rounding = last_places(gradient, gradient, precision) if error else 0.0
    return float(np.hypot(error, rounding)) if error > rounding else 0.0


def poisson(view: View) -> bool:
    """Whether batches are Poisson samples, so that nobody but the client knows how many rows one has."""
    return view.public.training is not None and view.public.training.sampling == "poisson"


def model_before(view: View, update: Message) -> Message | None:
    """The model that the sender had: the last one sent in that round before the update, if possible to the sender."""
    models = [m for m in view.readable(GlobalModel) if m.round == update.round and m.sequence < update.sequence]
    return max(models, key=lambda m: (m.recipient == update.sender, m.sequence), default=None)


def tensors(spec: ModelSpec, message: Message, key: str) -> Arrays:
    """The named tensors of parameters under `key`, as `spec` shapes them; running statistics are left out."""
    named = getattr(message.payload, key)
    try:
        check_weights(spec, named)
    except ValueError as error:
        raise ValueError(f"{key} of message {message.sequence}: {error}") from None
    return {name: np.asarray(value, np.float64) for name, value in parameters(spec, named).items()}


def precision_of(message: Message, key: str) -> float:
    """The unit roundoff of the tensors under `key`, which `tensors` accepts."""
    return unit_roundoff(value.dtype for value in getattr(message.payload, key).values())


def row_count(message: Message) -> int:
    rows: int = message.payload.rows
    if rows < 1:
        raise ValueError(f"message {message.sequence} ({message.topic}) does not say over how many rows, but {rows!r}")
    return rows


def check_labels(labels: NDArray[Any], rows: int, classes: int) -> NDArray[np.int64]:
    if labels.shape != (rows,):
        raise ValueError(f"labels of shape {labels.shape} do not fit {rows} rows")
    if not np.isin(labels, np.arange(classes)).all():
        raise ValueError(f"labels must be class numbers from 0 to {classes - 1}")
    return labels.astype(np.int64)
