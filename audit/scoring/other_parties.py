"""The best way to guess something about a party from the other parties, found out on those.

Knowledge of the adversary with the prior alone, where claims are not about rows: what the federation as a whole would
publish, and everything about every party but the victim. There are several ways to guess from that. Each is tried on
every other party in turn, as if it were the victim, from what is left of them; the way that does best in the mean is
scored on the victim. So the way is never picked on what it is scored on. With fewer than two other parties nothing can
be tried, and the first way is taken.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.truth import Truth

Way = TypeVar("Way", bound=Callable[..., Any])
Reached = Callable[[Way, str, Sequence[str]], float]
"""How well a way does, higher is better: at a victim, from what is known of some parties."""


def best_way(parties: Sequence[str], victim: str, ways: Mapping[str, Way], reached: Reached[Way]) -> str:
    """The name of the way to guess about `victim`; the first of those that do equally well."""
    others = [p for p in parties if p != victim]
    if len(others) < 2:
        return next(iter(ways))

    def mean(name: str) -> float:
        return float(np.mean([reached(ways[name], o, [p for p in others if p != o]) for o in others]))

    means = {name: mean(name) for name in ways}
    return max(means, key=lambda name: means[name])


def occurrences(truth: Truth, feature: str) -> Mapping[str, Mapping[str, int]]:
    """Party -> value -> in how many of its rows it occurs; kept with `truth`."""
    kept, key = truth.kept_baselines, ("occurrences", feature)
    if key not in kept:
        tables = truth.federated.tables
        found = {p: np.unique(np.asarray(t.values(feature), str), return_counts=True) for p, t in tables.items()}
        kept[key] = {p: dict(zip(values.tolist(), rows.tolist(), strict=True)) for p, (values, rows) in found.items()}
    occurring: Mapping[str, Mapping[str, int]] = kept[key]
    return occurring


def rows_with(truth: Truth, feature: str, values: Sequence[str]) -> Mapping[str, NDArray[np.int64]]:
    """Party -> (k,) in how many of its rows each of `values` occurs."""
    return {p: np.array([rows.get(v, 0) for v in values], np.int64) for p, rows in occurrences(truth, feature).items()}
