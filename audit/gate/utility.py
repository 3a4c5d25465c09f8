"""Checks of utility: is the model as good as before, to within a margin? So a defense that ruins it is no win.

Per seed, the loss is what the metric lost since the baseline (an error: what it grew). The check fails where it is more
than nothing, at alpha over the gate, and more than the floor in the mean; it passes where its upper bound lies below
the margin (non-inferiority); else it is inconclusive. Several metrics are several checks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leakledger.audit.gate.differences import Difference, Sample, enough_to_fail, paired, smallest_p, unpaired
from leakledger.audit.gate.policy import Gate, UtilityGate
from leakledger.audit.gate.snapshot import Snapshot
from leakledger.audit.gate_records import Status
from leakledger.audit.records import at_most, metric_title, plural
from leakledger.audit.verdicts.significance import FEWEST

ERRORS = ("mae",)  # less is better


@dataclass(frozen=True)
class Loss:
    """What one metric of one setting lost; without a difference where a run has no such metric."""

    setting: str
    gate: UtilityGate
    difference: Difference | None
    now: float | None
    before: float | None

    @property
    def p(self) -> float | None:
        """Of a loss, before Holm; 1 where it is no more than the floor."""
        if self.difference is None or self.difference.p is None:
            return None
        return self.difference.p if self.difference.mean > self.gate.floor else 1.0


def losses(
    now: Snapshot, before: Snapshot, matches: Mapping[str, str], gates: Sequence[UtilityGate], gate: Gate
) -> Iterator[Loss]:
    """One for each setting and gate."""
    for setting, its in matches.items():
        for g in gates:
            a, b = now.utility.get(setting, {}).get(g.metric, {}), before.utility.get(its, {}).get(g.metric, {})
            if not a or not b:
                yield Loss(setting, g, None, None, None)
                continue
            sign = -1.0 if g.metric in ERRORS else 1.0
            difference = _difference(b, a, sign, gate.alpha)
            yield Loss(setting, g, difference, float(np.mean(list(a.values()))), float(np.mean(list(b.values()))))


def _difference(more: Mapping[str, float], less: Mapping[str, float], sign: float, alpha: float) -> Difference:
    """What a metric by seed lost, in pairs where the seeds are the same."""
    x, y = ([sign * of[s] for s in sorted(of)] for of in (more, less))
    own = list(range(len(x)))  # one number per seed: all are independent
    if more.keys() == less.keys():
        return paired(np.array(x), np.array(y), own, alpha)
    return unpaired(Sample.of(x, own), Sample.of(y, list(range(len(y)))), alpha)


def answer(loss: Loss, p: float | None, family: int, gate: Gate) -> tuple[Status, str]:
    """Status and reason; `p` is corrected for `family` hypotheses."""
    d, g = loss.difference, loss.gate
    if d is None or loss.now is None or loss.before is None:
        return "inconclusive", f"{metric_title(g.metric)} was not measured in both runs"
    moved = f"{metric_title(g.metric)} {loss.now:.3f}, {loss.before:.3f} before"
    if p is not None and p <= gate.alpha:
        return "fail", f"{moved}: lost {abs(d.mean):.3f}"
    if d.high is None:
        return "inconclusive", f"{moved}; {plural(d.clusters, 'seed')}, from {FEWEST} on they can say something"
    if family * smallest_p(d.clusters) > gate.alpha:
        none = f"{plural(d.clusters, 'seed')} can fail none of {plural(family, 'check')}, so they pass none either"
        return "inconclusive", f"{moved}; {none}; {enough_to_fail(family, gate.alpha)} can"
    if d.high >= g.margin:
        return "inconclusive", f"{moved}; may have lost up to {at_most(d.high, 3)}, margin {g.margin:g}"
    return "pass", f"{moved}; lost less than {g.margin:g}"
