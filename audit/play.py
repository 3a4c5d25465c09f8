"""One attack by one adversary in one case: what scoring and controls both need to know of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from leakledger.attacks.base import Attack, AuxiliaryKnowledge
from leakledger.attacks.observed.aggregation import with_recovered
from leakledger.audit.scoring.best_prior import BestPrior
from leakledger.audit.truth import Truth
from leakledger.preprocess.views import View

DRAWS = 10  # batches over which the guesses of such a baseline are meant


@dataclass(frozen=True)
class Play:
    """`attack` gets `view` and `knowledge`; `truth` stays with the audit, and so does `prior`, the baseline of the case
    (none: one of its own, over so many `DRAWS`).
    """

    attack: Attack
    view: View
    knowledge: AuxiliaryKnowledge
    truth: Truth
    prior: BestPrior | None = None

    @property
    def baseline(self) -> BestPrior:
        """The best adversary with the prior alone, which controls are held against as scores are."""
        return self.prior or BestPrior(self.truth, self.knowledge, 0, DRAWS)

    @property
    def timed(self) -> bool:
        """Whether the attack looks at times, and the view has any."""
        return self.attack.reads_times and bool(self.view.times)

    @property
    def observers(self) -> tuple[str, ...]:
        return tuple(sorted(self.view.observers))


def view_of(observers: Sequence[str], truth: Truth) -> View:
    """What a set of observers of the case holds after it: with the updates that they take out of an aggregation."""
    federated = truth.federated
    inputs = {p: dict(truth.input_of(p)) for p in truth.holders if p in observers}
    return with_recovered(federated.ledger.view(observers, federated.public, inputs=inputs, coins=federated.secrets))
