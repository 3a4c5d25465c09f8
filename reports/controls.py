"""The controls of an audit, summed up: trials with a known answer, over all cases."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leakledger.audit.records import CaseRecord, Control


@dataclass(frozen=True)
class ControlSum:
    """One control of one attack over all its runs: `worst` is the run that came closest to failing, or failed most."""

    attack: str
    kind: str
    expected: str
    runs: int
    passed: int
    worst: Control
    failed_in: tuple[tuple[str, int], ...]  # (setting, seed)


def controls(cases: Iterable[CaseRecord]) -> list[ControlSum]:
    """One row per attack, kind and expectation; rows with a failure first."""
    runs: dict[tuple[str, str, str], list[tuple[CaseRecord, Control]]] = {}
    for case in cases:
        for control in case.controls:
            runs.setdefault((control.attack, control.kind, control.expected), []).append((case, control))
    return sorted((_sum(*key, found) for key, found in runs.items()), key=lambda c: c.passed == c.runs)


def _sum(attack: str, kind: str, expected: str, found: Sequence[tuple[CaseRecord, Control]]) -> ControlSum:
    played = [control for _, control in found]
    # What should be recovered is worst where its advantage is lowest; what should not, where it is highest.
    worst = min(played, key=lambda c: (c.passed, c.advantage if kind in ("leaky", "power") else -c.advantage))
    failed = tuple((case.setting.id, case.seed) for case, control in found if not control.passed)
    return ControlSum(attack, kind, expected, len(played), len(played) - len(failed), worst, failed)
