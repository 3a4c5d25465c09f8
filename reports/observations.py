"""Who saw what, ready to be shown: large federations folded, topics in the order in which they happened."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leakledger.audit.records import Observation
from leakledger.reports import text

MOST = 8  # parties shown one by one; beyond, those that saw the same kinds of things share a row
OTHERS = "other parties"
AND_OTHERS = ", and other shapes"


class Together(str):
    """The name of parties that share a row, which knows how many they are."""

    parties: int

    def __new__(cls, group: Sequence[str]) -> "Together":
        name = super().__new__(cls, f"{group[0]} … {group[-1]} ({len(group)} parties together)")
        name.parties = len(group)
        return name


@dataclass(frozen=True)
class Transfer:
    """One topic of one step: each of `senders` told each of `recipients` but itself, through `via` where relayed."""

    step: str
    topic: str
    senders: tuple[str, ...]
    recipients: tuple[str, ...]
    via: tuple[str, ...]
    sealed: bool  # some observer of it holds only ciphertext
    messages: int
    first_round: int
    last_round: int


@dataclass(frozen=True)
class Received:
    """All that reached one observer on one topic: bytes received or relayed, and whether all of it was ciphertext."""

    observer: str
    topic: str
    size: int
    sealed: bool


def parties(observations: Iterable[Observation], holders: Iterable[str] = ()) -> tuple[str, ...]:
    """Everyone who observed or sent, those without data of their own (servers) first."""
    names = dict.fromkeys(name for o in observations for name in (o.observer, o.sender))
    data = set(holders)
    return tuple(sorted(names, key=lambda name: name in data))


def folded(observations: Sequence[Observation], holders: Iterable[str] = ()) -> tuple[Observation, ...]:
    """`observations` unchanged up to `MOST` parties; beyond, parties that saw the same kinds of things count as one."""
    everyone = parties(observations, holders)
    if len(everyone) <= MOST:
        return tuple(observations)
    alike: dict[frozenset[tuple[str, ...]], list[str]] = {}
    for party in everyone:
        kinds = frozenset((o.step, o.topic, o.role, o.form) for o in observations if o.observer == party)
        alike.setdefault(kinds, []).append(party)
    name = {party: Together(group) if len(group) > 1 else party for group in alike.values() for party in group}
    return _merged(replace(o, observer=name[o.observer], sender=name[o.sender]) for o in observations)


def label(party: str, length: int) -> str:
    """A party's name within so many characters; of parties together how many, which a cut would lose."""
    if isinstance(party, Together):
        return f"{party.parties} parties"
    return text.shortened(text.visible(party), length)


def how_many(parties: Iterable[str]) -> int:
    """How many parties these names stand for."""
    return sum(p.parties if isinstance(p, Together) else 1 for p in parties)


def _merged(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Rows that differ only in numbers become one, with the sums."""
    merged: dict[tuple[str, ...], Observation] = {}
    for o in observations:
        key = (o.observer, o.step, o.topic, o.sender, o.role, o.form)
        before = merged.get(key)
        merged[key] = o if before is None else _sum(before, o)
    return tuple(merged.values())


def _sum(a: Observation, b: Observation) -> Observation:
    return replace(
        a,
        content=a.content if a.content == b.content else a.content.removesuffix(AND_OTHERS) + AND_OTHERS,
        messages=a.messages + b.messages,
        size=a.size + b.size,
        first_round=min(a.first_round, b.first_round),
        last_round=max(a.last_round, b.last_round),
        hops=a.hops + b.hops,
        wire_size=a.wire_size + b.wire_size,
    )


def topics(observations: Sequence[Observation]) -> list[tuple[str, str]]:
    """(step, topic) pairs in an order that agrees with every observer's own, where there is such an order."""
    met: dict[str, dict[tuple[str, str], None]] = {}
    for o in observations:
        met.setdefault(o.observer, {})[(o.step, o.topic)] = None
    waiting = dict.fromkeys((o.step, o.topic) for o in observations)
    order = []
    while waiting:
        firsts = {o: next((k for k in keys if k in waiting), None) for o, keys in met.items()}
        ready = (k for k in waiting if all(firsts[o] == k for o, keys in met.items() if k in keys))
        order.append(next(ready, next(iter(waiting))))
        del waiting[order[-1]]
    return order


def exchanges(observations: Sequence[Observation]) -> list[Transfer]:
    """Who told whom, topic by topic. A message whose recipient was not observed goes to `OTHERS`."""
    return [e for step, topic in topics(observations) for e in _exchanges_of(step, topic, observations)]


def _exchanges_of(step: str, topic: str, observations: Sequence[Observation]) -> list[Transfer]:
    rows = [o for o in observations if (o.step, o.topic) == (step, topic)]
    pairs = list(dict.fromkeys((o.sender, o.observer) for o in rows if o.role == "received"))
    known = {sender for sender, _ in pairs}
    pairs += dict.fromkeys((o.sender, OTHERS) for o in rows if o.role != "received" and o.sender not in known)
    via = tuple(dict.fromkeys(o.observer for o in rows if o.role == "relayed"))
    sealed = any(o.form == "ciphertext" for o in rows)
    first, last = min(o.first_round for o in rows), max(o.last_round for o in rows)
    return [
        Transfer(step, topic, senders, recipients, via, sealed, _messages(rows, senders, recipients), first, last)
        for senders, recipients in fans(pairs)
    ]


def _messages(rows: Sequence[Observation], senders: Sequence[str], recipients: Sequence[str]) -> int:
    """Messages between them, counted where they arrive if that was observed, else where they leave."""
    arrived = sum(o.messages for o in rows if o.role == "received" and o.sender in senders and o.observer in recipients)
    return arrived or sum(o.messages for o in rows if o.role == "sent" and o.sender in senders)


def fans(pairs: Sequence[tuple[str, str]]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """`pairs` as few (senders, recipients) in which every sender reaches every recipient but itself."""
    senders, recipients = (tuple(dict.fromkeys(side)) for side in zip(*pairs, strict=True))
    everyone = {(s, r) for s in senders for r in recipients if s != r}
    if set(pairs) - {(s, s) for s in senders} == everyone:
        return [(senders, recipients)]
    return [((s,), tuple(r for sender, r in pairs if sender == s)) for s in senders]


def seen(observations: Iterable[Observation]) -> list[Received]:
    """What others told each observer, or had it pass on, by topic. What it sent itself is not counted."""
    rows: dict[tuple[str, str], list[Observation]] = {}
    for o in observations:
        if o.role != "sent":
            rows.setdefault((o.observer, o.topic), []).append(o)
    return [
        Received(observer, topic, sum(o.size for o in group), all(o.form == "ciphertext" for o in group))
        for (observer, topic), group in rows.items()
    ]
