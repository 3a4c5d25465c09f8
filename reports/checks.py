"""Protocol checks that fired, summed up over cases, adversaries and parties."""

from collections.abc import Iterable
from dataclasses import dataclass

from leakledger.audit.records import CaseRecord, Finding

SHOWN = 8  # message numbers shown


@dataclass(frozen=True)
class CheckSum:
    """One check in one setting: about which parties it fired, for which observers, and the first case's evidence."""

    setting: str
    check: str
    parties: tuple[str, ...]
    observers: tuple[tuple[str, ...], ...]
    text: str
    evidence: tuple[int, ...]
    more: int  # message numbers beyond those shown


def checks(cases: Iterable[CaseRecord]) -> list[CheckSum]:
    """One row per setting and check, in the order of the cases."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for case in cases:
        for finding in case.findings:
            groups.setdefault((case.setting.id, finding.check), []).append(finding)
    return [_sum(setting, check, found) for (setting, check), found in groups.items()]


def _sum(setting: str, check: str, found: list[Finding]) -> CheckSum:
    first = found[0]
    parties = tuple(sorted({f.party for f in found}))
    observers = tuple(dict.fromkeys(f.observers for f in found))
    numbers = first.evidence
    return CheckSum(setting, check, parties, observers, first.text, numbers[:SHOWN], max(0, len(numbers) - SHOWN))
