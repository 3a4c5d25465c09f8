"""Opacus' `PrivacyEngine.make_private(noise_multiplier, max_grad_norm, poisson_sampling)` with its accountant's inputs.

Opacus 1.6 takes one step per batch, draws every record by a coin of `sample_rate` per step, and accounts for just that.
A sampler of one's own (weighted, balanced) makes the true chance of some records larger: `sample_rate` must be the
largest true one (Opacus threads 571, 813, 819). The unit is a record of the one table that is trained on.

An epoch is 1 / `sample_rate` batches. Where that is no whole number, Opacus' sampler draws as many as are whole, its
`get_noise_multiplier` rounds over all epochs, and a loader may have one more: the upper bound counts the most of these,
the lower one the fewest.
"""

from dataclasses import dataclass, replace
from math import ceil, floor

from leakledger.audit.dp_claims.readers.base import COINS, DRAWN, PRECISION, Nothing, Reader, Reading
from leakledger.audit.dp_claims.readers.plain import NO_NOISE
from leakledger.audit.records import plural
from leakledger.defenses.accounting.mechanism import ROUNDING, GaussianMechanism, Relation, Sampling
from leakledger.preprocess.options import option

MOST_STEPS = 1e15
EPOCHS = (
    "Epochs are read as 1 / sample_rate batches each. A weighted sampler has more of them at its largest chance, and "
    "epsilon is larger: state steps, which are epochs times the batches of the loader."
)


@dataclass(frozen=True)
class Opacus(Reader):
    """The settings of one training; steps of all rounds of a federation count."""

    name = "opacus"
    source = "Opacus"
    classes = ("PrivacyEngine",)

    noise_multiplier: float = option(at_least=0, help="noise over max_grad_norm")
    max_grad_norm: float = option(above=0, help="L2 norm that each record's gradient is clipped to")
    sample_rate: float = option(above=0, at_most=1, help="largest true chance of a record to be in a batch")
    delta: float = option(above=0, below=1, help="delta of the claim")
    epsilon: float | None = option(None, at_least=0, help="epsilon that is claimed")
    steps: int | None = option(None, at_least=1, help="optimizer steps in all")
    epochs: int | None = option(None, at_least=1, help="epochs of 1 / sample_rate batches, in place of steps")
    poisson_sampling: bool = option(True, help="false: batches are shuffled, and no luck protects a record")
    relation: Relation | None = option(None, help="[default: replace where batches are shuffled, else add-remove]")

    def reading(self) -> Reading:
        fewest, steps = self._steps()
        counted = plural(steps, "step") if fewest == steps else f"{fewest:,} to {plural(steps, 'step')}"
        explained = [f"{counted} with a chance of {self.sample_rate:g} each."]
        if self.steps is None and self.sample_rate < 1:
            explained.append(EPOCHS)
        if not self.poisson_sampling:
            explained.append(
                "Batches are shuffled, so every record is in one of each pass, and passes count, not chances: all of "
                "epsilon where it is known which batch that is."
            )
        unknown = (
            COINS,
            PRECISION,
            DRAWN,
            "whether the model mixes records of a batch (batch normalisation), or more leaves than the gradients",
            "how many rounds the steps stand for: steps of every round that uses the same records add up",
        )
        if self.noise_multiplier == 0:
            return Reading(self.source, self.epsilon, self.delta, Nothing(NO_NOISE), tuple(explained), unknown)
        sampling: Sampling = "none" if self.sample_rate == 1 else "poisson" if self.poisson_sampling else "shuffled"
        relation = self.relation or ("replace" if sampling == "shuffled" else "add-remove")
        does = GaussianMechanism(self.noise_multiplier, steps, sampling, self.sample_rate, "record", relation)
        least = replace(does, rounds=fewest) if fewest < steps else None
        return Reading(self.source, self.epsilon, self.delta, does, tuple(explained), unknown, fewest=least)

    def _steps(self) -> tuple[int, int]:
        """The fewest and the most steps that are meant: one number, but for epochs of no whole number of batches."""
        if (self.steps is None) == (self.epochs is None):
            both = "steps and epochs are both" if self.steps is not None else "neither steps nor epochs is"
            raise ValueError(f"{both} stated; give one of them")
        if self.steps is not None:
            return self.steps, self.steps
        epochs = self.epochs or 0
        steps = epochs / self.sample_rate
        if steps > MOST_STEPS:
            raise ValueError(
                f"sample_rate is {self.sample_rate:g} and epochs is {self.epochs}, which are {steps:g} steps; "
                f"{MOST_STEPS:g} are accounted for at most"
            )
        batches = 1 / self.sample_rate
        return epochs * floor(batches + ROUNDING), epochs * ceil(batches - ROUNDING)
