"""What a view fixes of the ring: its order, and where one party's numbers end and the next one's begin.

Party i of the ring (0 .. n - 1) has the numbers from b_i up to b_(i+1), with b_0 = 0 and b_n the public sum.
`ring.highest` from party i states b_(i+1) - 1 for every feature; `ring.maximum` states b_n - 1. Which boundaries a view
holds depends on the observers: two neighbours of a party, or an open relay, hold both ends of its range.

The order of the ring is not a message. It is public where the encoder's option `ring` is among the public facts; an
empty one is the order of the clients. Who sent `ring.highest` to whom must agree, also where the content is sealed. A
view that shows every edge settles the order by itself. Otherwise `arrangement` says what can be said.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages import RingHighest, RingMaximum
from leakledger.preprocess.views import Message, View


class Unreadable(ValueError):
    """A view that the attack cannot use; the text is the reason."""


class Contradiction(Unreadable):
    """Messages that contradict each other, or say what no party can hold."""


class OrderUnknown(Unreadable):
    """The order of the ring is not among the public facts, and the view does not settle it."""


@dataclass(frozen=True)
class Boundaries:
    """`ends` (n + 1, F): b_i of each feature, NaN where the view does not show it. `evidence` maps i to a message."""

    ring: tuple[str, ...]
    features: tuple[str, ...]
    ends: NDArray[np.float64] = field(repr=False)
    evidence: Mapping[int, int]

    def segments(self) -> list[tuple[int, int]]:
        """(first, last + 1) places in the ring of the parties between each boundary that is known and the next."""
        known = [i for i in range(len(self.ends)) if not np.isnan(self.ends[i]).any()]
        return list(pairwise(known))


def read_ring(view: View, ring: Sequence[str] | None) -> Boundaries:
    """The boundaries that the view's messages state. Raises Unreadable with the reason."""
    stated: dict[int, tuple[dict[str, int], int]] = {}
    order = ring_order(view, ring)
    for m in view.readable(RingHighest):
        _state(stated, order.index(m.sender) + 1, m)
    for m in view.readable(RingMaximum):
        _state(stated, len(order), m)
    if not stated:
        raise Unreadable("every message of the ring in this view is sealed for someone else")
    features = tuple(next(iter(stated.values()))[0])
    if any(tuple(s) != features for s, _ in stated.values()):
        raise Unreadable("the messages of the ring name different features")
    ends = np.full((len(order) + 1, len(features)), np.nan)
    ends[0] = 0
    for i, (ids, _) in stated.items():
        ends[i] = [ids[f] + 1 for f in features]
    shown = ends[~np.isnan(ends).any(1)]
    if (np.diff(shown, axis=0) < 0).any():
        raise Unreadable("highest numbers fall along the ring: messages are out of order or not of one run")
    return Boundaries(order, features, ends, {i: sequence for i, (_, sequence) in stated.items()})


def _state(stated: dict[int, tuple[dict[str, int], int]], place: int, message: Message) -> None:
    ids = highest_numbers(message)
    if place in stated and stated[place][0] != ids:
        raise Unreadable(f"message {message.sequence} ({message.topic}) contradicts message {stated[place][1]}")
    stated.setdefault(place, (ids, message.sequence))


def highest_numbers(message: Message) -> dict[str, int]:
    """The payload of a message of the ring. Raises Unreadable where it is about no feature."""
    highest: dict[str, int] = payload_of(message).highest
    if not highest:
        raise Unreadable(f"message {message.sequence} ({message.topic}) states no number: no feature is categorical")
    return dict(highest)


def payload_of(message: Message) -> Any:
    """The payload. Raises Unreadable where it is sealed for someone else."""
    if message.content is None:
        raise Unreadable(f"message {message.sequence} ({message.topic}) is sealed for {message.recipient}")
    return message.payload


def ring_order(view: View, ring: Sequence[str] | None) -> tuple[str, ...]:
    """`ring`, or the public option, unless an edge contradicts; else what all edges show. Raises Unreadable, or
    OrderUnknown where nobody said.
    """
    clients = view.public.clients
    options = view.public.encoder.options
    stated = bool(ring) or "ring" in options
    order = tuple(ring or options.get("ring") or clients)
    edges = {m.sender: m.recipient for m in view.on(RingHighest)}
    firsts = {m.sender for m in view.on(RingMaximum)}
    if sorted(order) != sorted(clients) or not {*edges, *edges.values(), *firsts} <= set(clients):
        raise Unreadable("the ring does not consist of the public clients")
    if stated and _agrees(order, edges, firsts):
        return order
    if len(firsts) == 1 and (chain := _follow(next(iter(firsts)), edges, len(clients))):
        return chain
    if not stated:
        raise OrderUnknown("the order of the ring is not public; set `ring` to it")
    raise Unreadable("the ring runs in another order than the public one; set `ring` to its order")


def _agrees(order: tuple[str, ...], edges: Mapping[str, str], firsts: Iterable[str]) -> bool:
    following = dict(zip(order, (*order[1:], order[0]), strict=True))
    return all(following[a] == b for a, b in edges.items()) and all(f == order[0] for f in firsts)


def _follow(first: str, edges: Mapping[str, str], parties: int) -> tuple[str, ...]:
    """The ring from its first party along the edges; empty unless they name all parties once."""
    chain = [first]
    while len(chain) < parties and chain[-1] in edges:
        chain.append(edges[chain[-1]])
    return tuple(chain) if len(set(chain)) == parties else ()
