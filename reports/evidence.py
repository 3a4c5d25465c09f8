"""The records that an attack is surest of, side by side. Masked unless revealed: the values never reach the page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

from leakledger.audit.records import CaseRecord, Cell, RecoveredRecord

MASK = "•••"
MOST = 5  # records per attack


@dataclass(frozen=True)
class ShownCell:
    """A cell as the page may show it: `text` and `truth` are the mask, or the claimed value and the true one."""

    text: str
    truth: str
    correct: bool
    kind: str
    entropy: float | None


@dataclass(frozen=True)
class ShownRecord:
    """One column of an evidence table."""

    setting: str
    seed: int
    observers: tuple[str, ...]
    victim: str
    round: int
    correct: int
    cells: int
    verified: bool


@dataclass(frozen=True)
class Evidence:
    """The records of one attack: `rows` has for each feature one cell per record, None where a record lacks it."""

    attack: str
    kept: int
    records: tuple[ShownRecord, ...]
    rows: tuple[tuple[str, tuple[ShownCell | None, ...]], ...]


def evidence(cases: Iterable[CaseRecord], *, reveal: bool = False) -> list[Evidence]:
    """Per attack, the `MOST` records that it has proven or is surest of: its own certainty chooses them, never whether
    it is right.
    """
    attacks: dict[str, list[tuple[CaseRecord, RecoveredRecord]]] = {}
    for case in cases:
        for record in case.recovered:
            attacks.setdefault(record.attack, []).append((case, record))
    return [_of_attack(name, found, reveal) for name, found in attacks.items()]


def _of_attack(name: str, found: Sequence[tuple[CaseRecord, RecoveredRecord]], reveal: bool) -> Evidence:
    surest = sorted(found, key=lambda pair: _uncertainty(pair[1]))[:MOST]
    features = dict.fromkeys(cell.feature for _, record in surest for cell in record.cells)
    by_feature = [{cell.feature: cell for cell in record.cells} for _, record in surest]
    rows = tuple((f, tuple(_shown(cells.get(f), reveal) for cells in by_feature)) for f in features)
    return Evidence(name, len(found), tuple(_header(case, record) for case, record in surest), rows)


def _uncertainty(record: RecoveredRecord) -> tuple[bool, float, float]:
    """Proven rows first, then by mean entropy of the categorical cells, then of the numeric ones: their units differ,
    so they are not added. A record without an entropy comes last.
    """
    kinds = ([c.entropy for c in record.cells if c.kind == kind] for kind in ("categorical", "numeric"))
    stated = ([e for e in values if e is not None] for values in kinds)
    categorical, numeric = (fmean(values) if values else inf for values in stated)
    return not record.verified, categorical, numeric


def _header(case: CaseRecord, record: RecoveredRecord) -> ShownRecord:
    correct = sum(cell.correct for cell in record.cells)
    where = (case.setting.id, case.seed, record.observers, record.victim, record.round)
    return ShownRecord(*where, correct, len(record.cells), record.verified)


def _shown(cell: Cell | None, reveal: bool) -> ShownCell | None:
    if cell is None:
        return None
    shown = (cell.value, cell.truth) if reveal else (MASK, MASK)
    return ShownCell(*shown, cell.correct, cell.kind, cell.entropy)
