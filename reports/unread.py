"""Messages that reached somebody and that no attack read, summed up over cases and adversaries."""

from collections.abc import Iterable
from dataclasses import dataclass

from leakledger.audit.records import CaseRecord, Unread


@dataclass(frozen=True)
class UnreadSum:
    """One kind of message in the settings and for the observers that share a reason."""

    topic: str
    discloses: str
    reason: str
    settings: tuple[str, ...]
    observers: tuple[tuple[str, ...], ...]
    messages: int  # that reached the observers who got the most, in one case


def unread(cases: Iterable[CaseRecord]) -> list[UnreadSum]:
    """One row per kind and reason, in the order of the cases; settings that only serve as reference are left out."""
    groups: dict[tuple[str, str, str], list[tuple[str, Unread]]] = {}
    for case in cases:
        for u in () if case.setting.reference else case.unread:
            groups.setdefault((u.topic, u.discloses, u.reason), []).append((case.setting.id, u))
    return [_sum(*key, group) for key, group in groups.items()]


def _sum(topic: str, discloses: str, reason: str, group: list[tuple[str, Unread]]) -> UnreadSum:
    settings = tuple(dict.fromkeys(setting for setting, _ in group))
    observers = tuple(dict.fromkeys(u.observers for _, u in group))
    return UnreadSum(topic, discloses, reason, settings, observers, max(u.messages for _, u in group))
