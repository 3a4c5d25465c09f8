"""One finding per setting and asset, with every metric, attack and adversary behind it; and which made no claim."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leakledger.audit.records import ASSETS, Decision, Ruling, Score, Setting, speaks
from leakledger.reports.overview import combined, measured, score_of
from leakledger.reports.words import GROUPS, asset_of, group_of, level, noun

NO_CLAIM = ("abstained", "not_applicable")
VERDICTS: tuple[Decision, ...] = ("leaks", "inconclusive", "no leak")


@dataclass(frozen=True)
class Finding:
    """What the adversaries of one setting learn of one asset. `ruling` is the verdict that speaks for it, None for a
    reference, which no federation runs; `scores` are all with a claim, the highest lower bound of the advantage first.
    """

    number: int
    setting: Setting
    asset: str
    rulings: tuple[Ruling, ...]
    scores: tuple[Score, ...]
    ruling: Ruling | None
    score: Score | None

    @property
    def id(self) -> str:
        """Its place on the page: what a link to it names."""
        return f"finding-{self.number}-{self.asset}"

    @property
    def verdict(self) -> Decision | None:
        return combined(self.rulings) if self.rulings else None

    @property
    def noun(self) -> str:
        return noun(self.asset)

    @property
    def group(self) -> str:
        return group_of(self.asset)

    @property
    def amount(self) -> str:
        return measured(self.ruling, self.score, named=self.asset == "records")

    @property
    def known(self) -> str:
        """How rows are known, in words; empty elsewhere."""
        known = self.ruling if self.ruling is not None else self.score
        return level(known.level if known is not None else "")

    @property
    def who(self) -> tuple[str, ...]:
        """The kinds of adversary that it leaks to."""
        return tuple(dict.fromkeys(r.adversary for r in self.rulings if r.verdict == "leaks"))


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


def findings(settings: Mapping[int, Setting], scores: Sequence[Score], rulings: Sequence[Ruling]) -> list[Finding]:
    """Leaks first, then what is open, then what does not leak, then references; within these by asset as in the grid,
    the highest lower bound first.
    """
    ruled: dict[tuple[str, str], list[Ruling]] = {}
    for r in rulings:
        ruled.setdefault((r.setting, r.asset), []).append(r)
    claimed: dict[tuple[str, str], list[Score]] = {}
    for s in by_bound(scores):
        claimed.setdefault((s.setting, asset_of(s)), []).append(s)
    number = {s.id: n for n, s in settings.items()}
    keys = [key for key in dict.fromkeys((*ruled, *claimed)) if key[0] in number]
    found = [_finding(number[k[0]], settings[number[k[0]]], k[1], ruled.get(k, ()), claimed.get(k, ())) for k in keys]
    return sorted(found, key=_place)


def _finding(number: int, setting: Setting, asset: str, rulings: Sequence[Ruling], scores: Sequence[Score]) -> Finding:
    verdict = combined(rulings)
    speaking = max((r for r in rulings if r.verdict == verdict), key=lambda r: _or_lowest(r.advantage), default=None)
    score = score_of(speaking, scores) if rulings else next((s for s in scores if speaks(s.asset, s.metric)), None)
    return Finding(number, setting, asset, tuple(rulings), tuple(scores), speaking, score)


def _place(f: Finding) -> tuple[object, ...]:
    verdict = len(VERDICTS) if f.verdict is None else VERDICTS.index(f.verdict)
    group = next((i for i, g in enumerate(GROUPS) if f.asset in g.assets), len(GROUPS))
    asset = list(ASSETS).index(f.asset) if f.asset in ASSETS else len(ASSETS)
    low = None if f.ruling is None else f.ruling.low
    return verdict, group, -_or_lowest(low), asset, f.number


def by_bound(scores: Iterable[Score]) -> list[Score]:
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
