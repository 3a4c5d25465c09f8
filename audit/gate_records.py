"""What a gate decided, as plain typed records: all that its exports ever read, beside the audit's own record."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

from leakledger.audit.records import plural

VERSION = 2  # 1 had the loss of a utility as what is `observed`

Status = Literal["pass", "fail", "inconclusive", "waived"]
CheckKind = Literal["ceiling", "regression", "finding", "utility", "precondition"]
"""A precondition is no question of the policy, but what keeps one from being asked."""

PASS, TOOL, USAGE, VIOLATION, INCONCLUSIVE, WAIVER = 0, 1, 2, 10, 11, 12
"""Exit codes. That the tool broke (1) or was used wrongly (2) is never that a leak was found (10)."""


@dataclass(frozen=True)
class Severity:
    """0 to 10, its word, and the vector that it follows from (docs/gate.md has the table)."""

    score: float
    word: Literal["low", "medium", "high", "critical"]
    vector: str


@dataclass(frozen=True)
class Check:
    """One question that the policy asked, and its answer.

    `observed` is what was measured now: an advantage, or a utility metric; `before` the same of the baseline;
    `difference` now less before, of a utility what was lost, with its one-sided bounds `low` and `high` at alpha, each
    by itself; of a ceiling these bound `observed`. `limit` is the margin or the ceiling. `p` is corrected for all
    hypotheses of the gate. `clusters`: independent ones, of a ceiling seeds; `needed`: as many as answer it with the
    planned power beside all others, where that can be said. `most`: the most that any series, party or batch which
    bears on the answer shows. `beside`: what would keep a failed check open if nothing had failed, which no waiver
    covers. `fingerprint` names the question, never what was measured.
    """

    gate: str
    kind: CheckKind
    setting: str
    subject: str  # the setting in words
    adversary: str
    asset: str
    status: Status
    reasons: tuple[str, ...]
    fingerprint: str
    beside: tuple[str, ...] = ()
    limit: float | None = None
    floor: float | None = None
    observed: float | None = None
    before: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    clusters: int = 0
    needed: int | None = None
    most: float | None = None
    attack: str = ""
    observers: tuple[str, ...] = ()
    metric: str = ""
    severity: Severity | None = None
    waiver: str = ""
    new: bool = True  # not in the baseline; without one, everything is

    @property
    def lost(self) -> float | None:
        """What a utility metric lost since the baseline; None of other checks."""
        return self.difference if self.kind == "utility" else None

    @property
    def cost(self) -> float:
        """What a waiver limits: an advantage, or what a utility metric lost. One check has many series: the most that
        one of them shows counts, not the surest, or the waiver of a small leak would cover a larger one beside it.
        """
        shown = (self.observed, self.most) if self.kind != "utility" else (self.lost,)
        return max(abs(value or 0.0) for value in shown)


@dataclass(frozen=True)
class WaiverNote:
    """What became of one waiver."""

    id: str
    fate: Literal["used", "unused", "expired", "invalid", "exceeded"]
    text: str
    reason: str = ""
    owner: str = ""
    approver: str = ""
    expires: str = ""

    @property
    def void(self) -> bool:
        """Whether it ends the gate by itself, whatever passed."""
        return self.fate in ("expired", "invalid")

    @property
    def words(self) -> str:
        """What became of it, who answers for the failure, who let them, and why."""
        who = f" (owner {self.owner}, approved by {self.approver}: {self.reason})" if self.owner else ""
        return f"{self.fate}: {self.text}{who}"


@dataclass(frozen=True)
class BaselineNote:
    """Which baseline was compared with, or with `of_run` which run; `stale` says why it cannot be."""

    path: str
    run: str
    head: str
    author: str
    reason: str
    created: str
    changed: tuple[str, ...] = ()  # what of the audited system differs: the change under test
    stale: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    of_run: bool = False

    @property
    def changed_words(self) -> str:
        """What changed, in a line; of a stale one `stale` says what else differs."""
        return ", ".join(self.changed) or f"nothing {'of what is audited' if self.stale else 'in the configuration'}"


@dataclass(frozen=True)
class GateOutcome:
    """All that the gate says of one run. `family`: hypotheses that its false alarms are shared among."""

    run: str
    head: str
    policy: str
    checks: tuple[Check, ...]
    alpha: float
    power: float
    family: int
    baseline: BaselineNote | None = None
    waivers: tuple[WaiverNote, ...] = ()
    notes: tuple[str, ...] = ()
    status: Status = "inconclusive"
    exit_code: int = INCONCLUSIVE

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(c.status for c in self.checks))

    @property
    def sentence(self) -> str:
        """The outcome in one line."""
        found = self.counts
        parts = [
            f"{found[s]} {words}"
            for s, words in (("fail", "failed"), ("inconclusive", "inconclusive"), ("waived", "waived"))
            if s in found
        ]
        bad = [w for w in self.waivers if w.fate in ("expired", "invalid", "exceeded")]
        parts += [f"{plural(len(bad), 'waiver')} void"] if bad else []
        passed = f"{found.get('pass', 0)} passed"
        return f"{self.status.upper()}: {', '.join([*parts, passed])}."

    @property
    def power_sentence(self) -> str:
        """How many clusters the open checks would take, where there are fewer; nothing where clusters decide none. A
        failed control or an unread message, which may stand beside, no number of them mends.
        """
        short = [c for c in self.checks if c.status == "inconclusive" and c.needed and c.needed > c.clusters]
        if not short:
            return ""
        most, have = max(c.needed or 0 for c in short), sorted({c.clusters for c in short})
        so_few = " to ".join(map(str, dict.fromkeys([have[0], have[-1]])))
        too_few = plural(len(short), "inconclusive check has", "inconclusive checks have")
        them = "all of them" if len(short) > 1 else "it"
        return (
            f"Power: {too_few} too few clusters ({so_few}); {most} would decide {them} "
            f"with power {self.power:.0%} if nothing changed, where clusters are all that is missing."
        )

    def to_plain(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {"version": VERSION, "sentence": self.sentence, "power_sentence": self.power_sentence, **asdict(self)}


def worst_first(checks: tuple[Check, ...]) -> list[Check]:
    """Failures before open questions before passes, the gravest first."""
    order = {"fail": 0, "inconclusive": 1, "waived": 2, "pass": 3}
    return sorted(checks, key=lambda c: (order[c.status], -(c.severity.score if c.severity else 0.0)))
