"""NVFlare's `SVTPrivacy`: a client releases a share of its weight differences, chosen and blurred by Laplace noise.

Read like version 2.8. With c = ceil(fraction parameters) released weights, each clipped to gamma, the release adds
Laplace noise of scale 2 gamma c / epsilon_release, where epsilon_release is c noise_var unless it is set. The parameter
`epsilon` pays for *choosing* the weights only, and the filter's own log adds both.

What is certain: two updates that are gamma and -gamma everywhere have the same magnitudes, so the choice tells nothing
between them, and c released weights have likelihoods exp(epsilon_release) apart in some outcome: at delta 0 no smaller
epsilon holds. What is not: that the choice costs `epsilon`. The sparse vector technique pays for c answers above the
threshold; the filter goes through all weights before it counts, finds more than c, and draws c of those. So no upper
bound is stated.
"""

from dataclasses import dataclass
from math import ceil, inf
from typing import Any

from leakledger.audit.dp_claims.readers.base import COINS, PRECISION, Pure, Reader, Reading, rounds_in_words
from leakledger.preprocess.options import option

METHOD = (
    "exact for the release of weights; the choice of weights comes on top, and has no bound that can be vouched for"
)

NO_WEIGHT = (
    "fraction is 0: no weight is released, which refutes nothing; what the filter sends in their place (nothing, an "
    "error, weights as they are) no settings tell"
)


@dataclass(frozen=True)
class NvflareSvt(Reader):
    """The settings of one client; `epsilon` is read as the claim unless `claimed_epsilon` is given."""

    name = "nvflare-svt"
    source = "NVFlare's SVTPrivacy"
    classes = ("SVTPrivacy",)

    parameters: int = option(at_least=1, help="weights of the model: what is released is a share of them")
    fraction: float = option(0.1, at_least=0, at_most=1, help="share of the weights that is released")
    epsilon: float = option(0.1, above=0, help="what choosing the weights is to cost")
    noise_var: float = option(0.1, above=0, help="what each released weight costs, unless epsilon_release is set")
    epsilon_release: float | None = option(None, above=0, help="what all released weights cost")
    epsilon_threshold: float | None = option(None, above=0, help="part of epsilon; changes nothing here")
    epsilon_query: float | None = option(None, above=0, help="part of epsilon; changes nothing here")
    gamma: float = option(1e-5, above=0, help="each weight is clipped to it; noise grows with it")
    tau: float = option(1e-6, help="threshold; changes nothing here")
    replace: bool = option(True, help="whether a weight may be drawn twice; changes nothing here")
    data_kinds: Any = option(None, help="changes nothing here")
    claimed_epsilon: float | None = option(None, at_least=0, help="epsilon that is claimed, where it is not epsilon")
    rounds: int | None = option(None, at_least=1, help="rounds that the client takes part in")

    def reading(self) -> Reading:
        rounds = self.rounds or 1
        released = ceil(self.parameters * self.fraction)
        claimed = self.epsilon if self.claimed_epsilon is None else self.claimed_epsilon
        if released == 0:
            return Reading(self.source, claimed, 0.0, Pure(0.0, inf, NO_WEIGHT))
        release = released * self.noise_var if self.epsilon_release is None else self.epsilon_release
        explained = (
            f"{released:,} of {self.parameters:,} weights are released in a round, which costs epsilon {release:,.8g} "
            f"at delta 0; choosing them is to cost {self.epsilon:g} (the parameter epsilon), and the filter's own "
            f"account is the sum, {release + self.epsilon:,.8g} a round.",
            rounds_in_words(rounds, self.rounds is not None),
        )
        unknown = (
            COINS,
            PRECISION,
            "what choosing costs: more weights than are released pass the threshold, which the sparse vector technique "
            "does not pay for",
            "whether the model has scalar weights: those leave as they are",
            "whether the version is 2.8 or later: before, weights were not clipped before the noise, and there was no "
            "epsilon at all",
        )
        return Reading(self.source, claimed, 0.0, Pure(rounds * release, inf, METHOD), explained, unknown)
