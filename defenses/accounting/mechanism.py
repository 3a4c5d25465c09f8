"""A Gaussian mechanism in use: how much noise for how much clipping, how often, on whose data, against which neighbour.

An epsilon without its unit and its neighbouring relation says nothing, so both are part of what is accounted for.
"""

from dataclasses import dataclass
from math import ceil, floor
from sys import float_info
from typing import Literal, get_args

Unit = Literal["record", "client"]
Relation = Literal["add-remove", "replace"]
Sampling = Literal["none", "poisson", "fixed-size", "shuffled"]

WORDS: dict[Sampling, str] = {
    "none": "everyone in every round",
    "poisson": "everyone by a coin of their own with probability {rate:g} in each of",
    "fixed-size": "batches of a fixed size with a share of {rate:g} in each of",
    "shuffled": "fixed batches with a share of {rate:g} each in",
}
ROUNDING = 1e-9  # a rate of 0.01 makes passes of 100 batches, though its inverse may come out next to that


@dataclass(frozen=True)
class GaussianMechanism:
    """Sums of vectors of L2 norm at most C, one per unit, released with Gaussian noise, round after round.

    `noise_multiplier`: standard deviation of the noise on each entry of the sum, divided by C.
    `sampling`: how a round's participants are chosen; "poisson" is a coin of `sampling_rate` for each unit and round;
        "fixed-size" draws without replacement; "shuffled" passes over batches that share no unit. Where the rate is
        no whole share of the data, a pass is as short as if its last, smaller batch were dropped.
    `relation`: neighbours differ by one unit that is there or not (its vector or nothing, C apart), or by the data of
        one unit (any vector or any other, 2C apart).

    Raises ValueError, with the value.
    """

    noise_multiplier: float
    rounds: int = 1
    sampling: Sampling = "none"
    sampling_rate: float = 1.0
    unit: Unit = "record"
    relation: Relation = "add-remove"

    def __post_init__(self) -> None:
        if not 0 < self.noise_multiplier < float("inf"):
            raise ValueError(f"noise_multiplier is {self.noise_multiplier}; it must be above 0 and finite")
        if self.rounds < 1:
            raise ValueError(f"rounds is {self.rounds}; it must be at least 1")
        if not 0 < self.sampling_rate <= 1:
            raise ValueError(f"sampling_rate is {self.sampling_rate}; it must be above 0 and at most 1")
        for name, kind in (("sampling", Sampling), ("unit", Unit), ("relation", Relation)):
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(get_args(kind))}")
        if self.sampling == "none" and self.sampling_rate < 1:
            raise ValueError(f"sampling_rate is {self.sampling_rate}; say how it is sampled, or make it 1")
        if self.sampling in ("fixed-size", "shuffled") and self.relation != "replace":
            raise ValueError(
                f"sampling is {self.sampling!r} and relation 'add-remove'; without a record such a batch has another "
                "one in its place, so that neighbours are 2C apart: account for it under relation = replace"
            )

    @property
    def distance(self) -> float:
        """How far apart the sums of neighbours can be, in units of C."""
        return 2.0 if self.relation == "replace" else 1.0

    @property
    def mu(self) -> float:
        """Distance over noise in one round in which the unit takes part."""
        return self.distance / self.noise_multiplier

    @property
    def per_pass(self) -> float:
        """Shuffled batches that the data are: no whole number where the rate is no whole share of them."""
        return 1 / max(self.sampling_rate, float_info.min)

    @property
    def participations(self) -> int:
        """Rounds in which one unit takes part, where that is no matter of chance."""
        if self.sampling != "shuffled":
            return self.rounds
        return ceil(self.rounds / floor(self.per_pass + ROUNDING))

    @property
    def settled(self) -> bool:
        """Whether there is nothing to be known of the rounds in which a unit takes part: it does in all of them."""
        return self.sampling == "none" or self.sampling_rate == 1

    @property
    def by_chance(self) -> bool:
        """Whether who takes part is drawn anew in every round, so that privacy is amplified."""
        return self.sampling != "shuffled" and not self.settled

    def __str__(self) -> str:
        return f"Gaussian noise of {self.noise_multiplier:.6g} times the clip norm, {self._taking}; {self.neighbours}"

    @property
    def _taking(self) -> str:
        rounds = f"{self.rounds:,} round{'s' if self.rounds > 1 else ''}"
        who = WORDS[self.sampling].format(rate=self.sampling_rate)
        return f"{who}, {rounds}" if self.sampling == "none" else f"{who} {rounds}"

    @property
    def account(self) -> str:
        """On what noise is added, what one unit moves it by, and how often, in words."""
        return (
            f"Noise has a standard deviation of {self.noise_multiplier:.6g} times the clip norm on each entry of the "
            f"sum of the {self.unit}s' clipped vectors (or of one vector); one {self.unit} moves that sum by "
            f"{self.distance:g} times the clip norm at most ({self.relation}); {self._taking}."
        )

    @property
    def neighbours(self) -> str:
        """Unit and relation in words."""
        differ = "is there or not" if self.relation == "add-remove" else "has any data or any other"
        return f"neighbours: one {self.unit} {differ} ({self.relation})"
