"""TabLeak on federated averaging: reconstructs a client's rows from the weights after its local training.

The FedAvg experiment of Vero et al. (ICML 2023, section 4 and appendix B), which builds on Dimitrov et al. (Data
leakage in federated averaging, TMLR 2022). Restarts look for rows of every epoch such that local training on them,
simulated step by step, moves the weights in the observed direction; a prior holds the epochs' mean rows together. Then
each restart merges its epochs, restarts are matched to the best one and pooled by the median, as in TabLeak.

By default restarts have a head start: they search on one step in place of the whole training first
(`attacks.fedavg.surrogate`), then go on from the rows found there, the same in every epoch, on the simulated training.
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

from attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    NotApplicable,
    Outcome,
    RecordsClaim,
    check_device,
    check_least,
    check_positive,
    concluded,
    counter,
)
from attacks.fedavg.search import Search
from attacks.fedavg.targets import WEIGHTS, LocalTraining, find_trainings
from attacks.tableak.attack import DTYPES, LEAST
from attacks.tableak.ensemble import diverged, lower_median, matching_order, pooled_claim
from attacks.tableak.prior import Array, StructuralPrior
from attacks.tableak.targets import MODEL
from preprocess.views import ModelSpec, View

PUBLISHED_WEIGHTS = (0.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001)


@dataclass(frozen=True)
class TabLeakFedAvg(Attack):
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
    topics = frozenset({WEIGHTS, MODEL})
    assumes = (
        "honest but curious; the weights after local training in the clear; the labels of every local batch known, in "
        "order; a multilayer perceptron"
    )

    restarts: int = 15
    iterations: int = 1500
    surrogate: bool = True
    refinement: int = 100
    learning_rate: float = 0.06
    prior_weights: tuple[float, ...] = PUBLISHED_WEIGHTS
    trials: int = 3
    tied: bool = False
    pooling: bool = True
    softmax: bool = True
    seed: int = 0
    device: str = "cpu"
    dtype: str = "float32"
    tolerance: float = 0.319
    max_rows: int = 512
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None
    memory: int = 2**28
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_least(self, {**LEAST, "trials": 1, "refinement": 1})
        check_positive(self, "learning_rate")
        if not self.prior_weights or not all(0 <= w < np.inf for w in self.prior_weights):
            raise ValueError(f"prior_weights is {self.prior_weights}; it needs one or more finite numbers from 0")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not one of {sorted(DTYPES)}")
        check_device(self.device)

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        found = find_trainings(view, knowledge, rounds=self.rounds, victims=self.victims)
        if not isinstance(found, list):
            return found
        trainings = [t for t in found if t.schedule.total <= self.max_rows]
        if not trainings:
            least = min(t.schedule.total for t in found)
            return NotApplicable(f"every client trains on more than max_rows = {self.max_rows} rows, {least} at least")
        layout, spec = view.public.layout, view.public.model
        assert layout is not None  # find_trainings refuses a view without
        assert spec is not None
        try:
            prior = StructuralPrior(layout, knowledge.bounds, softmax=self.softmax)
        except ValueError as error:
            return NotApplicable(str(error))
        outcomes = [
            self._conclude(prior, *member)
            for _, alike in groupby(sorted(trainings, key=_schedule), key=_schedule)
            for member in self._reconstruct(spec, prior, list(alike))
        ]
        return concluded(outcomes)

    def _reconstruct(
        self, spec: ModelSpec, prior: StructuralPrior, trainings: Sequence[LocalTraining]
    ) -> Iterator[tuple[LocalTraining, Array, Array]]:
        """Every training, the merged units (R, N, size) that its restarts ended at, and their losses (R,) as rows."""
        schedule = trainings[0].schedule
        several = schedule.epochs > 1 and not self.tied and len(self.prior_weights) > 1
        choices = self.prior_weights if several else self.prior_weights[:1]
        trials = min(self.trials, self.restarts) if several else 0
        runs = len(choices) * trials + self.restarts - trials
        ahead = self.surrogate and len(schedule.steps) > 1
        work = self.restarts * self.iterations + runs * self.refinement if ahead else runs * self.iterations
        search = self._search(spec, prior, counter(self.progress, len(trainings) * work))
        starts = search.head_start(trainings, range(self.restarts), self.iterations) if ahead else None
        iterations = self.refinement if ahead else self.iterations
        end = partial(search.merged, trainings, starts, iterations)
        found = [end([w] * len(trainings), range(trials)) for w in choices]
        trial_losses = np.array([[part.sum() for part in losses] for _, losses in found])  # (choices, trainings)
        chosen = np.where(np.isfinite(trial_losses), trial_losses, np.inf).argmin(0)
        rest = end([choices[c] for c in chosen], range(trials, self.restarts))
        for i, (training, c) in enumerate(zip(trainings, chosen, strict=True)):
            (units, losses), (more, others) = found[c], rest
            yield training, np.concatenate([units[i], more[i]]), np.concatenate([losses[i], others[i]])

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
            memory=self.memory,
            advance=advance,
        )

    def _conclude(
        self, prior: StructuralPrior, training: LocalTraining, units: Array, losses: Array
    ) -> RecordsClaim | Abstained:
        """The claim that the restarts of one training support."""
        if refusal := diverged(training, units, losses):
            return refusal
        best = int(losses.argmin())
        order = matching_order(prior.project(units), best, self.tolerance * prior.deviation)
        units = np.take_along_axis(units, order[..., None], axis=1)
        rows = prior.project(lower_median(units) if self.pooling else units[best])
        return pooled_claim(prior, training, units, rows)


def _schedule(training: LocalTraining) -> tuple[int, int, int, float]:
    s = training.schedule
    return s.rows, s.epochs, s.batch, s.rate
