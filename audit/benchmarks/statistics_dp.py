"""Do audits find nothing in mechanisms that are right, and refute those with half the noise?

Black-box audits in two worlds (`dp_audit.two_worlds`) of every mechanism on statistics (`preprocess/noise`) and on
updates (`defenses`), 100,000 samples of each world. `claimed` is the accountant's epsilon; `shown` the median of what
audits bound from below; `refuted` the share of audits whose bound is above the claim, with its exact 95 % interval: 5 %
at most for noise as stated.
"""

from collections.abc import Iterator

import numpy as np

from leakledger.audit.benchmarks.base import Options, Row
from leakledger.audit.dp_audit.audited import Audited, audit
from leakledger.audit.dp_audit.mechanisms import mechanisms
from leakledger.audit.dp_audit.proportions import at_least, at_most
from leakledger.audit.pool import each

SAMPLES, AUDITS, QUICK = 100_000, 40, 5
STRENGTHS = {"as stated": 1.0, "half": 0.5}
TAIL = 0.025  # on either side of an interval


def run(options: Options) -> Iterator[Row]:
    """Three rows for each mechanism and amount of noise; `seeds` sets how many audits. Tables of data are not used."""
    audits = options.seeds or (QUICK if options.quick else AUDITS)
    names = [m.name for m in mechanisms()]
    todo = [(name, noise, audits) for name in names for noise in STRENGTHS]
    for rows in each(_measured, todo, options.jobs):
        yield from rows


def _measured(task: tuple[str, str, int]) -> list[Row]:
    name, noise, audits = task
    mechanism = next(m for m in mechanisms() if m.name == name)
    shown, refuted = _audits(mechanism, STRENGTHS[noise], audits)
    setting = {"mechanism": name, "noise": noise, "delta": mechanism.delta}
    low, high = (float(bound(refuted, audits, TAIL)) * 100 for bound in (at_least, at_most))

    def row(metric: str, value: float, ends: tuple[float | None, float | None], unit: str, n: int) -> Row:
        return Row("statistics_dp", "made up", setting, metric, value, *ends, None, unit, n)

    return [
        row("epsilon claimed", mechanism.epsilon, (None, None), "", 1),
        row("epsilon shown, median and range", float(np.median(shown)), (min(shown), max(shown)), "", audits),
        row("refuted", 100 * refuted / audits, (low, high), "%", audits),
    ]


def _audits(mechanism: Audited, strength: float, audits: int) -> tuple[list[float], int]:
    found = [audit(mechanism, SAMPLES, np.random.default_rng([7, i]), strength) for i in range(audits)]
    return [a.bound.epsilon for a in found], sum(a.refuted for a in found)
