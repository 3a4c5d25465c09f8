"""Flower's `DifferentialPrivacy{Server,Client}SideFixedClipping`: the server adds noise to the mean of clipped updates.

The noise has standard deviation noise_multiplier clipping_norm / num_sampled_clients (flwr 1.35, `compute_stdv`): it is
made for a *plain* mean. FedAvg weighs clients by their examples, and then the heaviest one moves the mean by its weight
times the clip norm: `largest_weight` states it.

Either mean is divided by what the clients that answered weigh together, so a client that is not there moves it as far
as one with other data can: by its own update and by what the others' weights grow, 2C times its weight.
"""

from dataclasses import dataclass

from leakledger.audit.dp_claims.readers.base import (
    COINS,
    PRECISION,
    Nothing,
    Reader,
    Reading,
    delta_in_words,
    rounds_in_words,
)
from leakledger.audit.dp_claims.readers.plain import NO_NOISE
from leakledger.defenses.accounting.mechanism import GaussianMechanism, Relation, Sampling
from leakledger.preprocess.options import option


@dataclass(frozen=True)
class FlowerCentralDp(Reader):
    """The settings of the server; the unit is a client."""

    name = "flower-central-dp"
    source = "Flower's central differential privacy with fixed clipping"
    classes = ("DifferentialPrivacyServerSideFixedClipping", "DifferentialPrivacyClientSideFixedClipping")

    noise_multiplier: float = option(at_least=0, help="noise over clip norm, before the mean")
    clipping_norm: float = option(above=0, help="L2 norm that each update is clipped to")
    num_sampled_clients: int = option(at_least=1, help="clients of a round")
    delta: float = option(above=0, below=1, help="delta of the claim")
    epsilon: float | None = option(None, at_least=0, help="epsilon that is claimed over all rounds")
    rounds: int | None = option(None, at_least=1, help="rounds")
    population: int | None = option(None, at_least=1, help="clients that a round's are drawn from")
    sampling: Sampling | None = option(None, help="[default: fixed-size where population is stated, as Flower samples]")
    largest_weight: float | None = option(None, above=0, at_most=1, help="largest share of one client in the mean")
    relation: Relation = option("replace", help="of a mean over the clients that answered there is no other")

    def reading(self) -> Reading:
        explained = [rounds_in_words(self.rounds or 1, self.rounds is not None)]
        explained.append(
            "The server adds the noise, and sees every update without it: nothing is said against the server."
        )
        explained.extend(delta_in_words(self.delta, self.population, "client"))
        unknown = [COINS, PRECISION]
        if self.largest_weight is None:
            unknown.append(
                "whether the mean is plain: where clients weigh by their examples, the heaviest one moves it further "
                "than the noise is made for; give largest_weight"
            )
        does = self._does()
        if isinstance(does, GaussianMechanism) and self.num_sampled_clients * (self.largest_weight or 0) > 1:
            explained.append(
                f"The heaviest client has {self.largest_weight:g} of the mean, "
                f"{self.num_sampled_clients * (self.largest_weight or 0):g} times its share in a plain one, for which "
                f"the noise is made: {self.noise_multiplier:g} times the clip norm count as {does.noise_multiplier:g}."
            )
        return Reading(self.source, self.epsilon, self.delta, does, tuple(explained), tuple(unknown), divided=True)

    def _does(self) -> GaussianMechanism | Nothing:
        if self.relation != "replace":
            raise ValueError(
                "relation is 'add-remove'; Flower divides by the weights of the clients that answered, so without one "
                "the others count for more and the mean moves by up to 2C over their number: account for it under "
                "relation = replace"
            )
        if self.sampling == "poisson":
            raise ValueError(
                "sampling is 'poisson'; Flower divides by the weights of the clients that answered, and where coins "
                "draw them that may be a single one, while the noise is made for num_sampled_clients: leave sampling "
                "out, or say fixed-size"
            )
        if self.noise_multiplier == 0:
            return Nothing(NO_NOISE)
        if self.population is not None and self.population < self.num_sampled_clients:
            raise ValueError(
                f"population is {self.population}; it must be at least num_sampled_clients, {self.num_sampled_clients}"
            )
        rate = 1.0 if self.population is None else self.num_sampled_clients / self.population
        sampling = self.sampling or ("fixed-size" if rate < 1 else "none")
        weight = max(self.largest_weight or 0, 1 / self.num_sampled_clients)  # a mean has one of at least that
        multiplier = self.noise_multiplier / (self.num_sampled_clients * weight)
        return GaussianMechanism(multiplier, self.rounds or 1, sampling, rate, "client", self.relation)
