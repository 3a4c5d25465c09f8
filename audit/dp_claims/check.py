"""A claim against what the settings do: holds, refuted, undecided; with the gap and the reasons.

It *holds* where an upper bound of epsilon is not above it, and is *refuted* where a lower bound is; where numeric
bounds lie on both sides of it, no upper bound exists, or it holds by a lenient reading alone, that is said.
"""

from dataclasses import asdict, dataclass, replace
from math import inf, isfinite, sqrt
from typing import Any, Literal

from leakledger.audit.dp_claims.readers.base import PERSON, Pure, Reader, Reading
from leakledger.defenses.accounting.gaussian import epsilon_of, mu_of
from leakledger.defenses.accounting.guarantee import LARGE_DELTA, guarantee
from leakledger.defenses.accounting.mechanism import GaussianMechanism
from leakledger.defenses.accounting.reconstruction import gaussian_success

Verdict = Literal["holds", "refuted", "undecided", "no claim"]
EXIT_CODES: dict[Verdict, int] = {"holds": 0, "no claim": 0, "refuted": 1, "undecided": 11}
PRIOR = 0.01  # success of the prior alone for which the bound on any adversary is printed: one right guess in a hundred


@dataclass(frozen=True)
class Checked:
    """What is printed, and with --json all of it; None where there is nothing to say.

    `epsilon` and `at_least` are the bounds found at `delta` (None: no upper bound, which no finite number is), `gap` is
    how far the lower one is above the claim. `other_relation` is epsilon under the neighbouring relation that was not
    asked for, where one is known. `noise_needed` is the noise multiplier that the claim takes. `success` is what no
    adversary exceeds whose prior alone gets `PRIOR`.
    """

    verdict: Verdict
    source: str
    claimed: float | None
    delta: float
    epsilon: float | None
    at_least: float | None
    gap: float | None
    mechanism: str
    method: str
    mu_per_round: float | None
    other_relation: float | None
    noise_multiplier: float | None
    noise_needed: float | None
    success: float | None
    explained: tuple[str, ...]
    unknown: tuple[str, ...]

    def to_plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def check(settings: Reader) -> Checked:
    """What the settings claim against what they do. Raises ValueError for settings that say too little."""
    reading = settings.reading()
    if isinstance(reading.does, GaussianMechanism):
        return _gaussian(reading, reading.does)
    if isinstance(reading.does, Pure):
        return _checked(reading, reading.does.at_least, reading.does.at_most, reading.does.method)
    return _checked(reading, inf, inf, f"none: {reading.does.reason}")


def _gaussian(reading: Reading, mechanism: GaussianMechanism) -> Checked:
    found = guarantee(mechanism, reading.delta)
    sharp = reading.epsilon is None or reading.epsilon < found.epsilon
    if sharp:
        found = guarantee(mechanism, reading.delta, sharp=True)
    least = found if reading.fewest is None else guarantee(reading.fewest, reading.delta, sharp=sharp)
    exact = mechanism.settled
    rounds = sqrt(mechanism.participations)
    other = exact and not reading.divided
    shift = 2.0 if mechanism.relation == "add-remove" else 0.5  # from this relation to the other
    several = (PERSON,) if mechanism.unit == "record" else ()
    return _checked(
        replace(reading, explained=(mechanism.account, *reading.explained), unknown=(*reading.unknown, *several)),
        min(least.at_least, found.epsilon),
        found.epsilon,
        found.method,
        mechanism=str(mechanism),
        mu_per_round=mechanism.mu,
        other_relation=epsilon_of(reading.delta, shift * mechanism.mu * rounds) if other else None,
        noise_multiplier=mechanism.noise_multiplier,
        noise_needed=mechanism.distance * rounds / mu_of(reading.epsilon, reading.delta)
        if exact and reading.epsilon
        else None,
        success=gaussian_success(PRIOR, mechanism.mu * rounds) if exact else None,
    )


def _checked(reading: Reading, least: float, most: float, method: str, **found: Any) -> Checked:
    blank = dict.fromkeys(("mu_per_round", "other_relation", "noise_multiplier", "noise_needed", "success"))
    return Checked(
        verdict=_verdict(reading, least, most),
        source=reading.source,
        claimed=reading.epsilon,
        delta=reading.delta,
        epsilon=most if isfinite(most) else None,
        at_least=least if isfinite(least) else None,
        gap=max(0.0, least - reading.epsilon) if reading.epsilon is not None and isfinite(least) else None,
        method=method,
        explained=(*reading.explained, *_of_large(reading.delta)),
        unknown=reading.unknown,
        **{"mechanism": "", **blank, **found},
    )


def _of_large(delta: float) -> tuple[str, ...]:
    if delta < LARGE_DELTA:
        return ()
    return (f"Delta {delta:g} is large: publishing all data with that probability has it, with an epsilon of 0.",)


def _verdict(reading: Reading, least: float, most: float) -> Verdict:
    if reading.epsilon is None:
        return "no claim" if isfinite(least) else "refuted"
    if most <= reading.epsilon and not reading.lenient:
        return "holds"
    return "refuted" if least > reading.epsilon else "undecided"
