"""The records that an attack is itself surest of (TabLeak, section 3.3), cell by cell, with what is right in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import RecordsClaim
from leakledger.audit.cells import Cells
from leakledger.audit.records import Cell, RecoveredRecord
from leakledger.audit.scoring.records import cell_hits, match
from leakledger.audit.truth import Truth
from leakledger.preprocess.views import CategoricalBlock, NumericBlock

SUREST = 3  # records kept per attacked batch


def surest(
    attack: str, observers: Sequence[str], claims: Sequence[RecordsClaim], truth: Truth
) -> tuple[RecoveredRecord, ...]:
    """The rows of each claimed batch that the attack is surest of, cell by cell: proven rows first, then by mean
    categorical entropy (numeric where the table has no categories); rows without an entropy come last.
    """
    return tuple(r for c in claims for r in _surest_of(attack, tuple(observers), c, truth))


@dataclass(frozen=True)
class _Judged:
    """Which cells of a claim are right, in the claim's row order; none of a row without a true one beside it.

    `beside` (rows,): the number of that true row in `actual`, -1 for none.
    """

    categories: NDArray[np.bool_]
    numbers: NDArray[np.bool_]
    actual: Cells
    beside: NDArray[np.intp]


def _judged(claim: RecordsClaim, truth: Truth) -> _Judged:
    actual = truth.batch(claim.victim, claim.round)
    claimed = Cells(claim.categories, claim.numbers)
    true, order = match(claimed, actual, truth.deviations)
    hits = cell_hits(claimed.take(order), actual.take(true), truth.deviations)
    categories, numbers = (np.zeros((len(claimed), kind.shape[1]), np.bool_) for kind in hits)
    found = _Judged(categories, numbers, actual, np.full(len(claimed), -1))
    found.categories[order], found.numbers[order], found.beside[order] = *hits, true
    return found


def _surest_of(attack: str, observers: tuple[str, ...], claim: RecordsClaim, truth: Truth) -> Iterable[RecoveredRecord]:
    truth = truth.in_terms_of(claim.layout)
    judged = _judged(claim, truth)
    verified = np.zeros(len(claim.categories), np.bool_) if claim.verified is None else claim.verified
    doubt = claim.category_entropy if claim.category_entropy.shape[1] else claim.number_entropy
    for row in np.lexsort((doubt.mean(1), ~verified))[:SUREST]:
        cells = (*_categorical_cells(claim, truth, judged, row), *_numeric_cells(claim, truth, judged, row))
        yield RecoveredRecord(attack, observers, claim.victim, claim.round, cells, bool(verified[row]))


def _categorical_cells(claim: RecordsClaim, truth: Truth, judged: _Judged, row: int) -> Iterable[Cell]:
    for k, block in enumerate(truth.layout.categorical):
        text, entropy = _category(block, int(claim.categories[row, k])), claim.category_entropy[row, k]
        true = judged.beside[row]
        truth_text = _category(block, int(judged.actual.categories[true, k])) if true >= 0 else ""
        yield Cell(block.feature, "categorical", text, bool(judged.categories[row, k]), _finite(entropy), truth_text)


def _numeric_cells(claim: RecordsClaim, truth: Truth, judged: _Judged, row: int) -> Iterable[Cell]:
    for k, number in enumerate(truth.layout.numeric):
        text, entropy = _number(number, float(claim.numbers[row, k])), claim.number_entropy[row, k]
        true = judged.beside[row]
        truth_text = _number(number, float(judged.actual.numbers[true, k])) if true >= 0 else ""
        yield Cell(number.feature, "numeric", text, bool(judged.numbers[row, k]), _finite(entropy), truth_text)


def _finite(entropy: float) -> float | None:
    return float(entropy) if np.isfinite(entropy) else None


def _category(block: CategoricalBlock, candidate: int) -> str:
    if candidate < 0:
        return "no claim"
    if block.values is None:
        return f"value number {candidate}"
    return block.values[candidate] if candidate < block.size else "none of the candidates"


def _number(block: NumericBlock, value: float) -> str:
    return f"{value:.6g}" if block.scaled else f"{value:.3f} (scaled)"
