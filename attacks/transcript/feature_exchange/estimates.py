"""What masks leave of the columns that no equation determines.

A bounded additive mask has a known mean and deviation, so mean and deviation of the column follow, and the masked
column itself is an estimate of it. Several fresh masks of one column average out. A factor leaves zeros, and signs
where it has none of its own; factors average out in logarithms. Of a column of few digits the last ones of what was
sent leave few candidates (`digits`); records of which these tell nothing are estimated by what averages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from leakledger.attacks.base import ColumnClaim, StatisticClaim
from leakledger.attacks.transcript.feature_exchange.columns import Relation
from leakledger.attacks.transcript.feature_exchange.digits import Masked, few_digits
from leakledger.attacks.transcript.feature_exchange.equations import Column, Unknown
from leakledger.attacks.transcript.feature_exchange.exchanged import SUMS, Loop
from leakledger.preprocess.views import Message, View

Sent = tuple[str, Message]  # the transformation, and the column that went through it with a mask
Z90 = 1.6449  # standard deviations of an interval that holds nine in ten


def estimates(
    view: View, known: Mapping[Unknown, object], exchanged: Sequence[Loop]
) -> list[ColumnClaim | StatisticClaim]:
    """Claims about each column that the observers received under masks and do not know."""
    masked: dict[Unknown, dict[bool, list[Loop]]] = {}
    for loop in exchanged:
        if loop.masked and loop.first not in known and loop.masked.sender not in view.observers:
            masked.setdefault(loop.first, {}).setdefault(loop.how in SUMS, []).append(loop)
    options = view.public.features.options
    size, signs = float(options.get("mask_size", np.nan)), bool(options.get("mask_signs"))
    claims: list[ColumnClaim | StatisticClaim] = []
    for (_, device, feature), by_kind in masked.items():
        added, factored = (_distinct(by_kind.get(kind, [])) for kind in (True, False))
        found = _from_sums(device, feature, added, size) if added else [_from_factors(device, feature, factored, signs)]
        if (better := _of_few_digits(device, feature, [*added, *factored], size, signs)) is not None:
            rough = found[0]
            assert isinstance(rough, ColumnClaim)
            found[0] = replace(better, values=_filled(better.values, rough.values))
        claims += found
    return claims


def _of_few_digits(device: str, feature: str, sent: Sequence[Sent], size: float, signs: bool) -> ColumnClaim | None:
    """The column, where last digits show that it has few; of factors with signs alone its magnitudes."""
    values = few_digits([Masked(how, np.asarray(m.payload.values, np.float64)) for how, m in sent], size, signs)
    if values is None:
        return None
    relation: Relation = "magnitude-estimate" if signs and not any(how in SUMS for how, _ in sent) else "estimate"
    return ColumnClaim(device, feature, values, tuple(sorted(m.sequence for _, m in sent)), relation)


def _filled(values: Column, rough: Column) -> Column:
    """The values, and in records without one the best linear estimate by what masks leave there on average."""
    told = np.isfinite(values) & np.isfinite(rough)
    if np.isfinite(values).all() or not told.any() or np.ptp(rough[told]) == 0:
        return values
    slope = float(np.cov(rough[told], values[told], ddof=0)[0, 1] / rough[told].var())
    return np.where(np.isnan(values), values[told].mean() + slope * (rough - rough[told].mean()), values)


def _distinct(loops: Sequence[Loop]) -> list[Sent]:
    """One message for each mask: the same mask again adds nothing."""
    found: dict[tuple[Unknown, str], Message] = {}
    for loop in loops:
        assert loop.masked is not None
        found.setdefault((loop.mask, loop.how), loop.masked)
    return [(how, m) for (_, how), m in found.items()]


def _from_sums(device: str, feature: str, sent: Sequence[Sent], size: float) -> list[ColumnClaim | StatisticClaim]:
    """The mean over masks, each of mean 0 and variance size² / 3; mean and deviation of the column from it."""
    messages = [m for _, m in sent]
    evidence = tuple(m.sequence for m in messages)
    values = np.mean([m.payload.values for m in messages], axis=0)
    noise = size / np.sqrt(3 * len(messages))
    claims: list[ColumnClaim | StatisticClaim] = [ColumnClaim(device, feature, values, evidence, "estimate")]
    if np.isfinite(noise):
        mean, half = float(values.mean()), Z90 * noise / np.sqrt(len(values))
        claims.append(StatisticClaim(device, feature, "mean", mean, mean - half, mean + half, evidence))
        left, error = float(values.var()) - noise**2, Z90 * float(values.var()) * np.sqrt(2 / len(values))
        low, best, high = (float(np.sqrt(max(v, 0.0))) for v in (left - error, left, left + error))
        if high > low:  # else the masked column varies less than its mask: nothing follows
            claims.append(StatisticClaim(device, feature, "std", best, low, high, evidence))
    return claims


def _from_factors(device: str, feature: str, sent: Sequence[Sent], signs: bool) -> ColumnClaim:
    """The geometric mean over masks, with the signs of the first where factors have none."""
    messages = [m for _, m in sent]
    values = np.array([m.payload.values for m in messages])
    with np.errstate(divide="ignore"):
        magnitude = np.exp(np.log(np.abs(values)).mean(0))
    evidence = tuple(m.sequence for m in messages)
    if signs:
        return ColumnClaim(device, feature, magnitude, evidence, "magnitude-estimate")
    return ColumnClaim(device, feature, np.sign(values[0]) * magnitude, evidence, "estimate")
