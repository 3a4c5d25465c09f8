"""Whether public facts can be those of a run: whoever reads what others wrote relies on it. An attack takes them at
their word, and would apply to nothing, or end in an error about something else.

Checked are the types of all fields, the ranges of numbers, and that parties, layout, model and messages fit each other;
not what methods and mechanisms make of their parameters.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from leakledger.preprocess.messages import ClientGradient, ClientWeights, GlobalModel, Payload
from leakledger.preprocess.messages.schema import SchemaError, check
from leakledger.preprocess.nouns import plural
from leakledger.preprocess.options import check_options, in_toml
from leakledger.preprocess.views import (
    Block,
    CategoricalBlock,
    Message,
    ModelSpec,
    NumericBlock,
    PublicFacts,
)

MOST = 2**31 - 1  # units of a layer, columns, values and rows of an update


def check_public(public: PublicFacts) -> None:
    """Raises ValueError, one line without a value of any table, for the first fact that cannot be."""
    check_parties((*public.clients, public.server))
    for part in (public.encoder, public.scaler, public.aggregation, public.features):
        _check_types(part, "a method: ")
    for mechanism in (*public.mechanisms, *public.statistics):
        _check_types(mechanism, "a mechanism: ")
    if not isinstance(public.schema, Mapping):
        raise ValueError(f"schema is of type {type(public.schema).__name__}, not a mapping")
    for block in () if public.layout is None else public.layout.blocks:
        _check_block(block)
    if public.training is not None:
        _check_types(public.training, "training: ")
        check_options(public.training)
    if public.model is not None:
        _check_model(public.model)
        if public.layout is not None and public.layout.width != public.model.inputs:
            width = plural(public.layout.width, "column")
            raise ValueError(f"layout has {width}, the model {plural(public.model.inputs, 'input')}; name every column")


def check_senders(messages: Iterable[Message], public: PublicFacts) -> None:
    """Raises ValueError for the first message with an end that is none of the parties."""
    parties = {*public.clients, public.server}
    for m in messages:
        if strangers := sorted({*m.ends} - parties):
            raise ValueError(f"{m.name}: {strangers[0]!r} is none of the parties {', '.join(sorted(parties))}")


def check_update(payload: Payload, model: ModelSpec | None) -> None:
    """Raises ValueError, naming the kind, for an update or a model that is not finite or not one of this `model`, and
    for an update of no rows.
    """
    if isinstance(payload, ClientGradient | ClientWeights):
        if isinstance(payload.rows, int) and not 1 <= payload.rows <= MOST:
            raise ValueError(f"{type(payload).__name__}: rows is {payload.rows}; from 1 to {MOST} are needed")
        arrays = payload.gradient if isinstance(payload, ClientGradient) else payload.weights
    elif isinstance(payload, GlobalModel):
        arrays = payload.weights
    else:
        return
    if not isinstance(arrays, Mapping) or not all(
        isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in arrays.values()
    ):
        return  # which does not fit its kind
    if strange := [name for name, array in arrays.items() if not np.isfinite(array).all()]:
        raise ValueError(f"{type(payload).__name__}: {strange[0]} holds values that are not finite")
    if model is not None:
        from leakledger.preprocess.models import check_weights

        try:
            check_weights(model, arrays)
        except ValueError as error:
            raise ValueError(f"{type(payload).__name__}: {error}") from None


def check_parties(parties: Sequence[Any]) -> None:
    """Raises ValueError for clients and a server, named in this order, that names do not tell apart."""
    if strange := [p for p in parties if not isinstance(p, str)]:
        raise ValueError(f"a party's name is of type {type(strange[0]).__name__}; a text is needed")
    if len(parties) < 2 or len(set(parties)) < len(parties) or "" in parties:
        raise ValueError(f"the parties {list(parties)} need names of their own, and one client at least")


def _check_block(block: Block) -> None:
    if not isinstance(block.feature, str):
        raise ValueError(f"layout: a feature's name is of type {type(block.feature).__name__}; a text is needed")
    where = f"layout: {block.feature}: "
    _check_types(block, where)
    _within(block.start, 0, where + "start")
    if isinstance(block, CategoricalBlock):
        _within(block.size, 0, where + "size")
        for name, each in {"shift": block.shift, "scale": block.scale}.items():
            if each is not None and len(each) != block.width:
                raise ValueError(f"{where}{name} has {plural(len(each), 'number')} for {block.width} columns")
        numbers = {"codes": block.codes, "shift": block.shift, "scale": block.scale}
    else:
        numbers = {n: getattr(block, n) for n in ("shift", "scale", "low", "high", "power")}
    for name, value in numbers.items():
        if value is not None and not np.isfinite(np.asarray(value, np.float64)).all():
            raise ValueError(f"{where}{name} is not finite")
    if block.scale is not None and not (np.asarray(block.scale) > 0).all():
        raise ValueError(f"{where}scale is not above 0")
    if isinstance(block, NumericBlock) and block.low is not None and block.high is not None and block.low > block.high:
        raise ValueError(f"{where}low is above high")


def _check_model(model: ModelSpec) -> None:
    from leakledger.preprocess.models import layer_shapes  # with PyTorch, which takes seconds

    _check_types(model, "model: ")
    for name, width in (("inputs", model.inputs), ("outputs", model.outputs), *(("hidden", w) for w in model.hidden)):
        if width > MOST:
            raise ValueError(f"model: {name} is more than {MOST}")
    if not (isfinite(model.dropout) and 0 <= model.dropout < 1):
        raise ValueError(f"model: dropout is {model.dropout}; from 0 to below 1 are needed")
    layer_shapes(model)


def _within(number: int, least: int, where: str) -> None:
    if number < least:
        raise ValueError(f"{where} is less than {least}")
    if number > MOST:
        raise ValueError(f"{where} is more than {MOST}")


def _check_types(part: Any, where: str) -> None:
    """Raises ValueError for a field of a part whose value is of another type than declared."""
    for name, hint in get_type_hints(type(part)).items():
        value = getattr(part, name)
        if get_origin(hint) is Literal:
            if not isinstance(value, str) or value not in get_args(hint):
                raise ValueError(f"{where}{name} is none of {', '.join(map(in_toml, get_args(hint)))}")
        elif hint == Mapping[str, Any]:
            if not isinstance(value, Mapping):
                raise ValueError(f"{where}{name} is of type {type(value).__name__}, not a mapping")
        else:
            try:
                check(hint, list(value) if isinstance(value, tuple) else value)
            except SchemaError as error:
                raise ValueError(f"{where}{name} is {error}") from None
