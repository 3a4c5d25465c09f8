"""What the gate compares of one run: numbers per cluster, facts, unread messages, failed controls, utility per seed.

A baseline file holds exactly this, so candidate and baseline are one type, and a comparison sees no difference in kind.
Names of parties, columns' counts and figures are in it; values of the data are not.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from leakledger.attacks.base import clients_of
from leakledger.attacks.observed.undeclared import STATED_POOLED
from leakledger.audit.bounds import above_bounds
from leakledger.audit.chain import canonical, digest_of, digest_of_file
from leakledger.audit.leakage import adversary
from leakledger.audit.plugins import versions_behind
from leakledger.audit.records import (
    CELLWISE,
    HEADLINE,
    SCORER,
    AuditRecord,
    CaseRecord,
    Finding,
    Setting,
    Trial,
    failed_controls,
    speaks,
)
from leakledger.audit.verdicts.evidence import CHECKS, asset_of_trial, decides, is_calibrator
from leakledger.audit.verdicts.missing import rounds_left

UNTRIED, UNTRUE = "leaky, not played", "certificate"
"""Kinds of `Broken` that are no failed control: none was played; an attack vouched for something that is not so."""
BOUND = "bound"  # the kind of `Broken` of an attack that got more than no adversary can
OWNER = "owner"  # is measured of identical rows alone
BESIDE = frozenset({"exact_rows", "identical_rows", OWNER, "tpr_at_0.1%", "tpr_at_1%", "count_rank", "exact_values"})
"""Metrics that are compared beside those that decide a verdict, and tell what these do not. One row of four, and no
other claimed, is fewer cells right than a guess of all; whose rows they are is in no cell; a mean over candidates does
not show the few that are sure, nor a mean over values how often each occurs.
"""
UTILITY = ("f1", "accuracy", "auroc", "r2", "mae")
SUBJECT = ("preprocessing", "model", "training", "defense")
"""Sections of a configuration that say what is audited: what a change may change, and what is compared."""
NO_CONDITION = {"data": ("source", "schema"), "audit": ("seeds", "jobs", "device", "mode", "floor", "ceiling", "alpha")}
"""Keys of the other sections that say nothing about how it is measured: rows have a fingerprint of their own."""
OF_ROWS = ("data.", "schema beside data.")
"""How the keys of input files begin that hold rows or say what they are."""


class Cluster(NamedTuple):
    """One number: the attack's and the prior's, against one party's batch in one seed."""

    seed: int
    victim: str
    round: int
    value: float
    prior: float


class Cell(NamedTuple):
    """What one check is about."""

    setting: str
    adversary: str
    asset: str


_Key = tuple[Cell, str, tuple[str, ...], str, str]  # of a series: cell, attack, observers, metric, level


@dataclass(frozen=True)
class Measure:
    """One attack by one adversary under one metric, cluster by cluster; `column`: of its cells in that column alone."""

    cell: Cell
    attack: str
    observers: tuple[str, ...]
    metric: str
    level: str
    clusters: tuple[Cluster, ...]
    column: str = ""

    @property
    def name(self) -> tuple[object, ...]:
        """What it shares with the same series of another run, but for the setting."""
        return (self.cell.adversary, self.cell.asset, self.attack, self.observers, self.metric, self.level, self.column)


class Shown(NamedTuple):
    """To whom a fact shows, about which party, and under which seeds."""

    observers: tuple[str, ...]
    party: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Fact:
    """What needs no statistics: a check that fired, or claims that `attack` vouched for as exact and had right; in the
    cases of these seeds. `what` is the check, or the asset.
    """

    cell: Cell
    what: str
    attack: str
    observers: tuple[str, ...]
    seeds: tuple[int, ...]
    text: str
    shown: tuple[Shown, ...] | None = None  # one by one; None: nobody kept it


@dataclass(frozen=True)
class Played:
    """One attack that was played by one kind of adversary, claim or no claim, and why there was none. `tried`: whether
    a leaky control showed that it works here.
    """

    setting: str
    adversary: str
    attack: str
    silence: str
    tried: bool


@dataclass(frozen=True)
class Broken:
    """A control that failed, or was not played where claims were made; or a certificate that does not hold."""

    setting: str
    attack: str
    kind: str


@dataclass(frozen=True)
class Subject:
    """A setting, and in words what it is; `parts` one by one, as other settings may share them."""

    id: str
    words: str
    parties: int
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """All that the gate needs of one run. `conditions`: digests by name of what must be the same for a comparison."""

    run: str
    head: str
    created: str
    command: str
    seeds: tuple[int, ...]
    subjects: tuple[Subject, ...]
    measures: tuple[Measure, ...]
    facts: tuple[Fact, ...]
    played: tuple[Played, ...]
    broken: tuple[Broken, ...]
    unread: tuple[tuple[str, str, str], ...]  # setting, kind of adversary, topic
    utility: Mapping[str, Mapping[str, Mapping[str, float]]]  # setting -> metric -> seed -> value
    conditions: Mapping[str, str]
    subject: Mapping[str, str]  # digest of each section that says what is audited
    data: Mapping[str, Any]
    versions: Mapping[str, str]
    incomplete: int  # cases that did not run to the end
    columns: tuple[Measure, ...] | None = None  # column by column, where that is scored; None: nobody kept it
    rounds: Mapping[str, tuple[int, int]] | None = None  # setting -> those that no claim is about, of how many


def snapshot(record: AuditRecord) -> Snapshot:
    """What the gate compares of a record; pooled references are left out."""
    cases = [c for c in record.cases if not c.setting.reference]
    config = record.run.config
    return Snapshot(
        run=record.run.id,
        head=record.head,
        created=record.created,
        command=record.run.command,
        seeds=tuple(record.run.seeds),
        subjects=tuple(_subject(s) for s in dict.fromkeys(c.setting for c in cases)),
        measures=tuple(_measures(cases)),
        facts=tuple(_facts(cases)),
        played=tuple(_played(cases)),
        broken=tuple(_broken(cases)),
        unread=tuple(sorted({(c.setting.id, adversary(u.observers), u.topic) for c in cases for u in c.unread})),
        utility=_utility(cases),
        conditions=_conditions(record),
        subject={name: _digest(record, name, config.get(name)) for name in SUBJECT},
        data=_data(record),
        versions={**record.run.versions, "instrument": _instrument(record)},
        incomplete=record.missing + len(record.aborted),
        columns=tuple(_columns(cases)),
        rounds={s.id: rounds_left([c for c in cases if c.setting == s]) for s in {c.setting for c in cases}},
    )


def _instrument(record: AuditRecord) -> str:
    """The code that the run was attacked, scored and decided by, and what keeps its series, with the versions and the
    code of plugins whose attacks it used: these are a yardstick too. Empty where the record does not name its code.
    """
    used = record.run.config.get("attacks", {}).get("use", ())
    plugins = {k: v for name in used for k, v in versions_behind(name, record.run.versions).items()}
    own = record.run.instrument
    return digest_of(canonical([own, _of_series(), plugins])) if own else ""


@cache
def _of_series() -> str:
    """SHA-256 of what decides which series are kept: a snapshot that was taken otherwise lacks some."""
    return digest_of_file(Path(__file__))


def _subject(s: Setting) -> Subject:
    parts = [s.method, s.defense if s.defense != "none" else "", s.training]
    return Subject(
        s.id, ", ".join(p for p in parts if p), s.parties, (s.partition, s.encoder, s.scaler, s.defense, s.training)
    )


def _conditions(record: AuditRecord) -> dict[str, str]:
    config, found = record.run.config, {}
    for name in sorted(config.keys() - set(SUBJECT)):
        section = config[name]
        if isinstance(section, Mapping):
            section = {k: v for k, v in section.items() if k not in NO_CONDITION.get(name, ())}
        found[name] = _digest(record, name, section)
    return found


def _digest(record: AuditRecord, name: str, section: Any) -> str:
    """Of a section and what is in the files that it names, those of rows aside: these have a fingerprint."""
    read = {k: v for k, v in record.run.inputs.items() if k.startswith(f"{name}.") and not k.startswith(OF_ROWS)}
    return digest_of(canonical([section, read] if read else section))


def _data(record: AuditRecord) -> dict[str, Any]:
    """The fingerprint covers the schema and each party's rows under the first seed, so it needs that seed to be
    compared. Of other seeds the files are, and the schema where the configuration has it.
    """
    d, schema = record.run.data, record.run.config.get("data", {}).get("schema")
    shape = {"rows": d.rows, "features": d.features, "categorical": d.categorical, "target": d.target, "task": d.task}
    declared = digest_of(canonical(schema)) if isinstance(schema, Mapping) else None
    return {
        "name": d.name,
        "first_seed": record.run.seeds[0],
        "fingerprint": d.fingerprint,
        **shape,
        "schema": declared,
        "files": {key: text for key, text in record.run.inputs.items() if key.startswith(OF_ROWS)},
    }


def _measures(cases: Sequence[CaseRecord]) -> Iterator[Measure]:
    groups: dict[_Key, list[Cluster]] = defaultdict(list)
    for case, t in _deciding(cases):
        if t.value is not None and t.baseline is not None:
            groups[_key(case, t)].append(Cluster(case.seed, t.victim, t.round, t.value, t.baseline))
    for key, clusters in groups.items():
        yield Measure(*key, tuple(_merged([*clusters, *_of_nobody(key, groups)])))


def _of_nobody(key: _Key, groups: Mapping[_Key, Sequence[Cluster]]) -> Iterator[Cluster]:
    """The batches in which an attack that names owners found no identical row: it learnt of nobody whose row it is."""
    cell, attack, observers, metric, level = key
    if metric != OWNER:
        return
    named = {(c.seed, c.victim, c.round) for c in groups[key]}
    prior = sum(c.prior for c in groups[key]) / len(groups[key])
    for c in groups.get((cell, attack, observers, HEADLINE["records"], level), ()):
        if len(clients_of(c.victim)) > 1 and (c.seed, c.victim, c.round) not in named:
            yield c._replace(value=prior, prior=prior)


def _columns(cases: Sequence[CaseRecord]) -> Iterator[Measure]:
    groups: dict[tuple[_Key, str], list[Cluster]] = defaultdict(list)
    for case, t in _deciding(cases):
        for f in t.detail.features if t.detail and t.asset in CELLWISE else ():
            groups[_key(case, t), f.feature].append(Cluster(case.seed, t.victim, t.round, f.value, f.baseline))
    for (key, column), clusters in groups.items():
        yield Measure(*key, tuple(_merged(clusters)), column)


def _deciding(cases: Sequence[CaseRecord]) -> Iterator[tuple[CaseRecord, Trial]]:
    """The scored trials that series are made of."""
    return ((case, t) for case, t in _trials(cases) if t.status == "scored" and (decides(t) or t.metric in BESIDE))


def _key(case: CaseRecord, t: Trial) -> _Key:
    cell = Cell(case.setting.id, adversary(t.observers), asset_of_trial(t))
    return cell, t.attack, t.observers, t.metric, t.level


def _trials(cases: Iterable[CaseRecord]) -> Iterator[tuple[CaseRecord, Trial]]:
    return ((c, t) for c in cases for t in c.trials if not is_calibrator(t.attack))


def _merged(clusters: Iterable[Cluster]) -> Iterator[Cluster]:
    """One number per cluster: the mean where an attack spoke twice of one."""
    same: dict[tuple[int, str, int], list[Cluster]] = defaultdict(list)
    for c in clusters:
        same[c.seed, c.victim, c.round].append(c)
    for (seed, victim, number), found in sorted(same.items()):
        value, prior = (sum(getattr(c, name) for c in found) / len(found) for name in ("value", "prior"))
        yield Cluster(seed, victim, number, value, prior)


def _facts(cases: Sequence[CaseRecord]) -> Iterator[Fact]:
    """Facts of trusted attacks; none of an attack in a cell in which it vouched for something that is not so."""
    failed = failed_controls(cases) | above_bounds(cases)
    shown: dict[tuple[Cell, str, str], dict[tuple[tuple[str, ...], str], dict[int, None]]] = {}
    texts: dict[tuple[Cell, str, str], str] = {}
    wrong = {
        (Cell(c.setting.id, adversary(t.observers), asset_of_trial(t)), t.attack)
        for c, t in _trials(cases)
        if t.certain_wrong
    }

    def note(case: CaseRecord, cell: Cell, what: str, by: Trial | Finding, party: str, text: str) -> None:
        if (cell, by.attack) not in wrong and not {(case.setting.id, by.attack), (case.setting.id, SCORER)} & failed:
            of = shown.setdefault((cell, what, by.attack), {}).setdefault((by.observers, party), {})
            of[case.seed] = None
            texts.setdefault((cell, what, by.attack), text)

    for case, t in _trials(cases):
        if t.certain and not t.certain_wrong and speaks(t.asset, t.metric):
            cell = Cell(case.setting.id, adversary(t.observers), asset_of_trial(t))
            note(case, cell, cell.asset, t, t.victim, f"{t.attack} vouches for claims, and they are right")
    for case in cases:
        for f in case.findings:
            if f.check == STATED_POOLED:
                continue  # what a protocol gives everyone; what it says of one party is scored
            note(case, Cell(case.setting.id, adversary(f.observers), CHECKS), f.check, f, f.party, f.text)
    for (cell, what, attack), of in shown.items():
        seeds = tuple(sorted({seed for each in of.values() for seed in each}))
        each = tuple(Shown(*who, tuple(sorted(its))) for who, its in sorted(of.items()))
        yield Fact(cell, what, attack, next(iter(of))[0], seeds, texts[cell, what, attack], each)


def _played(cases: Sequence[CaseRecord]) -> Iterator[Played]:
    reasons: dict[tuple[str, str, str], str] = {}
    tried = {(c.setting.id, k.attack) for c in cases for k in c.controls if k.kind == "leaky" and k.passed}
    for case, t in _trials(cases):
        key = (case.setting.id, adversary(t.observers), t.attack)
        reasons[key] = "" if t.status == "scored" else reasons.get(key, t.reason)
    for key, reason in reasons.items():
        yield Played(*key, reason, (key[0], key[2]) in tried)


def _broken(cases: Sequence[CaseRecord]) -> Iterator[Broken]:
    failed = {(c.setting.id, k.attack, k.kind) for c in cases for k in c.controls if not k.passed}
    leaky = {(c.setting.id, k.attack) for c in cases for k in c.controls if k.kind == "leaky"}
    untried = {(c.setting.id, t.attack) for c, t in _trials(cases) if t.status == "scored" and decides(t)} - leaky
    yield from (Broken(*key) for key in sorted(failed))
    untrue = {(c.setting.id, t.attack) for c, t in _trials(cases) if t.certain_wrong}
    yield from (Broken(setting, attack, BOUND) for setting, attack in sorted(above_bounds(cases)))
    yield from (Broken(setting, attack, UNTRIED) for setting, attack in sorted(untried))
    yield from (Broken(setting, attack, UNTRUE) for setting, attack in sorted(untrue))


def _utility(cases: Sequence[CaseRecord]) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {}
    for case in cases:
        for row in case.utility:
            if row.metric in UTILITY:
                found.setdefault(case.setting.id, {}).setdefault(row.metric, {})[str(case.seed)] = row.value
    return found
