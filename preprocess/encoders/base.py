"""What every encoder for categorical features is: a protocol that leaves a fitted encoding at each party.

`fit` is the protocol: who tells whom what, in the order of the paper. What it leaves at a party is an `Encoding`, which
turns that party's tables into columns; what it makes public are blocks in feature order, a `CategoricalBlock` for a
feature with candidates and a `NumericBlock` per column for one without: all that anyone who sees only gradients may
know about the columns.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.nouns import plural
from leakledger.preprocess.options import option
from leakledger.preprocess.views import Block, CategoricalBlock, Mechanism

Style = Literal["one-hot", "label"]
Unseen = Literal["ignore", "error"]


class Encoding(Protocol):
    """What a fitted encoder leaves at one party."""

    def transform(self, table: Table) -> NDArray[Any]:
        """(rows, columns of all features in the schema's order), of a dtype no wider than the codes need."""

    def candidates(self, table: Table, block: CategoricalBlock) -> NDArray[np.int64]:
        """(rows,) which candidate of the public `block` each row's value is; -1 where it is none of them."""


@dataclass(frozen=True)
class DictionaryEncoding:
    """One party's fitted dictionaries: number k of a feature is the value `dictionaries_[feature][k]`.

    `sizes_` may exceed the dictionary (padding). A value that is in no dictionary gives zeros (`unseen` = "ignore"; -1
    under label encoding) or raises ValueError with the feature (`unseen` = "error"); the value itself is not repeated.
    """

    dictionaries_: Mapping[str, tuple[str, ...]]
    sizes_: Mapping[str, int]
    style: Style = "one-hot"
    unseen: Unseen = "ignore"

    def transform(self, table: Table) -> NDArray[Any]:
        """(rows, columns of all features in the order of the dictionaries): bytes if one-hot, float64 if labels."""
        features = list(self.dictionaries_)
        if self.style == "label":
            labels = [self.numbers(table, f).astype(np.float64) for f in features]
            return np.column_stack(labels) if labels else np.empty((len(table), 0), np.uint8)
        hot = np.zeros((len(table), sum(self.sizes_[f] for f in features)), np.uint8)
        start = 0
        for feature in features:  # one array of the final size: with very many values, a copy is what does not fit
            numbers = self.numbers(table, feature)
            own = np.flatnonzero(numbers >= 0)
            hot[own, start + numbers[own]] = 1
            start += self.sizes_[feature]
        return hot

    def candidates(self, table: Table, block: CategoricalBlock) -> NDArray[np.int64]:
        return self.numbers(table, block.feature)

    def numbers(self, table: Table, feature: str) -> NDArray[np.int64]:
        """(rows,) the number of each row's value; -1 where it is not in the dictionary."""
        numbers = positions(table, feature, self.dictionaries_[feature])
        if self.unseen == "error" and (numbers < 0).any():
            hold = plural(int((numbers < 0).sum()), "row holds", "rows hold")
            raise ValueError(f"{feature}: {hold} a value that is not in the dictionary")
        return numbers


@dataclass(frozen=True)
class EncoderFit:
    """An encoding at each client, and the public blocks in the same feature order, starting at column 0."""

    encodings: Mapping[str, At[Encoding]]
    blocks: Public[tuple[Block, ...]]


@dataclass(frozen=True)
class Encoder(ABC):
    """A method for categorical features. `style` and `unseen` are those of `DictionaryEncoding`."""

    style: Style = option("one-hot", help="one column per value, or one column with the value's number")
    unseen: Unseen = option("ignore", help='a held-out value in no dictionary: zeros (-1 under "label"), or an error')

    name: ClassVar[str]
    reference: ClassVar[str]
    said_to_share: ClassVar[str] = ""  # what others learn by its own account, and whose account; empty: none
    federated: ClassVar[bool] = True  # False: a yardstick that hands the rows over
    extra: ClassVar[str] = ""  # of the installation, with the library that ciphertexts need; empty: none

    @abstractmethod
    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        """Runs the protocol over the training tables of all clients."""

    def mechanisms(self, schema: Schema) -> tuple[Mechanism, ...]:
        """The noise on everything that one client sends. Raises ValueError for a declaration that is missing."""
        return ()

    @property
    def unprotected(self) -> str:
        """In words, what of the rows is sent, or put into other rows, without noise; empty: nothing."""
        return f"{self.name} adds no noise to what it takes from the rows ({self.said_to_share or 'no account'})"

    @property
    def by_own_rows(self) -> bool:
        """Whether a row is encoded by what its client knows of its other rows and tells nobody: then one record changes
        how the others look, whatever others are told.
        """
        return False


def distinct(table: Table, feature: str) -> tuple[NDArray[np.intp], list[str]]:
    """(rows,) the place of each row's value in the sorted list of the feature's distinct values, and that list."""
    numbers, values = pd.factorize(table.frame[feature], sort=True)
    return numbers, [str(v) for v in values]


def positions(table: Table, feature: str, values: Sequence[str]) -> NDArray[np.int64]:
    """(rows,) the place of each row's value in `values`; -1 where it is none of them."""
    numbers, own = distinct(table, feature)
    place = {value: k for k, value in enumerate(values)}
    found: NDArray[np.int64] = np.array([place.get(v, -1) for v in own], np.int64)[numbers]
    return found


def distinct_values(table: Table) -> dict[str, list[str]]:
    """The sorted values of each categorical feature that occur in one party's table."""
    return {feature: sorted(set(table.values(feature))) for feature in table.schema.categorical}


def merged(schema: Schema, dictionaries: Sequence[Mapping[str, Sequence[str]]]) -> dict[str, list[str]]:
    """The union of several dictionaries, in the schema's declared order where it has one, else sorted."""
    return {f: _ordered(schema, f, set().union(*(d[f] for d in dictionaries))) for f in schema.categorical}


def _ordered(schema: Schema, feature: str, values: set[str]) -> list[str]:
    declared = [v for v in schema.orders.get(feature, ()) if v in values]
    return declared + sorted(values.difference(declared))


def shared_encoding(style: Style, unseen: Unseen, dictionary: Mapping[str, Sequence[str]]) -> DictionaryEncoding:
    """The encoding of a dictionary that everyone uses as it is."""
    values = {feature: tuple(v) for feature, v in dictionary.items()}
    return DictionaryEncoding(values, {f: len(v) for f, v in values.items()}, style, unseen)


def shared_dictionary(
    fed: Federation, encoder: Encoder, clients: Sequence[str], values: Public[dict[str, list[str]]]
) -> EncoderFit:
    """What a dictionary that everyone was told amounts to: the same encoding at every client, named blocks."""
    encodings = {c: fed.local(c, shared_encoding, encoder.style, encoder.unseen, values) for c in clients}
    sizes = fed.public(lambda told: {feature: len(v) for feature, v in told.items()}, values)
    return EncoderFit(encodings, fed.public(public_blocks, encoder.style, sizes, values))


def public_blocks(
    style: Style, sizes: Mapping[str, int], dictionary: Mapping[str, Sequence[str]] | None = None
) -> tuple[CategoricalBlock, ...]:
    """One block per feature: named values where a dictionary is public, pseudonymous numbers where only sizes are."""
    blocks: list[CategoricalBlock] = []
    start = 0
    for feature, size in sizes.items():
        values = tuple(dictionary[feature]) if dictionary is not None else None
        codes = np.arange(size, dtype=np.float64)[:, None] if style == "label" else None
        blocks.append(CategoricalBlock(feature, start, size, values, codes))
        start += blocks[-1].width
    return tuple(blocks)
