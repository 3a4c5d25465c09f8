"""The first screen: what each setting gives away and what it is worth, as one grid, and the worst of it in a sentence.

Nothing is decided here. A cell quotes the verdicts of `audit.verdicts` on its assets and adversaries: it leaks where
one of them leaks, nothing leaks above the ceiling where that is said of all, and everything else is inconclusive.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from leakledger.audit.records import (
    INFORMATION,
    AuditRecord,
    CaseRecord,
    Decision,
    Ruling,
    Score,
    Setting,
    UtilityScore,
    at_least,
    at_most,
    beside,
    confidence,
    metric_title,
    plain_name,
    speaks,
)
from leakledger.reports import text
from leakledger.reports.utility import main_metric
from leakledger.reports.words import (
    CHECKS,
    GROUPS,
    Group,
    adversary,
    asset_of,
    capitalised,
    group_of,
    level,
    listed,
    noun,
    unplayed,
)

NOT_PLAYED = "no attack on it was played"
MOST_ROWS = 10  # of the grid; those of further settings are folded
PART = "gets more than the prior "  # followed by the party or the batch where it does
SEEDS = re.compile(r"(\d+) seeds?, of at least (\d+) .*")
SHORT = {
    "gets nowhere against rows that were planted": "of planted rows the attack has no more than luck",
    "made no claim": "no attack made a claim",
    "unread": "messages that no attack read",
    "control of": "a control of the attack failed or is missing",
    "where the prior gets": "in one batch an attack gets what luck does not explain",
}
"""What reasons of `audit.verdicts` contain, and what a cell says for it."""


@dataclass(frozen=True)
class Cell:
    """One group of assets in one setting. `ruling` is the verdict that speaks for it, None where there is none;
    `who` are the adversaries that it leaks to, `what` the assets that leak, worst first, as `ruling`.
    """

    group: Group
    verdict: Decision
    ruling: Ruling | None
    score: Score | None
    who: tuple[str, ...]
    what: tuple[str, ...]
    rulings: tuple[Ruling, ...]

    @property
    def amount(self) -> str:
        """How much was got, beside the prior alone, and how much it may be where that is open; empty where nothing was
        measured.
        """
        return measured(self.ruling, self.score, interval=self.verdict == "inconclusive")

    @property
    def asked(self) -> str:
        """What alone was asked where nothing of it leaks; empty where that was everything of the group. Of rows, that
        is cells where parties hold rows, and columns where they hold columns.
        """
        assets = [a for a in self.group.assets if any(r.asset == a for r in self.rulings)]
        whole = self.group.id == "rows" or len(assets) == len(self.group.assets)
        return "" if whole or self.verdict != "no leak" else listed([noun(a) for a in assets])

    @property
    def reason(self) -> str:
        """The first of what keeps the audit from an answer; empty where there is one."""
        if self.verdict != "inconclusive":
            return ""
        missing = [m for r in self.rulings if r.verdict == "inconclusive" for m in r.missing]
        own = list(self.ruling.missing) if self.ruling is not None else []
        return in_short(next(iter([*own, *missing]), NOT_PLAYED))


@dataclass(frozen=True)
class Row:
    """One setting: its cells in the order of `GROUPS`, and its utility. A reference has no cells: nothing is said of
    what no federation runs; nor has a setting of which no case was attacked.
    """

    number: int
    setting: Setting
    cells: tuple[Cell, ...]
    utility: tuple[UtilityScore, ...]
    checks: tuple[str, ...] = ()  # the kinds of adversary that a check of the protocol shows a leak to
    aborted: tuple[CaseRecord, ...] = ()
    cases: int = 0  # aborted ones too

    @property
    def lost(self) -> bool:
        """Whether all of its cases were aborted, so that nothing is known of it."""
        return 0 < self.cases == len(self.aborted)


def grid(settings: Mapping[int, Setting], record: AuditRecord) -> list[Row]:
    """A row for every setting that ran, to its end or not, those that a federation can run first."""
    rows = [_row(number, s, record) for number, s in settings.items()]
    return sorted(rows, key=lambda row: row.setting.reference)


def _row(number: int, setting: Setting, record: AuditRecord) -> Row:
    rulings = [r for r in record.rulings if r.setting == setting.id]
    scores = [s for s in record.scores if s.setting == setting.id]
    aborted = tuple(c for c in record.aborted if c.setting.id == setting.id)
    finished = sum(c.setting.id == setting.id for c in record.cases)
    cells = tuple(cell(g, rulings, scores) for g in GROUPS) if finished and not setting.reference else ()
    checks = tuple(dict.fromkeys(r.adversary for r in rulings if r.verdict == "leaks" and group_of(r.asset) == CHECKS))
    utility = tuple(worth(record.utility, setting.id))
    return Row(number, setting, cells, utility, checks, aborted, finished + len(aborted))


def parted(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows that stand on the first screen and those that are folded below it: of many, the settings with the worst
    leaks stand there, as what the headline says is of one of them; each part in the order of the grid.
    """
    if len(rows) <= MOST_ROWS:
        return list(rows), []
    worst = {row.number for row in sorted(rows, key=_severity)[:MOST_ROWS]}
    return [r for r in rows if r.number in worst], [r for r in rows if r.number not in worst]


def _severity(row: Row) -> tuple[object, ...]:
    """The worst leaks first, by group as the headline has it; a reference last."""
    if row.setting.reference:
        return ((2,),)
    if not row.cells:
        return ((1, False, 0.0),) * len(GROUPS)
    return tuple((0, _level(c), -_weight_of(c)) if c.verdict == "leaks" else (1, False, 0.0) for c in row.cells)


def lost(rows: Iterable[Row]) -> list[Row]:
    """The settings that a federation can run of which no case was attacked: each was aborted."""
    return [row for row in rows if row.lost and not row.setting.reference]


def worth(utility: Sequence[UtilityScore], setting: str) -> Iterable[UtilityScore]:
    """The main metric, AUROC beside it, and what the commonest class alone is worth by the main metric."""
    main = main_metric(utility)
    wanted = dict.fromkeys(plain_name(name) for name in (main or "", "auroc", f"majority_{main}"))
    own = {plain_name(u.metric): u for u in utility if u.setting == setting}
    return [own[name] for name in wanted if name in own]


def cell(group: Group, rulings: Sequence[Ruling], scores: Sequence[Score]) -> Cell:
    """The cell of one setting's rulings and scores."""
    mine = tuple(r for r in rulings if r.asset in group.assets)
    verdict = combined(mine)
    leaks = [r for r in mine if r.verdict == "leaks"]
    weight = partial(_weight, scores=scores)
    speaking = max([r for r in mine if r.verdict == verdict], key=weight, default=None)
    worst_first = sorted(leaks, key=weight, reverse=True)  # `speaking` leads, so that its figure is of who is named
    who = tuple(dict.fromkeys(r.adversary for r in worst_first))
    what = tuple(dict.fromkeys(r.asset for r in worst_first))
    return Cell(group, verdict, speaking, score_of(speaking, scores), who, what, mine)


def combined(rulings: Sequence[Ruling]) -> Decision:
    """The verdict on several questions together: never better than the worst of them."""
    verdicts = {r.verdict for r in rulings}
    if "leaks" in verdicts:
        return "leaks"
    return "no leak" if verdicts == {"no leak"} else "inconclusive"


def _weight(ruling: Ruling, scores: Iterable[Score]) -> tuple[float, float]:
    """The advantage; of equal ones that says most which was hardest to guess."""
    if ruling.advantage is None:
        return -math.inf, 0.0
    score = score_of(ruling, scores)
    return ruling.advantage, -score.baseline if score is not None and score.baseline is not None else -1.0


def score_of(ruling: Ruling | None, scores: Iterable[Score]) -> Score | None:
    """The score behind a ruling: of its attack and observers about its asset, by the metric that speaks for it."""
    if ruling is None:
        return None
    for s in scores:
        played = (s.setting, s.attack, s.observers, s.level)
        same = played == (ruling.setting, ruling.attack, ruling.observers, ruling.level)
        if same and asset_of(s) == ruling.asset and speaks(s.asset, s.metric) and s.value is not None:
            return s
    return None


def measured(ruling: Ruling | None, score: Score | None, *, named: bool = True, interval: bool = False) -> str:
    """How much was got (of what, where `named`; with its 95 % `interval`), beside what the prior alone gets; the share
    of what was open where no plain measure is kept.
    """
    found = _measured(ruling, score, named=named, interval=interval)
    return "; ".join(filter(None, (found, _bits(ruling, score), _shown_by(ruling, score))))


def _bits(ruling: Ruling | None, score: Score | None) -> str:
    """What the advantage is of, where it is not one of the hits beside it."""
    if ruling is None or score is None or ruling.advantage is None or not ruling.metric.endswith(INFORMATION):
        return ""
    return f"{share(ruling.advantage)} of the bits that guessing leaves open"


def _shown_by(ruling: Ruling | None, score: Score | None) -> str:
    """What shows a leak whose figures do not: on average the prior alone is as good, or their interval reaches it."""
    if ruling is None or ruling.verdict != "leaks" or score is None or score.value is None or score.baseline is None:
        return ""
    gain, unsure = score.value > score.baseline, ruling.low is not None and ruling.low <= 0
    if ruling.p is None:
        return "" if gain and not unsure else "a fact shows it"
    if not gain:
        return "not the mean, but a part shows it"
    return "a part shows it" if unsure and any(PART in r for r in ruling.reasons) else ""


def _measured(ruling: Ruling | None, score: Score | None, *, named: bool, interval: bool) -> str:
    if score is not None and score.value is not None and score.baseline is not None:
        value, prior = score.value, score.baseline
        if score.metric == "auc":
            return f"AUC {value:.2f}, guessing {prior:.2f}"
        if score.metric == "correlation":
            return f"correlation {value:.2f} with the true columns, guessing {prior:.2f}"
        unit = "cells" if score.metric == "accuracy" else noun(asset_of(score))
        within = ""
        if interval and score.low is not None and score.high is not None:
            within = f" ({at_least(100 * score.low, 0)}\u00a0% to {at_most(100 * score.high, 0)}\u00a0%)"
        return f"{share(value)}{f' of {unit}' if named else ''} right{within}, guessing {share(prior)}"
    if ruling is not None and ruling.asset == CHECKS:
        return next(iter(ruling.reasons), "")
    if ruling is None or ruling.advantage is None or ruling.metric.endswith(INFORMATION):
        return f"{noun(ruling.asset)} told" if ruling is not None and ruling.verdict == "leaks" else ""
    return f"{share(ruling.advantage)} of what guessing leaves open"


def in_short(missing: str) -> str:
    """What keeps the audit from an answer in a few words, for a cell; the findings have it in full."""
    if seeds := SEEDS.fullmatch(missing):
        return f"{seeds[1]} of at least {seeds[2]} seeds"
    return next((short for part, short in SHORT.items() if part in missing), text.shortened(missing, 70))


def share(value: float) -> str:
    """A share in whole per cent; never 100 % of less than all, nor 0 % of more than none."""
    percent = round(100 * value)
    if percent >= 100 and value < 1:
        percent = 99
    if percent == 0 and value > 0:
        return "under 1\u00a0%"
    return f"{percent}\u00a0%".replace("-", "−")


def headline(rows: Sequence[Row], record: AuditRecord) -> str:
    """The audit in one plain sentence."""
    leaking = [c for row in rows for c in row.cells if c.verdict == "leaks"]
    if record.verdict.status == "leaks" and leaking:
        worst = min(leaking, key=lambda c: (GROUPS.index(c.group), _level(c), -_weight_of(c)))
        return _leak_sentence(worst)
    if record.verdict.status == "leaks":
        return "The protocol tells more than it has to: checks of its messages fired."
    if record.verdict.status == "no leak":
        ceiling = max((r.ceiling for r in record.rulings), default=0.0)
        sure = confidence(record.run.alpha)
        return (
            f"No leak above {ceiling:g} of what a perfect attack gains, with {sure} confidence, by any adversary and "
            "attack that was played."
        )
    return "This audit cannot say whether anything leaks."


def badge(rows: Sequence[Row], record: AuditRecord) -> str:
    """The verdict in a few words: where nothing leaks, of what was attacked alone unless that was everything, by the
    server and by clients.
    """
    part = bool(unasked(rows)) or any(c.asked for row in rows for c in row.cells) or one_sided(record)
    return "no leak in what was attacked" if record.verdict.status == "no leak" and part else record.verdict.status


def one_sided(record: AuditRecord) -> bool:
    """Whether the server, or any client, is in none of the adversaries that were played."""
    kinds = {r.adversary for r in record.rulings}
    return not all(any(who in kind for kind in kinds) for who in ("server", "client"))


def _level(cell: Cell) -> bool:
    """Rows known by value come first."""
    return cell.ruling is not None and cell.ruling.level not in ("", "value")


def _weight_of(cell: Cell) -> float:
    return -math.inf if cell.ruling is None or cell.ruling.advantage is None else cell.ruling.advantage


def _leak_sentence(worst: Cell) -> str:
    who = capitalised(adversary(worst.who[0]))
    if worst.group.id != "rows":
        return f"{who} learns {worst.group.noun}{f': {worst.amount}' if worst.amount else ''}."
    if worst.ruling is not None and worst.ruling.asset == "columns":
        verb = "can rebuild columns of other parties, record by record"
        return f"{who} {verb}: {worst.amount}." if worst.amount else f"{who} {verb}."
    known = level(worst.ruling.level) if worst.ruling and worst.ruling.level not in ("", "value") else ""
    verb = "can rebuild people's rows" + (f", {known}" if known else "")
    return f"{who} {verb}: {worst.amount}." if worst.amount else f"{who} {verb}."


def unasked(rows: Iterable[Row]) -> list[str]:
    """Where nothing that was asked leaks, the nouns of the groups on which no attack was played."""
    cells = [c for row in rows for c in row.cells]
    if {c.verdict for c in cells if c.rulings} != {"no leak"}:
        return []
    return unplayed(r.asset for c in cells for r in c.rulings)


def by_adversary(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Each kind of adversary that something leaks to, with what leaks to it in how many of the settings that were
    judged; what checks of the protocol show last.
    """
    told: dict[str, dict[str, set[int]]] = {}
    for row in rows:
        for c in row.cells:
            for who in c.who:
                told.setdefault(who, {}).setdefault(c.group.noun, set()).add(row.number)
    for row in rows:
        for who in row.checks:
            told.setdefault(who, {}).setdefault(noun(CHECKS), set()).add(row.number)
    judged = sum(bool(row.cells) for row in rows)
    return [
        (capitalised(adversary(who)), listed([f"{n} (in {len(where)} of {judged})" for n, where in what.items()]))
        for who, what in told.items()
    ]


def silent_adversaries(record: AuditRecord) -> list[str]:
    """The kinds of adversary that were played, to whom nothing was shown to leak, and of whom something is open."""
    verdicts = _by_kind(record)
    whole = not record.missing and not record.aborted
    return [kind for kind, found in verdicts.items() if "leaks" not in found and not (whole and found == {"no leak"})]


def bounded_adversaries(record: AuditRecord) -> list[str]:
    """The kinds of adversary that were played and to whom nothing leaks above the ceiling in any setting of the run."""
    whole = not record.missing and not record.aborted
    return [kind for kind, found in _by_kind(record).items() if whole and found == {"no leak"}]


def _by_kind(record: AuditRecord) -> dict[str, set[Decision]]:
    """Kind of adversary -> the verdicts on it."""
    verdicts: dict[str, set[Decision]] = {}
    for r in record.rulings:
        verdicts.setdefault(r.adversary, set()).add(r.verdict)
    return verdicts


def utility_words(scores: Iterable[UtilityScore]) -> list[tuple[str, str, str]]:
    """(name, value, interval) of each metric of a row."""
    return [
        (
            "nothing learnt" if u.metric.startswith("majority") else metric_title(u.metric),
            f"{u.value:.2f}",
            beside(u.low, u.high, 2).strip(),
        )
        for u in scores
    ]


def scope(record: AuditRecord) -> str:
    """What was audited, in one line."""
    data = record.run.data
    cases = (*record.cases, *record.aborted)
    parties = {c.setting.parties for c in cases}
    held = f", held by {text.plural(parties.pop(), 'party', 'parties')}" if len(parties) == 1 else ""
    settings = text.plural(len({c.setting.id for c in cases}), "setting")
    ended = f" ({len(record.aborted)} aborted)" if record.aborted else ""
    seeds = text.plural(len(record.run.seeds), "seed")
    return f"{text.plural(data.rows, 'row')}{held} · {settings}, {text.plural(len(cases), 'case')}{ended}, {seeds}"
