"""What all techniques that invert single updates share: the way from a view to claims.

The updates that a view holds are read (`observed.updates`), restated in the terms of candidates where those say what
columns mean (`candidates.restated`), inverted by the technique, and what is claimed is read back as values.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from leakledger.attacks.base import Abstained, Attack, AuxiliaryKnowledge, NotApplicable, Outcome, clients_of, concluded
from leakledger.attacks.candidates import by_candidates
from leakledger.attacks.gradient.owners import across_rounds, with_owners
from leakledger.attacks.observed.gradients import unsuitable
from leakledger.attacks.observed.repeats import with_repeats
from leakledger.attacks.observed.row_facts import every_row_facts
from leakledger.attacks.observed.single_logit import one_per_class
from leakledger.attacks.observed.update import Inverted, ObservedUpdate
from leakledger.attacks.observed.updates import ALGORITHM_OF, find_of_any_loss
from leakledger.preprocess.views import ModelSpec, PublicFacts, View

Finder = Callable[..., list[ObservedUpdate] | NotApplicable | Abstained]


class Inversion(Attack):
    """An attack on updates, each by itself, or with those of other rounds of the same rows where it
    `reads_rounds_together`. `find` is the reader of those that it can invert.

    `rounds` and `victims` restrict what is attacked.
    """

    find: ClassVar[Finder]
    reads_rounds_together: ClassVar[bool] = False
    rounds: tuple[int, ...] | None
    victims: tuple[str, ...] | None

    def unfit(self, public: PublicFacts) -> str:
        spec = public.model and one_per_class(public.model)
        reason = unsuitable(public.layout, spec, shared=False, any_loss=type(self).find is find_of_any_loss)
        if reason or spec is None or public.training is None:
            return reason or ""
        algorithm = public.training.algorithm
        if (read := ALGORITHM_OF.get(type(self).find, algorithm)) != algorithm:
            return f"it inverts what clients send under {read}, and they train by {algorithm}"
        return self.unfit_for(spec, local=algorithm == "fedavg")

    @classmethod
    def unfit_for(cls, spec: ModelSpec, local: bool) -> str:
        """Why no gradient of such a network, or sum of them over `local` steps, can be inverted; "" where it is not
        the kind of network that decides.
        """
        return ""

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        updates = type(self).find(view, knowledge, rounds=self.rounds, victims=self.victims)
        if not isinstance(updates, list):
            return updates
        if self.reads_rounds_together:
            updates = with_repeats(view, knowledge, updates, type(self).find)
        return concluded(self.inverted(view, knowledge, updates))

    def inverted(self, view: View, knowledge: AuxiliaryKnowledge, updates: Sequence[ObservedUpdate]) -> list[Inverted]:
        """The outcome for each update, in the terms of candidates; of a sum with whose its rows are."""

        def invert(some: Sequence[ObservedUpdate]) -> list[Inverted]:
            outcomes = self.invert_all(some, knowledge)
            return [with_owners(u, knowledge, o) for u, o in zip(some, outcomes, strict=True)]

        return across_rounds(by_candidates(view, knowledge, informed(view, knowledge, updates), invert))

    @abstractmethod
    def invert(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge) -> Inverted:
        """The rows behind one update, or why none are claimed."""

    def invert_all(self, updates: Sequence[ObservedUpdate], knowledge: AuxiliaryKnowledge) -> list[Inverted]:
        """The same for updates of one layout and model; overridden where it pays to work on them together."""
        return [self.invert(u, knowledge) for u in updates]


def informed(view: View, knowledge: AuxiliaryKnowledge, updates: Sequence[ObservedUpdate]) -> list[ObservedUpdate]:
    """The updates with what messages, and known rows, say of the rows behind each."""
    facts = every_row_facts(view, knowledge, [clients_of(u.victim) for u in updates])
    return [replace(u, facts=own) for u, own in zip(updates, facts, strict=True)]
