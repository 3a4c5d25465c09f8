"""What messages say in the clear that no attack was written for: read by what their kind discloses, from its first day.

A kind declares whether it carries values, aggregates or sizes, and its fields are plain data. Lists of text under the
name of a categorical feature are values that the sender holds, mappings from text to numbers the values with their
counts; sizes are what they say. What cannot be put into such a claim, as what stands under the name of a number or of
the target, is still a finding: somebody reads it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from leakledger.attacks.base import FindingClaim, StatisticClaim, VocabularyClaim
from leakledger.preprocess.messages import About, Disclosure, Payload
from leakledger.preprocess.views import Message, View

IN_THE_CLEAR = frozenset({Disclosure.VALUE, Disclosure.AGGREGATE, Disclosure.SIZE})
STATED, STATED_POOLED = "stated", "stated-pooled"  # of the sender's own rows; of several parties' together
CHECKS = (STATED, STATED_POOLED)
Claims = Iterator[StatisticClaim | VocabularyClaim]


def in_the_clear(kind: type[Payload]) -> bool:
    """Whether messages of this kind say values, aggregates or sizes."""
    return kind.discloses in IN_THE_CLEAR


def generic_claims(view: View, known: tuple[type[Payload], ...]) -> Claims:
    """Claims from the messages that outside parties sent of themselves, of kinds other than the `known`."""
    for m in view.received(Payload):
        if in_the_clear(m.kind) and m.kind.about is About.SENDER and not issubclass(m.kind, known):
            yield from _named(m, m.payload.to_plain(), features_of(view))


def findings(view: View, evidence: Iterable[int]) -> Iterator[FindingClaim]:
    """One finding per sender and kind of what is told in the clear and is not `evidence` of another claim."""
    used, told = set(evidence), dict[tuple[str, str], list[Message]]()
    for m in view.received(Payload):
        if in_the_clear(m.kind) and m.sequence not in used:
            told.setdefault((m.sender, m.topic), []).append(m)
    for (sender, topic), messages in told.items():
        kind = messages[0].kind
        about = "its own rows" if kind.about is About.SENDER else "the rows of several parties together"
        check = STATED if kind.about is About.SENDER else STATED_POOLED
        text = f"{topic} states, in the clear, {kind.discloses} data on {about}"
        yield FindingClaim(sender, check, text, tuple(m.sequence for m in messages))


def says_no_more(m: Message, features: Collection[str]) -> bool:
    """Whether claims on a message that was read by what it discloses state all of it.

    What stands under no name of a categorical feature is behind no claim. Nor is the order of values and how often each
    is listed, which may be those of rows, a value that occurs 0 times, and what a count has behind its point.
    """
    plain = m.payload.to_plain()
    parts = {"": plain} if m.kind.bare else plain
    return all(_states_all(m, key, value, features, named=True) for key, value in parts.items())


def _states_all(m: Message, key: str, value: Any, features: Collection[str], named: bool = False) -> bool:
    """`named`: the key is that of a field, which the kind declares; others were sent."""
    if key in features:
        return _is_canonical(m, value)
    return named and isinstance(value, Mapping) and all(_states_all(m, k, v, features) for k, v in value.items())


def _is_canonical(m: Message, value: Any) -> bool:
    """Whether what stands under a feature follows from what is claimed of it."""
    if isinstance(value, Mapping) and {"values", "counts"} == value.keys():
        counts = _counts(value)
        return list(value["values"]) == sorted(counts) and all(n > 0 and n.is_integer() for n in counts.values())
    if isinstance(value, Mapping):
        counts = _counts(value)
        return list(value) == sorted(counts) and all(n.is_integer() for n in counts.values())
    if isinstance(value, list):
        return all(isinstance(v, str) for v in value) and value == sorted(set(value))
    return type(value) is int and m.kind.discloses is Disclosure.SIZE


def features_of(view: View) -> frozenset[str]:
    """The categorical features that public facts name: claims on values and sizes are about no others."""
    blocks = view.public.layout.categorical if view.public.layout else ()
    return frozenset([*view.public.schema.get("categorical", ()), *(b.feature for b in blocks)])


def _named(m: Message, plain: Any, features: frozenset[str]) -> Claims:
    """What stands under the name of such a feature, however deep."""
    if not isinstance(plain, Mapping):
        return
    for key, value in plain.items():
        if key in features:
            yield from _about(m, key, value)
        else:
            yield from _named(m, value, features)


def _about(m: Message, feature: str, value: Any) -> Claims:
    if isinstance(value, int) and m.kind.discloses is Disclosure.SIZE:
        yield StatisticClaim(m.sender, feature, "size", value, value, value, (m.sequence,))
    elif isinstance(value, list) and value and all(isinstance(v, str) for v in value):
        yield VocabularyClaim(m.sender, feature, tuple(sorted(set(value))), (m.sequence,), certain=True)
    elif isinstance(value, Mapping) and (counts := _counts(value)):
        values = tuple(sorted(counts))
        yield VocabularyClaim(m.sender, feature, values, (m.sequence,), tuple(counts[v] for v in values), True)


def _counts(value: Mapping[str, Any]) -> dict[str, float]:
    """Value -> count, as a mapping has it, or as two lists under `values` and `counts`; empty for anything else."""
    if {"values", "counts"} <= value.keys():
        values, counts = value["values"], np.asarray(value["counts"])
        fits = isinstance(values, list) and counts.shape == (len(values),) and all(isinstance(v, str) for v in values)
        return dict(zip(values, counts.astype(float).tolist(), strict=True)) if fits else {}
    if all(isinstance(n, int | float) and not isinstance(n, bool) for n in value.values()):
        return {v: float(n) for v, n in value.items() if n}
    return {}
