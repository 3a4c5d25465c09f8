"""Encoders for categorical features, by the name that configurations use."""

from preprocess.encoders.base import Encoder
from preprocess.encoders.local import Local
from preprocess.encoders.pooled import Pooled
from preprocess.encoders.server_dictionary import ServerDictionary

__all__ = ["ENCODERS", "Encoder"]

ENCODERS: dict[str, type[Encoder]] = {e.name: e for e in (Pooled, Local, ServerDictionary)}
