"""`uhe`: unique identifiers around a ring, one-hot encoded: no number means two things, but one value has several.

Source: "Privacy-preserving tabular data transformation", section 7.1, "Unique Identifier One-Hot Encoding". Each
party's values get columns of their own, so a value that k parties hold has k columns. Nobody learns another's values,
nor which are shared. The next party in the ring learns how many numbers its predecessors took together, so the second
learns the size of the first one's dictionaries exactly (section 8.4: `pad_to` and `noise` blur it); a server that
relays the ring in the clear learns every party's sizes. Everyone learns the sum. Messages: 2n - 1 among the parties and
one to the server (see `ring_ids`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import EncoderFit
from leakledger.preprocess.encoders.ring_ids import RingEncoder
from leakledger.preprocess.federation import At, Federation


@dataclass(frozen=True)
class Uhe(RingEncoder):
    name = "uhe"
    reference = "Privacy-preserving tabular data transformation, section 7.1"
    said_to_share = "about the sum of dictionary sizes; with its successor, the first one's size (table 5, section 8.4)"

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        allotted = self.allot(fed, schema, tables)
        ids = {p: fed.local(p, lambda a: a.ids, a) for p, a in allotted.own.items()}
        return self.encode(fed, ids, allotted.sizes)
