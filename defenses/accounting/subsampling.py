"""Gaussian noise on batches drawn by chance, composed numerically by privacy loss distributions (PLD).

Source: Sommer, Meiser and Mohammadi 2019; Koskela, Jälkö and Honkela 2020; Doroshenko et al. 2022 ("connect the dots");
the implementation is Google's `dp-accounting`. Its pessimistic estimates are upper bounds of epsilon and its optimistic
ones lower bounds, each at the stated delta; the truth lies between.

A unit that takes part with probability q in each round gives a dominating pair per direction (Zhu, Dong and Wang 2022,
theorem 11), so Poisson sampling is accounted for as it is; where data are replaced, opposite vectors are taken to be
the worst neighbours, as the library does. Batches of a *fixed size* are not like that (Lebeda, Regehr, Kamath and
Steinke 2024): whoever is not drawn has someone in its place. Their upper bound is that of Rényi DP (Wang, Balle and
Kasiviswanathan 2019) or that of no sampling, whichever is less; their lower bound is that of data in which all others
have the vector opposite to one record's, which then moves the sum by 2C from where it is sure to be without it.

*Shuffled* batches have every record once in each pass. Whoever knows the order loses nothing to it, which is the upper
bound (`guarantee`); that the order hides something is shown for no more than one pass and special data (Chua et al.,
"How private are DP-SGD implementations?", ICML 2024). Their lower bound is of the same data as above, under an order
that nobody knows: the sum over all batches is a Gaussian mechanism, and the largest batch is a test.

The library is loaded where it is used: its import takes more than a second.
"""

from dataclasses import replace
from functools import lru_cache
from math import ceil, exp, log, sqrt
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from leakledger.defenses.accounting.gaussian import epsilon_of
from leakledger.defenses.accounting.mechanism import ROUNDING, GaussianMechanism

FINEST = 1e-4  # width of the grid of privacy losses; half of it moves usual epsilons by less than 1e-3
PER_ROUND, IN_ALL = 1e-4, 1e-7  # of the largest loss: grids of about 1e5 and 1e7 points at most take a second or two
GAP = 0.05  # between the bounds, about: rounding down costs half a width in every round
SMALLEST_MU = 1e-8  # of a round: below, numeric accountants fail, and epsilon is next to nothing without them
LARGEST_MU = 25.0  # of a round: losses above 700 overflow, and epsilon is in the hundreds, sampled or not
MOST_ROUNDS = 10**8  # a composition of 10^9 did not end in five minutes
AT_ONCE = 10**5  # rounds
CUT_OFF = 1e-15  # mass of the tails; that of the library
THRESHOLDS, LAST_DEVIATION = 4001, 8.0  # of a test; a moved batch is that far above its mean with chance 6e-16


def upper(mechanism: GaussianMechanism, delta: float) -> float:
    """An epsilon at `delta` that `mechanism`, sampled by chance, does not exceed."""
    unsampled = epsilon_of(delta, mechanism.mu * sqrt(mechanism.rounds))
    if not has_grid(mechanism):
        return unsampled
    if mechanism.sampling == "fixed-size":
        return min(unsampled, _renyi(mechanism, delta))
    known = delta - _rounding(mechanism)
    return min(unsampled, _epsilon(losses(mechanism), known)) if known > 0 else unsampled


def lower(mechanism: GaussianMechanism, delta: float) -> float:
    """An epsilon at `delta` below which `mechanism`, sampled by chance, is refuted."""
    once = one_round(mechanism, delta)
    if not has_grid(mechanism):
        return once
    seen = _against_the_rest(mechanism) if mechanism.sampling == "fixed-size" else mechanism
    try:
        return max(once, _epsilon(losses(seen, pessimistic=False), delta + _rounding(mechanism)))
    except OverflowError:  # losses below -700: so many were rounded down that the sum shows nothing
        return once


def _epsilon(composed: Any, delta: float) -> float:
    with np.errstate(over="ignore"):  # of a ratio of masses: epsilon is infinite there
        return float(composed.get_epsilon_for_delta(delta))


def _rounding(mechanism: GaussianMechanism) -> float:
    """Mass that float64 may lose or add where many rounds are composed: powers of transforms grow its errors."""
    return float(np.finfo(np.float64).eps) * mechanism.rounds if mechanism.rounds > AT_ONCE else 0.0


def has_grid(mechanism: GaussianMechanism) -> bool:
    """Whether its losses are composed numerically; else they are bounded by one round and by no sampling."""
    return SMALLEST_MU <= mechanism.mu <= LARGEST_MU and mechanism.rounds <= MOST_ROUNDS


def one_round(mechanism: GaussianMechanism, delta: float) -> float:
    """The epsilon of a single round, exactly: log(1 + q (exp(e) - 1)), e that of the mechanism at delta / q.

    Li, Qardaji and Su 2012; attained when a unit is removed (Balle, Barthe and Gaboardi 2018, theorem 8). Neighbours
    that both hold something are further apart than that.
    """
    rate = mechanism.sampling_rate
    if delta >= rate:
        return 0.0
    whole = epsilon_of(
        delta / rate, 1 / mechanism.noise_multiplier if mechanism.sampling == "poisson" else mechanism.mu
    )
    return whole + log(rate + (1 - rate) * exp(-whole))


def of_any_order(mechanism: GaussianMechanism, delta: float) -> float:
    """An epsilon at `delta` below which shuffled batches are refuted, if nobody ever knows what they were."""
    batches = ceil(mechanism.per_pass - ROUNDING)
    passes, once = mechanism.rounds // batches, one_round(mechanism, delta)
    if not passes:
        return once
    added_up = epsilon_of(delta, mechanism.mu * sqrt(passes / batches))
    return max(once, added_up, _of_the_largest(mechanism.mu, passes, batches, delta))


def _of_the_largest(mu: float, passes: int, batches: int, delta: float) -> float:
    """What the test shows whether any batch is above a threshold, at the best one: log((P - delta) / Q).

    Chua et al. 2024, section 4.2. One batch of each pass is moved by `mu` deviations of its noise, or none is.
    """
    thresholds = np.linspace(0.0, mu + LAST_DEVIATION, THRESHOLDS)
    none = passes * batches * log_ndtr(thresholds)  # log of the chance that no batch is above, where none is moved
    moved = none + passes * (log_ndtr(thresholds - mu) - log_ndtr(thresholds))
    seen, false = -np.expm1(moved) - delta, -np.expm1(none)
    shown = (seen > 0) & (false > 0)
    return float((np.log(seen[shown]) - np.log(false[shown])).max(initial=0.0))


@lru_cache(maxsize=8)
def losses(mechanism: GaussianMechanism, pessimistic: bool = True, width: float | None = None) -> Any:
    """The privacy loss distribution over all rounds, rounded up (`pessimistic`) or down, on a grid of this `width`."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    relations = {
        "add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace": NeighboringRelation.REPLACE_ONE,
    }
    once = from_gaussian_mechanism(
        mechanism.noise_multiplier,
        sampling_prob=mechanism.sampling_rate,
        neighboring_relation=relations[mechanism.relation],
        value_discretization_interval=width or width_of_grid(mechanism, pessimistic),
        pessimistic_estimate=pessimistic,
        use_connect_dots=pessimistic,
    )
    return _composed(once, mechanism.rounds)


def _composed(once: Any, rounds: int) -> Any:
    """Losses over `rounds`, in two steps where these are many: of a short grid the library raises the number of points
    to the power of the rounds, as a whole number, which takes minutes of 10^8. What it cuts off in the first step, and
    counts as an infinite loss or as none, is the smaller for it: all steps together cut off what one would twice.
    """
    if rounds <= AT_ONCE:
        return once.self_compose(rounds) if rounds > 1 else once
    steps, rest = divmod(rounds, AT_ONCE)
    whole = once.self_compose(AT_ONCE, CUT_OFF / steps).self_compose(steps, CUT_OFF)
    return whole.compose(_composed(once, rest)) if rest else whole


def _against_the_rest(mechanism: GaussianMechanism) -> GaussianMechanism:
    """One record in a batch of fixed size, where all others have the opposite vector: it is there or not, 2C apart."""
    return replace(mechanism, noise_multiplier=1 / mechanism.mu, sampling="poisson", relation="add-remove")


def width_of_grid(mechanism: GaussianMechanism, pessimistic: bool = True) -> float:
    """The width of the grid of losses: coarser for large ones, finer for a lower bound over many rounds."""
    largest = mechanism.mu * (mechanism.mu / 2 + 1)  # of a round, but for less than a sixth of its mass
    taken = mechanism.rounds * mechanism.sampling_rate  # rounds in which one unit takes part, in the mean
    finest = FINEST if pessimistic else min(FINEST, 2 * GAP / mechanism.rounds)
    return max(finest, PER_ROUND * largest * (1 if pessimistic else 0.1), IN_ALL * largest * taken)


def _renyi(mechanism: GaussianMechanism, delta: float) -> float:
    from dp_accounting import (
        GaussianDpEvent,
        NeighboringRelation,
        SampledWithoutReplacementDpEvent,
        SelfComposedDpEvent,
    )
    from dp_accounting.rdp import RdpAccountant

    size = 10**9  # the bound depends on the share alone
    batch = ceil(size * mechanism.sampling_rate)
    event = SampledWithoutReplacementDpEvent(size, batch, GaussianDpEvent(1 / mechanism.mu))  # noise over distance
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    return float(accountant.compose(SelfComposedDpEvent(event, mechanism.rounds)).get_epsilon(delta))
