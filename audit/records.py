"""What an audit found, as plain typed records: all that reports and gates ever read.

A *setting* is data, partition, preprocessing, defense and training. A *case* is one setting with one seed: the unit of
work and of storage. A *trial* is one measurement in one cluster (victim batch x client x seed). Scores summarise the
trials of a setting over its clusters; an interval is over clusters, never over records. What is measured cell by cell
(columns, entropy buckets, the surest cells) is the *detail* of the one trial or score that speaks for an attack.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

VERSION = 4

HEADLINE = {"records": "accuracy", "vocabulary": "f1", "membership": "auc"}
"""The metric that speaks for an asset where several describe one attack; elsewhere every metric speaks for itself."""

SCORER = "scorer"
"""Under this name stand the controls of the scoring itself."""

POWER = "power"
"""The kind of control that asks whether an attack gets anywhere at the audited strength."""

UNTIMED = "planted messages with times of their own: they never travelled and have none"
"""What an attack that reads times would have to be shown before its silence about planted messages proves anything."""

QUALITY = frozenset({"size_error", "size_coverage", "false_exact"})
"""Metrics that say how good claims are, beside those that say how much was learnt: they decide nothing."""


ASSETS = {
    "vocabulary": "values",
    "membership": "who holds them",
    "size": "sizes",
    "count": "counts",
    "mean": "means",
    "std": "deviations",
    "minimum": "minima",
    "maximum": "maxima",
    "quantile": "quartiles",
    "frequency": "shares of values",
    "target_rate": "target rates",
    "held_out_count": "held-out counts",
    "held_out_rate": "held-out rates",
    "held_out_mean": "held-out means",
    "held_out_std": "held-out deviations",
    "records": "records",
}
"""What there is to learn, and its heading in tables: assets with a headline metric, the metrics of the others."""

COUNTED = ("count", "size", "held_out_count")
"""Statistics that are whole numbers of something: known when exact."""

HELD_OUT = tuple(a for a in ASSETS if a.startswith("held_out"))
"""What is about rows kept for evaluation, and about the target alone."""


INFORMATION = "_information"
"""Ends the name of the graded metric of a statistic or size."""


def speaks(asset: str, metric: str) -> bool:
    """Whether a metric stands for how much leaked of an asset."""
    return metric == HEADLINE.get(asset, metric) and metric not in QUALITY and not metric.endswith(INFORMATION)


Status = Literal["scored", "abstained", "not_applicable", "inconclusive"]
Decision = Literal["leaks", "no leak", "inconclusive"]
Level = Literal["", "value", "pseudonym", "code"]
"""How records are known: by their values, by numbers without names, by what a method makes of them; "" elsewhere."""
Observers = tuple[str, ...]
Kind = Literal["categorical", "numeric"]


@dataclass(frozen=True)
class Setting:
    """One combination that the configuration asks for. `id` is short, stable and readable."""

    id: str
    data: str
    partition: str
    parties: int
    encoder: str
    scaler: str
    defense: str
    training: str
    reference: bool  # rows are pooled somewhere: no federation, kept as the yardstick
    encoder_said: str = ""  # what the methods share by their own account, and where that is said; empty: no account
    scaler_said: str = ""

    @property
    def method(self) -> str:
        """How reports name the preprocessing."""
        return self.encoder if self.encoder == self.scaler else f"{self.encoder} + {self.scaler}"


@dataclass(frozen=True)
class FeatureShare:
    """One column in one cluster: the share of the batch's cells that are right, beside that of the prior alone."""

    feature: str
    kind: Kind
    value: float
    baseline: float


@dataclass(frozen=True)
class Bucket:
    """The claimed cells of one cluster with an entropy in (low, high], where None is an open end: how many there are,
    how many are right, and how many of the same cells the prior alone has right (expected, so a fraction).

    Entropy is normalised to [0, 1] for categorical cells; for numeric ones, in standard deviations, it is in nats.
    """

    kind: Kind
    low: float | None
    high: float | None
    cells: int
    correct: int
    prior: float


@dataclass(frozen=True)
class SurestShare:
    """The `share` of one cluster's claimed cells that the attack is surest of: the part of them that is right, the part
    of the same cells that the prior alone has right, and their mean entropy (None where the attack states none).

    `cells` may be a fraction: of cells tied in entropy at the cut, each counts for an equal part.
    """

    kind: Kind
    share: float
    cells: float
    value: float
    baseline: float
    entropy: float | None


@dataclass(frozen=True)
class CellDetail:
    """One cluster cell by cell. No buckets and no shares where nothing was claimed or the attack states no entropy."""

    features: tuple[FeatureShare, ...] = ()
    buckets: tuple[Bucket, ...] = ()
    surest: tuple[SurestShare, ...] = ()


@dataclass(frozen=True)
class Trial:
    """One metric of one attack against one cluster.

    `value` is the attack's, `baseline` that of an adversary with the prior only, measured alike; both in [0, 1] for the
    metrics that have an advantage, and None where the attack made no claim (`status` and `reason` say why).
    """

    attack: str
    observers: tuple[str, ...]
    asset: str
    metric: str
    victim: str
    round: int
    status: Status
    value: float | None = None
    baseline: float | None = None
    reason: str = ""
    knowledge: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()
    detail: CellDetail | None = None  # beside the headline metric of records only
    certain: int = 0  # claims that the attack vouches for as beyond doubt: proven rows, intervals of no width
    certain_wrong: int = 0  # those of them that are not so
    spread: float = 0.0  # how far other guesses may be from `baseline`: a standard deviation, of so many `draws`
    draws: int = 0
    level: Level = ""


@dataclass(frozen=True)
class Control:
    """A trial whose answer is known beforehand: `leaky` must be recovered, `null` must stay at the baseline, and so
    must `shuffled`, whose advantage has an interval from `low` to `high` over repetitions. `power` asks whether the
    attack gets anywhere at the audited strength: where it does not, its silence proves nothing, and its claims stand.

    `attack` may be `SCORER`: then it is the scoring itself that was tried.
    """

    attack: str
    kind: Literal["leaky", "null", "shuffled", "power"]
    value: float
    baseline: float
    advantage: float
    passed: bool
    expected: str
    low: float | None = None
    high: float | None = None
    kinds: tuple[str, ...] = ()  # topics of what the attack was shown in it


@dataclass(frozen=True)
class Unread:
    """Messages that reached `observers` and that no attack read which is known to work on such messages: `reason`."""

    observers: tuple[str, ...]
    topic: str
    discloses: str
    messages: int
    reason: str


@dataclass(frozen=True)
class Finding:
    """A property of the protocol that a transcript shows (`FindingClaim`): it lets `observers` learn about `party`."""

    attack: str
    observers: tuple[str, ...]
    party: str
    check: str
    text: str
    evidence: tuple[int, ...] = ()


@dataclass(frozen=True)
class Observation:
    """What one observer saw on one topic from one sender, over a whole case."""

    observer: str
    topic: str
    step: str
    sender: str
    role: Literal["received", "sent", "relayed"]
    form: Literal["plaintext", "ciphertext"]
    content: str  # shape and type in words, never values
    messages: int
    size: int  # bytes of bodies
    first_round: int
    last_round: int
    hops: int = 0  # transmissions that the observer was an end of: a relay sees a message come and go
    wire_size: int = 0  # bytes of these transmissions, headers included


@dataclass(frozen=True)
class Cell:
    """One cell of a claimed record: `value` as text is shown only when a report is told to reveal it."""

    feature: str
    kind: Kind
    value: str
    correct: bool
    entropy: float | None  # None where the attack states none


@dataclass(frozen=True)
class RecoveredRecord:
    """One of the rows that an attack is surest of, with what the audit knows about its cells."""

    attack: str
    observers: tuple[str, ...]
    victim: str
    round: int
    cells: tuple[Cell, ...]
    verified: bool = False  # the attack says that it has proven the row


@dataclass(frozen=True)
class Aborted:
    """That `party` could not go on, which ended a case: where, and the name of the kind of error. Never its text, which
    may repeat what the party holds. `step` is empty where the party is gone and nobody knows how far it came.
    """

    party: str
    step: str
    round: int
    reason: str

    @property
    def text(self) -> str:
        where = f"in step {self.step}, round {self.round}" if self.step else "in a step that nobody knows"
        return f"{self.party} could not go on {where}: {self.reason}"


@dataclass(frozen=True)
class UtilityRow:
    """One metric of the trained model on held-out rows of all parties, or of the cost of getting there."""

    metric: str
    value: float


@dataclass(frozen=True)
class CaseRecord:
    """All that one case leaves behind; of an aborted one, what was observed until then and nothing that was tried."""

    id: str
    setting: Setting
    seed: int
    trials: tuple[Trial, ...] = ()
    controls: tuple[Control, ...] = ()
    findings: tuple[Finding, ...] = ()
    unread: tuple[Unread, ...] = ()
    observations: tuple[Observation, ...] = ()
    recovered: tuple[RecoveredRecord, ...] = ()
    utility: tuple[UtilityRow, ...] = ()
    aborts: tuple[Aborted, ...] = ()
    transcript_head: str = ""
    seconds: Mapping[str, float] = field(
        default_factory=dict
    )  # by stage; machine-dependent, so not part of results.json


def failed_controls(cases: Iterable[CaseRecord]) -> frozenset[tuple[str, str]]:
    """The attacks, by setting, of which a control failed: what they found shows nothing. Failing at `POWER` is no such
    failure.
    """
    failed = ((r.setting.id, c) for r in cases for c in r.controls if not c.passed)
    return frozenset((setting, c.attack) for setting, c in failed if c.kind != POWER)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Means over clusters, 95 % intervals and advantage as in `Score`."""

    value: float
    low: float | None
    high: float | None
    baseline: float
    advantage: float | None
    advantage_low: float | None
    advantage_high: float | None
    clusters: int


@dataclass(frozen=True, kw_only=True)
class FeatureScore(Estimate):
    """One column under one attack."""

    feature: str
    kind: Kind


@dataclass(frozen=True)
class BucketScore:
    """One bucket over all clusters: the share of claimed cells of this kind that fall into it, and the accuracy of
    these cells with its 95 % interval over the clusters that have any.
    """

    kind: Kind
    low_entropy: float | None
    high_entropy: float | None
    cells: int
    share: float
    value: float
    low: float | None
    high: float | None
    baseline: float
    clusters: int


@dataclass(frozen=True, kw_only=True)
class SurestScore(Estimate):
    """The `share` of each cluster's cells that the attack is surest of, `cells` of them per cluster."""

    kind: Kind
    share: float
    cells: float
    entropy: float | None


@dataclass(frozen=True)
class CellScores:
    """What one attack by one adversary does to the cells of one setting: columns by falling advantage, buckets and
    shares from the surest on.
    """

    features: tuple[FeatureScore, ...] = ()
    buckets: tuple[BucketScore, ...] = ()
    surest: tuple[SurestScore, ...] = ()


@dataclass(frozen=True)
class Score:
    """One attack by one adversary against one asset in one setting: the mean over clusters with its 95 % interval.

    `advantage` = (value - baseline) / (1 - baseline): 0 is nothing beyond the prior, 1 everything. `low` and `high`
    bound `value`; `advantage_low` and `advantage_high` the advantage. All are None unless `status` is `scored`.
    """

    setting: str
    method: str
    encoder: str
    scaler: str
    defense: str
    training: str
    attack: str
    observers: tuple[str, ...]
    asset: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    baseline: float | None
    advantage: float | None
    advantage_low: float | None
    advantage_high: float | None
    clusters: int
    status: Status
    reason: str = ""
    knowledge: tuple[str, ...] = ()
    detail: CellScores | None = None  # beside the headline metric of records only
    level: Level = ""


@dataclass(frozen=True)
class Leakage:
    """What the adversaries of one kind learn of one asset (of `ASSETS`) in one setting: the best score of the one of
    them that learns most (`audit.leakage`), None where no attack made a claim.

    `adversary` is in words: "server", "one client", "2 clients". `possible`: the clusters that there are; the score has
    fewer where claims are about some parties only. `low` and `high` bound the advantage at 95 % with the choice of the
    best of `among` scores allowed for (Bonferroni): they are wider than the interval of the score itself.
    """

    setting: str
    adversary: str
    asset: str
    possible: int
    score: Score | None
    among: int = 0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class UtilityScore:
    """One utility metric of one setting: mean over seeds, and its 95 % interval where there are at least two."""

    setting: str
    method: str
    encoder: str
    scaler: str
    defense: str
    training: str
    metric: str
    value: float
    low: float | None
    high: float | None
    seeds: int


@dataclass(frozen=True)
class Ruling:
    """What the audit may say of one asset under one kind of adversary in one setting (`audit.verdicts`).

    `reasons` show a leak; `missing` says what keeps the audit from an answer. `ceiling`: "no leak" means none above
    this advantage. The other fields are of the series that speaks for it: a mean `advantage` with its 95 % interval,
    over so many clusters and seeds; `p` is that of the leak, adjusted for all that the audit tested.
    """

    setting: str
    adversary: str
    asset: str
    verdict: Decision
    ceiling: float
    reasons: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    p: float | None = None
    attack: str = ""
    observers: Observers = ()
    metric: str = ""
    advantage: float | None = None
    low: float | None = None
    high: float | None = None
    clusters: int = 0
    seeds: int = 0
    level: Level = ""


@dataclass(frozen=True)
class Verdict:
    """The audit in one sentence each: it leaks where anything leaks, and does not where nothing is inconclusive."""

    status: Decision
    leakage: str
    utility: str


@dataclass(frozen=True)
class DataFacts:
    """The audited table, without any of its values."""

    name: str
    rows: int
    features: int
    categorical: int
    numeric: int
    target: str
    task: str
    sensitive: tuple[str, ...]
    fingerprint: str
    party_rows: Mapping[str, Mapping[str, int]]  # by setting's partition, then party
    negotiated: tuple[str, ...] = ()  # facts of the schema that parties agree on by messages; all others are declared


@dataclass(frozen=True)
class RunFacts:
    """What ran: everything needed to run it again."""

    id: str
    config: Mapping[str, Any]  # the values in force, after defaults and overrides
    command: str  # reproduces the run
    seeds: tuple[int, ...]
    versions: Mapping[str, str]
    device: str
    data: DataFacts
    adversaries: tuple[tuple[str, ...], ...]  # observer sets that were played
    not_tested: tuple[str, ...]  # adversaries and attacks that were not, in words


@dataclass(frozen=True)
class AuditRecord:
    """A whole audit, finished or not: `missing` counts the cases that have not run yet. `cases` finished; `aborted` are
    those whose federation a party ended when they were last run.
    """

    run: RunFacts
    cases: tuple[CaseRecord, ...]
    scores: tuple[Score, ...]
    utility: tuple[UtilityScore, ...]
    verdict: Verdict
    missing: int = 0
    created: str = ""  # when the run started; not part of results.json
    leakage: tuple[Leakage, ...] = ()
    rulings: tuple[Ruling, ...] = ()
    aborted: tuple[CaseRecord, ...] = ()
    head: str = ""  # of the record's hash chain; not part of results.json, which the chain covers
    signer: str = ""  # the public key of who signed the record; empty: nobody


def results(record: AuditRecord) -> dict[str, Any]:
    """The content of `results.json`: the same for every run of one configuration, whenever and however often
    resumed. The details of scores are lists of their own, so that every list holds rows of plain values.
    """
    return {
        "version": VERSION,
        "run": asdict(record.run),
        "verdict": asdict(record.verdict),
        "settings": [asdict(s) for s in dict.fromkeys(c.setting for c in record.cases)],
        "cases": [{"case": c.id, "digest": case_digest(c), "transcript_head": c.transcript_head} for c in record.cases],
        "scores": [asdict(replace(s, detail=None), dict_factory=_without_detail) for s in record.scores],
        "rulings": [asdict(r) for r in record.rulings],
        "leakage": [_leakage(row) for row in record.leakage],
        "features": _details(record.scores, "features"),
        "entropy_buckets": _details(record.scores, "buckets"),
        "surest_cells": _details(record.scores, "surest"),
        "findings": [{"setting": c.setting.id, "seed": c.seed, **asdict(f)} for c in record.cases for f in c.findings],
        "unread": [{"setting": c.setting.id, "seed": c.seed, **asdict(u)} for c in record.cases for u in c.unread],
        "controls": [{"setting": c.setting.id, "seed": c.seed, **asdict(k)} for c in record.cases for k in c.controls],
        "utility": [asdict(u) for u in record.utility],
        "aborted": [{"setting": c.setting.id, "seed": c.seed, **asdict(a)} for c in record.aborted for a in c.aborts],
        "missing": record.missing,
    }


def case_digest(case: CaseRecord) -> str:
    """SHA-256 of all that a case left but its seconds, as canonical JSON: the same for every run of the case."""
    plain = json.dumps(asdict(replace(case, seconds={})), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()


def _leakage(leakage: Leakage) -> dict[str, Any]:
    """A row of plain values; those of its score are None where there is none."""
    row = {name: value for name, value in vars(leakage).items() if name != "score"}
    names = ("attack", "observers", "metric", "value", "baseline", "advantage", "clusters")
    score = {name: getattr(leakage.score, name, None) for name in names}
    return {**row, **score, "status": leakage.score.status if leakage.score else "no claim"}


def _without_detail(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in fields if name != "detail"}


def _details(all_scores: Iterable[Score], part: str) -> list[dict[str, Any]]:
    """One part of all scores' details, each row with what it belongs to."""
    return [
        {"setting": s.setting, "attack": s.attack, "observers": s.observers, **asdict(row)}
        for s in all_scores
        if s.detail is not None
        for row in getattr(s.detail, part)
    ]
