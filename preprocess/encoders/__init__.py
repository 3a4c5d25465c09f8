"""Encoders for categorical features, by the name that configurations use."""

from leakledger.preprocess.encoders.apsi import Apsi
from leakledger.preprocess.encoders.base import Encoder
from leakledger.preprocess.encoders.bytes_norm import BytesNorm
from leakledger.preprocess.encoders.dh_psi import DhPsi
from leakledger.preprocess.encoders.fasttext import FastText
from leakledger.preprocess.encoders.local import Local
from leakledger.preprocess.encoders.mod_norm import ModNorm
from leakledger.preprocess.encoders.otmp_psi import OtmpPsi
from leakledger.preprocess.encoders.pooled import Pooled
from leakledger.preprocess.encoders.rolling_hash import RollingHash
from leakledger.preprocess.encoders.server_dictionary import ServerDictionary
from leakledger.preprocess.encoders.target import Target
from leakledger.preprocess.encoders.uhe import Uhe

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
