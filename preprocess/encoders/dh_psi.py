"""`dh-psi`: unique identifiers around a ring, aligned by labelled Diffie-Hellman set intersections: the fast way.

The alignment of "Privacy-preserving tabular data transformation", section 7.1 (every pair of parties intersects its
dictionaries in both directions through the server, and the lowest number of a value wins), with the intersection of
`crypto.dh_psi` in place of homomorphic encryption. Same result as `apsi`, same things learnt, but that an answer's size
tells the receiver how many values the sender has even where only one direction runs ("upward"), in which `apsi` pads.

Each party learns which of its values another holds, and that party's number of them. The server relays blinded
elements and sealed labels: it learns how many values each party has in total, from sizes. All features go in one
message, so nobody learns the share of a feature from these. Messages: 2n (`ring_ids`) and 2 for each of n(n - 1)
intersections; the paper's 4n^2 - 2n - 1 counts four per intersection, which `apsi` needs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakledger.preprocess.crypto.dh_psi import intersect
from leakledger.preprocess.encoders.ring_ids import routed
from leakledger.preprocess.encoders.ring_psi import Elements, PairwiseEncoder
from leakledger.preprocess.federation import At, Federation, Public


@dataclass(frozen=True)
class DhPsi(PairwiseEncoder):
    name = "dh-psi"
    reference = "Privacy-preserving tabular data transformation, section 7.1; Jarecki and Liu 2010"
    said_to_share = "about the sum of dictionary sizes; of its values, those that others hold too (as apsi: table 5)"

    def intersect(
        self, fed: Federation, sets: Mapping[str, At[Elements]], pairs: Sequence[tuple[str, str]], bound: Public[int]
    ) -> dict[tuple[str, str], At[Elements]]:
        return intersect(fed, sets, pairs, **{"via": None, **routed(fed, self.route)})
