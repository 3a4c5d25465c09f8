"""What no adversary can exceed: bounds on scores of records under a defense that has a guarantee.

A bound on reconstruction (`defenses.accounting.reconstruction`) is about *one* target row z of a batch, all others of
which the adversary knows, and about an event E(z, claim) of that row alone: the row is among the claimed ones, its
cell k is right. If the prior alone makes E happen with probability kappa, then no adversary does with more than
h(kappa), h = 1 - f of the mechanism. Which of our scores that bounds:

* `exact_rows` and `identical_rows` are means over the rows of a batch of such events: row i can only be counted where
  one of the m claimed rows is near enough to it. By linearity they are at most the mean of the h(kappa_i), however
  claims and rows are matched.
* `accuracy` and its two kinds are means over cells, each an event as well, *in batches of one row*. In larger ones
  every cell of a row may be matched with any of m claims: m guesses have almost any category right, kappa is near 1,
  and no bound is stated. Nor is one for `worst_record`, which picks its row with the truth in hand, nor for `rmse`.

*kappa* belongs to the prior that is stronger than any granted here: the adversary knows the very table of the client
and whatever was told before training, and not which rows were drawn (where labels are granted: of which label each
is). The target is then one of the rows left, all alike likely, which makes kappa a count: how many of them m claims can
be near to, at most. So the bound holds whatever messages of preprocessing, evaluation and other rounds told: they
depend on the table, not on the draw. Where all rows are drawn, that adversary knows the batch, and the bound is 1.

A batch is told in one update, and its rows are those that *were* drawn: neither the number of rounds nor sampling
enters its bound, but only the noise of one update. mu is C / (B sigma), with B the number that the sum is divided by:
the other world is one in which the target adds nothing, C away, not the 2 C between two rows. Where the whole update
of a client was clipped, mu is C / sigma at most: there the other world is one in which nobody adds anything. All in
exact arithmetic, for noise that is drawn afresh.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim, clients_of
from leakledger.audit.cells import TOLERANCE, Cells
from leakledger.audit.scoring.best_prior import digest
from leakledger.audit.scoring.records import IDENTICAL
from leakledger.audit.truth import Truth
from leakledger.defenses.accounting.chain import NoGuarantee, mechanism_of
from leakledger.defenses.accounting.mechanism import GaussianMechanism, Unit
from leakledger.defenses.accounting.reconstruction import most_success
from leakledger.preprocess.training.base import validation_rows

ROUNDED = 1 + 1e-5  # numbers count as near under the float32 rounding of encoded columns, too
MOST_PAIRS = 2**22  # numbers of rows that are compared pair by pair, for a sharper count
WHOLE_ROWS = {"exact_rows": TOLERANCE * ROUNDED, "identical_rows": IDENTICAL}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """Bounds on the scores of claims about the batches of one case. Equal ones are computed once."""

    truth: Truth = field(repr=False)
    knowledge: AuxiliaryKnowledge = field(repr=False)

    def of(self, claim: RecordsClaim, terms: Truth) -> dict[str, float]:
        """Metric -> its bound, of those that have one; `terms` is the truth in the terms of the claim."""
        mechanism = mechanism_of_batch(self.truth, claim.victim, claim.round)
        if mechanism is None:
            return {}
        granted = (claim.victim, claim.round) in self.knowledge.labels
        key = ("bounds", claim.victim, claim.round, granted, len(claim.categories), digest(claim))
        kept = self.truth.kept_baselines
        if key not in kept:
            labels = self.truth.labels(claim.victim, claim.round)[: len(terms.batch(claim.victim, claim.round))]
            own = self.truth.federated.train[claim.victim].labels
            table = Drawn(terms.held(claim.victim), own if granted else np.zeros(len(own)), self._held_back(len(own)))
            batch = labels if granted else np.zeros(len(labels))
            kept[key] = bounds_of_batch(mechanism, table, batch, len(claim.categories), terms.deviations)
        found: dict[str, float] = kept[key]
        return found

    def _held_back(self, rows: int) -> int:
        """How many of a client's rows validate and are never drawn."""
        training = self.truth.federated.public.training
        if training is None or training.patience is None:
            return 0
        return validation_rows(training.validation, rows)


def mechanism_of_batch(truth: Truth, victim: str, round: int) -> GaussianMechanism | None:
    """What the update of one batch went through; None where nothing bounds what it tells, and of sums of several
    clients, whose parts no bound here is of.
    """
    public = truth.federated.public
    if len(clients_of(victim)) > 1:
        return None
    training, rows = public.training, len(truth.batch(victim, round))
    if training is None or not public.mechanisms:
        return None
    divisor = training.batch_size if training.sampling == "poisson" else rows
    steps = len(truth.federated.batches[victim, round])
    found = list[GaussianMechanism]()
    for unit in get_args(Unit):
        with suppress(NoGuarantee):
            found.append(mechanism_of(public.mechanisms, unit=unit, rounds=1, batch_size=divisor, local_steps=steps))
    return min(found, key=lambda mechanism: mechanism.mu, default=None)


@dataclass(frozen=True)
class Drawn:
    """The n rows of a client that batches are drawn from, with their labels (n,), all the same where these are not
    granted. `held_back` of them, nobody knows which, are never drawn.
    """

    cells: Cells
    labels: NDArray[Any]
    held_back: int = 0

    def of(self, label: Any) -> Cells:
        return self.cells.take(np.flatnonzero(self.labels == label))


def bounds_of_batch(
    mechanism: GaussianMechanism, table: Drawn, labels: NDArray[Any], claims: int, deviations: Floats
) -> dict[str, float]:
    """Metric -> bound, of a batch with `labels` (B,) that is drawn without replacement; `claims`: rows claimed."""
    strata = [(table.of(y), int(b)) for y, b in zip(*np.unique(labels, return_counts=True), strict=True)]
    units = np.where(deviations > 0, deviations, 1.0)

    def success(near: int, own: Cells, batch: int) -> float:
        """h(kappa), where claims are near to so many of the rows that the target is one of."""
        left = len(own) - table.held_back - batch + 1
        return most_success(mechanism, near / left) if near < left else 1.0

    found = {
        metric: sum(b * success(covered(own, claims, tolerance * units), own, b) for own, b in strata) / len(labels)
        for metric, tolerance in WHOLE_ROWS.items()
    }
    if claims == len(labels) == 1:
        own = strata[0][0]
        kinds = _near_cells(own, WHOLE_ROWS["exact_rows"] * units)
        cells = {metric: [success(near, own, 1) for near in counts] for metric, counts in kinds.items() if counts}
        found |= {metric: float(np.mean(each)) for metric, each in cells.items()}
    return found


def _near_cells(table: Cells, tolerance: Floats) -> dict[str, list[int]]:
    """Of each column, how many rows one claimed cell can be right of, at most; by metric."""
    categories = [int(np.unique(column, return_counts=True)[1].max()) for column in table.categories.T]
    numbers = [in_one_window(column, t) for column, t in zip(table.numbers.T, tolerance, strict=True)]
    return {
        "accuracy": [*categories, *numbers],
        "categorical_accuracy": categories,
        "numeric_accuracy": numbers,
    }


def covered(table: Cells, claims: int, tolerance: Floats) -> int:
    """How many rows of the table `claims` rows can be near to, at most: no set of claims is near to more.

    Near is: the same categories, and no number further off than `tolerance` (L,). Rows of other categories take other
    claims, so the claims are dealt out one by one to where one more adds most.
    """
    gains: list[int] = []
    for rows in _groups(table.categories):
        most = _near_one(table.numbers[rows], tolerance) if len(rows) > 1 else 1
        whole, rest = divmod(len(rows), most)
        gains += [most] * min(whole, claims) + ([rest] if rest else [])
    return sum(sorted(gains, reverse=True)[:claims])


def _groups(categories: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """The numbers of the rows that have all categories alike, group by group."""
    if not categories.shape[1]:
        return [np.arange(len(categories))]
    _, which, sizes = np.unique(categories, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    return np.split(order, np.cumsum(sizes)[:-1])


def _near_one(numbers: Floats, tolerance: Floats) -> int:
    """Of rows (n, L), how many one claim can be near to, at most.

    Rows near to one claim are in a window of each column, and within twice the tolerance of each of them.
    """
    windows = [in_one_window(column, t) for column, t in zip(numbers.T, tolerance, strict=True)]
    most = min(windows, default=len(numbers))
    if most > 1 and len(windows) > 1 and len(numbers) ** 2 * len(windows) <= MOST_PAIRS:
        apart = np.abs(numbers[:, None] - numbers[None]) <= 2 * tolerance * ROUNDED
        most = min(most, int(apart.all(-1).sum(1).max()))
    return most


def in_one_window(column: Floats, tolerance: float) -> int:
    """How many of the numbers (n,) lie within `tolerance` of one point, at most."""
    ordered = np.sort(column)
    ends = np.searchsorted(ordered, ordered + 2 * tolerance * ROUNDED, side="right")
    return int((ends - np.arange(len(ordered))).max(initial=0))
