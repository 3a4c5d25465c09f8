"""Scores of controls: what of the truth of a made-up federation a set of claims recovers, from 0 to 1.

Two scales. `recovered` is the share of what is expected that is claimed right: a leaky control must come near 1, the
same claims held against another party must not. `agreement` is for shuffled controls, whose claims are about another
federation than the truth that they are held against: its expectation for claims that are independent of the truth is
`chance`, since truths are drawn evenly.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leakledger.attacks.base import (
    Claim,
    ColumnClaim,
    ControlSpec,
    FindingClaim,
    MembershipClaim,
    StatisticClaim,
    VocabularyClaim,
)
from leakledger.audit.control_features import HELD, made_up_columns
from leakledger.audit.control_federations import (
    COLUMNS,
    FEATURES,
    FEWEST_ROWS,
    LARGEST,
    MOST_ROWS,
    NAMES,
    held,
    held_out_tables,
    made_up_tables,
    victims_of,
)
from leakledger.audit.scoring.columns import column_agreement
from leakledger.audit.scoring.membership import ranking_metrics
from leakledger.audit.scoring.vocabulary import overlap

NEAR = 1e-6  # how far an exact estimate may be from the truth, relative to 1 or its size
NARROW = 0.5  # standard deviations between the parties: an interval as wide says little about one of them
WORDS = {
    "mean": "means",
    "minimum": "minima",
    "maximum": "maxima",
    "quantile": "quartiles",
    "count": "row counts",
    "size": "dictionary sizes",
    "frequency": "shares of values",
    "held_out_rate": "shares of classes in held-out rows",
    "held_out_mean": "means of a numeric target in held-out rows",
    "columns": "columns, record by record",
    "vocabulary": "who holds what",
    "membership": "who holds what (2 AUC - 1)",
    "check": "parties about whom the check fires",
}
LEVELS = ("0.25", "0.5", "0.75")  # of quantiles, as claims have them
Floats = NDArray[np.float64]
Key = tuple[str, str, str]  # party, feature, value


def chance(spec: ControlSpec) -> float:
    """The expectation of `agreement` for claims that are independent of the truth, at most."""
    return {"size": 1 / LARGEST, "count": 1 / (MOST_ROWS - FEWEST_ROWS)}.get(spec.expects, 0.0)


def recovered(spec: ControlSpec, claims: Collection[Claim], shift: int = 0) -> float:
    """The share recovered of draw 0; with a `shift`, claims about each party held against the one so many places on."""
    victims = victims_of(spec.observers)
    truth_of = {p: _shifted(p, victims, shift) for p in victims}
    if spec.expects == "check":
        named = {c.party for c in claims if isinstance(c, FindingClaim) and spec.check in (c.check, _twin(c.check))}
        return len(named & set(victims)) / len(victims)
    if spec.expects == "columns":
        return float(np.mean([_columns_recovered(claims, p, truth_of[p]) for p in victims]))
    if spec.expects == "vocabulary":
        told = {(c.party, c.feature): frozenset(c.values) for c in claims if isinstance(c, VocabularyClaim)}
        pairs = [(told.get((p, f), frozenset()), held()[truth_of[p]][f]) for p in victims for f in FEATURES]
        return float(np.mean([overlap(one, other)["f1"] for one, other in pairs]))
    if spec.expects == "membership":
        return float(np.mean([_area(claims, p, held()[truth_of[p]]) for p in victims]))
    told_claims, actual = _estimates(spec, claims), statistics(spec.expects, 0)
    spread = float(np.std([*actual.values()]))
    wanted = [key for key in actual if key[0] in victims]
    hits = {k: _hit(told_claims.get(k), actual.get((truth_of[k[0]], *k[1:])), spread) for k in wanted}
    if spec.expects == "quantile":  # a search is near some quartile of a party, and may be far from the others
        return float(
            np.mean([any(hits[(*c, level)] for level in LEVELS) for c in dict.fromkeys(k[:2] for k in wanted)])
        )
    return float(np.mean([*hits.values()]))


def agreement(spec: ControlSpec, claims: Collection[Claim], draw: int) -> float:
    """How far the claims agree with the truth of a draw."""
    victims = victims_of(spec.observers)
    if spec.expects == "columns":
        return float(np.mean([_columns_follow(claims, p, draw) for p in victims]))
    if spec.expects == "vocabulary":
        return _held_less_not_held(claims, victims, draw)
    if spec.expects == "membership":
        return float(np.mean([_area(claims, p, held(draw)[p]) for p in victims]))
    if spec.expects == "check":
        return recovered(spec, claims)
    told = {key: c.estimate for key, c in _estimates(spec, claims).items()}
    actual = statistics(spec.expects, draw)
    keys = [key for key in actual if key[0] in victims]
    if spec.expects in ("size", "count"):
        return float(np.mean([told.get(key) == actual[key] for key in keys]))
    pairs = np.array([[told.get(key, 0.0), actual[key]] for key in keys]).T
    if spec.expects == "quantile":  # a third quartile is above a median in any two federations
        for level in LEVELS:
            same = np.array([key[2] == level for key in keys])
            pairs[:, same] -= pairs[:, same].mean(axis=1, keepdims=True)
    return float(np.corrcoef(pairs)[0, 1]) if np.ptp(pairs[0]) > 0 and np.ptp(pairs[1]) > 0 else 0.0


@cache
def statistics(statistic: str, draw: int) -> Mapping[Key, float]:
    """(party, feature, value) -> the statistic, over all that a claim of it can be about."""
    if statistic.startswith("held_out"):
        tables = held_out_tables(draw, statistic == "held_out_mean")
        return {(p, *key): x for p, t in tables.items() for key, x in _of_target(statistic, t.frame["label"])}
    return {(p, *key): x for p, t in made_up_tables(draw).items() for key, x in _of(statistic, t.frame)}


def _of_target(statistic: str, target: pd.Series) -> Iterator[tuple[tuple[str, str], float]]:
    if statistic == "held_out_mean":
        yield ("", ""), float(target.mean())
    else:
        yield from ((("", str(v)), float(x)) for v, x in target.value_counts(normalize=True).items())


def _of(statistic: str, frame: pd.DataFrame) -> Iterator[tuple[tuple[str, str], float]]:
    if statistic == "count":
        yield ("", ""), float(len(frame))
    for f in FEATURES if statistic in ("size", "frequency") else ():
        shares = frame[f].value_counts(normalize=True)
        if statistic == "size":
            yield (f, ""), float(len(shares))
        else:
            yield from (((f, str(v)), float(x)) for v, x in shares.items())
    for c, level in product(COLUMNS, LEVELS) if statistic == "quantile" else ():
        yield (c, level), float(np.quantile(frame[c], float(level)))
    for c in COLUMNS if statistic in ("mean", "minimum", "maximum") else ():
        column = frame[c]
        yield (c, ""), float({"mean": column.mean(), "minimum": column.min(), "maximum": column.max()}[statistic])


def _estimates(spec: ControlSpec, claims: Collection[Claim]) -> dict[Key, StatisticClaim]:
    own = [c for c in claims if isinstance(c, StatisticClaim) and c.statistic == spec.expects]
    return {(c.party, c.feature, c.value): c for c in own if spec.expects != "size" or c.feature}


def _hit(claim: StatisticClaim | None, actual: float | None, spread: float) -> bool:
    """Whether the claim's interval holds the truth and is narrow beside what the parties differ by."""
    if claim is None or actual is None:
        return False
    slack = NEAR * max(1.0, abs(actual))
    narrow = claim.high - claim.low <= NARROW * spread + slack
    return narrow and claim.low - slack <= actual <= claim.high + slack


def _shifted(party: str, victims: Sequence[str], shift: int) -> str:
    """The party so many places on: among the victims, or where there is one only among all."""
    among = victims if len(victims) > 1 else NAMES
    return among[(among.index(party) + shift) % len(among)]


def _twin(check: str) -> str:
    """What a party says is the same, whether it is told or passed on."""
    return check.replace("plaintext-relayed", "plaintext-told")


def _columns_recovered(claims: Collection[Claim], party: str, true_party: str) -> float:
    """How much of a party's column is claimed right: the share of exact records, or where a claim says that it follows
    the column only, its correlation.
    """
    column = made_up_columns(0)[true_party, HELD[true_party]]
    return max((_told_right(c, column) for c in _of_columns(claims, party)), default=0.0)


def _told_right(claim: ColumnClaim, column: Floats) -> float:
    told = column_agreement(claim, column)
    return told.exact if claim.relation in ("exact", "magnitude") else max(told.correlation, 0.0)


def _columns_follow(claims: Collection[Claim], party: str, draw: int) -> float:
    """The correlation of a claimed column with that of another draw, as far as both go."""
    column = made_up_columns(draw)[party, HELD[party]]
    told = _of_columns(claims, party)[:1]
    if not told:
        return 0.0
    length = min(len(column), len(told[0].values))
    return column_agreement(replace(told[0], values=told[0].values[:length]), column[:length]).correlation


def _of_columns(claims: Collection[Claim], party: str) -> list[ColumnClaim]:
    return [c for c in claims if isinstance(c, ColumnClaim) and (c.party, c.feature) == (party, HELD[party])]


def _area(claims: Collection[Claim], party: str, own: Mapping[str, Collection[str]]) -> float:
    """2 AUC - 1 of the ranking of a party's candidates, mean over the features; 0 where there is none."""
    areas = dict.fromkeys(FEATURES, 0.0)
    for c in claims:
        if isinstance(c, MembershipClaim) and c.party == party and c.feature in areas:
            member = np.array([v in own[c.feature] for v in c.values], bool)
            if member.any() and not member.all():
                areas[c.feature] = 2 * ranking_metrics(np.array(c.scores), member)["auc"] - 1
    return float(np.mean([*areas.values()]))


def _held_less_not_held(claims: Collection[Claim], victims: Sequence[str], draw: int) -> float:
    """The share claimed of what is held, less the share claimed of what is not; mean over parties and features."""
    told = {(c.party, c.feature): set(c.values) for c in claims if isinstance(c, VocabularyClaim)}
    everything = held(1)[NAMES[-1]]  # the candidates: the same in every draw but the first
    shares = []
    for party in victims:
        for feature, values in held(draw)[party].items():
            claimed, others = told.get((party, feature), set()), everything[feature] - set(values)
            if others:
                shares.append(len(claimed & set(values)) / len(values) - len(claimed & others) / len(others))
    return float(np.mean(shares)) if shares else 0.0
