"""One attack by one adversary in one case: what scoring and controls both need to know of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from leakledger.attacks.base import Attack, AuxiliaryKnowledge
from leakledger.audit.truth import Truth
from leakledger.preprocess.views import View


@dataclass(frozen=True)
class Play:
    """`attack` gets `view` and `knowledge`; `truth` stays with the audit."""

    attack: Attack
    view: View
    knowledge: AuxiliaryKnowledge
    truth: Truth

    @property
    def observers(self) -> tuple[str, ...]:
        return tuple(sorted(self.view.observers))


def view_of(observers: Sequence[str], truth: Truth) -> View:
    """What a set of observers of the case holds after it."""
    federated = truth.federated
    inputs = {p: dict(truth.input_of(p)) for p in federated.tables if p in observers}
    return federated.ledger.view(observers, federated.public, inputs=inputs, coins=federated.secrets)
