"""The truth of a case in which schemas are aligned: embeddings in the public layout, attributes in that of a claim.

What a party's batch holds is its records as it sees them. What everybody's rows hold of the same features is what the
adversary with the prior alone knows, though other parties may not see them: people, not parties, make the population.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import KnownRows
from leakledger.attacks.gradient.attribute_search.attribute_search import attribute_layout
from leakledger.attacks.texts import Cells as Words
from leakledger.attacks.texts import TextRecords
from leakledger.audit.federate_alignment import AlignedCase
from leakledger.audit.truth import RestatedTruth, Truth
from leakledger.preprocess.alignment.fedllm_align import Alignment
from leakledger.preprocess.alignment.parties import PartySchema
from leakledger.preprocess.alignment.serialise import as_texts, serialise
from leakledger.preprocess.alignment.text_encoder import open_encoder
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.views import FeatureLayout, NumericBlock

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AlignedTruth(Truth):
    """What is true in one case of aligned schemas; its public layout has the columns of embeddings."""

    federated: AlignedCase

    @cached_property
    def texts(self) -> Mapping[str, TextRecords]:
        """Party -> what is granted of its records: encoder, format, schema, and which values occur in any row."""
        parts = (*self.federated.tables.values(), *self.federated.held_out.values())
        values = {f: plausible(parts, f) for f in self.federated.schema.features}
        alignment = self.federated.alignment
        return {c: text_records(alignment, s, values) for c, s in self.federated.schemas.items()}

    def in_terms_of(self, layout: FeatureLayout | None) -> Truth:
        return self if layout is None else AttributeTruth(self.federated, layout, self)

    def terms_of(self, victim: str) -> Truth:
        """The attributes that the victim sees, as a claim about its records names them."""
        if victim not in self._terms:
            layout = attribute_layout(self.texts[victim], self.federated.schema.numeric)
            self._terms[victim] = AttributeTruth(self.federated, layout, self)
        return self._terms[victim]

    @cached_property
    def _terms(self) -> dict[str, Truth]:
        return {}

    @cached_property
    def _sources(self) -> tuple[int, ...]:
        """All columns of an embedding are of one record."""
        return (0,) * self.layout.width

    def numeric_of(self, party: str) -> tuple[str, ...]:
        seen = self.federated.schemas[party].features
        return tuple(f for f in self.federated.schema.numeric if f in seen)

    @cached_property
    def vocabularies(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """Of the features that a party sees."""
        return {p: {f: v for f, v in own.items() if f in self._seen(p)} for p, own in self.occurring.items()}

    def _computed(self, parties: Sequence[str], feature: str, statistic: str, value: str) -> float:
        """Of rows in which nobody may see the feature too: they are part of the population."""
        if (statistic, feature) == ("size", ""):
            seen = dict.fromkeys(f for p in parties for f in self.vocabularies[p])
            return sum(self._computed([p for p in parties if f in self._seen(p)], f, "size", "") for f in seen)
        return super()._computed(parties, feature, statistic, value)

    def rows_but(self, batches: Sequence[tuple[str, int]]) -> KnownRows:
        """None: parties see other columns, and no attack on embeddings reads rows."""
        return KnownRows()

    @cached_property
    def dictionaries(self) -> Mapping[str, tuple[str, ...]]:
        """None: no attack on embeddings is granted any, or claims one."""
        return {}

    def input_of(self, party: str) -> Mapping[str, Any]:
        own = self.federated.tables[party].only(self._seen(party))
        return {**own.to_plain(), "encoded": self.federated.train[party].rows}

    def _seen(self, party: str) -> tuple[str, ...]:
        return self.federated.schemas[party].features


@dataclass(frozen=True)
class AttributeTruth(RestatedTruth):
    """The truth of records in attributes, as a claim names them: those of all rows, whoever sees which."""

    public: AlignedTruth

    @property
    def _numbers_in_terms(self) -> Mapping[str, Floats]:
        return {p: numbers_of(t, self.terms.numeric) for p, t in self.federated.tables.items()}

    @cached_property
    def _unscaled(self) -> Floats:
        tables = (*self.federated.tables.values(), *self.public.federated.held_out.values())
        return np.vstack([numbers_of(t, self.terms.numeric) for t in tables])


def numbers_of(table: Table, blocks: Sequence[NumericBlock]) -> Floats:
    """(n, L) the numbers of these features."""
    columns = [table.frame[b.feature].to_numpy(np.float64) for b in blocks]
    return np.array(columns).reshape(len(columns), len(table)).T


def plausible(tables: Sequence[Table], feature: str) -> tuple[str, ...]:
    """The values that occur, in order of size or of the alphabet."""
    columns = [t.frame[feature].dropna().to_numpy() for t in tables]
    distinct = np.unique(np.concatenate(columns))
    if feature in tables[0].schema.numeric:
        return tuple(as_texts(distinct.astype(np.float64)))
    return tuple(map(str, distinct))


def text_records(
    alignment: Alignment,
    schema: PartySchema,
    values: Mapping[str, tuple[str, ...]],
    aliases: Mapping[str, tuple[str, ...]] | None = None,
) -> TextRecords:
    """What an adversary knows of the records of a party: the encoder, the format, plausible `values`, and its schema,
    or where `aliases` are given all names of all features in its place.
    """

    def encode(records: Sequence[Words]) -> Floats:
        texts = [serialise(cells, alignment.format) for cells in records]
        return open_encoder(alignment.encoder).embed(texts).astype(np.float64)

    if aliases is not None:
        return TextRecords(encode, values, {f: (*aliases[f], "") for f in values})
    names = {f: (n,) for f, n in zip(schema.features, schema.names, strict=True)}
    return TextRecords(encode, {f: values[f] for f in names}, names)
