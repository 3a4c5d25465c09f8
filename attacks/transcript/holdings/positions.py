"""What an over-threshold set intersection tells its parties: from positions back to values.

From `otmp-psi`. A party knows the keyed value F(k, x) of its own elements (`oprf`), hence each one's bin and share:
home = first 16 bytes modulo the number of bins, coefficient c = 24 bytes of a hash of the rest, and the share of the
party at place i of the ring is c (i + 1) modulo 2^61 - 1. From that:

* a party finds its own positions in the shares that it sent, and the matches that the reconstructor returned say which
  other party has the same element;
* for each value that an earlier party is the first to hold, it is told that party's number of it, and numbers say how
  many values lie between, as labels of `pairwise` do;
* whoever reads another party's shares (the reconstructor, or an open relay) tests its own elements in them directly;
* the key holder together with the reconstructor computes F for any candidate and tests it in everyone's shares. The
  scheme's authors exclude that coalition; nothing in the protocol prevents it.

All but what lies between numbers is exact: a chance hit has probability 2^-61 per share.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha512
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.own_rows import own_counts
from leakledger.attacks.observed.ring import Unreadable, ring_order
from leakledger.attacks.observed.values import numbering
from leakledger.attacks.transcript.holdings.finding import Finding, exactly
from leakledger.attacks.transcript.holdings.numbers import known_ranges
from leakledger.attacks.transcript.holdings.oprf import element, find_scalar, hashed, output, points, times, unblinded
from leakledger.attacks.transcript.holdings.pairwise import Labels, between_labels
from leakledger.preprocess.messages import OtmpAnswer, OtmpMatches, OtmpNumbers, OtmpPositions, OtmpRequest, OtmpShares
from leakledger.preprocess.views import Message, View

P = 2**61 - 1

Outputs = dict[bytes, bytes]  # element -> F(k, element)
Elements = Mapping[bytes, tuple[str, str]]


@dataclass(frozen=True)
class Found:
    """What positions tell of a party: which values it holds (`scores`), where its shares of them are, and by which
    messages; the last of these shows the places.
    """

    party: str
    scores: Mapping[str, Mapping[str, float]] = field(repr=False)
    held: Mapping[tuple[str, str], tuple[int, int]] = field(repr=False)
    behind: tuple[Message, ...] = field(repr=False)


def from_positions(view: View, candidates: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    """What the observers find in shares and matches."""
    for found in _found(view, candidates):
        for feature, scores in found.scores.items():
            yield exactly(found.party, feature, scores, [m.sequence for m in found.behind])
        yield from _between(view, found, candidates)


def labels_of_positions(
    view: View, candidates: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, Labels, frozenset[int]]]:
    """(party, the numbers that it gave observers who asked by position, messages), of values that are known there."""
    for found in _found(view, candidates):
        numbers, evidence = _told(view, found)
        labels: dict[str, dict[str, int]] = {}
        for (f, value), at in found.held.items():
            if at in numbers:
                labels.setdefault(f, {})[value] = numbers[at]
        if labels:
            yield found.party, labels, evidence


def _found(view: View, candidates: Mapping[str, tuple[str, ...]]) -> Iterator[Found]:
    try:
        ring = ring_order(view, None)
    except Unreadable:
        return
    outputs, names = keyed_values(view, ring, candidates)
    shares = {m.sender: m for m in view.readable(OtmpShares)}
    for party, message in shares.items():
        if party not in view.observers and outputs:
            yield from _tested(party, ring.index(party), message, outputs, names)
    yield from _matched(view, ring, outputs, names, shares)


def keyed_values(
    view: View, ring: tuple[str, ...], candidates: Mapping[str, tuple[str, ...]]
) -> tuple[Outputs, Elements]:
    """F of every candidate where the key holder observes, else of the observers' own elements."""
    everything = {element(f, v): (f, v) for f, values in candidates.items() for v in values}
    key = _key(view, ring[0])
    if key is not None:
        return {x: output(x, times(key, hashed(x))) for x in everything}, everything
    found: Outputs = {}
    for party, counts in own_counts(view).items():
        elements = [element(f, v) for f, held in counts.items() for v in held if element(f, v) in everything]
        found |= _own_outputs(view, party, elements)
    return found, everything


def _key(view: View, holder: str) -> bytes | None:
    """The key holder's scalar, if it observes: what takes a request that it received to its answer."""
    if holder not in view.observers:
        return None
    answers = {m.recipient: m for m in view.on(OtmpAnswer, sender=holder)}
    for m in view.on(OtmpRequest, recipient=holder):
        try:
            asked, answered = points(m.payload.points.value), points(answers[m.sender].payload.points.value)
            if asked:
                return find_scalar(view.coins.get(holder), asked[0], tuple(answered[:1]))
        except (KeyError, ValueError):
            continue
    return None


def _own_outputs(view: View, party: str, elements: list[bytes]) -> Outputs:
    asked = next(view.on(OtmpRequest, sender=party), None)
    answer = next(view.on(OtmpAnswer, recipient=party), None)
    if asked is None or answer is None or not elements:
        return {}
    try:
        sent, received = asked.payload.points.value, answer.payload.points.value
        scalar = find_scalar(view.coins.get(party), hashed(elements[0]), tuple(points(sent)))
        return {} if scalar is None else dict(unblinded(scalar, tuple(elements), sent, received))
    except (ValueError, TypeError, RuntimeError):
        return {}


def _share(out: bytes, place: int) -> int:
    coefficient = int.from_bytes(sha512((0).to_bytes(4, "big") + out[16:]).digest()[:24], "big")
    return coefficient * (place + 1) % P


def _home(out: bytes, bins: int) -> int:
    return int.from_bytes(out[:16], "big") % bins


def _table(message: Message) -> NDArray[np.uint64] | None:
    """The shares (bins, capacity); None for anything else."""
    try:
        table: Any = message.payload.shares.value
    except ValueError:
        return None
    fits = isinstance(table, np.ndarray) and table.dtype == np.uint64 and table.ndim == 2 and len(table)
    return table if fits else None


def _tested(party: str, place: int, message: Message, outputs: Outputs, names: Elements) -> Iterator[Found]:
    """Whether each known element is among a party's shares."""
    table = _table(message)
    if table is None:
        return
    held = {names[x]: at for x, at in _positions(table, place, outputs).items()}
    scores: dict[str, dict[str, float]] = {}
    for x in outputs:
        feature, value = names[x]
        scores.setdefault(feature, {})[value] = float((feature, value) in held)
    yield Found(party, scores, held, (message,))


def _matched(
    view: View, ring: tuple[str, ...], outputs: Outputs, names: Elements, shares: Mapping[str, Message]
) -> Iterator[Found]:
    """What the reconstructor told observers about their own positions."""
    for m in view.on(OtmpMatches):
        sent = shares.get(m.recipient)
        table = None if sent is None else _table(sent)
        if m.recipient not in view.observers or m.content is None or sent is None or table is None:
            continue
        own = _positions(table, ring.index(m.recipient), outputs)
        try:
            matches = {(h, s, o) for h, s, o, _ in m.payload.positions.tolist()}
        except (ValueError, TypeError):
            continue
        for place, party in enumerate(ring):
            if party in view.observers:
                continue
            scores: dict[str, dict[str, float]] = {}
            for x, (home, slot) in own.items():
                feature, value = names[x]
                scores.setdefault(feature, {})[value] = float((home, slot, place) in matches)
            theirs = {(h, s): (h, slot) for h, s, other, slot in m.payload.positions.tolist() if other == place}
            held = {names[x]: theirs[at] for x, at in own.items() if at in theirs}
            yield Found(party, scores, held, (sent, m))


def _told(view: View, found: Found) -> tuple[dict[tuple[int, int], int], frozenset[int]]:
    """Position -> the number that a party gave observers who asked by it; and the messages."""
    told = {m.recipient: m for m in view.on(OtmpNumbers, sender=found.party) if m.content is not None}
    numbers: dict[tuple[int, int], int] = {}
    evidence = {found.behind[-1].sequence}
    for m in view.on(OtmpPositions, recipient=found.party):
        if m.sender in view.observers and m.sender in told and m.content is not None:
            answer = told[m.sender]
            with suppress(ValueError, TypeError):
                asked = [(home, slot) for home, slot in m.payload.positions.tolist()]
                numbers |= dict(zip(asked, map(int, answer.payload.numbers.tolist()), strict=True))
                evidence |= {m.sequence, answer.sequence}
    return numbers, frozenset(evidence)


def _between(view: View, one: Found, candidates: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    """How many values without scores lie between the numbers that a party gave observers who asked by position."""
    numbers, evidence = _told(view, one)
    ranges = known_ranges(view).get(one.party, {}) if numbers else {}
    for f, of in candidates.items() if numbers else ():
        both = {v: at for (name, v), at in one.held.items() if name == f}
        labels = {v: numbers[at] for v, at in both.items() if at in numbers}
        lacked = [v for v in of if v not in one.scores.get(f, {})]
        found = between_labels(labels, lacked, numbering(view, f, of), ranges.get(f), both.keys() - labels.keys())
        if labels and found:
            yield Finding(one.party, f, found, {}, evidence)


def _positions(table: NDArray[np.uint64], place: int, outputs: Outputs) -> dict[bytes, tuple[int, int]]:
    """Element -> (bin, slot) in a party's own shares."""
    found = {}
    for x, out in outputs.items():
        home = _home(out, len(table))
        slots = np.flatnonzero(table[home] == np.uint64(_share(out, place)))
        if len(slots):
            found[x] = home, int(slots[0])
    return found
