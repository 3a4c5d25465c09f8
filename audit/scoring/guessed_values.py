"""What the prior alone knows of the values that a party holds: precision, recall and overlap of the best set to claim.

The ways: every value of the joint dictionary; those that one, half or all of the other parties hold; those that as many
rows as the others have in the mean, drawn from the rows of the others, would have with at least some probability. (The
set of the best expected F1 is such a set, at a probability between 0 and 1/2: Lipton, Elkan, Naryanaswamy, "Optimal
thresholding of classifiers to maximize F1 measure", 2014.) Which one is taken, for each metric: `other_parties`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.scoring.other_parties import best_way, rows_with
from leakledger.audit.truth import Truth

METRICS = ("f1", "precision", "recall")
LIKELY = (0.15, 0.25, 0.35, 0.45, 0.6)
Rows = Mapping[str, NDArray[np.int64]]
"""Party -> (k,) its rows with each value of a feature's joint dictionary."""

Set = Callable[[Rows, Sequence[str]], NDArray[np.bool_]]
"""(k,) which of the values to claim, from the rows of some known parties."""


def overlap_of_prior(truth: Truth, victim: str) -> dict[str, list[float]]:
    """Each metric of the way that does best for the other parties in the mean over the victim's features: of each of
    these, in their order.
    """
    features = [_rows(truth, f) for f in truth.vocabularies[victim]]

    def reached(metric: str, way: Set, party: str, known: Sequence[str]) -> float:
        return float(np.mean(_reached(features, metric, way, party, known)))

    best = {m: best_way(truth.parties, victim, WAYS, partial(reached, m)) for m in METRICS}
    others = [p for p in truth.parties if p != victim]
    return {m: _reached(features, m, WAYS[name], victim, others) for m, name in best.items()}


def _rows(truth: Truth, feature: str) -> Rows:
    """Of the values that anybody holds who has the feature; kept with `truth`."""
    kept, key = truth.kept_baselines, ("values", feature)
    if key not in kept:
        held = [own[feature] for own in truth.vocabularies.values() if feature in own]
        kept[key] = rows_with(truth, feature, sorted(frozenset().union(*held)))
    rows: Rows = kept[key]
    return rows


def _reached(features: Sequence[Rows], metric: str, way: Set, victim: str, known: Sequence[str]) -> list[float]:
    return [_overlap(way(rows, known), rows[victim] > 0)[metric] for rows in features]


def _overlap(claimed: NDArray[np.bool_], held: NDArray[np.bool_]) -> dict[str, float]:
    """As `vocabulary.overlap`, of values that are claimed and held (k,)."""
    hits, said, real = float((claimed & held).sum()), float(claimed.sum()), float(held.sum())
    return {
        "precision": hits / said if said else float(not real),
        "recall": hits / real if real else float(not said),
        "f1": 2 * hits / (said + real) if said or real else 1.0,
    }


def _everything(rows: Rows, known: Sequence[str]) -> NDArray[np.bool_]:
    return np.ones(len(next(iter(rows.values()))), np.bool_)


def _held_by(share: float, rows: Rows, known: Sequence[str]) -> NDArray[np.bool_]:
    """Held by at least this share of the known parties, and by one."""
    holders = np.sum([rows[p] > 0 for p in known], axis=0)
    claimed: NDArray[np.bool_] = holders >= max(share * len(known), 1)
    return claimed


def _likely(least: float, rows: Rows, known: Sequence[str]) -> NDArray[np.bool_]:
    """In a party's rows with at least this probability, were they drawn from the known parties' rows."""
    total = np.sum([rows[p] for p in known], axis=0)
    drawn = total.sum() / len(known)
    claimed: NDArray[np.bool_] = 1 - (1 - total / max(total.sum(), 1)) ** drawn >= least
    return claimed


WAYS: dict[str, Set] = {
    "everything": _everything,
    "held by one": partial(_held_by, 0.0),
    "held by half": partial(_held_by, 0.5),
    "held by all": partial(_held_by, 1.0),
    **{f"likely {p:g}": partial(_likely, p) for p in LIKELY},
}
