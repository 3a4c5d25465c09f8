"""Portfolio: the exact attacks first; what they prove leaves the problem; TabLeak for the rest of the batch.

`linear_layer` and `span` cost milliseconds, and `spear` starts from the rows that they found. A proven row's share of
the gradient is subtracted (`remainder`): what is left is the gradient of a smaller batch, which TabLeak inverts better
than the whole. Where `spear` has rows for the whole batch whose residuals are small but no proof, these go before
guesses. Where nothing is found, under noise for one, the outcome is TabLeak's own.

Weights after local training (FedAvg) are solved by `linear_layer` and `span` alone, as the sums of gradients that they
are; where these do not give all rows, TabLeak on FedAvg fills in.

The adversary is honest but curious, and holds a client's update in the clear with the model and the public layout.
TabLeak needs the labels of the batch, granted or, in FedSGD, recovered; without them only exact rows are claimed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    NotApplicable,
    Outcome,
    RecordsClaim,
    claims_in,
    concluded,
)
from attacks.candidates import by_candidates
from attacks.fedavg import TabLeakFedAvg
from attacks.fedavg.targets import WEIGHTS
from attacks.linear_layer import LinearLayer
from attacks.portfolio.remainder import remainder
from attacks.span import Span
from attacks.span.certificate import granted
from attacks.spear import Spear
from attacks.spear.network import affine
from attacks.tableak import TabLeak
from attacks.tableak.ensemble import differing_share
from attacks.tableak.prior import Array, Rows, StructuralPrior
from attacks.tableak.targets import GRADIENT, MODEL, Target
from attacks.updates import find_updates
from preprocess.views import View

Refusal = NotApplicable | Abstained
NOTHING = "no exact attack proves a row behind the weights"
NEARLY = 1e-3  # a residual that rounding can leave of a row with a faint share of the gradient, a wrong row hardly


@dataclass(frozen=True)
class Portfolio(Attack):
    """The strongest attack on updates of a training: exact where that is possible, TabLeak elsewhere.

    `tableak` holds options of TabLeak, `tableak_fedavg` those of TabLeak on FedAvg; `starts` and `draws` are the budget
    of `spear` for one batch. The other options are those of every member. Raises ValueError for settings out of range.
    """

    technique = "portfolio"
    reference = "after SPEAR (Dimitrov et al., NeurIPS 2024) and TabLeak (Vero et al., ICML 2023)"
    asset = ("records",)
    topics = frozenset({GRADIENT, WEIGHTS, MODEL})
    assumes = (
        "honest but curious; a gradient, or the weights after local training, in the clear; labels known where exact "
        "attacks do not solve it"
    )

    starts: int = 3_000
    draws: int = 20_000
    tableak: Mapping[str, Any] = field(default_factory=dict)
    tableak_fedavg: Mapping[str, Any] = field(default_factory=dict)
    recover_labels: bool = False
    seed: int = 0
    device: str = "cpu"
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._spear(), self._tableak(), self._tableak_fedavg([])  # all check their options

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        targets = find_updates(view, knowledge, rounds=self.rounds, victims=self.victims)
        if not isinstance(targets, list):
            return targets
        if targets[0].rate:
            return concluded(self._trained(view, knowledge, targets))
        found = by_candidates(view, knowledge, targets, lambda posed, own: self.invert(posed, knowledge, own))
        return concluded(found)

    def invert(
        self, view: View, knowledge: AuxiliaryKnowledge, targets: Sequence[Target]
    ) -> list[RecordsClaim | Refusal]:
        """The outcome for each of `targets`: those that `view` offers."""
        exact = self._exact(view, knowledge, targets)
        if isinstance(exact, NotApplicable):
            return [exact] * len(targets)
        prior, proven = exact
        open = [i for i, t in enumerate(targets) if (c := proven[i]) is None or len(c.numbers) < t.rows]
        rests = [remainder(prior.layout, targets[i], encoded(prior, proven[i])) or targets[i] for i in open]
        outcomes: list[RecordsClaim | Refusal | None] = list(proven)
        for i, guessed in zip(open, self._tableak().invert(view, knowledge, rests), strict=True):
            known = proven[i]
            if known is None or not len(known.numbers):
                outcomes[i] = guessed
            elif isinstance(guessed, RecordsClaim):
                outcomes[i] = joined(prior, targets[i], known, guessed)
        return [o for o in outcomes if o is not None]

    def _trained(
        self, view: View, knowledge: AuxiliaryKnowledge, targets: Sequence[Target]
    ) -> list[RecordsClaim | Refusal]:
        """The outcome for each of `targets`, which are sums of gradients over local steps."""
        exact = by_candidates(view, knowledge, targets, lambda posed, own: self._sums(posed, knowledge, own))
        open = [i for i, t in enumerate(targets) if not isinstance(c := exact[i], RecordsClaim) or not solves(c, t)]
        if not open:
            return exact
        guessed = self._tableak_fedavg([targets[i] for i in open]).run(view, knowledge)
        claims = {(c.victim, c.round): c for c in claims_in(guessed) if isinstance(c, RecordsClaim)}
        refused = guessed if isinstance(guessed, NotApplicable | Abstained) else None
        layout = view.public.layout
        assert layout is not None  # find_updates refuses a view without
        for i in open:
            known, guess = exact[i], claims.get((targets[i].victim, targets[i].round))
            if not isinstance(known, RecordsClaim):
                exact[i] = guess or refused or known
            elif guess and known.layout is guess.layout:
                exact[i] = joined(StructuralPrior(layout, knowledge.bounds), targets[i], known, guess)
        return exact

    def _sums(
        self, view: View, knowledge: AuxiliaryKnowledge, targets: Sequence[Target]
    ) -> list[RecordsClaim | Refusal]:
        """What exact attacks claim about each of `targets`, which are sums of gradients over local steps."""
        exact = self._exact(view, knowledge, targets)
        if isinstance(exact, NotApplicable):
            return [exact] * len(targets)
        return [c if c is not None and len(c.numbers) else Abstained(NOTHING) for c in exact[1]]

    def _exact(
        self, view: View, knowledge: AuxiliaryKnowledge, targets: Sequence[Target]
    ) -> tuple[StructuralPrior, list[RecordsClaim | None]] | NotApplicable:
        """What the columns can be, and for each target a batch that explains the gradient, nearly at least, or the rows
        that one attack proved.
        """
        layout, spec = view.public.layout, view.public.model
        assert layout is not None  # find_updates refuses a view without
        assert spec is not None
        try:
            prior = StructuralPrior(layout, knowledge.bounds)
        except ValueError as error:
            return NotApplicable(str(error))
        relu = spec.activation == "relu"
        return prior, [self._exact_rows(prior, t, knowledge, relu) if spec.hidden else None for t in targets]

    def _exact_rows(
        self, prior: StructuralPrior, target: Target, known: AuxiliaryKnowledge, relu: bool
    ) -> RecordsClaim | None:
        layout = prior.layout
        shown = LinearLayer().attack(layout, target, known.bounds, relu)
        outcomes = [shown, Span().attack(layout, target, known.bounds, known.dependencies)] if relu else [shown]
        claims = [c for c in outcomes if isinstance(c, RecordsClaim)]
        if relu and not target.rate and not any(solves(c, target) and verified(c).all() for c in claims):
            start = np.concatenate([encoded(prior, None), *(encoded(prior, c) for c in claims)])
            claims += [c for c in [self._spear().attack(layout, target, start)] if isinstance(c, RecordsClaim)]
        if isinstance(shown, RecordsClaim) and target.rows > 1:  # its residuals are those of each row, not of the batch
            claims[0] = some(shown, verified(shown))
        top, whole = strongest(claims, target), next((c for c in claims if explains(c, target, NEARLY)), None)
        if top is None or whole is None or solves(top, target):
            return top
        return joined(prior, target, top, whole)

    def _spear(self) -> Spear:
        return Spear(starts=self.starts, draws=self.draws, seed=self.seed, device=self.device)

    def _tableak_fedavg(self, targets: Sequence[Target]) -> TabLeakFedAvg:
        own = {"seed": self.seed, "device": self.device, "progress": self.progress, **self.tableak_fedavg}
        rounds, victims = (tuple({getattr(t, name) for t in targets}) for name in ("round", "victim"))
        return TabLeakFedAvg(**own, rounds=rounds, victims=victims)

    def _tableak(self) -> TabLeak:
        own = {"seed": self.seed, "device": self.device, "recover_labels": self.recover_labels}
        return TabLeak(**{**own, "progress": self.progress, **self.tableak})


def strongest(claims: Sequence[RecordsClaim], target: Target) -> RecordsClaim | None:
    """The claim that solves the target, else the certain rows of the one with the most."""
    if not claims:
        return None
    top = max(claims, key=lambda c: (solves(c, target), certain(c, target).sum()))
    return top if solves(top, target) else some(top, certain(top, target))


def solves(claim: RecordsClaim, target: Target) -> bool:
    """Whether the claim's rows are the whole batch and together explain the gradient, each proven or not."""
    limit = max(LinearLayer.residual, Span.residual, Spear.residual)
    return explains(claim, target, granted(affine(target.gradient, 0), target.noise, limit))


def explains(claim: RecordsClaim, target: Target, limit: float) -> bool:
    """Whether the claim has as many rows as the batch, each with a residual up to `limit`."""
    return len(claim.numbers) == target.rows and bool((residual_of(claim) <= limit).all())


def verified(claim: RecordsClaim) -> NDArray[np.bool_]:
    return np.zeros(len(claim.numbers), bool) if claim.verified is None else claim.verified


def certain(claim: RecordsClaim, target: Target) -> NDArray[np.bool_]:
    """The rows that are verified; where the update carries noise also those of which only the numbers are unsure."""
    proven: NDArray[np.bool_] = (claim.category_entropy == 0).all(1)
    return verified(claim) | proven if target.noise else verified(claim)


def residual_of(claim: RecordsClaim) -> Array:
    return np.full(len(claim.numbers), np.inf) if claim.residual is None else claim.residual


def some(claim: RecordsClaim, chosen: NDArray[Any]) -> RecordsClaim:
    """The rows of `claim` that are `chosen`, by mask or number."""
    names = ("categories", "numbers", "category_entropy", "number_entropy", "residual", "verified")
    return replace(claim, **{n: a[chosen] for n in names if (a := getattr(claim, n)) is not None})


def encoded(prior: StructuralPrior, claim: RecordsClaim | None) -> Array:
    """The encoded rows (n, d) of a claim; none of no claim."""
    if claim is None:
        return np.zeros((0, prior.width))
    return prior.encode(Rows(claim.categories, claim.numbers))


def joined(prior: StructuralPrior, target: Target, proven: RecordsClaim, guessed: RecordsClaim) -> RecordsClaim:
    """Proven rows and guessed ones; where these are of the whole batch, those most like proven rows give way."""
    if len(guessed.numbers) == target.rows:
        known, rows = (Rows(c.categories, c.numbers) for c in (proven, guessed))
        double = linear_sum_assignment(differing_share(known, rows, prior.deviation))[1]
        guessed = some(guessed, np.delete(np.arange(target.rows), double))
    return replace(
        proven,
        categories=np.concatenate([proven.categories, guessed.categories]),
        numbers=np.concatenate([proven.numbers, guessed.numbers]),
        category_entropy=np.concatenate([proven.category_entropy, guessed.category_entropy]),
        number_entropy=np.concatenate([proven.number_entropy, guessed.number_entropy]),
        residual=np.concatenate([residual_of(proven), residual_of(guessed)]),
        verified=np.concatenate([verified(proven), verified(guessed)]),
    )
