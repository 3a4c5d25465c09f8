"""NVFlare's `AddNoiseToMinMax`: a client's extremes are moved outwards by a random share of themselves."""

from dataclasses import dataclass

from leakledger.audit.dp_claims.readers.base import Nothing, Reader, Reading
from leakledger.preprocess.options import option


@dataclass(frozen=True)
class NvflareMinMaxNoise(Reader):
    """Has no epsilon, whatever the settings."""

    name = "nvflare-min-max-noise"
    source = "NVFlare's AddNoiseToMinMax"
    classes = ("AddNoiseToMinMax",)

    min_noise_level: float = option(at_least=0, at_most=1, help="least share by which an extreme is moved")
    max_noise_level: float = option(at_least=0, at_most=1, help="largest share by which an extreme is moved")
    epsilon: float | None = option(None, at_least=0, help="epsilon that is claimed")
    delta: float = option(0.0, at_least=0, below=1, help="delta of the claim")

    def reading(self) -> Reading:
        low, high = self.min_noise_level, self.max_noise_level
        if low > high:
            raise ValueError(f"min_noise_level is {low}; it must be at most max_noise_level, {high}")
        why = (
            "the noise is bounded and grows with the value: a published positive maximum M comes for certain from one "
            f"between M/{1 + high:g} and M/{1 + low:g}, and nothing bounds how far one record moves an extreme; an "
            "outlier beyond what is possible without it gives itself away"
        )
        return Reading(self.source, self.epsilon, self.delta, Nothing(why))
