"""`rolling-hash`: every value sets one of M columns that all features share; no communication.

Source: "Privacy-preserving tabular data transformation", section 7.3, after Nagy et al. (2022). A value is lower-cased
and hashed,

    H = sum_{i = 1..|s|} s_i P^i mod M,    P = 31, M = 5000,

where s_i is the place of the i-th character in the alphabet (a = 1, ..., z = 26). A row is a multi-hot vector of M
columns: the columns of its values are set to 1. Two values with the same H share a column, and within a row a column is
1 however many features hit it.

The paper does not say what a digit, a space or another sign counts. Reading taken (`others="zero"`): it counts 0 and
takes its place. Then values of digits only are all 0, and codes like A11 and A12 are one. That fits the paper's low F1
on German (0.31), whose original values are such codes. Alternatives: "drop" removes such characters before hashing;
"code-point" counts their Unicode code point, which tells digits apart. A letter outside a to z is such a character too,
and a combining mark is one of its own, so normal forms matter. An empty value has H = 0.

What the server knows: the number of each column is a public function of the value. Without a `dictionary` the
candidates of every feature are the M columns, by number; with it, the named values. Blocks of all features cover the
same columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import EncoderFit, distinct, positions
from leakledger.preprocess.encoders.codebook import NormalForm, TextEncoder, in_form, named_block
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.options import option
from leakledger.preprocess.views import CategoricalBlock

Others = Literal["zero", "drop", "code-point"]
MAX_BUCKETS = 1_000_000


@dataclass(frozen=True)
class RollingHash(TextEncoder):
    """`buckets` is M, `prime` is P, `others` says what a character outside a to z counts."""

    buckets: int = option(5000, at_least=1, at_most=MAX_BUCKETS, help="columns of a feature: M")
    prime: int = option(31, at_least=2, help="base of the polynomial: P; 31 as published")
    others: Others = option("zero", help="what a character outside a to z counts, a digit or a space")

    name = "rolling-hash"
    reference = "Privacy-preserving tabular data transformation, section 7.3; Nagy et al. (2022)"
    said_to_share = "nothing (table 5)"
    learns = False

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        """Nothing is learned and nothing is sent."""
        encodings = {c: fed.local(c, HashEncoding, self, schema.categorical) for c in tables}
        return EncoderFit(encodings, fed.public(lambda: tuple(self.block(schema, f) for f in schema.categorical)))

    def block(self, schema: Schema, feature: str) -> CategoricalBlock:
        values = self.known_values(schema, feature)
        if values is None:
            return CategoricalBlock(feature, 0, self.buckets)
        codes = np.zeros((len(values), self.buckets), np.float32)  # wide, and 0 or 1: half a gigabyte for 25,000 values
        codes[np.arange(len(values)), [self.bucket(v) for v in values]] = 1.0
        return named_block(feature, 0, values, codes, self.buckets)

    def bucket(self, value: str) -> int:
        """H of a value."""
        return rolling_hash(value, self.prime, self.buckets, self.others, self.normal_form)


@dataclass(frozen=True)
class HashEncoding:
    """Every party's encoding: a function of the values, nothing learned."""

    hash_: RollingHash
    features_: Sequence[str]

    def transform(self, table: Table) -> NDArray[np.uint8]:
        """(rows, buckets), with 1 in the columns of the row's values and 0 elsewhere; in bytes, since it is wide. Of no
        features (rows, 0).
        """
        hot = np.zeros((len(table), self.hash_.buckets if self.features_ else 0), np.uint8)
        for feature in self.features_:
            hot[np.arange(len(table)), self.buckets(table, feature)] = 1
        return hot

    def candidates(self, table: Table, block: CategoricalBlock) -> NDArray[np.int64]:
        """The column of each row's value, or its place among the public values."""
        if block.values is None:
            return self.buckets(table, block.feature)
        return positions(table, block.feature, block.values)

    def buckets(self, table: Table, feature: str) -> NDArray[np.int64]:
        """(rows,) H of each row's value."""
        numbers, values = distinct(table, feature)
        return np.array([self.hash_.bucket(v) for v in values], np.int64)[numbers]


def rolling_hash(
    value: str, prime: int = 31, buckets: int = 5000, others: Others = "zero", form: NormalForm = "as-is"
) -> int:
    """H of a lower-cased value: sum over i from 1 of s_i prime^i, modulo buckets."""
    text = in_form(value, form).lower()
    places = [ord(c) - 96 if "a" <= c <= "z" else ord(c) if others == "code-point" else 0 for c in text]
    if others == "drop":
        places = [p for p in places if p]
    total = 0
    for place in reversed(places):  # Horner's rule
        total = (total + place) * prime % buckets
    return total
