"""Who stands between two boundaries of the ring: certain where its order is public, else a posterior.

The order of the ring is public where the encoder's options are (an empty `ring` means the order of the clients), where
the attack is told, or where the view shows every edge. Otherwise an observer knows its neighbours, who sent it the sum
(the first party), and from the numbers which of two observers comes first. Its knowledge is then a sequence of
*stretches* between boundaries: each has parties that are certainly in it, and an *open* one any number of those that
have no place yet, everyone else. All orders that fit are alike before the numbers are looked at, so all ways to divide
u parties over k open stretches are. They are weighed by the chance that so many parties add up to what each stretch
holds:

    P(m_1 .. m_k | sums) ~ prod_i P(sum_i | parties known there + m_i),     m_1 + .. + m_k = u.

A party that is certainly in a stretch has the mixture of its posteriors over m_i; one without a place, over stretches
too, in proportion to m_i. Without own rows the chances are not known, and all divisions stay alike.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.ring import Boundaries, Unreadable, highest_numbers
from leakledger.preprocess.messages import RingHighest, RingMaximum
from leakledger.preprocess.views import Message, View

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Stretch:
    """Between two known boundaries: the numbers of each feature there (F,), who is certainly there, in order, whether
    others may be, and the messages that state the boundaries.
    """

    sums: tuple[int, ...]
    known: tuple[str, ...]
    open: bool = False
    evidence: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Arrangement:
    """The stretches in order, and the parties without a place (in none of them if empty)."""

    features: tuple[str, ...]
    stretches: tuple[Stretch, ...]
    unplaced: tuple[str, ...] = ()


def of_boundaries(bounds: Boundaries) -> Arrangement:
    """Where the order is known: every party has its place."""
    found = []
    for first, last in bounds.segments():
        sums = tuple((bounds.ends[last] - bounds.ends[first]).astype(int).tolist())
        told = frozenset(bounds.evidence[i] for i in (first, last) if i in bounds.evidence)
        found.append(Stretch(sums, bounds.ring[first:last], False, told))
    return Arrangement(bounds.features, tuple(found))


@dataclass(frozen=True)
class _Chain:
    """Parties in a row; `ends` has the boundary after each of them that the view states."""

    parties: tuple[str, ...]
    ends: Mapping[int, tuple[Floats, int]] = field(repr=False)  # place -> (numbers (F,), message)


def of_edges(view: View) -> Arrangement:
    """Where the order is not known: what edges and numbers settle of it. Raises Unreadable with the reason."""
    stated, features = _stated(view)
    firsts = {m.sender for m in view.on(RingMaximum)}
    if len(firsts) != 1:
        raise Unreadable("the order of the ring is not public, and no message shows its first party")
    first = next(iter(firsts))
    following = {m.sender: m.recipient for m in view.on(RingHighest)}
    chains = _chains(view.public.clients, following, first)
    placed = sorted((_with_ends(c, stated) for c in chains), key=lambda c: _position(c, first))
    total = next((_numbers(m, features) for m in view.readable(RingMaximum)), None)
    last = next((a for a, b in following.items() if b == first), None)
    if total is None or any(not c.ends for c in placed[1:]):
        raise Unreadable("the order of the ring is not public, and messages that would show it are sealed")
    if last is not None and placed[-1].parties[-1] != last:
        raise Unreadable("highest numbers fall along the ring: messages are out of order or not of one run")
    unplaced = tuple(c for c in view.public.clients if c not in {p for chain in placed for p in chain.parties})
    return Arrangement(features, tuple(_stretches(placed, total, last is None)), unplaced)


def _stated(view: View) -> tuple[dict[str, tuple[Floats, int]], tuple[str, ...]]:
    """Party -> the boundary after it and the message that states it; and the features."""
    readable = [m for kind in (RingHighest, RingMaximum) for m in view.readable(kind)]
    if not readable:
        raise Unreadable("every message of the ring in this view is sealed for someone else")
    features = tuple(highest_numbers(readable[0]))
    stated: dict[str, tuple[Floats, int]] = {}
    for m in readable:
        numbers, sequence = _numbers(m, features)
        before = stated.setdefault(m.sender if m.kind is RingHighest else "", (numbers, sequence))
        if (before[0] != numbers).any():
            raise Unreadable(f"message {sequence} ({m.topic}) contradicts message {before[1]}")
    return {party: end for party, end in stated.items() if party}, features


def _numbers(message: Message, features: Sequence[str]) -> tuple[Floats, int]:
    ids = highest_numbers(message)
    if tuple(ids) != tuple(features):
        raise Unreadable("the messages of the ring name different features")
    return np.array([ids[f] + 1 for f in features], np.float64), message.sequence


def _chains(clients: Iterable[str], following: Mapping[str, str], first: str) -> list[tuple[str, ...]]:
    """The longest rows of parties along the edges, cut before the first party; the one that begins with it, always."""
    if not {first, *following, *following.values()} <= set(clients):
        raise Unreadable("the ring does not consist of the public clients")
    cut = {a: b for a, b in following.items() if b != first}
    if len(set(cut.values())) < len(cut):
        raise Unreadable("two parties of the ring have the same successor")
    heads = [first, *(a for a in cut if a not in cut.values() and a != first)]
    heads += [a for a, b in following.items() if b == first and a not in cut.values() and a not in heads]
    chains = [tuple(_along(head, cut)) for head in heads]
    if sum(map(len, chains)) != len({first, *following, *following.values()}):
        raise Unreadable("the edges of the ring that this view shows go round without its first party")
    return chains


def _along(party: str, following: Mapping[str, str]) -> Iterator[str]:
    yield party
    while party in following:
        party = following[party]
        yield party


def _with_ends(parties: tuple[str, ...], stated: Mapping[str, tuple[Floats, int]]) -> _Chain:
    return _Chain(parties, {i: stated[p] for i, p in enumerate(parties) if p in stated})


def _position(chain: _Chain, first: str) -> float:
    """Boundaries grow along the ring, so their sums over features order the chains; the first party's is the first."""
    if chain.parties[0] == first:
        return -1.0
    return min((float(numbers.sum()) for numbers, _ in chain.ends.values()), default=np.inf)


def _stretches(chains: Sequence[_Chain], total: tuple[Floats, int], last_open: bool) -> Iterator[Stretch]:
    """From one boundary that is stated to the next. Where one chain ends and the next begins, others may stand."""
    before, told = np.zeros_like(total[0]), frozenset[int]()
    waiting: list[str] = []
    open_here = False
    for number, chain in enumerate(chains):
        open_here = open_here or number > 0
        for place, party in enumerate(chain.parties):
            waiting.append(party)
            if place not in chain.ends:
                continue
            end, message = chain.ends[place]
            yield _stretch(before, end, waiting, open_here, told | {message})
            before, told, waiting, open_here = end, frozenset({message}), [], False
    if waiting:
        yield _stretch(before, total[0], waiting, open_here or last_open, told | {total[1]})
    elif (total[0] != before).any():
        raise Unreadable(f"message {total[1]} ({RingMaximum.topic}) contradicts the last one around the ring")


def _stretch(low: Floats, high: Floats, known: Sequence[str], open_: bool, told: frozenset[int]) -> Stretch:
    if (high < low).any():
        raise Unreadable("highest numbers fall along the ring: messages are out of order or not of one run")
    return Stretch(tuple((high - low).astype(int).tolist()), tuple(known), open_, told)


def divisions(chances: Sequence[Floats], unplaced: int) -> list[Floats]:
    """For each open stretch (u + 1,) the posterior of how many of the u parties without a place stand there.

    `chances` (u + 1,) of each: what its sum makes of that number. Raises Unreadable where no division fits.
    """
    found = []
    for i, own in enumerate(chances):
        others = np.zeros(unplaced + 1)
        others[0] = 1.0
        for other in [*chances[:i], *chances[i + 1 :]]:
            others = np.convolve(others, other)[: unplaced + 1]
        joint = own * others[::-1]
        if joint.sum() <= 0:
            raise Unreadable("no order of the ring fits the numbers that this view shows")
        found.append(joint / joint.sum())
    return found
