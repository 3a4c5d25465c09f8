"""Differential privacy of each setting: one epsilon over all that a client sends, or the steps that have none."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leakledger.audit.records import CaseRecord, PrivacyAccount, Setting


@dataclass(frozen=True)
class Guaranteed:
    """One setting, and of each unit the account of the seed with the largest epsilon."""

    setting: Setting
    accounts: tuple[PrivacyAccount, ...]

    @property
    def lines(self) -> list[tuple[str, PrivacyAccount]]:
        """(units, account): one line for units that have no epsilon for the same reasons, with nothing beside."""
        found: list[tuple[str, PrivacyAccount]] = []
        for a in self.accounts:
            same = found and a.epsilon is None and found[-1][1].epsilon is None
            if same and (a.missing, a.parts) == (found[-1][1].missing, found[-1][1].parts):
                found[-1] = (f"{found[-1][0]}, {a.unit}", found[-1][1])
            else:
                found.append((a.unit, a))
        return found


def guaranteed(settings: Mapping[int, Setting], cases: Iterable[CaseRecord]) -> list[Guaranteed]:
    """Every setting that has been accounted for, in the page's order."""
    found: dict[str, dict[str, PrivacyAccount]] = {}
    for case in cases:
        for a in case.privacy:
            kept = found.setdefault(case.setting.id, {})
            kept[a.unit] = max(kept.get(a.unit, a), a, key=_badness)
    return [Guaranteed(s, tuple(found[s.id].values())) for s in settings.values() if s.id in found]


def outside(rows: Iterable[Guaranteed]) -> list[str]:
    """What no figure on the page speaks of, each once."""
    stated = (a for row in rows for a in row.accounts if a.epsilon is not None or a.parts)
    return list(dict.fromkeys(o for a in stated for o in a.outside))


def _badness(account: PrivacyAccount) -> float:
    return float("inf") if account.epsilon is None else account.epsilon
