"""TabLeak on federated averaging: reconstructs a client's rows from the weights after its local training.

The FedAvg experiment of Vero et al. (ICML 2023, section 4 and appendix B), which builds on Dimitrov et al. (Data
leakage in federated averaging, TMLR 2022). Restarts look for rows of every epoch such that local training on them,
simulated step by step, moves the weights in the observed direction; a prior holds the epochs' mean rows together. Then
each restart merges its epochs, restarts are matched to the best one and pooled by the median, as in TabLeak.

By default restarts have a head start: they search on one step in place of the whole training first
(`tableak_fedavg.surrogate`), then go on from the rows found there, the same in every epoch, on the simulated training.
The paper simulates the training from the beginning (`surrogate=False`), which takes several times as long and found
less wherever both were measured (`leakledger benchmark fedavg_long`).

The adversary is honest but curious. It holds a client's weights in the clear and the model that the training began
from, knows the training settings, the public layout, and the labels of every local batch in order; it may know bounds
of numeric features. The model is a multilayer perceptron with cross-entropy loss. Approximate, and the more so the more
local steps there are.

The paper chooses the weight of the prior by the accuracy, with the truth at hand. Here the adversary chooses by what it
can measure: the loss of the merged rows, as whole table rows, on the first few restarts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

import numpy as np

from leakledger.attacks.base import (
    Abstained,
    AuxiliaryKnowledge,
    ControlSpec,
    NotApplicable,
    Outcome,
    RecordsClaim,
    check_device,
    check_seed,
    concluded,
    counter,
)
from leakledger.attacks.gradient.inversion import Inversion
from leakledger.attacks.gradient.matching.ensemble import diverged, lower_median, matching_order, pooled_claim
from leakledger.attacks.gradient.matching.restarts import DTYPES
from leakledger.attacks.gradient.matching.room import room
from leakledger.attacks.gradient.tableak_fedavg.search import Search
from leakledger.attacks.observed.gradients import unsuitable
from leakledger.attacks.observed.tabular import Array, StructuralPrior
from leakledger.attacks.observed.update import Inverted, ObservedUpdate
from leakledger.attacks.observed.updates import TOLD, find_trainings
from leakledger.preprocess.messages import ClientWeights, SummedUpdate
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import ModelSpec, View

PUBLISHED_WEIGHTS = (0.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001)


@dataclass(frozen=True)
class TabLeakFedAvg(Inversion):
    """Inversion of local training for tabular FedAvg; but for `surrogate`, the paper's settings by default.

    Restarts take `iterations` on the surrogate, then `refinement` on the simulated training; without `surrogate`, and
    where training is a single step, `iterations` in all. `prior_weights` are the weights of the prior between epochs to
    choose from, `trials` the restarts on which they are compared; a single weight, or a single epoch, needs no choice.
    `tied` gives all epochs one set of rows instead, in orders that agree with the labels: exact where an epoch is one
    batch, and near it while the weights hardly move; no prior is needed then. Trainings on more than `max_rows` rows,
    counted over all epochs, are left alone. Other options are those of `TabLeak`. How victims and restarts are grouped
    to fit `memory` changes nothing but rounding errors. Raises ValueError for settings out of range.
    """

    technique = "tableak_fedavg"
    reference = (
        "Vero, Balunović, Dimitrov, Vechev: TabLeak, ICML 2023, appendix B; "
        "Dimitrov, Balunović, Konstantinov, Vechev: Data Leakage in Federated Averaging, TMLR 2022; "
        "Zhu, Yao, Blaschko: Surrogate Model Extension, ICML 2023"
    )
    asset = ("records",)
    reads = (ClientWeights, *(kind for kind in TOLD if kind is not SummedUpdate))  # of sums, those of models
    controls = (ControlSpec("records"),)
    assumes = (
        "honest but curious; the weights after local training in the clear; the labels of every local batch known, in "
        "order; a multilayer perceptron"
    )
    find = staticmethod(find_trainings)

    restarts: int = option(15, at_least=1, help="starting points per training")
    iterations: int = option(1500, at_least=1, help="steps per restart, on the surrogate if there is one")
    surrogate: bool = option(True, help="a head start on one step in place of all; false as published")
    refinement: int = option(100, at_least=1, help="steps on the simulated training after a head start")
    learning_rate: float = option(0.06, above=0, help="step of the optimiser")
    prior_weights: tuple[float, ...] = option(
        PUBLISHED_WEIGHTS, at_least=0, help="weights of the prior between epochs to choose from"
    )
    trials: int = option(3, at_least=1, help="restarts that choose among the weights")
    tied: bool = option(False, help="one copy of the rows for all epochs")
    pooling: bool = option(True, help="the median of the restarts; false: the best one")
    softmax: bool = option(True, help="categories as distributions; without, free columns")
    dtype: str = option("float32", choices=DTYPES, help="precision of the restarts")
    tolerance: float = option(
        0.319, at_least=0, help="deviations between numbers that differ when restarts are matched"
    )
    max_rows: int = option(512, at_least=1, help="trainings on more rows, over all epochs, are left alone")
    memory: int | None = option(
        None, at_least=1, help="bytes in use at a time [default: 256 MiB, or half of what an accelerator has free]"
    )
    seed: int = 0
    device: str = "cpu"
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_options(self)
        check_seed(self.seed)
        if not self.prior_weights:
            raise ValueError("prior_weights is empty; it needs one or more numbers from 0")
        check_device(self.device)

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        """Without candidates in place of columns: these are inverted as they travelled."""
        updates = type(self).find(view, knowledge, rounds=self.rounds, victims=self.victims)
        return concluded(self.invert_all(updates, knowledge)) if isinstance(updates, list) else updates

    def invert(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge) -> Inverted:
        return self.invert_all([update], knowledge)[0]

    def invert_all(self, updates: Sequence[ObservedUpdate], knowledge: AuxiliaryKnowledge) -> list[Inverted]:
        """The outcome for each of `updates`, which share layout and model; those of one schedule run together."""
        layout, spec = updates[0].layout, updates[0].model
        if reason := unsuitable(layout, spec):
            return [NotApplicable(reason)] * len(updates)
        try:
            prior = StructuralPrior(layout, knowledge.bounds, softmax=self.softmax)
        except ValueError as error:
            return [NotApplicable(str(error))] * len(updates)
        outcomes: dict[int, Inverted] = {i: no for i, u in enumerate(updates) if (no := self._refusal(u))}
        ready = {u: i for i, u in enumerate(updates) if i not in outcomes}
        for _, alike in groupby(sorted(ready, key=_schedule), key=_schedule):
            for update, *ends in self._reconstruct(spec, prior, list(alike)):
                outcomes[ready[update]] = self._conclude(prior, update, *ends)
        return [outcomes[i] for i in range(len(updates))]

    def _refusal(self, update: ObservedUpdate) -> NotApplicable | None:
        batch, total = f"{update.whose} in round {update.round}", update.training.total
        if update.members:
            return NotApplicable(f"{batch} train side by side: no schedule leads to the sum of their updates")
        if not len(update.labels):
            return NotApplicable(f"labels of {batch} are not known")
        if total > self.max_rows:
            return NotApplicable(f"{batch} trains on {total} rows, more than max_rows = {self.max_rows}")
        return None

    def _reconstruct(
        self, spec: ModelSpec, prior: StructuralPrior, updates: Sequence[ObservedUpdate]
    ) -> Iterator[tuple[ObservedUpdate, Array, Array]]:
        """Every update, the merged units (R, N, size) that its restarts ended at, and their losses (R,) as rows."""
        schedule = updates[0].training
        several = schedule.epochs > 1 and not self.tied and len(self.prior_weights) > 1
        choices = self.prior_weights if several else self.prior_weights[:1]
        trials = min(self.trials, self.restarts) if several else 0
        runs = len(choices) * trials + self.restarts - trials
        ahead = self.surrogate and len(schedule.steps) > 1
        work = self.restarts * self.iterations + runs * self.refinement if ahead else runs * self.iterations
        search = self._search(spec, prior, counter(self.progress, len(updates) * work))
        starts = search.head_start(updates, range(self.restarts), self.iterations) if ahead else None
        iterations = self.refinement if ahead else self.iterations
        end = partial(search.merged, updates, starts, iterations)
        trial_ends = [end([w] * len(updates), range(trials)) for w in choices]
        trial_losses = np.array([[part.sum() for part in losses] for _, losses in trial_ends])  # (choices, updates)
        chosen = np.where(np.isfinite(trial_losses), trial_losses, np.inf).argmin(0)
        others = end([choices[c] for c in chosen], range(trials, self.restarts))
        for i, (update, c) in enumerate(zip(updates, chosen, strict=True)):
            (units, losses), (more, more_losses) = trial_ends[c], others
            yield update, np.concatenate([units[i], more[i]]), np.concatenate([losses[i], more_losses[i]])

    def _search(self, spec: ModelSpec, prior: StructuralPrior, advance: Callable[[int], None]) -> Search:
        return Search(
            spec,
            prior,
            seed=self.seed,
            learning_rate=self.learning_rate,
            tied=self.tied,
            tolerance=self.tolerance,
            device=self.device,
            dtype=DTYPES[self.dtype],
            memory=room(self.memory, self.device),
            advance=advance,
        )

    def _conclude(
        self, prior: StructuralPrior, update: ObservedUpdate, units: Array, losses: Array
    ) -> RecordsClaim | Abstained:
        """The claim that the restarts of one update support."""
        if refusal := diverged(update, units, losses):
            return refusal
        best = int(losses.argmin())
        order = matching_order(prior.project(units), best, self.tolerance * prior.deviation)
        units = np.take_along_axis(units, order[..., None], axis=1)
        rows = prior.project(lower_median(units) if self.pooling else units[best])
        return pooled_claim(prior, update, units, rows)


def _schedule(update: ObservedUpdate) -> tuple[int, int, int, float, float]:
    s = update.training
    return s.rows, s.epochs, s.batch, s.rate, s.proximal
