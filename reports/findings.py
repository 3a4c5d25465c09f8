"""Which scores are findings, in which order, and which attacks made no claim."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leakledger.audit.records import Score, speaks

NO_CLAIM = ("abstained", "not_applicable")


@dataclass(frozen=True)
class Silence:
    """One attack by one adversary that made no claim for one reason, and the settings where it did not."""

    attack: str
    observers: tuple[str, ...]
    asset: str
    status: str
    reason: str
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """What one adversary did with one attack: how many settings ended in each status."""

    observers: tuple[str, ...]
    attack: str
    statuses: tuple[tuple[str, int], ...]


def findings(scores: Iterable[Score]) -> list[Score]:
    """Scores with a claim behind them: the highest lower bound of the advantage first, those without a number last.

    Where a single cluster gives no interval, the advantage itself stands for its lower bound.
    """
    return sorted((s for s in scores if s.status not in NO_CLAIM), key=lambda s: (-_lower(s), *_name(s)))


def silences(scores: Iterable[Score]) -> list[Silence]:
    """Attacks that abstained or did not apply, one row per reason."""
    settings: dict[tuple[str, tuple[str, ...], str, str, str], dict[str, None]] = {}
    for s in scores:
        if s.status in NO_CLAIM:
            settings.setdefault((s.attack, s.observers, s.asset, s.status, s.reason), {})[s.setting] = None
    return [Silence(*key, tuple(settings[key])) for key in sorted(settings)]


def coverage(scores: Iterable[Score]) -> list[Coverage]:
    """Every adversary and attack that was played. A setting counts once per status, however many metrics it has."""
    seen: dict[tuple[tuple[str, ...], str], dict[str, set[str]]] = {}
    for s in scores:
        seen.setdefault((s.observers, s.attack), {}).setdefault(s.status, set()).add(s.setting)
    return [
        Coverage(observers, attack, tuple((status, len(ids)) for status, ids in sorted(statuses.items())))
        for (observers, attack), statuses in seen.items()
    ]


def worst(scores: Sequence[Score], setting: str, asset: str) -> Score | None:
    """The scored finding with the highest advantage against `asset` in `setting`: the worst declared attack counts.

    Where one metric speaks for the asset, only that one is compared.
    """
    here = [s for s in scores if (s.setting, s.asset, s.status) == (setting, asset, "scored")]
    scored = [s for s in here if s.advantage is not None and speaks(asset, s.metric)]
    return max(scored, key=lambda s: (_or_lowest(s.advantage), _lower(s)), default=None)


def _lower(score: Score) -> float:
    return _or_lowest(score.advantage if score.advantage_low is None else score.advantage_low)


def _or_lowest(value: float | None) -> float:
    return float("-inf") if value is None else value


def _name(score: Score) -> tuple[object, ...]:
    return (-_or_lowest(score.advantage), score.setting, score.attack, score.observers, score.asset, score.metric)
