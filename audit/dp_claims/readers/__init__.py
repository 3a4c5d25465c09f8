"""Who reads which settings, by the name that `format` in a file or --format has."""

from leakledger.audit.dp_claims.readers.base import Reader
from leakledger.audit.dp_claims.readers.flower_central_dp import FlowerCentralDp
from leakledger.audit.dp_claims.readers.flower_local_dp import FlowerLocalDp
from leakledger.audit.dp_claims.readers.nvflare_gaussian import NvflareGaussian
from leakledger.audit.dp_claims.readers.nvflare_min_max_noise import NvflareMinMaxNoise
from leakledger.audit.dp_claims.readers.nvflare_percentile import NvflarePercentile
from leakledger.audit.dp_claims.readers.nvflare_svt import NvflareSvt
from leakledger.audit.dp_claims.readers.opacus import Opacus
from leakledger.audit.dp_claims.readers.plain import Plain

READERS: dict[str, type[Reader]] = {
    r.name: r
    for r in (
        Plain,
        FlowerLocalDp,
        FlowerCentralDp,
        Opacus,
        NvflareSvt,
        NvflareGaussian,
        NvflarePercentile,
        NvflareMinMaxNoise,
    )
}
