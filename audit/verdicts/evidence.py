"""What the cases of an audit say of one cell of the verdict table: attack results cluster by cluster, and plain facts.

A cell is a setting, a kind of adversary (`audit.leakage.adversary`) and an asset. Its *series* are the numbers that are
tested: one attack by one adversary under one metric. Its *facts* need no statistics: a row that an attack has proven
and that is in the batch, a statistic claimed as certain that is right, a check of the protocol that fired.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks import ATTACKS
from leakledger.attacks.observed.undeclared import STATED_POOLED
from leakledger.audit.leakage import adversary
from leakledger.audit.records import ASSETS, COUNTED, INFORMATION, CaseRecord, Level, Observers, Trial, speaks
from leakledger.audit.scoring.metrics import PERFECT

CHECKS = "check"  # the asset of findings: what is in the clear, and what does not hide
_NAMED = ("records", "vocabulary", "membership", "columns")  # assets whose trials say so, whatever became of them
GROUPS = {"sizes": COUNTED, "statistics": tuple(a for a in ASSETS if a not in (*COUNTED, *_NAMED))}
"""The assets that claims of one kind are about."""
VOUCHED = {
    "records": "rows proven",
    "vocabulary": "values told in the clear or proven",
    "membership": "holders of values told in the clear or proven",
}
WHOLE, NAMED = 1 - 1e-6, 3  # the correlation of a column that is known; columns that a fact names
BOUNDED = frozenset({"worst_record", "tpr_at_0.1%", "tpr_at_1%", "count_rank", "exact_values"})
"""Metrics that are bounded beside the headline metric, and not tested: a mean over rows, or over candidates, hides the
few that are known, a correlation the values that are exact beside others far off, the values held how often they occur.
The prior's guess is the best one of the whole.
"""

Floats = NDArray[np.float64]
Key = tuple[str, str, str]  # setting, kind of adversary, asset


@dataclass(frozen=True)
class Series:
    """One attack by one adversary under one metric: a number per cluster, (n,), and where each comes from.

    `rooms` is what a perfect attack gains over the prior. `spreads` is how the prior's own draws scatter, 0 where there
    are none, and `draws` how many there were.
    """

    attack: str
    observers: Observers
    metric: str
    column: str
    gains: Floats
    rooms: Floats
    seeds: tuple[int, ...]
    victims: tuple[str, ...]
    spreads: Floats
    draws: int
    level: Level = ""

    @property
    def who(self) -> str:
        """Attack and adversary in words."""
        return f"{self.attack} by {'+'.join(self.observers)}"

    @property
    def only_bounded(self) -> bool:
        """Whether it bounds what may leak and is never tested: the prior's guess is the best one of a whole batch, and
        another may beat it in a column, or under a metric of `BOUNDED`, without any message.
        """
        return bool(self.column) or self.metric in BOUNDED

    def of(self, victim: str) -> "Series":
        """The clusters of one party."""
        keep = np.array([v == victim for v in self.victims])
        seeds = tuple(s for s, k in zip(self.seeds, keep, strict=True) if k)
        victims = (victim,) * len(seeds)
        parts = (self.gains[keep], self.rooms[keep], seeds, victims, self.spreads[keep])
        return Series(self.attack, self.observers, self.metric, self.column, *parts, self.draws, self.level)

    @property
    def without_losses(self) -> "Series":
        """The same, with no gain where the attack does worse than the prior: an adversary who guesses better there has
        not lost what it is told in other clusters.
        """
        return replace(self, gains=np.maximum(self.gains, 0.0))

    @property
    def advantages(self) -> Floats:
        """(n,) of each cluster, in units of the mean room, so that their mean is the advantage of the series."""
        room = float(self.rooms.mean())
        shares: Floats = 1 - (self.rooms - self.gains) / room if room > 0 else np.zeros(len(self.gains))
        return shares


@dataclass
class Cell:
    """Everything about one cell. `silent`: attacks that made no claim, under which seeds, and why; `wrong`: which
    attacks vouched for what is not so, and in words.
    """

    series: list[Series] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)  # attack, in words
    wrong: set[tuple[str, str]] = field(default_factory=set)
    silent: dict[tuple[str, Observers], dict[int, str]] = field(default_factory=dict)
    left_out: int = 0  # batches without a claim, beside others with one


def cells(records: Sequence[CaseRecord]) -> Mapping[Key, Cell]:
    """The cells of all settings that a federation can run, in the order of the cases, then of the adversaries.

    Of a setting and an adversary there is one for every asset that anything in the audit is about; of one whose attacks
    left no score as well.
    """
    federated = [r for r in records if not r.setting.reference]
    about = {asset_of_trial(t) for r in federated for t in r.trials}
    about |= {own for r in federated for t in r.trials if (own := _left_open(t, about))}
    assets = [a for a in ASSETS if a in about]
    assets += [CHECKS] if any(r.findings for r in federated) else []
    found: dict[Key, Cell] = {}
    trials: dict[tuple[Key, str, Observers, str, Level], list[tuple[int, Trial]]] = defaultdict(list)
    for record in federated:
        for kind in dict.fromkeys(map(adversary, played_by(record))):
            for asset in assets:
                found.setdefault((record.setting.id, kind, asset), Cell())
        for t in record.trials:
            if is_calibrator(t.attack):
                continue
            for asset in _assets(t, assets):
                key = (record.setting.id, adversary(t.observers), asset)
                _note(found[key], t, record.seed)
                if t.status == "scored" and decides(t):
                    trials[key, t.attack, t.observers, t.metric, t.level].append((record.seed, t))
        for f in record.findings:
            if f.check == STATED_POOLED:
                continue  # what a protocol gives everyone; what it says of one party is scored
            key = (record.setting.id, adversary(f.observers), CHECKS)
            said = f"{f.check} fired in the view of {'+'.join(f.observers)}"
            found.setdefault(key, Cell()).facts.append((f.attack, said))
    for (key, attack, observers, metric, _), of in trials.items():
        found[key].series += _series(attack, observers, metric, of)
    return found


def played_by(record: CaseRecord) -> tuple[Observers, ...]:
    """Who was played in a case. What attacks claim may be a finding alone, or nothing that can be scored: then there is
    no trial, and what was not read is left.
    """
    by_trial, by_message = (t.observers for t in record.trials), (u.observers for u in record.unread)
    return tuple(dict.fromkeys(chain(by_trial, by_message, (f.observers for f in record.findings))))


def is_calibrator(attack: str) -> bool:
    """Whether an attack guesses on purpose: it shows nothing about safety, nor about a leak."""
    return attack in ATTACKS and ATTACKS[attack].calibrator


def asset_of_trial(t: Trial) -> str:
    """The asset that a trial decides about; "" for none."""
    name = t.asset if t.asset in ASSETS else t.metric.removesuffix(INFORMATION)
    return name if name in ASSETS else ""


def _assets(t: Trial, all_assets: Sequence[str]) -> list[str]:
    """The assets that a trial concerns: a silent one of `statistics` those that no name of its own stands for."""
    if (own := asset_of_trial(t)) or t.metric:
        return [own] if own in all_assets else []
    return [a for a in GROUPS.get(t.asset, ()) if a in all_assets]


def _left_open(t: Trial, about: set[str]) -> str:
    """The asset that stands for all that an attack abstained from, where nothing else in the audit is about them: what
    it was to read is there, and was not read.
    """
    group = GROUPS.get(t.asset, ()) if t.status == "abstained" and not t.metric else ()
    return group[0] if group and not about & {*group} else ""


def decides(t: Trial) -> bool:
    graded = t.metric in BOUNDED or t.metric.endswith(INFORMATION)
    return t.value is not None and t.baseline is not None and (speaks(t.asset, t.metric) or graded)


def _note(cell: Cell, t: Trial, seed: int) -> None:
    """Keeps what a trial says beside its number."""
    if t.status in ("abstained", "not_applicable"):
        if t.victim:
            cell.left_out += 1
        else:
            cell.silent.setdefault((t.attack, t.observers), {})[seed] = t.reason
    if t.certain:
        where = f"{t.attack} by {'+'.join(t.observers)}"
        if t.certain_wrong:
            cell.wrong.add((t.attack, where))
        elif speaks(t.asset, t.metric):
            cell.facts.append((t.attack, f"{where}: {_vouched(t)}, and right"))


def _vouched(t: Trial) -> str:
    """What an attack vouches for, in words; of columns, which ones are known."""
    known = [f.feature for f in t.detail.features if f.value > WHOLE] if t.asset == "columns" and t.detail else []
    if known:
        more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
        return f"{', '.join(known[:NAMED])}{more} of {t.victim} told record by record"
    return VOUCHED.get(t.asset, "claims vouched for as exact")


def _series(attack: str, observers: Observers, metric: str, trials: Sequence[tuple[int, Trial]]) -> Iterator[Series]:
    """The series of the metric itself, and one for each column that its details tell of."""
    seeds = tuple(seed for seed, _ in trials)
    victims = tuple(t.victim for _, t in trials)
    values, baselines = (np.array([getattr(t, name) for _, t in trials], np.float64) for name in ("value", "baseline"))
    spreads, draws = np.array([t.spread for _, t in trials]), min(t.draws for _, t in trials)
    rooms = PERFECT[metric] - baselines
    level = trials[0][1].level
    yield Series(attack, observers, metric, "", values - baselines, rooms, seeds, victims, spreads, draws, level)
    columns: dict[str, list[tuple[int, str, float, float]]] = defaultdict(list)
    for seed, t in trials:
        for f in t.detail.features if t.detail else ():
            columns[f.feature].append((seed, t.victim, f.value, f.baseline))
    for column, of in columns.items():
        at, about, right, prior = zip(*of, strict=True)
        gain, room = np.subtract(right, prior), 1 - np.array(prior)
        none = np.zeros(len(of))
        yield Series(attack, observers, metric, column, gain, room, tuple(at), tuple(about), none, 0, level)
