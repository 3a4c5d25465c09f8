"""What the scalers under multiparty encryption have in common: declared ranges, keys, sums and counts that only all
clients together decrypt.

Source: "Bridging Local and Federated Data Normalization in Federated Learning", section V. The scheme is that of
`crypto.threshold_ckks`; see there who may collude. A ciphertext of CKKS holds numbers of a range that is fixed
beforehand: the paper's comparisons take [-1, 1], its inverses up to 2^20 or 2^30. So columns are brought to [-1, 1] by
declared ranges, which are public and never taken from rows, and a value outside is an error at its party before
anything is encrypted. Every slot has a feature; more features than slots take several ciphertexts.

Counts are whole, and are decrypted as such: `Counting` has a small ring, in which sums only are possible. Their scale
is as large as that ring has room for, so that the smudging is far below 1 under the most `hiding_bits`, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Literal, Self

import numpy as np

from leakledger.preprocess.crypto.seal import check_installed
from leakledger.preprocess.crypto.threshold_ckks.decryption import smudging_bits
from leakledger.preprocess.crypto.threshold_ckks.protocol import Collective, set_up
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import GlobalRanks, LocalRanks, SearchPoints
from leakledger.preprocess.noise.columns import Ranges, declared_ranges
from leakledger.preprocess.nouns import plural
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.scalers.base import (
    Matrix,
    PublicScaling,
    Scaler,
    ScalerFit,
    Vector,
    check_ranges,
    shared_fit,
)
from leakledger.preprocess.views import Mechanism

COUNTING_RING, COUNTING_SCALE = 13, 2.0**130
MOST_COUNTED = 2.0**24  # rows of all parties
COUNTING = 0.4, 2e7  # seconds and bytes of a search by counts, for each client


@dataclass(frozen=True)
class EncryptedScaler(Scaler):
    """`ranges` are set by `under`."""

    log_degree: Literal[14, 15] = option(
        14, help="binary logarithm of the ring's degree: 15, as published, or half of it"
    )
    hiding_bits: int = option(
        40, at_least=1, at_most=64, help="by how many bits the noise on a decryption exceeds the noise that it hides"
    )
    ranges: Ranges | None = None

    extra = "he"

    def __post_init__(self) -> None:
        check_options(self)
        if self.columns == "all":
            raise ValueError(
                f'{self.name}: encoded columns have no declared ranges, which encryption needs; set columns = "numeric"'
            )

    @property
    def needs_ranges(self) -> bool:
        return True

    @property
    def effort(self) -> tuple[float, float]:
        """As measured with four clients on 2 cores; key shares of a ring of 2^15 are three times as large."""
        seconds, size = self.multiplying
        larger = 1 if self.log_degree == 14 else 3
        return larger * seconds + COUNTING[0], larger * size + COUNTING[1]

    @property
    def multiplying(self) -> tuple[float, float]:
        """The same of what takes products, at 2^14."""
        return 2.0, 1e8

    def under(self, schema: Schema) -> Self:
        if not schema.numeric:
            raise ValueError(f"{self.name}: the table has no numeric column to compute on; choose another scaler")
        return replace(self, ranges=declared_ranges(schema.numeric, dict(schema.ranges), self.name, "encryption"))

    def mechanisms(self, schema: Schema) -> tuple[Mechanism, ...]:
        """None. Raises ValueError for a range that is missing, and where there is no column."""
        self.under(schema)
        return ()

    def rehearsal(self) -> Scaler:
        return Rehearsal(self.columns, self)

    def declared(self) -> Ranges:
        """The ranges. Raises ValueError where `under` was not asked."""
        if self.ranges is None:
            raise ValueError(f"{self.name} was not told the declared ranges of its columns: call under(schema) first")
        return self.ranges

    def checked(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> dict[str, At[Matrix]]:
        """The columns, which are within their ranges. Raises ValueError, naming party and feature, and without the
        library.
        """
        check_installed(self.name, self.extra)
        ranges = self.declared()
        return {c: fed.local(c, check_ranges, x, ranges, c, self.name) for c, x in columns.items()}

    def keys(self, fed: Federation) -> Collective:
        """Keys with which ciphertexts can be multiplied: one set serves any number of fits."""
        return set_up(fed, self.log_degree)


@dataclass(frozen=True)
class Rehearsal(Scaler):
    """The checks of a scaler on ranges that are declared, and no protocol: columns come out on [-1, 1]."""

    of: EncryptedScaler | None = None

    name = "rehearsal"
    reference = "none"

    def under(self, schema: Schema) -> Self:
        assert self.of is not None
        return replace(self, of=self.of.under(schema))

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        assert self.of is not None
        ranges = self.of.declared()
        self.of.checked(fed, columns)
        return shared_fit(fed, columns, fed.public(on_ranges, ranges))


def on_ranges(ranges: Ranges) -> PublicScaling:
    return PublicScaling(ranges.middle, ranges.half)


def check_rows(columns: Matrix, most: int, party: str, who: str) -> Matrix:
    """The columns. Raises ValueError where a party has more rows than fit."""
    if len(columns) > most:
        raise ValueError(
            f"{who}: {party} has {plural(len(columns), 'row')}, and {most} is its share of what fits a ciphertext"
        )
    return columns


def slices(features: int, most: int) -> list[slice]:
    """The features of each ciphertext."""
    return [slice(at, min(at + most, features)) for at in range(0, features, most)]


def joined(*parts: Vector) -> Vector:
    return np.concatenate(parts)


def counting_smudging(run: Collective, hiding_bits: int) -> int:
    """Each client's input brings its noise into the sum."""
    return smudging_bits(run.parameters, len(run.clients), hiding_bits) + ceil(log2(len(run.clients)))


def taken(numbers: Vector, part: slice) -> Vector:
    return numbers[part]


def whole(*parts: Vector) -> Vector:
    """Whole numbers from decrypted ones. Raises ValueError where one is far from any."""
    numbers = np.concatenate(parts)
    nearest = np.rint(numbers)
    if not (np.abs(numbers - nearest) < 0.25).all():
        raise ValueError("a decrypted count is no whole number: a party's share is wrong")
    return nearest


@dataclass(frozen=True)
class Counting:
    """Counts of all clients' rows, which everyone hears and no client's own is heard of."""

    run: Collective
    hiding_bits: int

    @classmethod
    def begin(cls, fed: Federation, hiding_bits: int) -> Self:
        return cls(set_up(fed, COUNTING_RING, products=False), hiding_bits)

    def of(self, numbers: Mapping[str, At[Vector]], entries: int, aloud: bool = True) -> At[Vector]:
        """(entries,) whole numbers summed over the clients, at the server; each client's are up to `MOST_COUNTED` over
        the number of clients.
        """
        run, fed, found = self.run, self.run.fed, []
        for part in slices(entries, run.parameters.slots):
            own = {c: fed.local(c, taken, x, part) for c, x in numbers.items()}
            most = MOST_COUNTED / len(own)
            parts = [run.encrypted(c, x, most, COUNTING_SCALE, whole=True) for c, x in own.items()]
            smudging = counting_smudging(run, self.hiding_bits)
            width = part.stop - part.start
            found.append(run.decrypted_at_server(run.total(parts), width, smudging, private=not aloud))
        return fed.local(fed.server, whole, *found)

    def ranks(
        self, ordered: Mapping[str, At[LocalRanks]], points: Public[SearchPoints], aloud: bool
    ) -> At[GlobalRanks]:
        """The counts at the points; lines 16 to 24 of algorithm 3. `aloud`: the server tells everyone."""
        fed, shape = self.run.fed, points.value.point.shape
        told = {c: fed.local(c, flat, ranks) for c, ranks in ordered.items()}
        return fed.local(fed.server, as_ranks, self.of(told, 2 * int(np.prod(shape)), aloud), shape)


def flat(ranks: LocalRanks) -> Vector:
    return np.concatenate([ranks.below.ravel(), ranks.above.ravel()]).astype(np.float64)


def as_ranks(counts: Vector, shape: Sequence[int]) -> GlobalRanks:
    below, above = counts.astype(np.int64).reshape(2, *shape)
    return GlobalRanks(below, above)
