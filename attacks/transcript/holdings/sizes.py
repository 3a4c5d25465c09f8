"""What exact sizes say of single values, beside all other sources.

Who holds k values of a feature holds no other than k that are known. Where all possible values are declared, and as
many of them are left as it still must hold, it holds these. Both are certain. Otherwise j of the m values that are left
are held: of values that are alike each with chance j / m; where the prior p_v tells them apart, independently,

    P(v | j) ~ p_v P(j - 1 of the others are held).

Of very many values it is p_v t / (1 - p_v + p_v t), with the t for which these add up to j. That is said of values of
which nothing else speaks. A dictionary or marginals that are granted may lack values, so what follows from them is
never certain; where nothing lists the values, it is not said at all.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.ring import Unreadable
from leakledger.attacks.observed.sizes import Bounds, Key, bounded, stated_sums, told_bounds
from leakledger.attacks.observed.values import declared_values
from leakledger.attacks.transcript.holdings.finding import Finding, guessed
from leakledger.preprocess.messages import LocalSizes, ModNormAnnounced, PaddedSizes
from leakledger.preprocess.views import View

SIZES = (LocalSizes, PaddedSizes, ModNormAnnounced)  # beside the messages that other sources read
FURTHEST = 60.0  # of the logarithm of t: beyond it chances are 0 and 1
ENUMERATED = 1_000_000  # values times how many of them are held, up to which chances are exact

Floats = NDArray[np.float64]
Chances = Mapping[str, Mapping[str, float]]  # feature -> value -> chance


def with_sizes(
    view: View,
    knowledge: AuxiliaryKnowledge,
    found: Mapping[Key, Finding],
    candidates: Mapping[str, Collection[str]],
    prior: Chances,
) -> dict[Key, Finding]:
    """The findings, and what exact sizes make of them."""
    declared, sizes = _sizes(view)
    listed = {f: v for f, v in candidates.items() if f in {**declared, **knowledge.dictionaries, **knowledge.marginals}}
    joined = dict(found)
    for key, size in sizes.items():
        party, feature = key
        if party in view.observers or not size.exact or not size.evidence:
            continue
        before = joined.get(key, Finding(party, feature, {}))
        scores = settled(size.low, before.scores, candidates.get(feature, ()), declared.get(feature))
        if scores is None and feature in listed:
            scores = tilted(size.low, before.scores, listed[feature], prior[feature])
        if scores:
            proven = before.proven.union(v for v, s in scores.items() if s == 1)
            joined[key] = replace(
                before, scores={**before.scores, **scores}, evidence=before.evidence | size.evidence, proven=proven
            )
    return joined


def _sizes(view: View) -> tuple[Mapping[str, tuple[str, ...]], Mapping[Key, Bounds]]:
    """The declared values of features that have no more, as far as messages tell, and the sizes; none where messages
    contradict each other.
    """
    try:
        read = told_bounds(view), [*stated_sums(view)]
        told, declared = bounded(view, *read), declared_values(view)
    except Unreadable:
        return {}, {}
    more = {feature for (_, feature), b in told.items() if b.low > len(declared.get(feature, ()))}
    fitting = {f: values for f, values in declared.items() if f not in more}
    try:
        return fitting, bounded(view, *read, {f: len(values) for f, values in fitting.items()})
    except Unreadable:
        return {}, told


def settled(
    size: int, scores: Mapping[str, float], candidates: Collection[str], declared: Collection[str] | None
) -> dict[str, float] | None:
    """Value -> 1 or 0, where so many values decide it beside what is certain; None where they do not."""
    held = {v for v, score in scores.items() if score == 1}
    left = size - len(held)
    if left == 0:
        return dict.fromkeys({*candidates, *scores} - held, 0.0)
    if declared is not None and held <= {*declared}:
        open_ = [v for v in declared if scores.get(v) not in (0, 1)]
        if len(open_) == left:
            return dict.fromkeys(open_, 1.0) | dict.fromkeys({*candidates, *scores}.difference(declared), 0.0)
    return None


def tilted(
    size: int, scores: Mapping[str, float], listed: Collection[str], prior: Mapping[str, float]
) -> dict[str, float]:
    """The chances of the listed values that nothing speaks of; none where more are held than are listed."""
    left = size - sum(score == 1 for score in scores.values())
    open_ = sorted(v for v in {*listed, *scores} if scores.get(v) not in (0, 1))
    if not 0 < left <= len(open_):
        return {}
    chances = given_sum(np.array([scores.get(v, prior.get(v, 0.5)) for v in open_]), left)
    return {v: float(chance) for v, chance in zip(open_, chances, strict=True) if v not in scores}


def given_sum(chances: Floats, total: int) -> Floats:
    """(n,) the chances of independent values of which `total`, at least 1 and at most n, are held; never certain."""
    odds = logit(guessed(chances))
    if total == len(odds):
        return guessed(np.ones(len(odds)))
    tilt = float(brentq(lambda t: expit(odds + t).sum() - total, -FURTHEST, FURTHEST))
    alike: Floats = expit(odds + tilt)
    return guessed(alike if len(odds) * total > ENUMERATED else _given_sum(alike, total))


def _given_sum(chances: Floats, total: int) -> Floats:
    """The same by the law of how many of the others are held: of those before each value, and of those behind it."""
    before, behind = _numbers_held(chances, total), _numbers_held(chances[::-1], total)[::-1]
    both = chances * (before[:-1, :total] * behind[1:, :total][:, ::-1]).sum(axis=1)
    given: Floats = both / (both.sum() / total)
    return given


def _numbers_held(chances: Floats, most: int) -> Floats:
    """(n + 1, most + 1) the chance that so many of the first 0 .. n are held."""
    laws = np.zeros((len(chances) + 1, most + 1))
    laws[0, 0] = 1.0
    for i, p in enumerate(chances):
        laws[i + 1] = laws[i] * (1 - p)
        laws[i + 1, 1:] += laws[i, :-1] * p
    return laws
