"""Scalers for numeric features, by the name that configurations use."""

from preprocess.scalers.base import Scaler
from preprocess.scalers.local import Local
from preprocess.scalers.pooled import Pooled
from preprocess.scalers.server_minmax import ServerMinMax
from preprocess.scalers.server_zscore import ServerZScore
from preprocess.scalers.zscore_sac import ZScoreSac

__all__ = ["SCALERS", "Scaler"]

SCALERS: dict[str, type[Scaler]] = {s.name: s for s in (Pooled, Local, ServerZScore, ServerMinMax, ZScoreSac)}
