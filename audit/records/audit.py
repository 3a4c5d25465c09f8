"""The whole audit: what ran, its cases, its scores, and the content of `results.json`."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from leakledger.audit.records.assets import Decision, Level, Observers
from leakledger.audit.records.case import CaseRecord, case_digest
from leakledger.audit.records.scores import BoundCheck, FrontierPoint, Leakage, Score, UtilityScore

VERSION = 5
"""Of the content of records and of `results.json`."""


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
    party_rows: Mapping[str, Mapping[str, int]]  # by setting's partition, then party; under the first seed
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
    transcripts: bool = True  # whether what parties sent is kept
    inputs: Mapping[str, str] = field(default_factory=dict)  # key that names an input file -> SHA-256; older: none
    instrument: str = ""  # SHA-256 of the code that attacked, scored and decided; older: unknown
    code: Mapping[str, str] = field(default_factory=dict)  # folder -> SHA-256 of the code that played; older: unknown

    @property
    def alpha(self) -> float:
        """The chance of a wrong verdict that was accepted; of results without that value the default."""
        return float(self.config.get("audit", {}).get("alpha", 0.05))


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
    bounds: tuple[BoundCheck, ...] = ()
    frontier: tuple[FrontierPoint, ...] = ()
    head: str = ""  # of the record's hash chain; not part of results.json, which the chain covers
    signer: str = ""  # the public key of who signed the record; empty: nobody
    other_code: str = ""  # says so where code other than that of the run decided; not part of results.json


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
        "privacy": [{"setting": c.setting.id, "seed": c.seed, **asdict(p)} for c in record.cases for p in c.privacy],
        "frontier": [asdict(p) for p in record.frontier],
        "bounds": [asdict(b) for b in record.bounds],
        "utility": [asdict(u) for u in record.utility],
        "aborted": [{"setting": c.setting.id, "seed": c.seed, **asdict(a)} for c in record.aborted for a in c.aborts],
        "missing": record.missing,
    }


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
