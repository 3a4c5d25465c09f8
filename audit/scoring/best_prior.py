"""The strongest adversary with the prior alone, metric by metric: what an attack on records has to beat.

Reading of "the prior": the adversary knows the *population* that the attack's prior stands for, as a distribution of
whole rows, and the labels of the attacked batch where the attack is granted them; it sees no message. That is more than
marginals and bounds, which an attack may be granted: what needs only the public population is not leaked by a message,
whether the attack at hand knows it or not. The rows under attack are no part of that population: to hold the very table
is no prior. So the baseline never depends on what one attack makes of its knowledge, an attack that uses less than the
population may end below it, and a perfect one still has advantage 1.

Its ways to claim a batch:

* `drawn`: each cell of each row on its own, from the marginals (the only baseline before);
* `joint`: whole rows of the population, of the known labels;
* `modal`: one row, cell by cell what is right most often, for all rows of the batch;
* `mean`: that row with the mean of every number;
* `optimised`: the batch with the most cells right after matching, in expectation (`barycentre`);
* `closest`: rows of the population of which one is expected nearest to a row of the batch, for the worst record.

Which of them is best is found out for each metric on batches simulated (`target_batches`) from one half of the
population, while the ways were made from the other half; the chosen one is scored on the real batch. So nothing is
gained by picking the best of many. For batches beyond `LARGEST` no rows are optimised: there whole rows come near it.

Of a Poisson sample, whose size only the client knows, it claims as many rows as are to be expected; and where an attack
claims more rows than everyone knows of, as many as the attack.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim, clients_of
from leakledger.attacks.observed.barycentre import Barycentre, barycentre, wrong_cells
from leakledger.audit.cells import Cells
from leakledger.audit.scoring.metrics import PERFECT
from leakledger.audit.scoring.records import PriorOnly, compare, from_marginals, measure, metrics, on_true_rows
from leakledger.audit.scoring.target_batches import (
    Batches,
    Counts,
    Population,
    population_without,
    target_batches,
)
from leakledger.audit.truth import Truth
from leakledger.preprocess.wire import encode

LARGEST = 512  # rows of a batch for which one is optimised
CELLS_MADE, FEWEST, MOST = 2**17, 16, 1024  # simulated cells to optimise for, and limits of the batches they make
LARGE = 64  # rows, from which on the search is shorter
STARTS, STARTS_LARGE = 5, 2
CHOICES, CHOICES_LARGE = 64, 16  # simulated batches to choose on
CANDIDATES, SEEN = 512, 128  # rows of the population, and simulated batches, that `closest` is found among

Guess = Callable[[np.random.Generator], Cells]
Guesses = Mapping[str, Guess]
RANDOM = ("drawn", "joint")  # another batch at every call


@dataclass(frozen=True)
class BestPrior:
    """The baseline of claims about the batches of one case. `draws`: over how many batches random guesses are meant.

    What it finds is kept with `truth`: many attacks are compared with the same.
    """

    truth: Truth = field(repr=False)
    knowledge: AuxiliaryKnowledge = field(repr=False)
    seed: int
    draws: int

    def of(self, claim: RecordsClaim, actual: Cells, terms: Truth) -> PriorOnly:
        """What it gets of the batch `actual` that a claim is about, `terms` being the truth in the claim's terms."""
        granted = self._granted(claim)
        rows = max(len(claim.categories), self._known_rows(claim.victim, len(actual), granted is not None))
        key = (claim.victim, claim.round, granted, rows, self.seed, self.draws, digest(claim))
        kept = self.truth.kept_baselines
        if key not in kept:
            of = population_without(terms, claim.victim, claim.round)
            counts = None if granted is None else of.counts(np.array(granted))
            coins = np.random.default_rng([self.seed, claim.round, *claim.victim.encode()])
            kept[key] = best_prior(actual, of, terms.deviations, counts, coins, self.draws, rows)
        found: PriorOnly = kept[key]
        return found

    def _granted(self, claim: RecordsClaim) -> tuple[float, ...] | None:
        """The labels of the rows, where they are granted of all clients that the claim is about."""
        labels = list[float]()
        for client in clients_of(claim.victim):
            known = self.knowledge.labels.get((client, claim.round))
            if known is None:
                return None
            labels += np.asarray(known)[: len(self.truth.batch(client, claim.round))].tolist()
        return tuple(labels)

    def _known_rows(self, victim: str, rows: int, labelled: bool) -> int:
        """The size of a batch of `rows` as everyone knows it: of a Poisson sample what is to be expected, unless labels
        tell more.
        """
        training = self.truth.federated.public.training
        if training is None or training.sampling == "fixed" or labelled:
            return rows
        assert training.batch_size is not None  # of Poisson samples it is set
        return training.batch_size * len(clients_of(victim))


def digest(claim: RecordsClaim) -> bytes:
    """Tells the layouts of claims apart; the public one has none."""
    return b"" if claim.layout is None else sha256(encode(claim.layout.to_plain())).digest()


def best_prior(
    actual: Cells,
    of: Population,
    deviations: NDArray[np.float64],
    counts: Counts | None,
    coins: np.random.Generator,
    draws: int,
    claimed: int | None = None,
) -> PriorOnly:
    """The metrics of the adversary that is best at each, and how often the one that is best at `accuracy` has each true
    cell right. It claims as many rows as there are, or `claimed`, of which labels are known as far as `counts` go.
    """
    rows = len(actual) if claimed is None else claimed
    known, tried = halves(of, max(rows, len(actual)), coins)
    ways = guesses(known, rows, _filled(counts, rows), coins)
    best, spreads, trials = chosen(ways, tried, deviations, len(actual), counts, coins)
    scored = {name: _scored(name, ways[name], actual, deviations, coins, draws) for name in sorted(set(best.values()))}
    _, categories, numbers = scored[best["accuracy"]]
    return PriorOnly(trials, {m: scored[name][0][m] for m, name in best.items()}, spreads, categories, numbers)


def _filled(counts: Counts | None, rows: int) -> Counts | None:
    """The counts with rows of any label added, up to so many `rows`."""
    missing = 0 if counts is None else rows - sum(n for _, n in counts)
    return counts if counts is None or missing <= 0 else (*counts, (None, missing))


def halves(of: Population, rows: int, coins: np.random.Generator) -> tuple[Population, Population]:
    """Two parts of the population without a row in common: guesses are made from one and compared on the other, since
    a guess that holds the very rows that it is tried on looks better than it is. The whole, twice, of a small one.
    """
    if len(of) < 4 * rows:
        return of, of
    order = coins.permutation(len(of))
    return of.take(order[: len(of) // 2]), of.take(order[len(of) // 2 :])


def guesses(of: Population, rows: int, counts: Counts | None, coins: np.random.Generator) -> Guesses:
    """Every way to claim a batch of so many rows, by name."""
    features = of.cells.categories.shape[1] + of.cells.numbers.shape[1]
    batches = int(np.clip(CELLS_MADE // (rows * max(features, 1)), FEWEST, MOST))
    made = target_batches(of, rows, counts, batches, coins)
    modal = modal_row(made, of.tolerance).take(np.zeros(rows, np.int64))
    mean = Cells(modal.categories, np.broadcast_to(made.numbers.mean((0, 1)), modal.numbers.shape))
    ways: dict[str, Guess] = {
        "drawn": lambda c: from_marginals(of.cells, rows, c),
        "joint": lambda c: target_batches(of, rows, counts, 1, c).batch(0),
        "modal": lambda _: modal,
        "mean": lambda _: mean,
    }
    if rows <= LARGEST:
        optimised, closest = optimised_rows(made, of.tolerance), closest_rows(of, made, coins)
        ways |= {"optimised": lambda _: optimised, "closest": lambda _: closest}
    return ways


def chosen(
    ways: Guesses,
    of: Population,
    deviations: NDArray[np.float64],
    rows: int,
    counts: Counts | None,
    coins: np.random.Generator,
) -> tuple[Mapping[str, str], dict[str, float], int]:
    """Metric -> the name of the way that is best at it, on batches simulated for this alone; how far another guess may
    be from it on one batch (standard deviation); and the number of these batches.

    Two guesses that scatter alike over batches, and are not opposed, differ by at most sqrt(2) as much on one.
    """
    trials = target_batches(of, rows, counts, CHOICES if rows <= LARGE else CHOICES_LARGE, coins)
    reached = {
        name: [measure(guess(coins), trials.batch(m), deviations) for m in range(len(trials))]
        for name, guess in ways.items()
    }
    means = {name: {m: float(np.mean([r[m] for r in each])) for m in each[0]} for name, each in reached.items()}
    best = {m: min(means, key=lambda name: abs(PERFECT[m] - means[name][m])) for m in means["drawn"]}
    spreads = {m: float(np.sqrt(2) * np.std([r[m] for r in reached[name]], ddof=1)) for m, name in best.items()}
    return best, spreads, len(trials)


def _scored(
    name: str, guess: Guess, actual: Cells, deviations: NDArray[np.float64], coins: np.random.Generator, draws: int
) -> tuple[dict[str, float], NDArray[np.float64], NDArray[np.float64]]:
    """One way against the real batch: metrics, and how often each true cell is right, (n, K) and (n, L); means over
    `draws` guesses where it guesses at random.
    """
    each = [compare(guess(coins), actual, deviations) for _ in range(draws if name in RANDOM else 1)]
    reached = [metrics(matched, len(actual)) for matched in each]
    return (
        {m: float(np.mean([r[m] for r in reached])) for m in reached[0]},
        np.mean([on_true_rows(m.categories, m, len(actual)) for m in each], axis=0),
        np.mean([on_true_rows(m.numbers, m, len(actual)) for m in each], axis=0),
    )


def modal_row(made: Batches, tolerance: NDArray[np.float64]) -> Cells:
    """(1,) the row that has most cells of the simulated rows right."""
    categories, numbers = made.categories, made.numbers
    count = numbers.shape[0] * numbers.shape[1]
    singles = Batches(categories.reshape(count, 1, categories.shape[2]), numbers.reshape(count, 1, numbers.shape[2]))
    rows = barycentre(singles.batch(0), singles, tolerance, steps=2).rows
    return Cells(rows.categories, rows.numbers)


def optimised_rows(made: Batches, tolerance: NDArray[np.float64]) -> Cells:
    """The best barycentre from several starts, each a batch of the population."""
    starts = STARTS if made.numbers.shape[1] <= LARGE else STARTS_LARGE
    found = [barycentre(made.batch(m), made, tolerance) for m in range(min(starts, len(made)))]
    best: Barycentre = min(found, key=lambda b: b.wrong)
    return Cells(best.rows.categories, best.rows.numbers)


def closest_rows(of: Population, made: Batches, coins: np.random.Generator) -> Cells:
    """Rows of the population, as many as a batch has, of which the nearest to any row of a batch is expected to be as
    near as can be: chosen one by one, each for what it adds (greedy, as for a facility location).
    """
    rows = made.numbers.shape[1]
    candidates = of.cells.take(coins.permutation(len(of))[: max(CANDIDATES, rows)])
    seen = range(min(SEEN, len(made)))
    wrong = np.stack([wrong_cells(candidates, made, slice(m, m + 1), of.tolerance)[0].min(1) for m in seen], axis=1)
    picks: list[int] = []
    reached = np.full(wrong.shape[1], np.inf)  # wrong: (candidates, batches)
    for _ in range(min(rows, len(candidates))):
        best = int(np.minimum(wrong, reached).sum(1).argmin())
        reached = np.minimum(reached, wrong[best])
        picks.append(best)
    return candidates.take(np.resize(picks, rows))
