"""What a reader makes of settings: what they claim, what they do, and what they leave open."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from leakledger.defenses.accounting.mechanism import GaussianMechanism


@dataclass(frozen=True)
class Pure:
    """A mechanism without delta whose epsilon lies between two values; `at_most` is inf where nobody can say."""

    at_least: float
    at_most: float
    method: str


@dataclass(frozen=True)
class Nothing:
    """No epsilon at any delta below 1, and why."""

    reason: str


@dataclass(frozen=True)
class Reading:
    """`epsilon` is None where the settings claim none. `explained` and `unknown` are sentences, in plain words.

    `explained`: how the settings were read. `unknown`: what no settings can tell, and the answer depends on. `divided`:
    by how many take part, so that no epsilon is known of a unit that is there or not. `lenient`: settings that say too
    little were read as the kinder of what they may mean, so that no claim holds by them. `fewest`: `does` with as few
    rounds as the settings may mean, where they leave that open; lower bounds are its.
    """

    source: str
    epsilon: float | None
    delta: float
    does: GaussianMechanism | Pure | Nothing
    explained: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    divided: bool = False
    lenient: bool = False
    fewest: GaussianMechanism | None = None


@dataclass(frozen=True)
class Reader(ABC):
    """Settings of one kind, as frozen data: its options are the keys, and there are no others."""

    name: ClassVar[str]
    source: ClassVar[str]
    classes: ClassVar[tuple[str, ...]] = ()  # in the configuration files of the framework

    @abstractmethod
    def reading(self) -> Reading:
        """What the settings say. Raises ValueError where they say too little or contradict themselves."""


COINS = "whether noise is drawn afresh in every round from a seed that nobody knows (a seed that repeats takes it off)"
DRAWN = "whether batches are drawn as stated: a weighted or balanced sampler makes some records far likelier"
PERSON = (
    "whether a person has several records: of those who have k, epsilon is up to k times as large, and delta larger"
)
PRECISION = "how noise is rounded: floating-point noise tells more than real numbers do (Mironov 2012)"


def delta_in_words(delta: float, population: int | None, unit: str) -> tuple[str, ...]:
    """What a delta allows that is not below one in the population; nothing where it is, or nobody knows."""
    if population is None or delta * population < 1:
        return ()
    return (
        f"Delta {delta:g} is no less than one in {population:,} {unit}s: publishing the data of one of them, drawn by "
        "lot, has that delta, with an epsilon of 0.",
    )


def rounds_in_words(rounds: int, stated: bool) -> str:
    """That a round was assumed, or how many were accounted for."""
    if stated:
        return f"{rounds:,} rounds are composed." if rounds > 1 else "One round is accounted for."
    return "The number of rounds is not stated: one is assumed. Every further one adds to epsilon; give rounds."
