"""Atoms: whole rows of a client's training batch, exactly, each with a certificate, whatever the activation.

The gradient of a batch is a sum of the gradients of its rows, and the gradient of a known row is known but for its
label: an atom of a linear system over all layers, with thousands of equations. Candidates come from the first layer's
row space (as in `span`, whose step to them needs no ReLU), from other attacks, from single rows that come down to the
spaces of two layers (`annealed`), or from random starts. A row of the batch lies in the row and column spaces of
*every* layer, which no mixture of rows does; directions that the categories leave open are closed by that. What remains
is solved again, without the rows found. After SPEAR (Dimitrov et al., NeurIPS 2024): its factorisation of each layer,
without its use of ReLU's zeros.

The adversary is honest but curious. It holds the gradient in the clear, the model and the public layout of the encoded
columns; it needs no labels. Exact while the batch is below the width of two hidden layers, up to nine tenths of it on
Adult with ReLU; earlier behind tanh and sigmoid, on tables of numbers alone, and with one hidden layer, where the batch
must be below the number of directions of the columns. Rows that occur twice are claimed twice, and not verified.
"""

from dataclasses import dataclass

import numpy as np

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, ControlSpec, NotApplicable, check_seed
from leakledger.attacks.gradient.all_layers.batch import remaining
from leakledger.attacks.gradient.all_layers.certificate import certified
from leakledger.attacks.gradient.atoms.proposals import Budget, row_basis
from leakledger.attacks.gradient.atoms.search import solve
from leakledger.attacks.gradient.exact.activations import ACTIVATIONS
from leakledger.attacks.gradient.exact.candidates import MATCH_TOLERANCE
from leakledger.attacks.gradient.exact.choices import possible_choices
from leakledger.attacks.gradient.exact.claim import claim, decided, undecided
from leakledger.attacks.gradient.inversion import Inversion
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.update import Inverted, ObservedUpdate, behind
from leakledger.attacks.observed.updates import TOLD, find_gradients
from leakledger.preprocess.messages import ClientGradient
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import ModelSpec


@dataclass(frozen=True)
class Atoms(Inversion):
    """Exact recovery of rows; a claim may hold fewer than the batch has.

    `rounds` and `victims` restrict what is attacked. Rows with a code that several candidates have are claimed and not
    verified, unless known dependencies decide between those. Raises ValueError for settings out of range.
    """

    technique = "atoms"
    reference = "after Dimitrov, Baader, Müller, Vechev: SPEAR: Exact Gradient Inversion of Batches, NeurIPS 2024"
    asset = ("records",)
    reads = (ClientGradient, *TOLD)
    controls = (ControlSpec("records"),)
    assumes = "honest but curious; the gradient of one batch in the clear; a multilayer perceptron of any activation"
    find = staticmethod(find_gradients)

    budget: int = option(2 * 10**8, at_least=1, help="pairs of half combinations of categories that are compared")
    candidates: int = option(2**17, at_least=1, help="combinations of categories that are kept, at about 2 kB each")
    attempts: int = option(
        6, at_least=0, help="random starts of the search for open numbers, a thousand each; 0: no annealing either"
    )
    match_tolerance: float = option(
        MATCH_TOLERANCE, above=0, help="distance of a combination of categories from the row space"
    )
    seed: int = 0
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_options(self)
        check_seed(self.seed)

    @classmethod
    def unfit_for(cls, spec: ModelSpec, local: bool) -> str:
        if not spec.hidden or spec.activation not in ACTIVATIONS:
            return f"a model with hidden layers is needed, not {spec.activation} on {spec.hidden}"
        if spec.norm != "none":
            return f"no norm may stand before an activation, and here it is {behind(spec)}: see span"
        return ""

    def invert(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge, known: Array | None = None) -> Inverted:
        """The rows of one update. `known` (n, d), encoded: rows that may be in the batch, to start from."""
        source = f"the gradient of {update.whose} in round {update.round}"
        hidden = update.model.hidden
        if reason := self.unfit_for(update.model, update.schedule is not None):
            return NotApplicable(reason)
        whole = remaining(update, update.gradient, update.rows, [update.rows] * (len(hidden) + 1))
        if isinstance(whole, str):
            return Abstained(f"{source}: {whole}")
        if not whole.spaces.full:
            return Abstained(f"{source}: no layer of {hidden} has a direction that a batch of {update.size} leaves")
        known = np.zeros((0, update.layout.width)) if known is None else np.asarray(known, np.float64)
        found, left = solve(whole, known, self._budget(knowledge), np.random.default_rng([self.seed, update.round]))
        if not len(found):
            return Abstained(f"{source}: no candidate lies in the spaces of all layers, of rank {whole.rank}")
        rows, residual, proven, exact = certified(whole, found, left)
        right, open = row_basis(whole.spaces.layers[0]), undecided(update.layout, rows)
        if len(right):  # of none that noise leaves, all codes are 0
            choices = possible_choices(update.layout, right, knowledge.dependencies, self.budget)
            rows, open = decided(update.layout, rows, right, choices)
        times = np.repeat(np.arange(len(rows)), found.counts.sum(1))
        return claim(update, rows.where(times), residual[times], proven[times], exact[times], open[times])

    def _budget(self, knowledge: AuxiliaryKnowledge) -> Budget:
        return Budget(
            self.budget,
            self.candidates,
            self.attempts,
            self.match_tolerance,
            knowledge.bounds,
            knowledge.dependencies,
        )
