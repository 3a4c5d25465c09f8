"""Encoders for categorical features, by the name that configurations use."""

from preprocess.encoders.apsi import Apsi
from preprocess.encoders.base import Encoder
from preprocess.encoders.bytes_norm import BytesNorm
from preprocess.encoders.dh_psi import DhPsi
from preprocess.encoders.fasttext import FastText
from preprocess.encoders.local import Local
from preprocess.encoders.mod_norm import ModNorm
from preprocess.encoders.otmp_psi import OtmpPsi
from preprocess.encoders.pooled import Pooled
from preprocess.encoders.rolling_hash import RollingHash
from preprocess.encoders.server_dictionary import ServerDictionary
from preprocess.encoders.target import Target
from preprocess.encoders.uhe import Uhe

__all__ = ["ENCODERS", "Encoder"]

ENCODERS: dict[str, type[Encoder]] = {
    e.name: e
    for e in (
        Pooled,
        Local,
        ServerDictionary,
        Uhe,
        DhPsi,
        OtmpPsi,
        Apsi,
        RollingHash,
        Target,
        BytesNorm,
        ModNorm,
        FastText,
    )
}
