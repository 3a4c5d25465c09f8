"""`mod-norm`: the bytes of a value as an integer, modulo twice the number of distinct values, then a z-score.

Source: "Privacy-preserving tabular data transformation", section 7.2. Per feature: every client counts its distinct
values; a secure sum gives s, an upper bound on the distinct values of all clients ("duplicates or rather intersections
are not considered"); a value becomes H = int(bytes(x)) mod 2s; by section 8.4, the H are z-scored as in section 6. The
factor 2 is there "to reduce the likelihood of collisions"; s being a sum of counts rather than the size of a union
spreads the same values over more residues the more clients there are. A client without a value counts 0; where no
client has any, 2s is taken to be 2.

Messages: one secure sum for the counts and two for the z-score, 6 (n - 1) per client; with `passes=1` 4 (n - 1), as
table 5 of the paper has it; and n to publish. Integers are exact whatever the length of a value.

Everyone learns s. With three clients that is much: each knows its own count, and the sum of the two others' is left.
What the server knows: where it is published, 2s residues per feature by number, with their codes; with a `dictionary`,
the values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from leakledger.preprocess.crypto.secure_moments import Moments, SacOptions, announce, secure_moments
from leakledger.preprocess.crypto.secure_sum import check_clients, secure_sum
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import EncoderFit, distinct_values
from leakledger.preprocess.encoders.bytes_norm import SUMMARIES, count_numbers, zscore, zscore_encoding
from leakledger.preprocess.encoders.codebook import CodeEncoding, NormalForm, TextEncoder, as_bytes, named_block
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import SECURE_SUMS, ModNormAnnounced
from leakledger.preprocess.scalers.base import nonzero
from leakledger.preprocess.views import Block, CategoricalBlock, NumericBlock

Modulus = Mapping[str, int]  # feature -> 2s


@dataclass(frozen=True)
class ModNorm(SacOptions, TextEncoder):
    """The options are those of `SacOptions` and `TextEncoder`."""

    name = "mod-norm"
    reference = "Privacy-preserving tabular data transformation, section 7.2"
    said_to_share = "about the sum of dictionary sizes (table 5); pooled mean and deviation of the codes (section 8.4)"

    def __post_init__(self) -> None:
        SacOptions.__post_init__(self)
        TextEncoder.__post_init__(self)

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        """Topics: `mod-norm.unique.*`, those of `secure_moments`, `mod-norm.announced`.

        Raises ValueError for fewer than three clients.
        """
        check_clients(tables)
        unique = {c: fed.local(c, unique_counts, t) for c, t in tables.items()}
        totals = secure_sum(fed, unique, self.scheme(), self.route, SECURE_SUMS["mod-norm.unique"])
        moduli = {c: fed.local(c, partial(modulus, schema), t) for c, t in totals.items()}
        counted = {c: fed.local(c, partial(count_residues, self.normal_form), moduli[c], t) for c, t in tables.items()}
        moments = secure_moments(fed, counted, self, self.scheme(), SUMMARIES, self.name)
        known = {c: fed.local(c, statistics, moduli[c], m) for c, m in moments.items()}
        told: Any = announce(fed, known, ModNormAnnounced) if self.publish == "everyone" else None
        encodings = {
            c: fed.local(c, partial(residue_encoding, schema, self.normal_form), k if told is None else told)
            for c, k in known.items()
        }
        return EncoderFit(encodings, fed.public(partial(self.blocks, schema), told))

    def blocks(self, schema: Schema, told: Mapping[str, Any] | None) -> tuple[Block, ...]:
        if told is None:
            return tuple(NumericBlock(feature, i, unit="deviation") for i, feature in enumerate(schema.categorical))
        return tuple(self._block(schema, feature, i, told) for i, feature in enumerate(schema.categorical))

    def _block(self, schema: Schema, feature: str, i: int, told: Mapping[str, Any]) -> Block:
        size, mean, std = told["modulus"][feature], float(told["mean"][i]), float(nonzero(told["std"])[i])
        values = self.known_values(schema, feature)
        if values is None:
            return CategoricalBlock(feature, i, size, None, (np.arange(size, dtype=np.float64)[:, None] - mean) / std)
        codes = [zscore(residue(feature, v, told["modulus"], self.normal_form), mean, std) for v in values]
        return named_block(feature, i, values, codes, 1)


def unique_counts(table: Table) -> list[int]:
    """(features,) how many distinct values a client has."""
    return [len(values) for values in distinct_values(table).values()]


def modulus(schema: Schema, totals: list[Any]) -> dict[str, int]:
    """2s per feature; the sums are of whole numbers, and rounded to them."""
    return {f: max(2 * round(s), 2) for f, s in zip(schema.categorical, totals, strict=True)}


def residue(feature: str, value: str, moduli: Modulus, form: NormalForm) -> int:
    """H of a value."""
    return int.from_bytes(as_bytes(value, form), "big") % moduli[feature]


def count_residues(form: NormalForm, moduli: Modulus, table: Table) -> Any:
    return count_numbers(partial(residue, moduli=moduli, form=form), table)


def statistics(moduli: Modulus, moments: Moments) -> dict[str, Any]:
    return {"modulus": moduli, **moments.zscore()}


def residue_encoding(schema: Schema, form: NormalForm, known: Mapping[str, Any]) -> CodeEncoding:
    number = partial(residue, moduli=known["modulus"], form=form)
    return replace(zscore_encoding(schema, number, known), number_=number)
