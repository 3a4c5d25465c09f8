"""How much an estimate with its interval tells beyond the prior, in bits: a graded score beside the share of hits.

A count known within a factor of two is no hit, and far from nothing. A claim is read as a distribution: normal, its
central 90 % the stated interval (what attacks vouch for), of which one part in a hundred is the prior, so that nobody
is infinitely wrong. It gains log2 P(truth) - log2 P0(truth) bits, where both are the chance of what would count as
known: within half a unit of a count, within 1 % of a standard deviation otherwise. The expectation of that is largest
for an honest claim (the logarithmic score is proper: Good 1952; Gneiting and Raftery 2007), so an interval that is too
narrow costs.

The prior P0 is an adversary who knows how the statistic scatters over the federation's parties, and nothing of the
victim: normal around the federation's own figure. Its rival knows the other parties' figures and takes the victim for
one like them; where that is better, it is the baseline. What is reported is the share gained of all bits that the prior
leaves: 1 for exact and right claims, 0 for the prior's, below 0 for worse.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import erf, log2, sqrt

import numpy as np

from leakledger.attacks.base import StatisticClaim
from leakledger.audit.truth import Truth

CENTRAL = 2 * 1.6448536269514722  # standard deviations between the ends of the central 90 %
HUMILITY = 0.01  # the part of a claim that is taken to be the prior
LIKE = 0.5  # of the parties' scatter: how near the victim is to another party, for an adversary who knows that one's

LEAST = 1e-300  # a chance, so that its logarithm is finite

Key = tuple[str, str]  # feature, value


@dataclass(frozen=True)
class Bits:
    """Of one figure or several: what claims gain over the prior, what the rival gains, and what the prior leaves."""

    gained: float = 0.0
    rival: float = 0.0
    left: float = 0.0

    def __add__(self, other: "Bits") -> "Bits":
        return Bits(self.gained + other.gained, self.rival + other.rival, self.left + other.left)

    def shares(self, figures: int) -> tuple[float, float] | None:
        """Of what the prior leaves of so many figures: the share that claims gain, and the baseline's; None where it
        leaves nothing.
        """
        if not figures or self.left < figures * 1e-6:
            return None
        return self.gained / self.left, max(self.rival / self.left, 0.0)


def bits(
    truth: Truth, party: str, statistic: str, claimed: Mapping[Key, StatisticClaim], units: Mapping[Key, float]
) -> dict[Key, Bits]:
    """Of each figure that every party has. `units` has, for each feature and value that has the statistic, how near
    counts as known.
    """
    found = {}
    for key, unit in units.items():
        real = truth.statistic(party, key[0], statistic, key[1])
        others = [truth.statistic(o, key[0], statistic, key[1]) for o in truth.parties if o != party]
        pooled = truth.pooled_statistic(key[0], statistic, key[1])
        if not np.isfinite([real, pooled, *others]).all():
            continue
        scatter = max(float(np.sqrt(np.mean((np.array([real, *others]) - pooled) ** 2))), unit / 2)
        prior = _band(real, unit, pooled, scatter)
        rival = _mixture(prior, float(np.mean([_band(real, unit, o, LIKE * scatter) for o in others])))
        claim = _claim(claimed.get(key), real, unit, prior)
        found[key] = Bits(_bits(claim, prior), _bits(rival, prior), -log2(prior))
    return found


def _claim(claim: StatisticClaim | None, real: float, unit: float, prior: float) -> float:
    """The chance that the claim gives to what is so; the prior's where there is no claim."""
    if claim is None:
        return prior
    return _mixture(prior, _band(real, unit, claim.estimate, (claim.high - claim.low) / CENTRAL))


def _mixture(prior: float, own: float) -> float:
    return (1 - HUMILITY) * own + HUMILITY * prior


def _band(real: float, unit: float, mean: float, deviation: float) -> float:
    """The chance, for a normal distribution, of what lies within a unit of the truth; all or nothing for no width."""
    if deviation <= 0:
        return float(abs(mean - real) <= unit)
    low, high = ((x - mean) / (deviation * sqrt(2)) for x in (real - unit, real + unit))
    return max((erf(high) - erf(low)) / 2, LEAST)


def _bits(chance: float, prior: float) -> float:
    return log2(chance / prior)
