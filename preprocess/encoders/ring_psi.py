"""The ring's identifiers aligned by a private set intersection: what `dh-psi`, `apsi` and `otmp-psi` share.

Source: "Privacy-preserving tabular data transformation", section 7.1. After the ring (`ring_ids`), a value that several
parties hold has several numbers; the parties find out which of their values others hold, and use the lowest number,
which is that of the first holder in the ring. The values of all features make one set, each under its feature's name.
What is left is the encoding of `server-dictionary` on the training tables, up to the order of columns and, unless they
are dropped, columns that are zero for everyone. Blocks stay pseudonymous: nobody is told the values behind numbers of
others.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.refusal import MessageError, accept, accept_public
from leakledger.preprocess.crypto.ristretto import element
from leakledger.preprocess.crypto.secure_sum import Route
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import EncoderFit
from leakledger.preprocess.encoders.ring_ids import Allotment, Ids, RingEncoder, RingIds
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import AllUnusedIds, UnusedIds
from leakledger.preprocess.options import option

Unused = Literal["keep", "drop"]
Directions = Literal["both", "upward"]
Elements = dict[bytes, int]  # `ristretto.element` -> number


@dataclass(frozen=True)
class PsiEncoder(RingEncoder):
    """Options of every encoder that aligns the ring's numbers by a private set intersection.

    Of the numbers that a value has, the lowest wins; the others stay columns of zeros ("keep") or go ("drop"). The
    paper's message counts have room for the first alone, where its section 8.3 calls the width comparable to one-hot
    encoding. No party can drop in silence: what two others both hold, and which number that frees, is in nobody else's
    view, and the server, which has to know the width, sees none of it. So with "drop" each party tells the server which
    of its numbers nobody uses, and the server tells all, which shows to everyone how many values each party shares with
    those before it; padding and noise go with them. `psi_route` is how the messages of the intersection travel; None is
    the method's own way.
    """

    psi_route: Route | None = option(None, help="how messages of the intersection travel; unset: the method's own way")
    unused: Unused = option("keep", help='"drop" removes numbers that no party uses, and tells everyone which')

    own_route: ClassVar[Route] = "relay"

    @property
    def route(self) -> Route:
        return self.psi_route or self.own_route

    @property
    def routes(self) -> tuple[Route, ...]:
        return (self.ring_route, self.route)

    @abstractmethod
    def shared(self, fed: Federation, allotted: RingIds, sets: Mapping[str, At[Elements]]) -> dict[str, At[Elements]]:
        """The intersection: at each party, the lowest number that another party has for an element of its own."""

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        allotted = self.allot(fed, schema, tables)
        sets = {p: fed.local(p, elements_of, a) for p, a in allotted.own.items()}
        with fed.fixed_size(self.sealed_bytes):
            lowest = self.shared(fed, allotted, sets)
        ids = {p: fed.local(p, aligned, a, lowest[p]) for p, a in allotted.own.items()}
        if self.unused == "keep":
            return self.encode(fed, ids, allotted.sizes)
        dropped = self._dropped(fed, allotted, ids)
        dense = {p: fed.local(p, without, i, dropped) for p, i in ids.items()}
        return self.encode(fed, dense, fed.public(smaller, allotted.sizes, dropped))

    def _dropped(
        self, fed: Federation, allotted: RingIds, ids: Mapping[str, At[Ids]]
    ) -> Public[dict[str, NDArray[np.int64]]]:
        """The numbers that nobody uses: known to the party that was allotted them, and then to all."""
        own = {p: fed.local(p, given_up, allotted.own[p], i) for p, i in ids.items()}
        at_server = {p: fed.send(o, fed.server) for p, o in own.items()}
        checked = [accept(fed, fed.server, p, check_unused, o, allotted.sizes) for p, o in at_server.items()]
        everything = fed.broadcast(fed.local(fed.server, all_unused, *checked))
        return accept_public(fed, fed.server, check_unused, everything, allotted.sizes)


@dataclass(frozen=True)
class PairwiseEncoder(PsiEncoder):
    """An encoder whose intersection runs between two parties at a time.

    `directions`: "both", as in the paper, lets every party learn what it shares with every other. "upward" runs only
    those in which the party that comes later in the ring learns; the numbers are the same, for half the work, and the
    earlier party learns only how many elements the later one has.
    """

    directions: Directions = option("both", help='"upward": only the party that is later in the ring learns')

    def pairs(self, ring: Sequence[str]) -> list[tuple[str, str]]:
        """(receiver, sender) in the order in which they run."""
        before = list(combinations(ring, 2))
        upward = [(later, earlier) for earlier, later in before]
        return upward if self.directions == "upward" else upward + before

    @abstractmethod
    def intersect(
        self, fed: Federation, sets: Mapping[str, At[Elements]], pairs: Sequence[tuple[str, str]], bound: Public[int]
    ) -> dict[tuple[str, str], At[Elements]]:
        """At each receiver, the sender's numbers of what both hold. No party has more than `bound` elements."""

    def shared(self, fed: Federation, allotted: RingIds, sets: Mapping[str, At[Elements]]) -> dict[str, At[Elements]]:
        pairs = self.pairs(allotted.ring)
        found = self.intersect(fed, sets, pairs, fed.public(lambda sizes: sum(sizes.values()), allotted.sizes))
        labels: dict[str, list[At[Elements]]] = {p: [] for p in allotted.ring}
        for (receiver, sender), arrived in found.items():
            labels[receiver].append(accept(fed, receiver, sender, check_labels, arrived, allotted.sizes))
        return {p: fed.local(p, lowest_of, *known) for p, known in labels.items()}


def elements_of(allotment: Allotment) -> dict[bytes, int]:
    """A party's values of all features as one set, each with its number."""
    return {element(f, v): number for f, numbered in allotment.ids.items() for v, number in numbered.items()}


def check_labels(labels: Elements, sizes: Mapping[str, int]) -> Elements:
    """The labels as they were found. Raises MessageError where one is no number of any feature."""
    if any(label >= max(sizes.values(), default=0) for label in labels.values()):
        raise MessageError("a label is no number that was allotted")
    return labels


def lowest_of(*found: Elements) -> dict[bytes, int]:
    """The lowest number of each element."""
    return {x: min(labels[x] for labels in found if x in labels) for x in set().union(*found)}


def aligned(allotment: Allotment, lowest: Elements) -> dict[str, dict[str, int]]:
    """A party's numbers, each replaced by a lower one of another party for the same value."""
    return {
        f: {v: min(number, lowest.get(element(f, v), number)) for v, number in numbered.items()}
        for f, numbered in allotment.ids.items()
    }


def given_up(allotment: Allotment, ids: Ids) -> UnusedIds:
    """The numbers allotted to a party that it does not use itself. By then nobody else does: the lowest wins."""
    numbers = {f: sorted(set(r) - set(ids[f].values())) for f, r in allotment.ranges.items()}
    return UnusedIds({f: np.array(own, np.int64) for f, own in numbers.items()})


def check_unused(told: UnusedIds | AllUnusedIds, sizes: Mapping[str, int]) -> dict[str, NDArray[np.int64]]:
    """The numbers as they arrived. Raises MessageError unless they are lists of allotted numbers, one per feature."""
    unused = told.numbers
    if list(unused) != list(sizes):
        raise MessageError("it does not name the categorical features")
    for f, numbers in unused.items():
        if numbers.ndim != 1:
            raise MessageError("unused numbers are a list of whole numbers")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < sizes[f]:
            raise MessageError("an unused number was never allotted")
    return unused


def all_unused(*parts: Mapping[str, NDArray[np.int64]]) -> AllUnusedIds:
    return AllUnusedIds({f: np.unique(np.concatenate([p[f] for p in parts])) for f in parts[0]})


def without(ids: Ids, unused: Mapping[str, NDArray[np.int64]]) -> dict[str, dict[str, int]]:
    """The numbers moved down over those that nobody uses."""
    return {f: {v: k - int(np.searchsorted(unused[f], k)) for v, k in own.items()} for f, own in ids.items()}


def smaller(sizes: Mapping[str, int], unused: Mapping[str, NDArray[np.int64]]) -> dict[str, int]:
    return {f: size - len(unused[f]) for f, size in sizes.items()}
