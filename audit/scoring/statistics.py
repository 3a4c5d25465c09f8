"""Scores claimed statistics: for each kind, the share of a party's features for which it is known.

Means, deviations, extremes and quartiles (other quantiles where no quartile is claimed) count as known within 1 % of
the feature's standard deviation over the federation, shares of rows within 1 % of the standard deviation of belonging
to them (rates: of the positive class); counts and sizes when exact. The denominator is all features (or values of
features) that have the statistic, claimed or not; an exact size of all features together is none of them, and still a
fact. The baseline guesses from the federation's own value and from those of the other parties, in the way that is right
most often for these (`guessed_statistics`).

Beside the share of hits stands the share of bits that the claims gain over the prior (`information`).

Claims come with intervals; `interval_quality` measures how wide they are and whether they hold what they say.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import StatisticClaim
from leakledger.audit.records import COUNTED, INFORMATION, CellDetail, FeatureShare
from leakledger.audit.scoring.guessed_statistics import Known, known_by_prior
from leakledger.audit.scoring.information import Bits, bits
from leakledger.audit.scoring.metrics import Measured
from leakledger.audit.truth import Truth

KNOWN = 0.01  # of a standard deviation
WHOLE = np.nextafter(0.5, 0)  # of counts and sizes: less than half
ROUNDING = 1e-9  # of a standard deviation, and of the value: an exact claim of a float64 number
DIGITS = 16 * float(np.finfo(np.float64).eps)  # of the largest number: what its rounding makes of differences
QUARTILES = ("0.25", "0.5", "0.75")
Key = tuple[str, str]  # feature, value


def score_statistics(claims: Sequence[StatisticClaim], truth: Truth) -> Iterator[Measured]:
    grouped: dict[tuple[str, str], dict[Key, StatisticClaim]] = defaultdict(dict)
    for claim in claims:
        grouped[claim.party, claim.statistic][claim.feature, claim.value] = claim
    for (party, statistic), claimed in grouped.items():
        levels = _levels(claimed) if statistic == "quantile" else ()
        keys = _keys(truth, party, statistic, levels)
        hits = [k in claimed and is_known(truth, party, *k, statistic, claimed[k].estimate) for k in keys]
        prior = _prior(truth, party, statistic, keys, levels)
        evidence = tuple(sorted({number for c in claimed.values() for number in c.evidence}))
        asset = "sizes" if statistic in COUNTED else "statistics"
        told = {*keys, ("", "")} if statistic == "size" else keys  # "": of all features together, which lengths tell
        exact = [is_exact(truth, c) for key, c in claimed.items() if c.low == c.high and key in told]
        known = float(np.mean(hits))
        yield Measured(
            asset,
            statistic,
            party,
            0,
            known,
            float(prior.mean()),
            evidence,
            _by_feature(truth, keys, hits, prior),
            certain=len(exact),
            certain_wrong=exact.count(False),
        )
        units = {(f, v): 0.5 if asset == "sizes" else KNOWN * _yardstick(truth, f, v, statistic) for f, v in keys}
        gained = bits(truth, party, statistic, claimed, units)
        if (shares := sum(gained.values(), Bits()).shares(len(units))) is not None:
            yield Measured(asset, statistic + INFORMATION, party, 0, *shares, evidence, _bits_by_feature(truth, gained))


def _levels(claimed: Iterable[Key]) -> tuple[str, ...]:
    """The quartiles; of claims about none of them, the levels that they are about: what is noised may tell the tails
    alone, and would pass for nothing.
    """
    told = {level for _, level in claimed}
    return tuple(sorted(told)) if told.isdisjoint(QUARTILES) else QUARTILES


def _by_feature(truth: Truth, keys: Sequence[Key], hits: Sequence[bool], prior: NDArray[np.bool_]) -> CellDetail | None:
    """The shares of each feature: one of many does not show in the mean. None where no feature is meant."""
    own: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for (feature, _), hit, guessed in zip(keys, hits, prior.tolist(), strict=True):
        own[feature].append((hit, guessed))
    return _detail(truth, {f: tuple(map(float, np.mean(known, axis=0))) for f, known in own.items()})


def _bits_by_feature(truth: Truth, gained: Mapping[Key, Bits]) -> CellDetail | None:
    """The shares of bits of each feature of which the prior leaves any: a column of many that is told nearly, and so
    hits nowhere, does not show in the bits of all.
    """
    own: dict[str, list[Bits]] = defaultdict(list)
    for (feature, _), of in gained.items():
        own[feature].append(of)
    found = {f: sum(of, Bits()).shares(len(of)) for f, of in own.items()}
    return _detail(truth, {f: shares for f, shares in found.items() if shares is not None})


def _detail(truth: Truth, shares: Mapping[str, tuple[float, ...]]) -> CellDetail | None:
    numeric = truth.federated.schema.numeric
    found = (FeatureShare(f, "numeric" if f in numeric else "categorical", *s) for f, s in shares.items() if f)
    return CellDetail(features) if (features := tuple(found)) else None


def _prior(
    truth: Truth, party: str, statistic: str, keys: Sequence[Key], levels: Sequence[str] = ()
) -> NDArray[np.bool_]:
    """Which of the `keys` the prior alone knows, in their order."""
    every = list(dict.fromkeys(k for p in truth.parties for k in _keys(truth, p, statistic, levels)))
    kept, name = truth.kept_baselines, ("statistic", statistic, *levels)
    if name not in kept:
        kept[name] = _known(truth, statistic, every)
    place = {k: i for i, k in enumerate(every)}
    return known_by_prior(kept[name], party, np.array([place[k] for k in keys], np.intp))


def _known(truth: Truth, statistic: str, keys: Sequence[Key]) -> Known:
    """The statistic of all parties; a rate where there are rows."""
    whole = statistic in COUNTED
    return Known(
        {p: np.array([truth.statistic(p, f, statistic, v) for f, v in keys]) for p in truth.parties},
        np.array([truth.pooled_statistic(f, statistic, v) for f, v in keys]),
        np.array([WHOLE if whole else KNOWN * _yardstick(truth, f, v, statistic) for f, v in keys]),
        whole,
    )


def is_known(truth: Truth, party: str, feature: str, value: str, statistic: str, estimate: float) -> bool:
    """Whether the estimate is as good as knowing the statistic."""
    error = abs(estimate - truth.statistic(party, feature, statistic, value))
    return bool(
        error <= WHOLE if statistic in COUNTED else error <= KNOWN * _yardstick(truth, feature, value, statistic)
    )


def is_exact(truth: Truth, claim: StatisticClaim) -> bool:
    """Whether the estimate is the statistic itself, up to the rounding of float64 sums."""
    real = truth.statistic(claim.party, claim.feature, claim.statistic, claim.value)
    return abs(claim.estimate - real) <= _slack(truth, claim, real)


def _slack(truth: Truth, claim: StatisticClaim, real: float) -> float:
    if claim.statistic in COUNTED:
        return ROUNDING * abs(real)
    lost = 0.0
    if claim.feature in truth.federated.schema.numeric:  # numbers far from 0 have few digits left for deviations
        ends = [truth.pooled_statistic(claim.feature, end) for end in ("minimum", "maximum")]
        lost = DIGITS * max(abs(end) for end in ends)
    return ROUNDING * (abs(real) + _yardstick(truth, claim.feature, claim.value, claim.statistic)) + lost


def _yardstick(truth: Truth, feature: str, value: str, statistic: str) -> float:
    if statistic.startswith("held_out"):
        return truth.held_out_spread(value)
    return truth.spread("") if statistic == "target_rate" else truth.spread(feature, value)


def _keys(truth: Truth, party: str, statistic: str, levels: Sequence[str] = QUARTILES) -> Sequence[Key]:
    """What has this statistic at this party: a rate only where there are rows, a quantile at these `levels`."""
    schema = truth.federated.schema
    if statistic == "held_out_rate":
        return [("", c) for c in schema.classes]
    if statistic in ("count", "held_out_count", "held_out_mean", "held_out_std"):
        return [("", "")]
    if statistic == "size":
        return [(f, "") for f in truth.vocabularies[party]]
    if statistic == "frequency":
        return [(f, v) for f in truth.vocabularies[party] for v in sorted(frozenset().union(*_values(truth, f)))]
    if statistic == "target_rate":
        return [("", ""), *((f, v) for f, held in truth.vocabularies[party].items() for v in sorted(held))]
    if statistic == "quantile":
        return [(f, level) for f in truth.numeric_of(party) for level in levels]
    return [(f, "") for f in truth.numeric_of(party)]


def _values(truth: Truth, feature: str) -> Iterable[frozenset[str]]:
    return (held.get(feature, frozenset()) for held in truth.vocabularies.values())


@dataclass(frozen=True)
class IntervalQuality:
    """Of the claims about one statistic: how many, the median relative error, and the share of intervals that hold the
    truth. Where the true value is 0 the error is absolute.
    """

    claims: int
    relative_error: float
    coverage: float


def interval_quality(claims: Iterable[StatisticClaim], truth: Truth) -> dict[str, IntervalQuality]:
    """By statistic. Ends count with the rounding of float64 sums."""
    errors: dict[str, list[float]] = defaultdict(list)
    held: dict[str, list[bool]] = defaultdict(list)
    for c in claims:
        real = truth.statistic(c.party, c.feature, c.statistic, c.value)
        slack = _slack(truth, c, real)
        errors[c.statistic].append(abs(c.estimate - real) / (abs(real) or 1.0))
        held[c.statistic].append(c.low - slack <= real <= c.high + slack)
    return {s: IntervalQuality(len(e), float(np.median(e)), float(np.mean(held[s]))) for s, e in errors.items()}
