"""Transcripts that a foreign party wrote: what made-up federations sent, with one thing of it wrong.

What is wrong with a payload mostly fits the types of its kind, so that decoding does not find it: sizes, ranks, lengths
and ranges. What is wrong with messages is which there are, from whom to whom, and when.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from leakledger.attacks import ATTACKS
from leakledger.audit.control_federations import played, run_methods
from leakledger.audit.field_controls import sample
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.messages import KINDS
from leakledger.preprocess.views import Message, PublicFacts
from leakledger.preprocess.wire import decode, encode
from tests.audit.example import truth

SMALL = {"data": {"rows": 80}, "model": {"hidden": [6]}}
TRAINED = (
    {"training": {"algorithm": "fedavg", "rounds": 1, "participation": 0.9}, "model": {"norm": "batch"}},
    {"training": {"rounds": 1, "aggregation": "secure-aggregation"}},
    {"training": {"rounds": 1, "aggregation": "he-aggregation"}},
)
TOPICS = sorted(KINDS)
RING, PARTS = (("sharing", "ring"),), (("sharing", "proportional"),)
PREPROCESSED = (("mod-norm", RING, "local", ()), ("bytes-norm", PARTS, "local", ()))

WHOLE = {"zero": 0, "negative": -1, "huge": 2**40, "more than 63 bits": 2**63 + 1, "more than 64 bits": 2**200}
REAL = {"not a number": np.nan, "infinite": np.inf, "negative": -1.0, "zero": 0.0, "near the largest": 1e308}
ARRAYS: dict[str, Callable[[Any], Any]] = {
    "without elements": lambda a: a[:0] if a.ndim else a.reshape(1)[:0],
    "of no dimension": lambda a: a.reshape(-1)[:1].reshape(()) if a.size else a,
    "of one dimension": lambda a: a.reshape(-1),
    "of one dimension more": lambda a: a[None],
    "with one more": lambda a: np.concatenate([a, a[:1]]) if a.ndim else a,
    "with one fewer": lambda a: a[:-1] if a.ndim else a,
    "of columns with one fewer": lambda a: a[..., :-1] if a.ndim else a,
    "of other elements": lambda a: a.astype(np.float64 if a.dtype.kind in "iub" else np.int64),
}


@dataclass(frozen=True)
class Recorded:
    """What a federation sent, and what was public in it."""

    messages: tuple[Message, ...]
    public: PublicFacts

    def with_messages(self, messages: Sequence[Message]) -> Ledger:
        """The ledger of other messages in their place."""
        return Ledger(replace(m, sequence=k) for k, m in enumerate(messages))

    def with_content(self, topic: str, plain: Any, every: bool) -> Ledger:
        """The ledger in which this is the content of `every` message of the topic, or of the last one."""
        last = max(k for k, m in enumerate(self.messages) if m.topic == topic)
        body = encode(plain)
        return Ledger(
            replace(m, content=body, body=m.body if m.sealed else body)
            if m.topic == topic and (every or k == last)
            else m
            for k, m in enumerate(self.messages)
        )

    def content(self, topic: str) -> Any:
        """That of the last message of the topic, as plain data."""
        return decode(next(m.content for m in reversed(self.messages) if m.topic == topic))


@cache
def recorded() -> dict[str, Recorded]:
    """Topic -> a small transcript that has it; of kinds that only large ones have, made-up messages."""
    found: dict[str, Recorded] = {}
    for federation in _federations():
        for m in federation.messages:
            found.setdefault(m.topic, federation)
    known = next(iter(found.values()))
    for topic in sorted({*TOPICS} - found.keys()):
        body = encode(sample(KINDS[topic]).to_plain())
        ends = (("P1", "server"), ("P2", "server"), ("server", "P1"))
        sent = (Message(k, "made up", 0, topic, a, b, None, False, body, body) for k, (a, b) in enumerate(ends))
        found[topic] = Recorded(tuple(sent), known.public)
    return found


def _federations() -> Iterator[Recorded]:
    specs = {repr(s): s for a in ATTACKS.values() for s in a.controls if s.expects not in ("records", "fields")}
    for control in (*map(played, specs.values()), *(run_methods(*methods, 0) for methods in PREPROCESSED)):
        yield Recorded(tuple(control.fed.ledger), control.public)
    for sections in TRAINED:
        federated = truth(
            **{name: SMALL.get(name, {}) | sections.get(name, {}) for name in {*SMALL, *sections}}
        ).federated
        yield Recorded(tuple(federated.ledger), federated.public)


def wrong(plain: Any) -> Iterator[tuple[str, Any]]:
    """(what is wrong, plain data with one thing of it changed)."""
    if isinstance(plain, bool):
        yield "a number", int(plain)
    elif isinstance(plain, int):
        yield from WHOLE.items()
        yield "a text", "7"
    elif isinstance(plain, float):
        yield from REAL.items()
    elif isinstance(plain, str):
        yield from {"empty": "", "long": plain * 999, "another": "nobody", "a number": 7}.items()
    elif isinstance(plain, bytes):
        yield from {"empty": b"", "cut": plain[:-1], "zeros": bytes(len(plain)), "a text": "x"}.items()
    elif isinstance(plain, np.ndarray):
        yield from _wrong_array(plain)
    elif isinstance(plain, list):
        yield from {"empty": [], "a member twice": [*plain, *plain[:1]], "one fewer": plain[:-1]}.items()
        yield from ((f"{what} in it", [changed, *plain[1:]]) for what, changed in (wrong(plain[0]) if plain else ()))
    elif isinstance(plain, dict):
        yield from {"empty": {}, "one more": plain | {"nobody": next(iter(plain.values()), 0)}}.items()
        for key, value in plain.items():
            yield f"no {key}", {k: v for k, v in plain.items() if k != key}
            yield from ((f"{key}: {what}", plain | {key: changed}) for what, changed in wrong(value))


def _wrong_array(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield from ((what, change(array)) for what, change in ARRAYS.items())
    if array.dtype.kind == "b":
        return
    real = array.dtype.kind == "f"
    limits = np.finfo(array.dtype) if real else np.iinfo(array.dtype)
    values = {"zero": 0, "the largest": limits.max, "the least": limits.min, "2^40": 2**40}
    for what, value in (values | (dict(list(REAL.items())[:2]) if real else {})).items():
        if real or limits.min <= value <= limits.max:
            yield f"all {what}", np.full_like(array, value)


def disordered(messages: Sequence[Message], topic: str) -> Iterator[tuple[str, list[Message]]]:
    """(what is wrong, the messages with it), of those of one topic."""
    own = [m for m in messages if m.topic == topic]
    others = {m.recipient for m in messages}
    yield "none", [m for m in messages if m.topic != topic]
    yield "none of the first sender", [m for m in messages if m.topic != topic or m.sender != own[0].sender]
    yield "twice", [m for one in messages for m in ([one, one] if one.topic == topic else [one])]
    yield "backwards", [*(m for m in messages if m.topic != topic), *reversed(own)]
    yield "of another round", [replace(m, round=m.round + 7) if m.topic == topic else m for m in messages]
    yield "of one sender", [replace(m, sender=own[0].sender) if m.topic == topic else m for m in messages]
    for other in sorted(others):
        yield f"to {other}", [replace(m, recipient=other) if m.topic == topic else m for m in messages]
