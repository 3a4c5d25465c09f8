"""One budget over everything that a client sends: noised statistics and the rounds of training, composed.

Each release dominates a pair of distributions (a privacy loss distribution, PLD); those of all releases are convolved,
rounded up (`dp-accounting`: Koskela, Jälkö and Honkela 2020; Doroshenko et al. 2022). Discrete Laplace and Gaussian
noise are accounted for as they are, in whole steps; the exponential mechanism as randomised response at its epsilon,
which dominates every pure mechanism (Kairouz, Oh and Viswanath 2015). Composition is adaptive: what training does may
follow from what the statistics said.

The answer is the least of upper bounds that all hold: the PLD of everything; pure releases added up beside the PLD of
the others; and, for batches of a fixed size, whose amplification has no PLD here, half of delta for either part.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import ceil, inf, sqrt
from typing import Any, Literal

from leakledger.defenses.accounting.gaussian import check_delta, epsilon_of
from leakledger.defenses.accounting.guarantee import guarantee
from leakledger.defenses.accounting.mechanism import GaussianMechanism, Relation
from leakledger.defenses.accounting.subsampling import SMALLEST_MU, has_grid, losses, width_of_grid
from leakledger.preprocess.views import Mechanism

FINEST, POINTS = 1e-4, 1e5  # width of the grid of losses, and about how many it may have per release
LARGEST_LOSS = 60.0  # of all pure releases together: beyond it a delta changes nothing
LARGEST_MU = 25.0  # of Gaussian noise: losses above 700 overflow
PURE, GAUSSIAN, EXPONENTIAL = "discrete-laplace", "discrete-gaussian", "exponential"
Kind = Literal["discrete-laplace", "discrete-gaussian", "exponential"]


@dataclass(frozen=True)
class Release:
    """Equal noise on one number or one table: what an accountant has to know of a `Mechanism`.

    `ratio`: sensitivity over scale where one record is there or not (of "exponential", epsilon), as two whole numbers
    of steps where noise is discrete. `table`: a record that is replaced moves two counts by one step each, not one by
    two.
    """

    kind: Kind
    sensitivity: float
    scale: float
    table: bool = False

    @classmethod
    def of(cls, mechanism: Mechanism) -> "Release":
        """Raises ValueError for a mechanism that is none of the three."""
        known = mechanism.parameters
        table = known.get("statistic") == "table"
        if mechanism.kind == EXPONENTIAL:
            return cls("exponential", float(known["epsilon"]), 1.0)
        if mechanism.kind not in (PURE, GAUSSIAN):
            raise ValueError(f"nothing is known of what {mechanism.kind!r} does to a statistic; account for it apart")
        return cls(mechanism.kind, int(known["sensitivity"]), int(known["scale"]), table)  # type: ignore[arg-type]

    def epsilon(self, relation: Relation) -> float:
        """At delta 0; infinite for Gaussian noise."""
        return inf if self.kind == GAUSSIAN else distance(relation) * self.sensitivity / self.scale

    def mu(self, relation: Relation) -> float:
        """Of Gaussian noise, about: of two counts that move by one step each, sqrt(2)."""
        return (sqrt(distance(relation)) if self.table else distance(relation)) * self.sensitivity / self.scale


def distance(relation: Relation) -> int:
    """How many records neighbours differ by: one that is gone, or one gone and one new."""
    return 2 if relation == "replace" else 1


def composed_epsilon(
    releases: Sequence[Release], training: GaussianMechanism | None, delta: float, relation: Relation
) -> float:
    """An epsilon at `delta` that all releases of one client together do not exceed. Raises ValueError.

    `training`, if any, has the same `relation`.
    """
    check_delta(delta)
    if training is not None and training.relation != relation:
        raise ValueError(f"training is accounted for under {training.relation}, statistics under {relation}: use one")
    counted = tuple(sorted(Counter(releases).items(), key=repr))
    return _composed(counted, training, delta, relation)


Counted = tuple[tuple[Release, int], ...]


@lru_cache(maxsize=64)
def _composed(counted: Counted, training: GaussianMechanism | None, delta: float, relation: Relation) -> float:
    pure = sum(n * r.epsilon(relation) for r, n in counted if r.kind != GAUSSIAN)
    noisy = tuple((r, n) for r, n in counted if r.kind == GAUSSIAN)
    if not noisy and training is None:
        return min(pure, _numeric(counted, None, delta, relation))
    if training is not None and not counted:
        return guarantee(training, delta).epsilon
    bounds = [_numeric(counted, training, delta, relation), pure + _numeric(noisy, training, delta, relation)]
    if training is not None and training.by_chance:
        bounds.append(pure + guarantee(training, delta).epsilon if not noisy else inf)
        bounds.append(_composed(counted, None, delta / 2, relation) + guarantee(training, delta / 2).epsilon)
    return min(bounds)


def _numeric(counted: Counted, training: GaussianMechanism | None, delta: float, relation: Relation) -> float:
    """By the PLD of all of them; where that has no grid, of Gaussian mechanisms without sampling, or infinite."""
    if not counted and training is None:
        return 0.0
    pure = sum(n * r.epsilon(relation) for r, n in counted if r.kind != GAUSSIAN)
    mu = sqrt(sum(n * r.mu(relation) ** 2 for r, n in counted if r.kind == GAUSSIAN))
    sampled = training is not None and training.by_chance and training.sampling == "poisson" and has_grid(training)
    unsampled = 0.0 if training is None or sampled else training.mu * sqrt(training.participations)
    if not counted:
        assert training is not None
        return guarantee(training, delta).epsilon if sampled else epsilon_of(delta, unsampled)
    if pure > LARGEST_LOSS or max(mu, unsampled) > LARGEST_MU:
        return inf
    largest = pure + mu * (mu / 2 + 5) + unsampled * (unsampled / 2 + 5)
    width = max(FINEST, largest / POINTS, width_of_grid(training) if training is not None and sampled else 0.0)
    parts = [_losses(r, relation, width).self_compose(n * _moved(r, relation)) for r, n in counted]
    if training is not None:
        parts.append(losses(training, width=width) if sampled else _gaussian(max(unsampled, SMALLEST_MU), width))
    return float(reduce(lambda one, other: one.compose(other), parts).get_epsilon_for_delta(delta))


def _moved(release: Release, relation: Relation) -> int:
    """How many numbers of a release one unit moves: two counts of a table where a record is replaced."""
    return distance(relation) if release.table else 1


def _losses(release: Release, relation: Relation, width: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    steps = release.sensitivity * (1 if release.table else distance(relation))
    if release.kind == EXPONENTIAL:
        return pld.from_privacy_parameters(DifferentialPrivacyParameters(steps, 0.0), width)
    grid = {"value_discretization_interval": width, "pessimistic_estimate": True}
    if release.kind == GAUSSIAN:
        return pld.from_discrete_gaussian_mechanism(release.scale, sensitivity=int(steps), **grid)
    return pld.from_discrete_laplace_mechanism(1 / release.scale, sensitivity=int(steps), **grid)


def _gaussian(mu: float, width: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_gaussian_mechanism(
        1 / mu, value_discretization_interval=width, pessimistic_estimate=True, use_connect_dots=True
    )


def in_words(releases: Sequence[Mechanism]) -> list[str]:
    """One line for each kind of noise on each kind of message."""
    groups: Counter[tuple[str, str, str, str]] = Counter()
    for m in releases:
        known = m.parameters
        if m.kind == EXPONENTIAL:
            said = f"the exponential mechanism at epsilon {known['epsilon']:.4g} each"
        else:
            times = known["scale"] / known["sensitivity"]
            said = f"{m.kind.replace('-', ' ')} noise of {times:.4g} times what one record changes"
        what = {"table": "table", "minimum": "extreme", "maximum": "extreme"}.get(str(known["statistic"]), "number")
        what = "quantile" if "level" in known else what
        groups[str(known["topic"]), what, m.kind, said] += 1
    return [f"{topic}: {n} {what}{'s' if n > 1 else ''}, {said}" for (topic, what, _, said), n in groups.items()]


def rounds_up(x: float) -> float:
    """An epsilon to six digits, never below itself: for a text that must not promise more than was found."""
    return ceil(x * 1e6) / 1e6
