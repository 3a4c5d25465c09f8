"""A Gaussian filter on the results of an NVFlare task, with the parameters of Flower's `LocalDpMod`.

NVFlare itself (2.8) has no Gaussian filter among `nvflare.app_common.filters`; platforms built on it add one with the
same four parameters and formula, so that settings can be shared by both. Read like `flower-local-dp`.
"""

from dataclasses import dataclass

from leakledger.audit.dp_claims.readers.flower_local_dp import FlowerLocalDp


@dataclass(frozen=True)
class NvflareGaussian(FlowerLocalDp):
    """clipping_norm, sensitivity, epsilon, delta of a filter that clips a weight difference and adds Gaussian noise."""

    name = "nvflare-gaussian"
    source = "a Gaussian filter of NVFlare"
    classes = ("LocalDifferentialPrivacy",)
