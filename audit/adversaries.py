"""Who is played as the adversary: single parties, the server, and coalitions, named or enumerated."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import comb, prod

from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.views import PublicFacts

Observers = tuple[str, ...]
MOST = 10_000  # sets that one name may stand for
GRAMMAR = 'a party, "clients", "neighbours of P3", "all but P3", "all but one", "coalitions of 2", joined by "+"'


def observer_sets(names: Sequence[str], public: PublicFacts, where: str = "audit.observers") -> list[Observers]:
    """The observer sets that a configuration names, each once.

    A name is a party; "clients" (each alone); "coalitions of k" (any k clients); "all but one" or "all but P3"; or
    "neighbours of P3", the clients before and after it in the ring. Names joined by "+" observe together, in every
    combination: "server+clients" is the server with each client. Raises ValueError, which says `where` they are named,
    for a name that says none of this, a party that took no part, or a name that stands for more than `MOST` sets.
    """
    sets: dict[Observers, None] = {}
    for name in names:
        try:
            parts = [_alternatives(part, public) for part in together(name)]
            _check_count(name, prod(map(len, parts)))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        for chosen in product(*parts):
            sets[tuple(sorted({p for observers in chosen for p in observers}))] = None
    return list(sets)


def together(name: str) -> list[str]:
    """The names that a name joins to one adversary."""
    return [part.strip() for part in name.split("+")]


def _check_count(name: str, count: int) -> None:
    if count > MOST:
        raise ValueError(f"{name!r} stands for {count} adversaries; at most {MOST} can be played: name some of them")


def _alternatives(name: str, public: PublicFacts) -> list[Observers]:
    clients = public.clients
    if name in (*clients, public.server):
        return [(name,)]
    if name == "clients":
        return [(c,) for c in clients]
    if name == "all but one":
        return [_without(clients, c) for c in clients]
    if name.startswith("all but "):
        return [_without(clients, _client(name.removeprefix("all but "), public))]
    if name.startswith("neighbours of "):
        return [_neighbours(ring_of(public), _client(name.removeprefix("neighbours of "), public))]
    if name.startswith("coalitions of "):
        size = name.removeprefix("coalitions of ")
        if size.isdecimal() and 1 <= int(size) <= len(clients):
            _check_count(name, comb(len(clients), int(size)))  # before they are listed
            return list(combinations(clients, int(size)))
        raise ValueError(f"{name!r}: a size from 1 to {len(clients)} is needed, not {size!r}")
    return [(_client(name, public),)]


def _client(name: str, public: PublicFacts) -> str:
    if name not in public.clients:
        everyone = sorted({*public.clients, public.server})
        near = closest(name, everyone)
        raise ValueError(f"{name!r} took no part{near}; the parties are {', '.join(everyone)}; write {GRAMMAR}")
    return name


def ring_of(public: PublicFacts) -> Observers:
    """The clients in the order of the encoder's ring: as its options say, else the public order."""
    return tuple(public.encoder.options.get("ring") or public.clients)


def _neighbours(ring: Observers, client: str) -> Observers:
    at = ring.index(client)
    return tuple({ring[at - 1], ring[(at + 1) % len(ring)]} - {client})


def coalitions(parties: int) -> Iterator[tuple[int, int]]:
    """(size, how many) of the coalitions of two or more of so many parties, less all of them."""
    total = parties
    for size in range(2, parties):
        total = total * (parties - size + 1) // size  # each binomial coefficient from the one before
        yield size, total


def _without(clients: Observers, client: str) -> Observers:
    return tuple(c for c in clients if c != client)


def not_played(sets: Sequence[Observers], public: PublicFacts) -> list[str]:
    """In words, the adversaries of the same parties that were not played."""
    missing = []
    if (public.server,) not in sets:
        missing.append("the server alone")
    if left := [c for c in public.clients if (c,) not in sets]:
        missing.append(f"single clients: {', '.join(left)}")
    parties = len(public.clients) + 1
    of_size, texts = Counter(map(len, sets)), dict[int, str]()
    for size, total in coalitions(parties):
        if of_size[size] < total:
            mirrored = min(size, parties - size)  # as many leave so many out: thousands of digits are written once
            if mirrored not in texts:
                texts[mirrored] = str(total)
            rest = str(total - of_size[size]) if of_size[size] else texts[mirrored]
            missing.append(f"coalitions of {size}: {rest} of {texts[mirrored]}")
    missing.append("active adversaries (parties that deviate from the protocol)")
    return missing
