"""Reads columns out of federated feature engineering: what masks, sketches and results tell of other parties' features.

FLFE ("FLFE: a communication-efficient and privacy-preserving federated feature engineering framework", algorithms 2
and 3) says that each participant keeps its local features secret. Passive; exact for the columns that the equations of
the exchange determine (`exchanged`, and where columns are encrypted, for who has the key: `encrypted`), up to signs
where products alone do; estimates from bounded masks and their last digits otherwise (`estimates`, `digits`), from
fractions in lowest terms (`ratios`), from a difference beside a product (`quadratics`), from the sums that a column is
in (`mixtures`), and what is told in other words (`columns`, `sketches`). It needs no auxiliary knowledge, but the
options of the protocol, which all parties agreed on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from leakledger.attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    Claim,
    ColumnClaim,
    ControlSpec,
    FindingClaim,
    NotApplicable,
    Outcome,
    StatisticClaim,
)
from leakledger.attacks.transcript.feature_exchange.columns import Relation, told_columns, undone_whole
from leakledger.attacks.transcript.feature_exchange.equations import Solved, Unknown
from leakledger.attacks.transcript.feature_exchange.estimates import estimates
from leakledger.attacks.transcript.feature_exchange.exchanged import exact_columns, loops, results_of_pairs
from leakledger.attacks.transcript.feature_exchange.mixtures import from_mixtures
from leakledger.attacks.transcript.feature_exchange.quadratics import from_differences
from leakledger.attacks.transcript.feature_exchange.ratios import from_quotients
from leakledger.attacks.transcript.feature_exchange.sketches import from_sketches
from leakledger.preprocess.messages import (
    BinNumbers,
    ClassLabels,
    EncryptedColumn,
    EncryptedResult,
    ExchangeKey,
    FeatureSketch,
    FeatureTask,
    MaskedColumn,
    MaskedResult,
    MaskVector,
    NewColumn,
    RecordOrder,
    SketchPair,
)
from leakledger.preprocess.views import View

BINNED = {"labels": "binned", "ranges": "feature"}
RELATIONS: Mapping[tuple[bool, bool], Relation] = MappingProxyType(  # whether signs are known, and all digits
    {
        (True, True): "exact",
        (False, True): "magnitude",
        (True, False): "estimate",
        (False, False): "magnitude-estimate",
    }
)


class FeatureExchange(Attack):
    technique: ClassVar[str] = "feature_exchange"
    reference: ClassVar[str] = "FLFE, algorithms 2 and 3, equations 3 to 10 (its privacy statement: section 4.4)"
    asset: ClassVar[tuple[str, ...]] = ("columns", "statistics", "sizes")
    reads = (
        RecordOrder,
        ClassLabels,
        FeatureTask,
        BinNumbers,
        FeatureSketch,
        SketchPair,
        MaskedColumn,
        MaskedResult,
        MaskVector,
        ExchangeKey,
        EncryptedColumn,
        EncryptedResult,
        NewColumn,
    )
    reads_in_part = (FeatureSketch, SketchPair)  # they are a column's histogram by class, of which little is claimed
    controls = (
        ControlSpec("columns", features={"transformations": ("sum", "difference")}),
        ControlSpec("columns", features={"transformations": ("product", "quotient"), "mask_signs": True}),
        ControlSpec("columns", features={"transformations": ("sum", "quotient")}),
        ControlSpec("columns", features={"transformations": ("tanh", "zscore")}),
        ControlSpec("columns", features={"transformations": ("sum", "difference"), "exchange": "encrypted"}),
        ControlSpec("columns", features={"transformations": ("product",), "exchange": "encrypted-at-server"}),
        ControlSpec("columns", observers="last", features={"transformations": ("product", "sum"), "mask_size": 2.0}),
        ControlSpec(
            "columns", observers="last", features={"transformations": ("sum", "difference"), "masks": "reused"}
        ),
        ControlSpec("columns", observers="last", features={"transformations": ("zscore",), **BINNED}),
    )
    assumes: ClassVar[str] = "honest but curious server, device or coalition of these; no auxiliary knowledge"
    checks: ClassVar[tuple[str, ...]] = ("one-mask", "lone-records")

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        if not view.has(*self.reads):
            return NotApplicable("no features are engineered in this view")
        exact, exchanged = exact_columns(view, undone_whole(view)), loops(view)
        told = [*_solved(view, exact), *told_columns(view), *from_quotients(view, exact, exchanged)]
        told += from_differences(view, exact, results_of_pairs(exchanged))
        told += from_mixtures(view, exact, exchanged)
        claims: list[Claim] = [*_best(told)]
        claims += estimates(view, exact, exchanged)
        claims += _counts(view)
        claims += from_sketches(view)
        claims += _differences(view)
        return _by_their_tasks(view, claims) or Abstained("what was received tells of no column of others")

    def __repr__(self) -> str:
        return "FeatureExchange()"


def _solved(view: View, exact: Mapping[Unknown, Solved]) -> Iterator[ColumnClaim]:
    for (_, device, feature), s in exact.items():
        if device not in view.observers:
            values = np.where(np.isfinite(s.values), s.values, np.nan)
            yield ColumnClaim(device, feature, values, s.evidence, RELATIONS[s.signed, s.precise])


def _best(claims: Sequence[ColumnClaim]) -> list[ColumnClaim]:
    """One claim for each column: of several the first of those that leave least open, before any that say nothing of
    more than half of the records.
    """
    ranks = ("exact", "magnitude", "estimate", "magnitude-estimate", "scaled")
    best: dict[tuple[str, str], ColumnClaim] = {}
    for c in sorted(claims, key=lambda c: (np.isnan(c.values).mean() > 0.5, ranks.index(c.relation))):
        best.setdefault((c.party, c.feature), c)
    return list(best.values())


def _by_their_tasks(view: View, claims: Sequence[Claim]) -> list[Claim]:
    """The claims with the tasks behind them: which feature the messages of a loop are about is said there alone."""
    asked = {m.round: m.sequence for m in view.received(FeatureTask)}
    tasks = {m.sequence: asked[m.round] for m in view.messages if m.round in asked}
    return [
        replace(c, evidence=tuple(sorted({*c.evidence, *(tasks[e] for e in c.evidence if e in tasks)}))) for c in claims
    ]


def _counts(view: View) -> list[StatisticClaim]:
    """How many records each party says that it holds."""
    told = {m.sender: m for m in view.received(RecordOrder)}
    return [
        StatisticClaim(p, "", "count", n, n, n, (m.sequence,))
        for p, m in told.items()
        for n in [m.payload.records]
        if p != view.public.server
    ]


def _differences(view: View) -> list[FindingClaim]:
    """Devices whose columns were seen under one mask: their differences, or ratios, are known for every record."""
    under: dict[tuple[str, ...], dict[str, int]] = {}
    for loop in loops(view):
        if loop.masked and loop.masked.sender not in view.observers and loop.mask[0] == "mask" and len(loop.mask) == 3:
            under.setdefault((*loop.mask, loop.how), {}).setdefault(loop.first[2], loop.masked.sequence)
    return [
        FindingClaim(
            device,
            "one-mask",
            f"{', '.join(sorted(seen))} were told under one mask: their {word} are known for every record",
            tuple(seen.values()),
        )
        for (_, device, way, _), seen in under.items()
        if len(seen) > 1
        for word in ["differences" if way == "added" else "ratios"]
    ]
