"""Scores claimed records: matched accuracy (TabLeak, eq. 7 and 8), by type and column, worst case, rows, RMSE (eq. 9).

Claimed and true rows are matched by the assignment with the least total cost; the cost of a pair is the share of cells
that differ, a numeric cell when it is off by more than 0.319 standard deviations (closed interval). Of assignments with
the same cost, that with the most identical rows is taken, then that with the least distance of numbers, so that the
order of rows does not matter. Closeness is not transitive, and the best assignment may yet move a row that is claimed
as it is: which rows are recovered identically is matched apart, by identity alone. Of a batch whose size an adversary
does not know (Poisson sampling) more rows may be claimed than there are: those without a partner count as nothing, and
the baseline claims as many. A batch without rows has no score; what is proven of it is false. The baseline is the best
of several ways to claim a batch from the prior alone (`best_prior`), and is matched like an attack.

Of a sum over several clients, the rows of all their batches are claimed together, and scored together; whether the
client that a row is said to be of is the right one is a metric of its own (`owner`), of the rows that are identical.

The *worst record* is the accuracy of the one row of the batch that is recovered best, the worst case for a person: the
best of the matched rows, whichever it is. Luck favours the best of many rows, so its baseline is the best row of what
the prior alone claims, found in the same way. It needs the truth to find that row; an adversary has only the entropy
(`cells`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from leakledger.attacks.base import RecordsClaim, clients_of
from leakledger.audit.cells import TOLERANCE, Cells
from leakledger.audit.records import HEADLINE, CellDetail, Kind, Level
from leakledger.audit.scoring.cells import doubt_detail, feature_shares
from leakledger.audit.scoring.metrics import Measured
from leakledger.audit.truth import Truth
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

IDENTICAL = 0.001  # of a standard deviation: a recovered row with numbers this close is the row itself


@dataclass(frozen=True)
class Matched:
    """Claimed rows beside the true rows that they are matched to: m, as many as there are of both.

    `true` and `order` (m,): numbers of the true and the claimed rows. `categories` (m, K) and `numbers` (m, L): which
    cells are right. `error` (m, L): of numeric cells, in standard deviations. `claimed_identical` (claimed,): which of
    all claimed rows, in their own order, are identical to a true row of their own (`IDENTICAL`), matched to it or not.
    """

    true: NDArray[np.int64]
    order: NDArray[np.int64]
    categories: NDArray[np.bool_]
    numbers: NDArray[np.bool_]
    error: NDArray[np.float64]
    claimed_identical: NDArray[np.bool_]

    @property
    def hits(self) -> NDArray[np.bool_]:
        return np.hstack([self.categories, self.numbers])


@dataclass(frozen=True)
class PriorOnly:
    """What an adversary with the prior only gets: mean metrics, how far other guesses may be from them on one batch
    (standard deviation, of so many `draws`), and how often each true cell, (n, K) and (n, L), is right.
    """

    draws: int
    metrics: dict[str, float]
    spreads: dict[str, float]
    categories: NDArray[np.float64]
    numbers: NDArray[np.float64]


PriorOf = Callable[[RecordsClaim, Cells, Truth], PriorOnly]
"""The baseline of a claim: given the true rows of its batch and the truth, both in the claim's terms."""

BoundsOf = Callable[[RecordsClaim, Truth], Mapping[str, float]]
"""Metric -> what no adversary can exceed, of a claim and the truth in its terms; nothing where no defense bounds it."""


def unbounded(claim: RecordsClaim, truth: Truth) -> Mapping[str, float]:
    """No bound on anything."""
    return {}


def score_records(
    claims: Sequence[RecordsClaim], truth: Truth, prior_of: PriorOf, bounds_of: BoundsOf = unbounded
) -> Iterator[Measured]:
    """Every record metric of every claimed batch, the headline metric with the detail by cells."""
    public = truth
    for claim in claims:
        truth = public.in_terms_of(claim.layout)
        actual = truth.batch(claim.victim, claim.round)
        if not len(actual):
            yield from _of_no_rows(claim, truth)
            continue
        matched = compare(Cells(claim.categories, claim.numbers), actual, truth.deviations)
        prior, bounds = prior_of(claim, actual, truth), bounds_of(claim, truth)
        for metric, value in metrics(matched, len(actual)).items():
            about = ("records", metric, claim.victim, claim.round)
            found = Measured(
                *about,
                value,
                prior.metrics[metric],
                claim.evidence,
                spread=prior.spreads[metric],
                draws=prior.draws,
                level=level_of(truth.layout),
                bound=bounds.get(metric),
            )
            if metric == HEADLINE["records"]:
                certain, wrong = proven(claim, matched)
                detail = cell_detail(claim, matched, prior, truth)
                found = replace(found, detail=detail, certain=certain, certain_wrong=wrong)
            yield found
        yield from _owners(claim, actual, matched, truth)
        for metric, value in certificates(claim, actual, truth.deviations).items():
            about = ("records", metric, claim.victim, claim.round)
            yield Measured(*about, value, 0.0, claim.evidence, level=level_of(truth.layout))


def _owners(claim: RecordsClaim, actual: Cells, matched: Matched, truth: Truth) -> Iterator[Measured]:
    """Of a claim about several clients: how often the owner of an identical row is named right."""
    if len(clients_of(claim.victim)) > 1 and matched.claimed_identical.any():
        about = ("records", "owner", claim.victim, claim.round)
        value, baseline = owners_right(claim, actual, truth), owners_by_chance(claim, truth)
        yield Measured(*about, value, baseline, claim.evidence, level=level_of(truth.layout))


def _of_no_rows(claim: RecordsClaim, truth: Truth) -> Iterator[Measured]:
    """What can be said of a claim about a batch that is empty: that all it has proven is false."""
    proven = 0 if claim.verified is None else int(claim.verified.sum())
    if proven:
        about = ("records", "false_verified", claim.victim, claim.round)
        level = level_of(truth.layout)
        yield Measured(*about, 1.0, 0.0, claim.evidence, level=level, certain=proven, certain_wrong=proven)


def level_of(layout: FeatureLayout) -> Level:
    """How rows in these terms are known: the vaguest of their categorical features decides."""
    vague = [b for b in layout.categorical if b.values is None]
    if not vague:
        return "value"
    return "pseudonym" if any(b.codes is None for b in vague) else "code"


def measure(claimed: Cells, actual: Cells, deviations: NDArray[np.float64]) -> dict[str, float]:
    """Metrics of claimed rows against the true rows of the batch, after matching; a row without a claim is all wrong.

    RMSE is measured where every row was claimed.
    """
    return metrics(compare(claimed, actual, deviations), len(actual))


def metrics(matched: Matched, rows: int) -> dict[str, float]:
    """The metrics of `measure`, of a batch of `rows`."""
    hits = matched.hits
    values = {
        "accuracy": float(hits.sum()) / (rows * hits.shape[1]),
        "worst_record": float(hits.mean(1).max(initial=0.0)),
        "exact_rows": float(hits.all(1).sum()) / rows,
        "identical_rows": float(matched.claimed_identical.sum()) / rows,
    }
    for kind, cells in (("categorical_accuracy", matched.categories), ("numeric_accuracy", matched.numbers)):
        if cells.shape[1]:
            values[kind] = float(cells.sum()) / (rows * cells.shape[1])
    if matched.numbers.shape[1] and len(matched.true) == rows:
        values["rmse"] = float(np.sqrt((matched.error**2).mean(0)).mean())
    return values


def compare(claimed: Cells, actual: Cells, deviations: NDArray[np.float64]) -> Matched:
    """Matches the rows and judges their cells."""
    true, order = match(claimed, actual, deviations)
    mine, theirs = claimed.take(order), actual.take(true)
    error = (mine.numbers - theirs.numbers) / _units(deviations)
    own = identical(claimed, actual, deviations)
    return Matched(true, order, *cell_hits(mine, theirs, deviations), error, own)


def on_true_rows(right: NDArray[np.bool_], matched: Matched, rows: int) -> NDArray[np.bool_]:
    """(n, F) which cells of all `rows` are right, of the (m, F) of matched ones: no cell of a row without a claim."""
    found = np.zeros((rows, right.shape[1]), np.bool_)
    found[matched.true] = right
    return found


def cell_detail(claim: RecordsClaim, matched: Matched, prior: PriorOnly, truth: Truth) -> CellDetail:
    """Columns, entropy buckets and surest cells of one claimed batch, the numeric ones after the categorical ones."""
    verified = None if claim.verified is None else claim.verified[matched.order]

    def of_kind(
        kind: Kind,
        blocks: Sequence[CategoricalBlock | NumericBlock],
        hits: NDArray[np.bool_],
        chance: NDArray[np.float64],
        entropy: NDArray[np.float64],
    ) -> CellDetail:
        shares = tuple(feature_shares([b.feature for b in blocks], kind, hits, chance))
        doubt = doubt_detail(kind, hits, chance[matched.true], entropy[matched.order], verified)
        return replace(doubt, features=shares)

    layout = truth.layout
    a = of_kind("categorical", layout.categorical, matched.categories, prior.categories, claim.category_entropy)
    b = of_kind("numeric", layout.numeric, matched.numbers, prior.numbers, claim.number_entropy)
    return CellDetail(a.features + b.features, a.buckets + b.buckets, a.surest + b.surest)


def proven(claim: RecordsClaim, matched: Matched) -> tuple[int, int]:
    """The rows that the attack says it has proven, and those of them that are not in the batch."""
    if claim.verified is None:
        return 0, 0
    return int(claim.verified.sum()), int((claim.verified & ~matched.claimed_identical).sum())


def owners_right(claim: RecordsClaim, actual: Cells, truth: Truth) -> float:
    """The share of the identical rows of a claim whose owner is the one that is named. A row of whom nobody is named
    counts as often as chance names its owner; one that several clients have, as right for any of them.
    """
    owners, chance = truth.owners(claim.victim, claim.round), 1 / len(clients_of(claim.victim))
    same = alike(Cells(claim.categories, claim.numbers), actual, truth.deviations)  # (true, claimed)
    named = np.full(len(claim.categories), "") if claim.owners is None else claim.owners
    found = same.any(0)
    right = (same & (owners[:, None] == named[None])).any(0)
    return float(np.where(named == "", chance, right)[found].mean())


def owners_by_chance(claim: RecordsClaim, truth: Truth) -> float:
    """How often a row's owner is guessed who knows the sizes of the batches alone: always the largest."""
    owners = truth.owners(claim.victim, claim.round)
    return float(np.unique(owners, return_counts=True)[1].max() / len(owners))


def certificates(claim: RecordsClaim, actual: Cells, deviations: NDArray[np.float64]) -> dict[str, float]:
    """Share of the batch that the attack says it has proven, and how much of that is false; empty without proof."""
    if claim.verified is None:
        return {}
    proven = Cells(claim.categories[claim.verified], claim.numbers[claim.verified])
    shares = {"verified_rows": min(1.0, len(proven) / len(actual))}
    false = ~identical(proven, actual, deviations)
    return shares | ({"false_verified": float(false.mean())} if len(proven) else {})


def identical(claimed: Cells, actual: Cells, deviations: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(m,) which claimed rows are the same as a true row, in every category and to `IDENTICAL` in every number: as many
    as can be, each of them another true row.
    """
    same = alike(claimed, actual, deviations)
    true, order = linear_sum_assignment(~same)
    found = np.zeros(len(claimed), np.bool_)
    found[order] = same[true, order]
    return found


def alike(claimed: Cells, actual: Cells, deviations: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(true, claimed): which pairs of rows are identical."""
    error = np.abs(actual.numbers[:, None] - claimed.numbers[None]) / _units(deviations)
    same: NDArray[np.bool_] = (actual.categories[:, None] == claimed.categories[None]).all(-1)
    return same & (error <= IDENTICAL).all(-1)


def match(
    claimed: Cells, actual: Cells, deviations: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(m,) and (m,): true rows and the claimed rows that they are matched to, as many as there are of both."""
    rows, guesses = in_order(actual), in_order(claimed)
    actual, claimed = actual.take(rows), claimed.take(guesses)
    differ = (actual.categories[:, None] != claimed.categories[None]).sum(-1)  # (true, claimed)
    differ = differ + (~_close(actual.numbers[:, None], claimed.numbers[None], deviations)).sum(-1)
    true, order = linear_sum_assignment(differ - nearness(claimed, actual, deviations))
    pairs = np.argsort(rows[true])
    return rows[true][pairs], guesses[order][pairs]


def in_order(cells: Cells) -> NDArray[np.int64]:
    """(n,) the numbers of the rows, sorted by what they hold: what is tied is then settled alike in every order."""
    columns = np.hstack([cells.categories, cells.numbers])
    return np.asarray(np.lexsort(columns.T) if columns.shape[1] else np.arange(len(cells)), np.int64)


def nearness(claimed: Cells, actual: Cells, deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """(true, claimed): what breaks ties. Over the pairs of an assignment it sums to less than one cell, and the
    distances in it, each at most a standard deviation, to less than one identical row.
    """
    error = np.abs(actual.numbers[:, None] - claimed.numbers[None]) / _units(deviations)
    near = 1.0 - error.clip(max=1.0).mean(-1) if error.shape[-1] else np.ones(error.shape[:2])
    pairs = min(len(claimed), len(actual)) + 1
    return np.asarray((alike(claimed, actual, deviations) + near / pairs) / (2 * pairs))


def cell_hits(
    claimed: Cells, actual: Cells, deviations: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(n, K) and (n, L): which cells of rows in the same order are right."""
    return claimed.categories == actual.categories, _close(actual.numbers, claimed.numbers, deviations)


def prior_only(actual: Cells, truth: Truth, coins: np.random.Generator, draws: int) -> PriorOnly:
    """Means over `draws` batches of rows drawn cell by cell from the population's marginals, matched like an attack."""
    n = len(actual)
    drawn = [compare(from_marginals(truth.population, n, coins), actual, truth.deviations) for _ in range(draws)]
    each = [metrics(d, n) for d in drawn]
    values = {metric: [m[metric] for m in each] for metric in each[0]}
    return PriorOnly(
        draws,
        {metric: float(np.mean(v)) for metric, v in values.items()},
        {metric: float(np.std(v, ddof=1)) if draws > 1 else 0.0 for metric, v in values.items()},
        np.mean([d.categories for d in drawn], axis=0),  # all rows are claimed, so true rows stand in their order
        np.mean([d.numbers for d in drawn], axis=0),
    )


def from_marginals(population: Cells, rows: int, coins: np.random.Generator) -> Cells:
    """Rows whose features are drawn independently of each other from the population's columns."""

    def draw(columns: NDArray[Any]) -> NDArray[Any]:
        picks = coins.integers(len(columns), size=(rows, columns.shape[1]))
        if columns is population.numbers and population.sources:
            _, first, source = np.unique(population.sources, return_index=True, return_inverse=True)
            picks = picks[:, first[source.reshape(-1)]]  # one draw for all columns of a feature
        return np.take_along_axis(columns, picks, axis=0)

    return Cells(draw(population.categories), draw(population.numbers), population.sources)


def _close(a: NDArray[np.float64], b: NDArray[np.float64], deviations: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Within the tolerance; the factor keeps the interval closed under float32 rounding of encoded columns."""
    return np.abs(a - b) <= TOLERANCE * _units(deviations) * (1 + 1e-5)


def _units(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(deviations > 0, deviations, 1.0)
