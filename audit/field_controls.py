"""Controls of an attack that reads messages by what they disclose: one made-up message of each kind in the view.

*Leaky*: a message of that kind, its fields filled with what no table holds, must be read: the attack claims something
on its evidence, and every value that was planted as one that the sender holds: in a list of text under the name of a
feature, or with its count. Other text says nothing of the sort, and that it is told is all there is to claim. *Null*:
without the message it claims nothing of the kind. *Shuffled*, for dictionaries: one is shown, another is the truth,
many times.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from leakledger.attacks.base import Attack, Claim, ControlSpec, VocabularyClaim
from leakledger.audit.control_federations import NAMES, held
from leakledger.audit.control_scores import agreement
from leakledger.audit.federation_controls import PAIRS, claims_of, outcome_control, over_draws, shuffled_control
from leakledger.audit.records import Control
from leakledger.audit.scoring.vocabulary import overlap
from leakledger.preprocess.messages import About, LocalDictionary, Payload
from leakledger.preprocess.messages.arrays import element_type
from leakledger.preprocess.messages.shapes import axes_of
from leakledger.preprocess.views import FeatureLayout, Message, NumericBlock, View
from leakledger.preprocess.wire import encode

FEATURE, PLANTED = "control", ("control a", "control b")
SHOWN = ControlSpec("vocabulary", observers="all but first")  # of one party, as `agreement` scores it


def field_controls(attack: Attack, view: View) -> Iterator[Control]:
    """The controls for the kinds that others told the observers and the attack reads."""
    read = {m.kind for m in view.messages if m.sender not in view.observers and m.content is not None}
    for kind in sorted((k for k in read if attack.accepts(k)), key=lambda k: k.topic):
        told = claims_of(attack, with_message(view, sample(kind)))
        value = _recovered(kind, told)
        expected = f"a made-up message of {kind.topic}: read"
        yield outcome_control(attack, "leaky", value, value >= 1.0, expected, (kind.topic,))
        silent = claims_of(attack, replace(view, messages=()))
        value = float(bool(silent))
        expected = f"no message of {kind.topic}: nothing claimed"
        yield outcome_control(attack, "null", value, not silent, expected, (kind.topic,))
        if kind is LocalDictionary:
            yield _shuffled(attack, view)


def sample(kind: type[Payload]) -> Payload:
    """A message of this kind with made-up fields; text is planted under the name of one feature."""
    hints = get_type_hints(kind)
    return kind(**{f.name: _filled(hints[f.name], f.name, axes_of(f)) for f in fields(kind)})


def _filled(hint: Any, name: str, axes: tuple[str | int, ...] | None = None) -> Any:
    """`axes`: those of a field that promises some, each of them 2 long where it has no length of its own."""
    origin = get_origin(hint)
    if hint is Any:
        return [*PLANTED] if name == FEATURE else {FEATURE: [*PLANTED]}
    if (element := element_type(hint)) is not None:
        scalar = np.dtype(np.int64 if "int" in str(element) else np.float32 if element is np.float32 else np.float64)
        return np.ones([n if isinstance(n, int) else 2 for n in (("k",) if axes is None else axes)], scalar)
    if origin in (list, tuple):
        return [*PLANTED] if get_args(hint)[0] is str else [_filled(get_args(hint)[0], name) for _ in PLANTED]
    if origin is dict:
        inner = get_args(hint)[1]
        return {key: _filled(inner, FEATURE, axes) for key in (PLANTED if name == FEATURE else [FEATURE])}
    if origin in (Union, UnionType):
        return _filled(next(option for option in get_args(hint) if option is not NoneType), name)
    if is_dataclass(hint):
        own = get_type_hints(hint)
        return hint(**{f.name: _filled(own[f.name], f.name, axes_of(f)) for f in fields(hint)})  # type: ignore[operator]
    return {int: 2, float: 0.5, str: PLANTED[0], bytes: b"control", bool: True}[hint]


def with_message(view: View, payload: Payload) -> View:
    """The view with this one message in place of all, from a party and about a feature that do not exist."""
    body = encode(payload.to_plain())
    observer = next(iter(view.observers))
    sent = Message(0, "control", 0, payload.topic, "control", observer, None, False, body, body)
    layout = FeatureLayout(tuple(NumericBlock(f"control {i}", i) for i in range(2)))
    known = {"categorical": [FEATURE], "numeric": [b.feature for b in layout.blocks], "classes": [*PLANTED]}
    return replace(view, messages=(sent,), public=replace(view.public, schema=known, layout=layout))


def _recovered(kind: type[Payload], claims: list[Claim]) -> float:
    """0 where nothing rests on the message; else the overlap with the values planted, 1 where there were none."""
    if not any(0 in c.evidence for c in claims):
        return 0.0
    planted = set(PLANTED) if kind.about is About.SENDER and _has_values(sample(kind)) else set()
    read = {v for c in claims if isinstance(c, VocabularyClaim) for v in c.values}
    return overlap(frozenset(read), frozenset(planted))["f1"] if planted else 1.0


def _has_values(payload: Payload) -> bool:
    """Whether values were planted under the name of the feature as such that the sender holds."""
    plain = payload.to_plain()
    inside = [plain, *(v for v in plain.values() if isinstance(v, dict))] if isinstance(plain, dict) else []
    return any(_are_values(part[FEATURE]) for part in inside if FEATURE in part)


def _are_values(planted: Any) -> bool:
    """Whether this is a list of text, or text with its counts, as a mapping or as two lists."""
    if isinstance(planted, dict) and {"values", "counts"} <= planted.keys():
        return _is_text(planted["values"]) and np.shape(planted["counts"]) == (len(PLANTED),)
    if isinstance(planted, dict):
        return set(planted) == set(PLANTED) and all(type(n) in (int, float) for n in planted.values())
    return _is_text(planted)


def _is_text(planted: Any) -> bool:
    return isinstance(planted, list) and planted == [*PLANTED]


def _shuffled(attack: Attack, view: View) -> Control:
    """Dictionaries of one party: one shown, another the truth."""
    scores = []
    for shown, truth in PAIRS:
        values = {f: sorted(v) for f, v in held(shown)[NAMES[0]].items()}
        message = with_message(view, LocalDictionary(values))
        named = replace(message.public, schema={"categorical": sorted(values), "numeric": []})
        sent = replace(message.messages[0], sender=NAMES[0])
        scores.append(agreement(SHOWN, claims_of(attack, replace(message, messages=(sent,), public=named)), truth))
    expected = "values in another dictionary: no better than chance"
    return shuffled_control(attack, over_draws(scores, 0.0), expected, (LocalDictionary.topic,))
