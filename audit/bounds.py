"""Attacks beside what no adversary can exceed, setting by setting: one whose interval lies above its bound has failed.

Such an attack is no discovery but a broken ruler: the defense is not what it is taken for (noise that repeats, a bound
that does not hold), or what counts as true is told elsewhere. So it fails like a control, and what it found is
inconclusive. Bounds are in expectation; a single cluster may be luckier, so the interval over clusters decides.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from leakledger.audit.clusters import mean_interval
from leakledger.audit.records import BoundCheck, CaseRecord, Observers, Trial

SHARE = (0.0, 1.0)  # all that has a bound is one


def bound_checks(records: Sequence[CaseRecord]) -> tuple[BoundCheck, ...]:
    """One check for each setting, attack, adversary and metric with a bound in every cluster."""
    groups: dict[tuple[str, str, Observers, str, str], list[tuple[int, Trial]]] = defaultdict(list)
    for record in records:
        for t in record.trials:
            if t.value is not None:
                groups[record.setting.id, t.attack, t.observers, t.metric, t.level].append((record.seed, t))
    return tuple(_check(key[0], found) for key, found in groups.items() if all(t.bound is not None for _, t in found))


def above_bounds(records: Sequence[CaseRecord]) -> frozenset[tuple[str, str]]:
    """The attacks, by setting, that got more than there is to get."""
    return frozenset((c.setting, c.attack) for c in bound_checks(records) if not c.passed)


def mean_bound(trials: Sequence[Trial]) -> float | None:
    """The bound of the mean over clusters; None where one of them has none."""
    bounds = [t.bound for t in trials if t.bound is not None]
    return float(np.mean(bounds)) if bounds and len(bounds) == len(trials) else None


def _check(setting: str, found: Sequence[tuple[int, Trial]]) -> BoundCheck:
    trials, first = [t for _, t in found], found[0][1]
    values, bound = [t.value or 0.0 for t in trials], mean_bound(trials)
    assert bound is not None
    low, high = mean_interval(values, [seed for seed, _ in found], SHARE) or (None, None)
    return BoundCheck(
        setting=setting,
        attack=first.attack,
        observers=first.observers,
        metric=first.metric,
        value=float(np.mean(values)),
        low=low,
        high=high,
        baseline=float(np.mean([t.baseline or 0.0 for t in trials])),
        bound=bound,
        clusters=len(trials),
        passed=low is None or low <= bound,
    )
