"""`server-dictionary`: the server merges the clients' dictionaries, received in the clear, and publishes the union.

Source: "Privacy-preserving tabular data transformation", section 5.2. Each client tells the server every distinct value
of every categorical feature; counts are not sent. Everyone ends with the same dictionary, so there are no dictionary
problems; the price is that the server reads each client's vocabulary, and every client reads the union.

With `encoder_epsilon` each client sends a noised count for every *declared* value instead, held or not
(`noise.categories`); the server tells everyone the totals, and the dictionary is those values with `keep_from` rows or
more. A rarer value has no column: its rows are zeros.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import (
    EncoderFit,
    distinct_values,
    merged,
    positions,
    shared_dictionary,
)
from leakledger.preprocess.encoders.noised import NoisedEncoder
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import GlobalDictionary, LocalDictionary, NoisedCounts, NoisedCountTotals
from leakledger.preprocess.noise.calibration import Noise
from leakledger.preprocess.noise.categories import kept, noised_table, rows_of_absent
from leakledger.preprocess.noise.integers import ByteStream, from_stream
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import Mechanism

Domains = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class ServerDictionary(NoisedEncoder):
    keep_from: float | None = option(
        None, at_least=0, help="noised rows that a value is kept from; none: what 1 % of values that nobody holds reach"
    )

    name = "server-dictionary"
    reference = "Privacy-preserving tabular data transformation, section 5.2"
    said_to_share = "all values in the clear, with the server; all parties' together, with everyone (section 5.2)"

    def __post_init__(self) -> None:
        check_options(self)
        if self.encoder_epsilon is not None and self.unseen == "error":
            raise ValueError(
                'encoder_epsilon leaves rare values out of the dictionary, and unseen = "error" would stop at the '
                'first row with one; set unseen = "ignore"'
            )

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        if self.encoder_epsilon is not None:
            return self._fit_noised(fed, self.domains(schema), tables)
        local = {c: fed.local(c, local_dictionary, t) for c, t in tables.items()}
        received = fed.gather(local, to=fed.server)
        dictionary = fed.broadcast(fed.local(fed.server, partial(union, schema), *received))
        return shared_dictionary(fed, self, list(tables), fed.public(lambda told: told.values, dictionary))

    def _fit_noised(self, fed: Federation, domains: Domains, tables: Mapping[str, At[Table]]) -> EncoderFit:
        noise = self.noise(domains)
        local = {c: fed.local(c, noised_counts, t, domains, noise, fed.key_stream(c)) for c, t in tables.items()}
        received = fed.gather(local, to=fed.server, kind=NoisedCounts)
        totals = fed.broadcast(fed.local(fed.server, total_counts, *received))
        least = rows_of_absent(noise, len(tables)) if self.keep_from is None else self.keep_from
        dictionary = fed.public(partial(frequent, domains, noise, least), totals)
        return shared_dictionary(fed, self, list(tables), dictionary)

    def mechanisms(self, schema: Schema) -> tuple[Mechanism, ...]:
        return self.described(schema, NoisedCounts.topic)


def noised_counts(table: Table, domains: Domains, noise: Noise, stream: ByteStream) -> NoisedCounts:
    below = from_stream(stream)
    counts = {f: noised_table(positions(table, f, v), len(v), noise, below) for f, v in domains.items()}
    return NoisedCounts(counts)


def total_counts(*parts: NoisedCounts) -> NoisedCountTotals:
    first = parts[0].counts
    return NoisedCountTotals({f: np.sum([p.counts[f] for p in parts], axis=0, dtype=np.int64) for f in first})


def frequent(domains: Domains, noise: Noise, least: float, told: NoisedCountTotals) -> dict[str, list[str]]:
    return {f: kept(v, told.counts[f], noise, least) for f, v in domains.items()}


def local_dictionary(table: Table) -> LocalDictionary:
    return LocalDictionary(distinct_values(table))


def union(schema: Schema, *parts: LocalDictionary) -> GlobalDictionary:
    return GlobalDictionary(merged(schema, [p.values for p in parts]))
