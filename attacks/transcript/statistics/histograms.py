"""Whole histograms of a party, from moments of its columns under many powers.

Source of the leak: "Bridging Local and Federated Data Normalization in Federated Learning", section III-A, whose search
for the power of a Yeo-Johnson transformation tells the server mean m and sum of squared deviations s of each client's
columns under every power that is tried. Let y be the image of a value v, which n_v of the client's n rows have. Then

    sum n_v y = n m    and    sum n_v (y - m)² = s

are two equations for each power, linear in the counts, about 180 in all, and smooth in the power: float64 tells counts
of about ten values from all others, and no more. The adversary needs to know which values there are: those of rows that
it is granted, or of its own.

A column is solved by non-negative least squares (Lawson and Hanson 1974) and rounded to whole counts. It is claimed
where these give back every number that was told up to the rounding of float64, and no other counts could: a value that
the adversary does not know, or too many of them, leave it unclaimed.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.optimize import nnls

from leakledger.attacks.base import AuxiliaryKnowledge, Statistic, StatisticClaim
from leakledger.attacks.observed.secure_sums import numeric_names
from leakledger.attacks.transcript.statistics.own import Floats, OwnTable, latest_before
from leakledger.attacks.transcript.statistics.quartiles import LEVELS
from leakledger.preprocess.messages import LocalLogs, LocalPowerMoments, TriedPowers
from leakledger.preprocess.views import Message, NumericBlock, View

MOST = 64  # values of a column that is attempted
ROUNDING = 1e-11  # relative, of sums in float64, with some to spare
APART = 10.0  # by how many times that the nearest other counts must differ in what they give


def histogram_claims(
    view: View, knowledge: AuxiliaryKnowledge, tables: Mapping[str, OwnTable]
) -> Iterator[StatisticClaim]:
    """Extremes and quartiles of the columns that are solved, of each sender of moments."""
    for logs in view.received(LocalLogs):
        own = (m for m in view.received(LocalPowerMoments) if m.sender == logs.sender)
        told = [(p, m) for m in own if (p := latest_before(view, TriedPowers, m.sequence))]
        evidence = tuple(sorted({logs.sequence, *(m.sequence for pair in told for m in pair)}))
        for c, name in enumerate(numeric_names(view.public)):
            values = _known(name, knowledge, tables)
            if told and 1 < len(values) <= MOST and (counts := _solved(values, c, logs, told)) is not None:
                yield from _claims(logs.sender, name, values, counts, evidence)


def _known(feature: str, knowledge: AuxiliaryKnowledge, tables: Mapping[str, OwnTable]) -> Floats:
    """(n,) the values of a column that rows show which the adversary knows."""
    columns = [t.columns[feature] for t in tables.values() if feature in t.columns]
    granted = knowledge.rows.columns.get(feature)
    if granted is not None and granted.dtype.kind == "f":
        columns.append(granted.astype(np.float64))
    values: Floats = np.unique(np.concatenate(columns)) if columns else np.zeros(0)
    return values[np.isfinite(values)]


def _solved(values: Floats, column: int, logs: Message, told: Sequence[tuple[Message, Message]]) -> Floats | None:
    """(n,) in how many rows each value is; None where the equations have no such solution, or not one alone."""
    rows = float(logs.payload.count)
    left, right = [np.ones(len(values)), np.sign(values) * np.log1p(np.abs(values))], [rows, logs.payload.total[column]]
    for powers, moments in told:
        for g, power in enumerate(powers.payload.power[:, column]):
            mean = moments.payload.mean[g, column]
            with np.errstate(over="ignore", invalid="ignore"):  # as the moments are then
                image = NumericBlock("", 0, 0.0, 1.0, power=float(power)).encoded(values)
                left += [image, (image - mean) ** 2]
                right += [rows * mean, moments.payload.squares[g, column]]
    a, b = np.array(left), np.array(right)
    size = np.abs(a).max(1)
    usable = (size > 0) & np.isfinite(size) & np.isfinite(b)
    a, b = a[usable] / size[usable, None], b[usable] / size[usable]
    within = ROUNDING * max(rows, 1.0)
    if len(a) < len(values) or np.linalg.svd(a, compute_uv=False)[-1] < APART * within * len(a) ** 0.5:
        return None
    counts: Floats = np.rint(nnls(a, b)[0])
    return counts if counts.sum() == rows > 0 and np.abs(a @ counts - b).max() <= within else None


def _claims(
    party: str, feature: str, values: Floats, counts: Floats, evidence: tuple[int, ...]
) -> Iterator[StatisticClaim]:
    column = np.repeat(values, counts.astype(np.int64))
    by = 1e-9 * float(np.abs(values).max())
    ends: dict[Statistic, float] = {"minimum": float(column[0]), "maximum": float(column[-1])}
    for statistic, x in ends.items():
        yield StatisticClaim(party, feature, statistic, x, x - by, x + by, evidence)
    for name, level in LEVELS.items():
        x = float(np.quantile(column, level))
        yield StatisticClaim(party, feature, "quantile", x, x - by, x + by, evidence, name)
