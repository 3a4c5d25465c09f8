"""Scalers for numeric features, by the name that configurations use."""

from leakledger.preprocess.scalers.base import Scaler
from leakledger.preprocess.scalers.local import Local
from leakledger.preprocess.scalers.pooled import Pooled
from leakledger.preprocess.scalers.server_minmax import ServerMinMax
from leakledger.preprocess.scalers.server_zscore import ServerZScore
from leakledger.preprocess.scalers.zscore_sac import ZScoreSac

__all__ = ["SCALERS", "Scaler"]

SCALERS: dict[str, type[Scaler]] = {s.name: s for s in (Pooled, Local, ServerZScore, ServerMinMax, ZScoreSac)}
