"""Settings in this project's own words: clip norm, noise, sampling, rounds, claim. What the options of check-dp set."""

from dataclasses import dataclass

from leakledger.audit.dp_claims.readers.base import (
    COINS,
    DRAWN,
    PRECISION,
    Nothing,
    Reader,
    Reading,
    delta_in_words,
)
from leakledger.defenses.accounting.mechanism import GaussianMechanism, Relation, Sampling, Unit
from leakledger.preprocess.options import option

NO_NOISE = "no noise is stated: what is released is a function of the data, and two neighbours can differ for certain"
ASSUMED = (
    "sampling is not stated: everyone is taken to be drawn by a coin of their own (poisson). Batches of a fixed size "
    "and shuffled ones have a larger epsilon, so no claim holds until sampling is stated."
)
DIVISOR = (
    "whether the mean is divided by a number fixed in advance: divided by how many take part, it moves by twice as "
    "much where one of them is gone; account for that under relation = replace"
)
NO_CLIPPING = "noise without clipping: nothing bounds how far one record or client moves what is released"


@dataclass(frozen=True)
class Plain(Reader):
    """Gaussian noise on a sum of clipped vectors, or on one clipped vector."""

    name = "plain"
    source = "settings"

    delta: float = option(above=0, below=1, help="delta of the claim")
    epsilon: float | None = option(None, at_least=0, help="epsilon that is claimed over all rounds")
    clip_norm: float | None = option(None, above=0, help="L2 norm that each unit's vector is clipped to")
    noise: float | None = option(None, at_least=0, help="standard deviation of the noise, in the units of clip_norm")
    noise_multiplier: float | None = option(None, at_least=0, help="the same, divided by clip_norm")
    mean_of: int = option(
        1, at_least=1, help="noise is added to a mean of so many vectors (1: to their sum, or to one)"
    )
    rounds: int = option(1, at_least=1, help="releases, steps or rounds")
    sampling: Sampling | None = option(None, help="how units are chosen [default: poisson where a rate is stated]")
    sampling_rate: float | None = option(None, above=0, at_most=1, help="true chance of one unit in a round")
    batch: int | None = option(None, at_least=1, help="units in a round, with population in place of sampling_rate")
    population: int | None = option(None, at_least=1, help="units in all")
    unit: Unit = option("record", help="whose vectors are clipped and protected")
    relation: Relation = option("add-remove", help="neighbours differ by a unit, or by a unit's data")

    def reading(self) -> Reading:
        rate = self.rate()
        multiplier = self.multiplier()
        if isinstance(multiplier, Nothing):
            return Reading(self.source, self.epsilon, self.delta, multiplier)
        sampling = self.sampling or ("poisson" if rate < 1 else "none")
        mechanism = GaussianMechanism(multiplier, self.rounds, sampling, rate, self.unit, self.relation)
        unknown = [COINS, PRECISION, "whether the bound and the noise are fixed in advance, and in the code that runs"]
        if not mechanism.settled:
            unknown.append(DRAWN)
        if self.mean_of > 1 and self.relation == "add-remove":
            unknown.append(DIVISOR)
        assumed = self.sampling is None and not mechanism.settled
        explained = (
            *self._mean(multiplier),
            *((ASSUMED,) if assumed else ()),
            *delta_in_words(self.delta, self.population, self.unit),
        )
        divided = self.mean_of > 1 and self.relation == "replace"
        return Reading(self.source, self.epsilon, self.delta, mechanism, explained, tuple(unknown), divided, assumed)

    def rate(self) -> float:
        """The chance of one unit in a round."""
        if (self.batch is None) != (self.population is None) and self.sampling_rate is None:
            given, missing = ("batch", "population") if self.population is None else ("population", "batch")
            raise ValueError(f"{given} is {getattr(self, given)} and {missing} is missing; give both, or sampling_rate")
        if self.batch is None or self.population is None:
            return 1.0 if self.sampling_rate is None else self.sampling_rate
        if self.batch > self.population:
            raise ValueError(f"batch is {self.batch}; it must be at most population, {self.population}")
        if self.sampling_rate is not None:
            raise ValueError(
                f"sampling_rate is {self.sampling_rate} beside batch and population; leave one of them out"
            )
        return self.batch / self.population

    def _mean(self, multiplier: float) -> tuple[str, ...]:
        """That noise on a mean counts as more noise on a sum; nothing where it is on a sum."""
        if self.mean_of == 1:
            return ()
        stated = "noise" if self.noise_multiplier is None else "noise_multiplier"
        return (
            f"mean_of = {self.mean_of:,}: {stated} = {getattr(self, stated):g} is read as noise on a mean of so many "
            f"vectors, and counts {self.mean_of:,} times on their sum: {multiplier:.6g} times the clip norm. The noise "
            "multiplier of DP-SGD (Opacus, TensorFlow Privacy) is that of the sum already: state it without mean_of.",
        )

    def multiplier(self) -> float | Nothing:
        """Noise over clip norm."""
        if (self.noise is None) == (self.noise_multiplier is None):
            both = (
                "noise and noise_multiplier are" if self.noise is not None else "neither noise nor noise_multiplier is"
            )
            raise ValueError(f"{both} stated; give one of them (0 for none)")
        if not (self.noise or self.noise_multiplier):
            return Nothing(NO_NOISE)
        if self.noise_multiplier is not None:
            return self.noise_multiplier * self.mean_of
        if self.clip_norm is None:
            return Nothing(NO_CLIPPING)
        return (self.noise or 0.0) * self.mean_of / self.clip_norm
