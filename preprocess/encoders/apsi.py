"""`apsi`: unique identifiers around a ring, aligned by asymmetric labelled set intersections under encryption.

Source: "Privacy-preserving tabular data transformation", section 7.1, with the intersection of `crypto.apsi` (Cong et
al. 2021). Every pair of parties runs it twice, so that both learn what they share; the labels are the ring's numbers,
and the lowest number of a value wins. All messages go through the server, which sees blinded points and ciphertexts.

All features go in one execution per direction: the paper's n(n - 1) executions do not depend on the number of features
either, and lengths tell nobody the share of a feature. What is learnt: each party, which of its values another one
holds and that one's number for them, which bounds how many values of each feature it has; the sender of an execution,
how many values the receiver has. As each is once the sender, the ciphertexts are as many as both numbers need; with
"upward" as many as the sum of all sizes needs, and their lengths hide how many values the sender has. Messages: 4 for
each of n(n - 1) executions and 2n - 1 on the ring, together 4n^2 - 2n - 1 as in table 5 (where the exponent is lost in
print), and one to the server (`ring_ids`). Needs tenseal, the extra `psi`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakledger.preprocess.crypto.apsi import intersect
from leakledger.preprocess.encoders.ring_ids import routed
from leakledger.preprocess.encoders.ring_psi import Elements, PairwiseEncoder
from leakledger.preprocess.federation import At, Federation, Public


@dataclass(frozen=True)
class Apsi(PairwiseEncoder):
    name = "apsi"
    reference = "Privacy-preserving tabular data transformation, section 7.1; Cong et al. 2021"
    said_to_share = "about the sum of dictionary sizes; of its values, those that others hold too (table 5)"
    extra = "psi"

    def intersect(
        self, fed: Federation, sets: Mapping[str, At[Elements]], pairs: Sequence[tuple[str, str]], bound: Public[int]
    ) -> dict[tuple[str, str], At[Elements]]:
        return intersect(fed, sets, pairs, bound, **{"via": None, **routed(fed, self.route)})
