"""Identifiers handed out around a ring, and encodings that use them: what `uhe` and the PSI encoders share.

Source: "Privacy-preserving tabular data transformation", section 7.1 and figure 3. The first party numbers its values
of each feature from 0 and tells the next its highest number; the next goes on from there; the last tells the first,
which tells everyone. One message carries all features. A feature of which no value was numbered yet has the highest
number -1. Within its range a party numbers in the schema's declared order, else alphabetically (section 2.2).

The count is the paper's, 2n - 1 among the parties: n around the ring, n - 1 for the last word. One more goes to the
server, which has to know the width of the model's input; the paper does not count it.

Padding and noise (section 8.4) are numbers that a party leaves unused at the end of its range. They blur what the next
party reads from the difference of two messages; the columns stay zero. A relay of sealed messages reads nothing but
their lengths, which `sealed_bytes` makes all alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.randomness import Randomness, randomness
from leakledger.preprocess.crypto.refusal import MessageError, accept, accept_public
from leakledger.preprocess.crypto.secure_sum import Route
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import (
    DictionaryEncoding,
    Encoder,
    EncoderFit,
    distinct_values,
    merged,
    public_blocks,
)
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import RingHighest, RingMaximum
from leakledger.preprocess.options import check_options, option

Ids = dict[str, dict[str, int]]  # feature -> value -> number

MAX_ID = 2**31 - 1
MAX_UNUSED = 1_000_000  # numbers of one range: each is a column of the encoding


@dataclass(frozen=True)
class IdEncoding(DictionaryEncoding):
    """One party's values with numbers that have gaps: `ids_[feature][j]` is the number of `dictionaries_[feature][j]`.

    A value of a held-out row that this party did not number, even if another did, is unseen: parties that do not share
    dictionaries cannot know its number.
    """

    ids_: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def numbers(self, table: Table, feature: str) -> NDArray[np.int64]:
        """(rows,) the number of each row's value; -1 where this party has none for it."""
        positions = super().numbers(table, feature)
        ids = np.array([*self.ids_[feature], -1], np.int64)
        return ids[positions]


@dataclass(frozen=True)
class RingEncoder(Encoder):
    """Options of every encoder on the ring.

    `ring` names all clients in ring order (empty: the federation's order). `ring_route` is how ring messages travel:
    from party to party, relayed by the server in the clear, or relayed sealed. `pad_to` rounds each party's range up to
    a multiple; `noise` adds a uniform 0 to `noise` unused numbers per party and feature. `sealed_bytes` fills sealed
    messages up to that size. Raises ValueError where no message is sealed, or some are relayed in the clear: who reads
    them needs no lengths.
    """

    ring: tuple[str, ...] = option((), help="all clients in ring order; empty: the federation's order")
    ring_route: Route = option("direct", help="how ring messages travel: between parties, or by the server")
    pad_to: int = option(
        1, at_least=1, at_most=MAX_UNUSED, help="each party's range of numbers is rounded up to a multiple"
    )
    noise: int = option(
        0, at_least=0, at_most=MAX_UNUSED, help="up to so many unused numbers more, per party and feature"
    )

    sealed_bytes: int = option(
        0, at_least=0, help="sealed messages are filled up to so many bytes; 0: as long as they are"
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.sealed_bytes and (self.routes.count("sealed") == 0 or "relay" in self.routes):
            raise ValueError(
                f"sealed_bytes is {self.sealed_bytes}, and messages go {', '.join(self.routes)}: lengths count where a "
                "relay can read nothing else; set the routes to sealed, or leave sealed_bytes out"
            )

    @property
    def by_own_rows(self) -> bool:
        """One value more, or another one, moves the numbers of those behind it."""
        return True

    @property
    def routes(self) -> tuple[Route, ...]:
        """How messages between parties travel."""
        return (self.ring_route,)

    def order(self, fed: Federation) -> tuple[str, ...]:
        """The ring. Raises ValueError unless it names each client once."""
        if self.ring and sorted(self.ring) != sorted(fed.clients):
            raise ValueError(f"the ring {list(self.ring)} must name each of {list(fed.clients)} once")
        return tuple(self.ring) or fed.clients

    def allot(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> "RingIds":
        """The round-robin protocol: numbers at each party, and the public size of each feature."""
        with fed.fixed_size(self.sealed_bytes):
            return self._around(fed, self.order(fed), schema, tables)

    def _around(
        self, fed: Federation, ring: tuple[str, ...], schema: Schema, tables: Mapping[str, At[Table]]
    ) -> "RingIds":
        highest: Any = RingHighest(dict.fromkeys(schema.categorical, -1))
        own: dict[str, At[Allotment]] = {}
        for party, successor in zip(ring, (*ring[1:], ring[0]), strict=True):
            own[party] = accept(
                fed,
                party,
                _before(ring, party),
                allot,
                (self.pad_to, self.noise),
                fed.local(party, lambda t: merged(schema, [distinct_values(t)]), tables[party]),
                highest,
                randomness(fed, party),
            )
            highest = fed.send(fed.local(party, highest_of, own[party]), successor, **routed(fed, self.ring_route))
        checked = accept(fed, ring[0], ring[-1], maximum_of, highest, schema.categorical)
        via = None if self.ring_route == "direct" else fed.server
        maximum = fed.broadcast(checked, via=via)
        return RingIds(ring, own, accept_public(fed, ring[0], feature_sizes, maximum, schema.categorical))

    def encode(self, fed: Federation, ids: Mapping[str, At[Ids]], sizes: Public[dict[str, int]]) -> EncoderFit:
        """What each party's final numbers and the public sizes amount to."""
        encodings = {p: fed.local(p, partial(id_encoding, self), i, sizes) for p, i in ids.items()}
        return EncoderFit(encodings, fed.public(public_blocks, self.style, sizes))


@dataclass(frozen=True)
class Allotment:
    """What one party numbered: the numbers of its values, all of its ranges, and the highest of each feature."""

    ids: dict[str, dict[str, int]] = field(repr=False)
    ranges: dict[str, range] = field(repr=False)
    highest: dict[str, int] = field(repr=False)


@dataclass(frozen=True)
class RingIds:
    """The outcome of the ring: its order, each party's allotment, and the public size of each feature."""

    ring: tuple[str, ...]
    own: Mapping[str, At[Allotment]]
    sizes: Public[dict[str, int]]


def allot(
    padding: tuple[int, int], dictionary: Mapping[str, Sequence[str]], told: RingHighest, source: Randomness
) -> Allotment:
    """Numbers a party's values after the highest that it was told. Raises MessageError as `check_highest` does."""
    highest = check_highest(told, tuple(dictionary))
    ids: dict[str, dict[str, int]] = {}
    ranges: dict[str, range] = {}
    for feature, values in dictionary.items():
        first = highest[feature] + 1
        ids[feature] = {value: first + k for k, value in enumerate(values)}
        ranges[feature] = range(first, first + _padded(len(values), *padding, source))
    return Allotment(ids, ranges, {f: r.stop - 1 for f, r in ranges.items()})


def highest_of(allotted: Allotment) -> RingHighest:
    return RingHighest(allotted.highest)


def maximum_of(told: RingHighest, features: Sequence[str]) -> RingMaximum:
    return RingMaximum(check_highest(told, features))


def check_highest(told: RingHighest | RingMaximum, features: Sequence[str]) -> dict[str, int]:
    """The highest numbers as they arrived. Raises MessageError unless there is one for each feature, in order."""
    highest = told.highest
    if list(highest) != list(features):
        raise MessageError("it does not name the categorical features")
    if not all(-1 <= h <= MAX_ID for h in highest.values()):
        raise MessageError(f"a highest number is a whole number from -1 to {MAX_ID}")
    return highest


def feature_sizes(maximum: RingMaximum, features: Sequence[str]) -> dict[str, int]:
    """How many numbers each feature has. Raises MessageError as `check_highest` does."""
    return {f: h + 1 for f, h in check_highest(maximum, features).items()}


def _padded(count: int, pad_to: int, noise: int, source: Randomness) -> int:
    extra = int(source.below(noise + 1, 1)[0]) if noise else 0
    return -(-(count + extra) // pad_to) * pad_to


def id_encoding(encoder: Encoder, ids: Ids, sizes: Mapping[str, int]) -> DictionaryEncoding:
    return IdEncoding(
        {feature: tuple(numbered) for feature, numbered in ids.items()},
        dict(sizes),
        encoder.style,
        encoder.unseen,
        {feature: tuple(numbered.values()) for feature, numbered in ids.items()},
    )


def routed(fed: Federation, route: Route) -> dict[str, Any]:
    """Arguments of `fed.send` for a route."""
    return {} if route == "direct" else {"via": fed.server, "sealed": route == "sealed"}


def _before(ring: Sequence[str], party: str) -> str:
    return ring[ring.index(party) - 1]
