"""What masks leave of the columns that no equation determines.

A bounded additive mask has a known mean and deviation, so mean and deviation of the column follow, and the masked
column itself is an estimate of it. Several fresh masks of one column average out. A factor leaves zeros, and signs
where it has none of its own; factors average out in logarithms.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from leakledger.attacks.base import ColumnClaim, StatisticClaim
from leakledger.attacks.transcript.feature_exchange.equations import Unknown
from leakledger.attacks.transcript.feature_exchange.exchanged import SUMS, Loop
from leakledger.preprocess.views import Message, View

Z90 = 1.6449  # standard deviations of an interval that holds nine in ten


def estimates(
    view: View, known: Mapping[Unknown, object], exchanged: Sequence[Loop]
) -> list[ColumnClaim | StatisticClaim]:
    """Claims about each column that the observers received under masks and do not know."""
    masked: dict[Unknown, dict[bool, list[Loop]]] = {}
    for loop in exchanged:
        if loop.masked and loop.first not in known and loop.masked.sender not in view.observers:
            masked.setdefault(loop.first, {}).setdefault(loop.how in SUMS, []).append(loop)
    size = float(view.public.features.options.get("mask_size", np.nan))
    claims: list[ColumnClaim | StatisticClaim] = []
    for (_, device, feature), by_kind in masked.items():
        added, factored = (_distinct(by_kind.get(kind, [])) for kind in (True, False))
        if added:
            claims += _from_sums(device, feature, added, size)
        else:
            claims.append(
                _from_factors(device, feature, factored, bool(view.public.features.options.get("mask_signs")))
            )
    return claims


def _distinct(loops: Sequence[Loop]) -> list[Message]:
    """One message for each mask: the same mask again adds nothing."""
    found: dict[tuple[Unknown, str], Message] = {}
    for loop in loops:
        assert loop.masked is not None
        found.setdefault((loop.mask, loop.how), loop.masked)
    return list(found.values())


def _from_sums(
    device: str, feature: str, messages: Sequence[Message], size: float
) -> list[ColumnClaim | StatisticClaim]:
    """The mean over masks, each of mean 0 and variance size² / 3; mean and deviation of the column from it."""
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


def _from_factors(device: str, feature: str, messages: Sequence[Message], signs: bool) -> ColumnClaim:
    """The geometric mean over masks, with the signs of the first where factors have none."""
    values = np.array([m.payload.values for m in messages])
    with np.errstate(divide="ignore"):
        magnitude = np.exp(np.log(np.abs(values)).mean(0))
    evidence = tuple(m.sequence for m in messages)
    if signs:
        return ColumnClaim(device, feature, magnitude, evidence, "magnitude-estimate")
    return ColumnClaim(device, feature, np.sign(values[0]) * magnitude, evidence, "estimate")
