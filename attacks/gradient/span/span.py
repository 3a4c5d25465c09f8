"""Span: whole rows of a client's training data, exactly, each with a certificate, from one update.

Encoded categories give the rows away: a row of the batch lies in the row space of the first layer's gradient, and few
combinations of categories do. Each candidate predicts where ReLU silences it, and there its own direction can be read
off (the kernels of SPEAR, Dimitrov et al., NeurIPS 2024, without the blind search). The rows found must give back the
observed gradient.

The update is a FedSGD gradient, or the weights after a local training (FedAvg). The rows of a training lie in the row
space of all its steps together, whatever their batches, order and number; only on neurons that change sides on the way
a candidate predicts nothing (`neurons`). So local steps hide nothing from this attack.

Behind an activation norm that goes row by row the gradient is computed again in place of all this (`recomputed`). Where
neither is possible the row space is all that there is (`unweighed`), and no row is proven: local steps behind other
activations or norms, dropout, regressions without ReLU.

The adversary is honest but curious. It holds the update in the clear, the model that it began from and the public
layout of the encoded columns; it needs no labels, nor the loss except behind such a norm. Dependencies between features
help where they are known (`choices`). Exact while the rows are well below the width of the layer in number, and
independent.
"""

from dataclasses import dataclass, replace

import numpy as np

from leakledger.attacks.base import (
    Abstained,
    AuxiliaryKnowledge,
    ControlSpec,
    NotApplicable,
    check_seed,
)
from leakledger.attacks.gradient.exact.candidates import MATCH_TOLERANCE, find_candidates
from leakledger.attacks.gradient.exact.certificate import (
    RESIDUAL,
    determined_rows,
    explained,
    granted,
    resolved,
    singled_out,
)
from leakledger.attacks.gradient.exact.claim import claim, decided
from leakledger.attacks.gradient.exact.kernels import Candidates
from leakledger.attacks.gradient.exact.neurons import live_neurons
from leakledger.attacks.gradient.exact.polish import polished
from leakledger.attacks.gradient.exact.rows import EncodedRows, Mask, clear, snapped
from leakledger.attacks.gradient.inversion import Inversion
from leakledger.attacks.gradient.span.open_numbers import MOST
from leakledger.attacks.gradient.span.recomputed import (
    fitting,
    moved_scales,
    recomputed,
    settled,
    space_of,
    unfit,
)
from leakledger.attacks.gradient.span.search import search, settled_coordinates
from leakledger.attacks.gradient.span.taken_out import taken_out
from leakledger.attacks.gradient.span.unweighed import in_row_space, unexplained
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.gradients import unmodelled
from leakledger.attacks.observed.row_space import RANK_TOLERANCE, RowSpace, row_space
from leakledger.attacks.observed.update import Inverted, ObservedUpdate, followed_by_relu
from leakledger.attacks.observed.updates import TOLD, find_of_any_loss
from leakledger.preprocess.messages import BatchNormStatistics, ClientGradient, ClientWeights
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import FeatureLayout, ModelSpec


@dataclass(frozen=True)
class Span(Inversion):
    """Exact recovery of rows; a claim may hold fewer than the batch has.

    A larger `residual` is granted where an update carries rounding. `rounds` and `victims` restrict what is attacked.
    Rows that are linearly dependent, equal ones among them, lower the rank: the attack abstains. Rows with a code that
    several candidates have are claimed and not verified, unless known dependencies decide between those.
    Raises ValueError for settings out of range.
    """

    technique = "span"
    reference = "after Dimitrov, Baader, Müller, Vechev: SPEAR: Exact Gradient Inversion of Batches, NeurIPS 2024"
    asset = ("records",)
    reads = (ClientGradient, ClientWeights, BatchNormStatistics, *TOLD)
    controls = (ControlSpec("records"),)
    assumes = (
        "honest but curious; a gradient, or the weights after local training, in the clear; ReLU or a norm, or else "
        "nothing proven"
    )
    find = staticmethod(find_of_any_loss)

    budget: int = option(2 * 10**8, at_least=1, help="pairs of half combinations of categories that are compared")
    candidates: int = option(2**20, at_least=1, help="combinations of categories that are kept, at about 1 kB each")
    attempts: int = option(30, at_least=1, help="chunks of candidates that are searched")
    rank_tolerance: float = option(
        RANK_TOLERANCE, above=0, help="roundings of the gradient's precision that count as zero"
    )
    match_tolerance: float = option(
        MATCH_TOLERANCE, above=0, help="distance of a combination of categories from the row space"
    )
    residual: float = option(RESIDUAL, above=0, help="largest relative residual that certifies a row")
    seed: int = 0
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_options(self)
        check_seed(self.seed)

    @classmethod
    def unfit_for(cls, spec: ModelSpec, local: bool) -> str:
        if spec.hidden and alone(spec, local):
            return ""
        if spec.hidden and spec.norm != "none":
            return moved_scales(spec) if local else ""
        relu = followed_by_relu(spec) and spec.hidden
        return "" if relu else f"the first layer must be followed by ReLU, not {spec.activation} on {spec.hidden}"

    def invert(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge) -> Inverted:
        """The rows that candidates of the row space lead to, as far as they explain the update."""
        source = f"the update of {update.whose} in round {update.round}"
        hidden, local, layout = update.model.hidden, update.schedule is not None, update.layout
        normed = update.model.norm != "none" and bool(hidden)
        unweighed = bool(hidden) and alone(update.model, local)
        if reason := self.unfit_for(update.model, local) or (unfit(update) if normed and not unweighed else ""):
            return NotApplicable(f"{source}: {reason}")
        weight, bias = update.weights["0.weight"], update.weights["0.bias"]
        space = (space_of if normed and not unweighed else row_space)(update, self.rank_tolerance)
        if isinstance(space, str):
            return Abstained(f"{source}: {space}")
        candidates = self._candidates(update, space, knowledge)
        if isinstance(candidates, str):
            return Abstained(f"{source}: {candidates}")
        if unweighed:
            return self._unweighed(update, space, candidates)
        if normed:
            return self._recomputed(update, space, candidates, knowledge)
        neurons = live_neurons(space, weight, bias)
        if not len(neurons.left):
            return Abstained(f"{source}: no neuron of its first layer stands out from the noise")
        kernels = search(neurons, candidates, self.attempts, self.seed)
        coordinates = settled_coordinates(neurons, candidates, kernels)
        rows, residual, proven, exact = self._certify(space, layout, weight, bias, coordinates)
        if not proven.any():
            return Abstained(f"{source}: none of {len(candidates.categories)} candidate rows explains its part of it")
        rows, open = decided(layout, rows, space.right, candidates.choices)
        return claim(update, rows, residual, proven, exact, open)

    def _candidates(self, update: ObservedUpdate, space: RowSpace, knowledge: AuxiliaryKnowledge) -> Candidates | str:
        return find_candidates(
            update.layout,
            space.right,
            max(self.match_tolerance, space.precision * update.layout.width**0.5),
            self.budget,
            self.candidates,
            knowledge.bounds,
            knowledge.dependencies,
            space.precision,
        )

    def _recomputed(
        self, update: ObservedUpdate, space: RowSpace, candidates: Candidates, knowledge: AuxiliaryKnowledge
    ) -> Inverted:
        """The rows behind a first layer that an activation norm follows: all or none."""
        source = f"the update of {update.whose} in round {update.round}"
        rng = np.random.default_rng([self.seed, update.round])
        rows = self._completed(update, space, settled(update, space, candidates, rng), knowledge, rng)
        found = rows if isinstance(rows, str) else recomputed(update, space, rows, self.residual)
        if isinstance(found, str):
            return Abstained(f"{source}: {found}")
        rows, open = decided(update.layout, found.rows, space.right, candidates.choices)
        proven = np.full(len(rows), not update.noise)
        exact = resolved(update.layout, rows.encoded, found.error)
        if update.sums is not None:
            update = replace(update, evidence=(*update.evidence, update.sums.evidence))
        return claim(update, rows, np.full(len(rows), found.residual), proven, exact, open)

    def _completed(
        self,
        update: ObservedUpdate,
        space: RowSpace,
        rows: EncodedRows | str,
        knowledge: AuxiliaryKnowledge,
        rng: np.random.Generator,
    ) -> EncodedRows | str:
        """The rows that fit, and where they are fewer than the batch has, those that are found in what they leave."""
        if isinstance(rows, str) or update.model.norm == "batch" or len(rows) > MOST:
            return rows
        fits = fitting(update, space, rows)
        if len(fits) in (0, update.rows):
            return fits if len(fits) else rows
        known, rest = taken_out(update, space, fits)
        if rest is None:
            return known if len(known) == update.rows else rows
        if isinstance(smaller := space_of(rest, self.rank_tolerance), str):
            return rows
        if isinstance(candidates := self._candidates(rest, smaller, knowledge), str):
            return rows
        more = self._completed(rest, smaller, settled(rest, smaller, candidates, rng), knowledge, rng)
        return rows if isinstance(more, str) else known.plus(more)

    def _unweighed(self, update: ObservedUpdate, space: RowSpace, candidates: Candidates) -> Inverted:
        """Rows of the row space that nothing else is known of: none of them is proven."""
        rows = in_row_space(space, update.layout, candidates)
        if isinstance(rows, str):
            return Abstained(f"the update of {update.whose} in round {update.round}: {rows}")
        residual = np.full(len(rows), unexplained(space, candidates, rows.encoded))
        nothing = np.zeros(len(rows), bool)
        return claim(update, rows, residual, nothing, nothing)

    def _certify(
        self, space: RowSpace, layout: FeatureLayout, weight: Array, bias: Array, coordinates: Array
    ) -> tuple[EncodedRows, Array, Mask, Mask]:
        """The rows at `coordinates` (n, r) that fit the layout, the residual behind each, whether it proves them, and
        whether their numbers are exact.

        All rows are held against the whole gradient, a part of them against the row space, one
        another's kernels and what their inactive neurons show. How far noise turns the numbers of a part is not known.
        """
        points = coordinates @ space.right
        rows, valid = snapped(layout, points)
        rows, points = rows.where(valid), points[valid]
        if len(rows) == space.rank:
            encoded, whole, error = polished(space, layout, weight, bias, rows.encoded)
            rows = EncodedRows(rows.categories, encoded)
            single, _ = singled_out(space, weight, bias, encoded)
            residual = np.full(len(rows), whole)
            if np.isinf(error).all():  # of a polish that knows no errors
                error = determined_rows(space, layout, weight, bias, encoded)[1]
            exact = resolved(layout, encoded, error) & explained(space, layout, weight, bias, encoded)
        else:
            encoded, error = determined_rows(space, layout, weight, bias, rows.encoded)
            rows = EncodedRows(rows.categories, encoded)
            single, residual = singled_out(space, weight, bias, encoded)
            exact = resolved(layout, encoded, error) & (not space.noise)
        proven = single & (residual <= granted(space.gradient, space.noise, self.residual))
        return rows, residual, proven & clear(layout, points, rows) if space.noise else proven, exact


def alone(spec: ModelSpec, local: bool) -> bool:
    """Whether the row space is all that tells of the rows (`unweighed`): no neuron is known to be silent for a row, and
    the gradient cannot be computed again. Batch norm takes the rows out of that space.
    """
    known = followed_by_relu(spec) and not spec.dropout
    again = not local and not unmodelled(spec)
    return not known and not again and spec.norm != "batch"
