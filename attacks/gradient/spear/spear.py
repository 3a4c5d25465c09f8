"""Spear: whole rows of a client's training batch, exactly, each with a certificate, from the zeros that ReLU leaves.

After Dimitrov, Baader, Müller, Vechev: SPEAR: Exact Gradient Inversion of Batches, NeurIPS 2024. The gradient of a
layer is D^T [H | 1]; its rank shows the batch size, and ReLU's zeros in D betray its factors. The paper works on the
first layer, by draws of neurons on which a row is inactive. This attack departs from it: it works on the last hidden
layer, where H has full rank even if one-hot columns make the rows dependent, and gets the rows by inverting ReLU. There
it reads rows off pairs of neurons, looks for rows whose points lie in the gradient's row space (`points`), and only
then draws; with two classes, draws use equal neurons as well as inactive ones (`masks`).

The adversary is honest but curious. It holds the gradient in the clear, the model and the public layout of the encoded
columns; it needs no labels, and no categorical columns either. Exact while the batch is well below the layer's width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from leakledger.attacks.base import (
    Abstained,
    AuxiliaryKnowledge,
    ControlSpec,
    NotApplicable,
    check_device,
    check_seed,
    counter,
)
from leakledger.attacks.gradient.exact.certificate import RESIDUAL
from leakledger.attacks.gradient.exact.claim import claim
from leakledger.attacks.gradient.inversion import Inversion
from leakledger.attacks.gradient.spear.batch import unsolved
from leakledger.attacks.gradient.spear.certificate import certified
from leakledger.attacks.gradient.spear.search import Budget, solve
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.row_space import RANK_TOLERANCE
from leakledger.attacks.observed.update import Inverted, ObservedUpdate, behind, followed_by_relu
from leakledger.attacks.observed.updates import TOLD, find_gradients
from leakledger.preprocess.messages import ClientGradient
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import ModelSpec


@dataclass(frozen=True)
class Spear(Inversion):
    """Exact recovery of rows; a claim may hold fewer than the batch has.

    `rounds` and `victims` restrict what is attacked. `progress(done, total)` hears of starts and draws. Rows that occur
    twice are claimed once and never verified; nor are rows with a code that several candidates have.
    Raises ValueError for settings out of range.
    """

    technique = "spear"
    reference = "Dimitrov, Baader, Müller, Vechev: SPEAR: Exact Gradient Inversion of Batches, NeurIPS 2024"
    asset = ("records",)
    reads = (ClientGradient, *TOLD)
    controls = (ControlSpec("records"),)
    assumes = "honest but curious; the gradient of one batch in the clear; a multilayer perceptron with ReLU"
    find = staticmethod(find_gradients)

    starts: int = option(3_000, at_least=0, help="starts of the search for the points of one batch")
    draws: int = option(20_000, at_least=0, help="draws of the search for the masks of one batch")
    rank_tolerance: float = option(
        RANK_TOLERANCE, above=0, help="roundings of the gradient's precision that count as zero"
    )
    residual: float = option(RESIDUAL, above=0, help="largest relative residual that certifies a row")
    seed: int = 0
    device: str = "cpu"
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_options(self)
        check_seed(self.seed)
        check_device(self.device)

    @classmethod
    def unfit_for(cls, spec: ModelSpec, local: bool) -> str:
        if followed_by_relu(spec) and spec.hidden:
            return ""
        return f"a hidden layer must be followed by ReLU, not {behind(spec)} on {spec.hidden}"

    def invert(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge, known: Array | None = None) -> Inverted:
        """The rows of one update. `known` (n, d), encoded: rows that may be in the batch, to start from."""
        return self._invert(update, known, counter(self.progress, self.starts + self.draws))

    def invert_all(self, updates: Sequence[ObservedUpdate], knowledge: AuxiliaryKnowledge) -> list[Inverted]:
        advance = counter(self.progress, (self.starts + self.draws) * len(updates))
        return [self._invert(u, None, advance) for u in updates]

    def _invert(self, update: ObservedUpdate, known: Array | None, advance: Callable[[int], None]) -> Inverted:
        source = f"the gradient of {update.whose} in round {update.round}"
        if reason := self.unfit_for(update.model, update.schedule is not None):
            return NotApplicable(reason)
        batch = unsolved(update, self.rank_tolerance)
        if isinstance(batch, str):
            return Abstained(f"{source}: {batch}")
        rng = np.random.default_rng([self.seed, update.round, *update.victim.encode()])
        known = np.zeros((0, update.layout.width)) if known is None else np.asarray(known, np.float64)
        recovered = solve(batch, known, Budget(self.starts, self.draws, self.device, advance), rng)
        if not len(recovered):
            return Abstained(
                f"{source}: no row of {update.rows} was found from {self.starts} starts and {self.draws} draws"
            )
        rows, residual, proven, exact = certified(batch, recovered, self.residual)
        if not proven.any():
            return Abstained(f"{source}: no row of the {len(rows)} found explains its part of it")
        return claim(update, rows, residual, proven, exact)
