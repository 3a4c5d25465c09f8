"""What an attack's own uncertainty is worth: accuracy by entropy bucket, and the records it is surest of.

Source: TabLeak, section 3.3 and tables 3 and 4. An adversary sees the entropy without the truth; if low entropy means
right cells, the adversary knows which cells to use.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from attacks.base import RecordsClaim
from audit.records import Calibration, Cell, RecoveredRecord
from audit.scoring.records import cell_hits, match
from audit.truth import Cells, Truth
from preprocess.views import CategoricalBlock, NumericBlock

EDGES = {
    "categorical": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    "numeric": (-20.0, -2.0, -1.0, 0.0, 1.0, 2.0, 20.0),  # nats; the outer buckets are open
}
SUREST = 3  # records kept per attacked batch


def calibrate(attack: str, claims: Sequence[RecordsClaim], truth: Truth) -> tuple[Calibration, ...]:
    """Right cells per entropy bucket over all claims; empty buckets are left out."""
    rows: list[Calibration] = []
    scored = [_scored(c, truth) for c in claims]
    for kind, index in (("categorical", 0), ("numeric", 1)):
        hits = np.concatenate([s[index].ravel() for s in scored]) if scored else np.empty(0, bool)
        entropy = np.concatenate([s[index + 2].ravel() for s in scored]) if scored else np.empty(0)
        rows += _buckets(attack, kind, hits, entropy)
    return tuple(rows)


def surest(
    attack: str, observers: Sequence[str], claims: Sequence[RecordsClaim], truth: Truth
) -> tuple[RecoveredRecord, ...]:
    """The rows with the lowest mean categorical entropy of each claimed batch, cell by cell."""
    return tuple(r for c in claims for r in _surest_of(attack, tuple(observers), c, truth))


def _scored(
    claim: RecordsClaim, truth: Truth
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Hits and entropies of a claim's cells, categorical and numeric, in the claim's row order."""
    actual = truth.batch(claim.victim, claim.round)
    claimed = Cells(claim.categories, claim.numbers)
    true, order = match(claimed, actual, truth.deviations)
    back = true[np.argsort(order)]
    categories, numbers = cell_hits(claimed, actual.take(back), truth.deviations)
    return categories, numbers, claim.category_entropy, claim.number_entropy


def _buckets(attack: str, kind: str, hits: NDArray[np.bool_], entropy: NDArray[np.float64]) -> Iterable[Calibration]:
    edges = EDGES[kind]
    bucket = np.clip(np.digitize(entropy, edges[1:-1], right=True), 0, len(edges) - 2)
    for k in range(len(edges) - 1):
        inside = bucket == k
        if inside.any():
            yield Calibration(attack, kind, edges[k], edges[k + 1], int(inside.sum()), int(hits[inside].sum()))  # type: ignore[arg-type]


def _surest_of(attack: str, observers: tuple[str, ...], claim: RecordsClaim, truth: Truth) -> Iterable[RecoveredRecord]:
    categories, numbers, category_entropy, number_entropy = _scored(claim, truth)
    doubt = category_entropy.mean(1) if category_entropy.shape[1] else number_entropy.mean(1)
    for row in np.argsort(doubt, kind="stable")[:SUREST]:
        cells: list[Cell] = []
        for k, block in enumerate(truth.layout.categorical):
            text = _category(block, int(claim.categories[row, k]))
            cells.append(
                Cell(block.feature, "categorical", text, bool(categories[row, k]), float(category_entropy[row, k]))
            )
        for k, number in enumerate(truth.layout.numeric):
            text = _number(number, float(claim.numbers[row, k]))
            cells.append(Cell(number.feature, "numeric", text, bool(numbers[row, k]), float(number_entropy[row, k])))
        yield RecoveredRecord(attack, observers, claim.victim, claim.round, tuple(cells))


def _category(block: CategoricalBlock, candidate: int) -> str:
    return block.values[candidate] if block.values is not None else f"value number {candidate}"


def _number(block: NumericBlock, value: float) -> str:
    return f"{value:.6g}" if block.scaled else f"{value:.3f} (scaled)"
