"""Portfolio: the exact attacks first; what they prove leaves the problem; for the rest of the batch the posterior where
the update is defended, and where it is not, TabLeak, and the posterior from where that ends.

A proven row's share of the gradient (`exact`) is subtracted (`remainder`), and that of rows which neurons show and only
one label fits (`peeling`): what is left is the gradient of a smaller batch, which TabLeak inverts better than the
whole. Its rows are where chains of the posterior begin, beside those of the row space; the likeliest batches of all are
kept, so that TabLeak's is left only for one that explains the update better. Under noise nothing can be proven; there
the defense, which is public, is part of the problem, and `posterior` solves it.

Weights after local training (FedAvg) are solved by `linear_layer` and `span` alone, as the sums of gradients that they
are; where these do not give all rows, TabLeak on FedAvg fills in, and the posterior goes on from there.

The adversary is honest but curious, and holds a client's update in the clear with the model and the public layout.
TabLeak needs the labels of the batch, granted or, in FedSGD, recovered; without them only exact rows are claimed, and
what the posterior has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from leakledger.attacks.base import (
    Abstained,
    AuxiliaryKnowledge,
    ControlSpec,
    NotApplicable,
    RecordsClaim,
)
from leakledger.attacks.gradient.atoms import Atoms
from leakledger.attacks.gradient.inversion import Inversion
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.portfolio.claims import encoded, joined, solves, some, verified
from leakledger.attacks.gradient.portfolio.exact import ExactAttacks, exact_rows
from leakledger.attacks.gradient.portfolio.peeling import peeled
from leakledger.attacks.gradient.posterior import Posterior
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.gradient.spear import Spear
from leakledger.attacks.gradient.tableak import TabLeak
from leakledger.attacks.gradient.tableak_fedavg import TabLeakFedAvg
from leakledger.attacks.observed.gradients import unmodelled
from leakledger.attacks.observed.row_facts import BEFORE
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.attacks.observed.update import Inverted, ObservedUpdate
from leakledger.attacks.observed.updates import TOLD, find_of_any_loss
from leakledger.preprocess.messages import BatchNormStatistics, ClientGradient, ClientWeights

NOTHING = "no exact attack proves a row behind the weights"


@dataclass(frozen=True)
class Portfolio(Inversion):
    """The strongest attack on updates of a training: exact where that is possible, TabLeak elsewhere.

    A field named for an attack holds options of that attack; the other fields are set in all of them that have them.
    Raises ValueError for settings out of range.
    """

    technique = "portfolio"
    reference = "after SPEAR (NeurIPS 2024), TabLeak (ICML 2023) and Balunović et al. (ICLR 2022)"
    asset = ("records",)
    reads = (ClientGradient, ClientWeights, BatchNormStatistics, *TOLD, *BEFORE)
    controls = (ControlSpec("records"),)
    assumes = (
        "honest but curious; a gradient, or the weights after local training, in the clear; labels known where exact "
        "attacks do not solve it"
    )
    find = staticmethod(find_of_any_loss)
    reads_rounds_together = True

    composed_of = ("linear_layer", "span", "atoms", "spear", "posterior", "tableak", "tableak_fedavg")

    linear_layer: Mapping[str, Any] = field(default_factory=dict)
    span: Mapping[str, Any] = field(default_factory=dict)
    atoms: Mapping[str, Any] = field(default_factory=dict)
    spear: Mapping[str, Any] = field(default_factory=dict)
    posterior: Mapping[str, Any] = field(default_factory=dict)
    tableak: Mapping[str, Any] = field(default_factory=dict)
    tableak_fedavg: Mapping[str, Any] = field(default_factory=dict)
    recover_labels: bool = False
    seed: int = 0
    device: str = "cpu"
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._exact(), self._posterior(), self._tableak(), self._tableak_fedavg()  # all check their options

    def invert(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge) -> Inverted:
        return self.invert_all([update], knowledge)[0]

    def invert_all(self, updates: Sequence[ObservedUpdate], knowledge: AuxiliaryKnowledge) -> list[Inverted]:
        """The outcome for each of `updates`, which share layout and model."""
        if unmodelled(updates[0].model):
            return [self._of_first_layer(u, knowledge) for u in updates]
        try:
            prior = StructuralPrior(updates[0].layout, knowledge.bounds)
        except ValueError as error:
            return [NotApplicable(str(error))] * len(updates)
        exact = [exact_rows(u, knowledge, prior, self._exact()) for u in updates]
        proven = [c if c is not None and len(c.numbers) else None for c in exact]
        if updates[0].schedule is not None:
            return self._filled_in(updates, knowledge, [c or Abstained(NOTHING) for c in proven])
        hidden = [i for i, u in enumerate(updates) if proven[i] is None and (u.mechanisms or u.guessed_size)]
        samples = self._posterior().invert_all([updates[i] for i in hidden], knowledge)  # of what is left to know
        sampled = {i: o for i, o in zip(hidden, samples, strict=True) if isinstance(o, RecordsClaim)}
        outcomes: list[Inverted | None] = [c or sampled.get(i) for i, c in enumerate(proven)]
        open = [
            i
            for i, u in enumerate(updates)
            if not isinstance(outcomes[i], RecordsClaim) or ((c := proven[i]) and len(c.numbers) < u.rows)
        ]
        linear = LinearLayer(**self.linear_layer)
        parts = {i: peeled(updates[i], knowledge, prior, proven[i], linear) for i in open}
        left = {i: rest for i, (_, rest) in parts.items() if rest is not None}
        guesses = dict(zip(left, self._tableak().invert_all([*left.values()], knowledge), strict=True)) if left else {}
        for i, (found, _) in parts.items():
            rest = self._improved(left[i], knowledge, guesses[i]) if i in left else None
            whole = _completed(prior, updates[i], found, rest)
            outcomes[i] = self._proven(updates[i], knowledge, prior, whole) if i in left else whole
        return [o for o in outcomes if o is not None]

    def _of_first_layer(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge) -> Inverted:
        """What the first layer alone tells, whatever follows it."""
        attacks = Span(**self.span), LinearLayer(**self.linear_layer)
        outcomes = [attack.invert(update, knowledge) for attack in attacks]
        claims = [o for o in outcomes if isinstance(o, RecordsClaim)]
        if not claims:
            return outcomes[-1]
        return max(claims, key=lambda c: (verified(c).sum(), solves(c, update), len(c.numbers)))

    def _improved(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge, guess: Inverted) -> Inverted:
        """What the posterior makes of an undefended batch, from where another attack ended; its guess where it has
        nothing to say.
        """
        if update.mechanisms or update.guessed_size or not isinstance(guess, RecordsClaim):
            return guess
        return self._continued(update, knowledge, guess)

    def _proven(
        self,
        update: ObservedUpdate,
        knowledge: AuxiliaryKnowledge,
        prior: StructuralPrior,
        claim: Inverted | None,
    ) -> Inverted | None:
        """The claim about an undefended batch, with the rows that its own lead `atoms` to, where these are more."""
        if update.mechanisms or update.open_size or not isinstance(claim, RecordsClaim) or verified(claim).all():
            return claim
        atoms = replace(self._exact().atoms, attempts=0)
        outcome = atoms.invert(update, knowledge, encoded(prior, claim))
        if not isinstance(outcome, RecordsClaim) or verified(outcome).sum() <= verified(claim).sum():
            return claim
        return joined(prior, update, some(outcome, verified(outcome)), claim)

    def _continued(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge, guess: Inverted) -> Inverted:
        """What the posterior makes of the batch from where another attack ended, if anywhere; else what that says."""
        outcome = self._posterior().inverted_from(update, knowledge, _start(guess))
        return outcome if isinstance(outcome, RecordsClaim) else guess

    def _filled_in(
        self, updates: Sequence[ObservedUpdate], knowledge: AuxiliaryKnowledge, outcomes: Sequence[Inverted]
    ) -> list[Inverted]:
        """The outcomes of local trainings, those that are not solved with what TabLeak on FedAvg and, from there, the
        posterior make of them.
        """
        filled = list(outcomes)
        open = [i for i, u in enumerate(updates) if not isinstance(c := filled[i], RecordsClaim) or not solves(c, u)]
        if not open:
            return filled
        todo = [updates[i] for i in open]
        guesses = self._tableak_fedavg().invert_all(todo, knowledge)
        sampled = self._posterior().invert_all(todo, knowledge, [_start(g) for g in guesses])
        for i, guess, outcome in zip(open, guesses, sampled, strict=True):
            known, better = filled[i], outcome if isinstance(outcome, RecordsClaim) else guess
            if not isinstance(known, RecordsClaim):
                filled[i] = better
            elif isinstance(better, RecordsClaim) and known.layout is better.layout:
                prior = StructuralPrior(updates[i].layout, knowledge.bounds)
                filled[i] = joined(prior, updates[i], known, better)
        return filled

    def _exact(self) -> ExactAttacks:
        spear = Spear(**{"seed": self.seed, "device": self.device, **self.spear})
        atoms = Atoms(**{"seed": self.seed, **self.atoms})
        return ExactAttacks(LinearLayer(**self.linear_layer), Span(**self.span), atoms, spear)

    def _posterior(self) -> Posterior:
        return Posterior(**{"seed": self.seed, "device": self.device, "progress": self.progress, **self.posterior})

    def _tableak(self) -> TabLeak:
        own = {"seed": self.seed, "device": self.device, "recover_labels": self.recover_labels}
        return TabLeak(**{**own, "progress": self.progress, **self.tableak})

    def _tableak_fedavg(self) -> TabLeakFedAvg:
        own = {"seed": self.seed, "device": self.device, "progress": self.progress}
        return TabLeakFedAvg(**{**own, **self.tableak_fedavg})


def _start(guess: Inverted) -> RecordsClaim | None:
    """A guess that chains can begin at, in the terms of the update."""
    return guess if isinstance(guess, RecordsClaim) and guess.layout is None else None


def _completed(
    prior: StructuralPrior, update: ObservedUpdate, found: RecordsClaim | None, guess: Inverted | None
) -> Inverted | None:
    """Rows that were found with those that are guessed of the rest, as far as there are both."""
    if found is None or not isinstance(guess, RecordsClaim):
        return found or guess
    return joined(prior, update, found, guess)
