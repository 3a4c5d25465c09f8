"""NVFlare's `PercentilePrivacy`: small weight differences become 0, large ones are cut off. Nothing is drawn."""

from dataclasses import dataclass

from leakledger.audit.dp_claims.readers.base import Nothing, Reader, Reading
from leakledger.preprocess.options import option

WHY = (
    "weights are cut off and no noise is added: the same data give the same update, so two neighbours whose updates "
    "differ are told apart for certain; besides, what is cut off is decided by a percentile of the data"
)


@dataclass(frozen=True)
class NvflarePercentile(Reader):
    """Has no epsilon, whatever the settings."""

    name = "nvflare-percentile"
    source = "NVFlare's PercentilePrivacy"
    classes = ("PercentilePrivacy",)

    percentile: float = option(10, at_least=0, at_most=100, help="differences below this percentile become 0")
    gamma: float = option(0.01, above=0, help="where the others are cut off")
    epsilon: float | None = option(None, at_least=0, help="epsilon that is claimed")
    delta: float = option(0.0, at_least=0, below=1, help="delta of the claim")

    def reading(self) -> Reading:
        return Reading(self.source, self.epsilon, self.delta, Nothing(WHY))
