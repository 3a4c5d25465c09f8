"""`tally-counts`: which values each party holds, and how often, from the counts that it sent. An example."""

from dataclasses import dataclass

from leakledger.attacks.base import Abstained, Attack, AuxiliaryKnowledge, ControlSpec, Outcome, VocabularyClaim
from leakledger.preprocess.options import option
from leakledger.preprocess.views import View
from leakledger_tally.messages import TallyCounts


@dataclass(frozen=True)
class TallyCountsRead(Attack):
    fewest: int = option(1, at_least=1, help="rows that must hold a value for it to be claimed")

    technique = "tally-counts"
    reference = "an example"
    asset = ("vocabulary",)
    reads = (TallyCounts,)
    controls = (ControlSpec("vocabulary", encoder="tally"),)
    assumes = "honest but curious server"

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        claims = []
        for message in view.received(TallyCounts):
            for feature, counts in message.payload.counts.items():
                held = {v: n for v, n in counts.items() if n >= self.fewest}
                rows, evidence = tuple(map(float, held.values())), (message.sequence,)
                # certain: the sender says so itself, in the clear
                claims.append(VocabularyClaim(message.sender, feature, tuple(held), evidence, rows, certain=True))
        return claims or Abstained("nobody told counts")
