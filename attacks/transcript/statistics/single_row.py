"""Of a party known to have one row: all statistics of its place are its number, and its deviation is exactly 0."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from leakledger.attacks.base import Statistic, StatisticClaim
from leakledger.attacks.transcript.statistics.quartiles import LEVELS

PLACES: tuple[tuple[Statistic, str], ...] = (
    ("mean", ""),
    ("minimum", ""),
    ("maximum", ""),
    *(("quantile", name) for name in LEVELS),
)
"""Statistics, and levels of quantiles, that are the number itself where there is one row."""


def single_row_claims(claims: Sequence[StatisticClaim], rows: Iterable[StatisticClaim]) -> Iterable[StatisticClaim]:
    """What `claims` about places of single rows say of the others, as the narrowest of them has it. `rows`: the numbers
    of rows that are known, not those that are merely likely.
    """
    alone = {c.party: c for c in rows if c.low == c.high == 1}
    narrowest: dict[tuple[str, str], StatisticClaim] = {}
    for c in claims:
        if c.party in alone and (c.statistic, c.value) in PLACES:
            narrowest[c.party, c.feature] = min(narrowest.get((c.party, c.feature), c), c, key=lambda n: n.high - n.low)
    for (party, feature), number in narrowest.items():
        counted = alone[party].evidence
        evidence = tuple(sorted({*number.evidence, *counted}))
        for statistic, value in PLACES:
            yield replace(number, statistic=statistic, value=value, evidence=evidence)
        yield StatisticClaim(party, feature, "std", 0.0, 0.0, 0.0, counted)
