"""Which rounds of secure sums speak about which parties, and what is inferred from the parts that were seen of them."""

from collections.abc import Mapping, Sequence
from math import ceil, floor

import numpy as np

from leakledger.attacks.base import StatisticClaim
from leakledger.attacks.observed.secure_sums import Slot
from leakledger.attacks.observed.stated import ROUNDING, vanished
from leakledger.attacks.transcript.statistics.binary import Pair, Rates
from leakledger.attacks.transcript.statistics.claims import named
from leakledger.attacks.transcript.statistics.differences import Round
from leakledger.attacks.transcript.statistics.exact import EPSILON, Fact
from leakledger.attacks.transcript.statistics.grids import Interval
from leakledger.attacks.transcript.statistics.own import OwnTable
from leakledger.attacks.transcript.statistics.posterior import rows_means_deviations, single_numbers
from leakledger.attacks.transcript.statistics.prior import Prior, prior
from leakledger.attacks.transcript.statistics.seen import Seen, own_weights, seen_parts


def inferred(
    rounds: Sequence[Round], known: Sequence[Fact], tables: Mapping[str, OwnTable], level: float, seed: int
) -> tuple[list[StatisticClaim], dict[str, Pair]]:
    """Claims about clients that the equations leave open, from proportional parts that reached an observer, and the
    numbers of each feature whose column has two.
    """
    settled = {p for f in known for p in f.group if len(f.group) == 1 and Slot("count") in f.values}
    reference = _reference(rounds)
    if reference is None or not tables:
        return [], {}
    clients = reference.runs[0].clients
    victims = [c for c in clients if c not in tables and c not in settled]
    usable = [r for r in rounds if set(victims) <= set(r.runs[0].clients) and _same_centre(r, reference)]
    seen = seen_parts(usable, victims, frozenset(tables)) if len(victims) > 1 else None
    if seen is None:
        return [], {}
    weights = own_weights(usable, tables)
    coins = np.random.default_rng(seed)
    claims: list[StatisticClaim] = []
    pairs: dict[str, Pair] = {}
    if Slot("count") in seen.sharings:
        together, square = _prior(reference, victims, known, tables, seen)
        rates = Rates.of(together.features, tables, together.mean, together.std, together.centre)
        found = rows_means_deviations(seen, together, square, weights, level, coins, rates)
        claims += _claims(seen, found)
        pairs = rates.pairs(together.features) if rates else {}
    sizes = single_numbers(seen, [s for s in seen.sharings if s.kind == "size"], weights, level)
    return [*claims, *_claims(seen, sizes)], pairs


def _reference(rounds: Sequence[Round]) -> Round | None:
    """The last round with sums and squares; without one, the last round of all."""
    full = [r for r in rounds if {s.kind for run in r.runs for s in run.slots} & {"deviation", "square"}]
    return [*rounds, *full][-1] if rounds else None


def _same_centre(one: Round, other: Round) -> bool:
    both = set(one.means) & set(other.means)
    return all(abs(one.means[f] - other.means[f]) <= 1e-9 * (1 + abs(other.means[f])) for f in both)


def _prior(
    reference: Round, victims: Sequence[str], known: Sequence[Fact], tables: Mapping[str, OwnTable], seen: Seen
) -> tuple[Prior, str]:
    """What the victims have together: the group's totals less those of its members that are known."""
    totals, within = _left(reference, victims, known, tables)
    square = "deviation" if any(s.kind == "deviation" for s in totals) else "square"
    rows = max(totals.get(Slot("count"), 0.0), 1.0)
    features = [
        (s.feature, s.value)
        for s in totals
        if s.kind == "sum" and {s, Slot(square, s.feature, s.value)} <= set(seen.sharings)  # type: ignore[arg-type]
    ]
    mean = np.array([totals[Slot("sum", *f)] / rows for f in features])
    centre = np.array([reference.means[f] if square == "deviation" else 0.0 for f in features])
    around, far_around = (
        np.array([of.get(Slot(square, *f), 0.0) / rows for f in features])  # type: ignore[arg-type]
        for of in (totals, within)
    )
    away = np.abs(mean - centre)
    std = np.sqrt(np.maximum(around - away**2, 0.0))
    # The centre is a sum over the same clients, and as far off; what parties added up had rounding before it was split.
    far = np.array([2 * within.get(Slot("sum", *f), 0.0) / rows for f in features])
    far += ROUNDING * np.sqrt(rows) * (np.abs(mean) + np.abs(centre))
    lost = far_around + ROUNDING * np.sqrt(rows) * (around + away**2) + (2 * away + far) * far
    lost += vanished(mean, centre, np.sqrt(np.maximum(around, 0.0)))
    return prior(rows, tuple(features), mean, std, centre, tables, len(victims), (far, lost)), square


def _left(
    reference: Round, victims: Sequence[str], known: Sequence[Fact], tables: Mapping[str, OwnTable]
) -> tuple[dict[Slot, float], dict[Slot, float]]:
    """The sums over the victims, and how far rounding may have taken them."""
    outside = frozenset(c for c in reference.runs[0].clients if c not in tables)
    totals: dict[Slot, float] = {}
    within: dict[Slot, float] = {}
    for fact in reference.facts:
        if fact.group == outside:
            totals, within = {**totals, **fact.values}, {**within, **fact.within}
    for fact in known:
        if len(fact.group) == 1 and not fact.group & set(victims):
            for slot, x in totals.items():
                less = fact.values.get(slot, 0.0)
                within[slot] = within.get(slot, 0.0) + fact.within.get(slot, 0.0) + EPSILON * (abs(x) + abs(less))
                totals[slot] = x - less
    return totals, within


def _claims(seen: Seen, found: Mapping[Slot, Interval]) -> list[StatisticClaim]:
    claims = []
    for slot, interval in found.items():
        if (statistic := named(slot)) is None:
            continue
        ends = zip(seen.victims, interval.estimate.tolist(), interval.low.tolist(), interval.high.tolist(), strict=True)
        for victim, x, low, high in ends:
            if statistic in ("count", "size"):
                x, low, high = float(round(x)), float(floor(low)), float(ceil(high))
            claims.append(
                StatisticClaim(victim, slot.feature, statistic, x, low, high, seen.evidence[victim], slot.value)
            )
    return claims
