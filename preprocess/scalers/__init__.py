"""Scalers for numeric features, by the name that configurations use.

A scaler has up to four variants: every row in one place (`pooled`), each client by itself (`local`), and parties that
tell each other what it takes, in the clear (`federated-...`) or hidden (`zscore-sac`; `ppf-...` under encryption). What
it does is named last, or is the option `by` of the first two. `ALIASES` are other names of the same, with the options
that they stand for; `ENCRYPTED` are those that need declared ranges and tenseal.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from leakledger.preprocess.scalers.base import Scaler
from leakledger.preprocess.scalers.encrypted import EncryptedScaler
from leakledger.preprocess.scalers.federated_minmax import FederatedMinMax
from leakledger.preprocess.scalers.federated_robust import FederatedRobust
from leakledger.preprocess.scalers.federated_yeo_johnson import FederatedYeoJohnson
from leakledger.preprocess.scalers.federated_zscore import FederatedZScore
from leakledger.preprocess.scalers.local import Local
from leakledger.preprocess.scalers.one_party import BY
from leakledger.preprocess.scalers.pooled import Pooled
from leakledger.preprocess.scalers.ppf_minmax import PpfMinMax
from leakledger.preprocess.scalers.ppf_robust import PpfRobust
from leakledger.preprocess.scalers.ppf_zscore import PpfZScore
from leakledger.preprocess.scalers.zscore_sac import ZScoreSac

__all__ = ["ALIASES", "ENCRYPTED", "SCALERS", "Scaler", "canonical"]

SCALERS: dict[str, type[Scaler]] = {
    s.name: s
    for s in (
        Pooled,
        Local,
        FederatedZScore,
        FederatedMinMax,
        FederatedRobust,
        FederatedYeoJohnson,
        ZScoreSac,
        PpfZScore,
        PpfMinMax,
        PpfRobust,
    )
}
ENCRYPTED: Final = tuple(n for n, s in SCALERS.items() if issubclass(s, EncryptedScaler))
ALIASES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = MappingProxyType(
    {
        "server-zscore": ("federated-zscore", {}),
        "server-minmax": ("federated-minmax", {}),
        **{f"{where}-{by}": (where, {"by": by}) for where in ("pooled", "local") for by in BY},
    }
)


def canonical(name: str) -> tuple[str, Mapping[str, Any]]:
    """The name under which results have a scaler, and the options that `name` stands for; others as they are."""
    return (name, {}) if name in SCALERS else ALIASES.get(name, (name, {}))
