"""The gate, from top to bottom: every check that the policy asks for, Holm over all of them, waivers, one exit code.

* *fail*: something is above its ceiling or has grown, at alpha over all hypotheses of the gate together (Holm 1979); or
  a deterministic finding is there that the policy forbids.
* *pass*: every check passes. That needs no correction: each must.
* *inconclusive*: everything else: too few clusters, a failed control, a stale baseline, an unfinished run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from leakledger.audit.chain import canonical, digest_of
from leakledger.audit.gate import ceilings, findings, leakage, utility
from leakledger.audit.gate.baseline import Baseline, matched, note_on
from leakledger.audit.gate.differences import clusters_needed
from leakledger.audit.gate.policy import LeakageGate, Policy, UtilityGate
from leakledger.audit.gate.severity import severity
from leakledger.audit.gate.snapshot import UNTRIED, UNTRUE, Cell, Snapshot, snapshot
from leakledger.audit.gate.waivers import Waiver, apply
from leakledger.audit.gate_records import (
    INCONCLUSIVE,
    PASS,
    VIOLATION,
    WAIVER,
    BaselineNote,
    Check,
    CheckKind,
    GateOutcome,
    Status,
    WaiverNote,
)
from leakledger.audit.leakage import adversary
from leakledger.audit.provenance import other_protocols
from leakledger.audit.records import ASSETS, POWER, AuditRecord, check_title, metric_title, plural
from leakledger.audit.verdicts.evidence import GROUPS, asset_of_trial, is_calibrator
from leakledger.audit.verdicts.significance import holm
from leakledger.audit.verdicts.words import ASKED, unasked, unobserved
from leakledger.preprocess.messages import KINDS, Disclosure

GRANTS = ("labels", "bounds", "dictionaries", "marginals", "rows", "dependencies")
OF_UPDATES = ("[model]", "[training]", "[defense]")  # sections that decide what an update tells of rows
ROWS = ASKED["rows or columns"]
CERTAIN = 1.0  # what a deterministic finding counts as, observed


class Family(NamedTuple):
    """The hypotheses that share alpha: `now`, and `planned` for a run in which each has clusters enough."""

    now: int
    planned: int


@dataclass(frozen=True)
class Asked:
    """All that is tested before p-values are corrected together."""

    ceilings: tuple[ceilings.Ceiling, ...]
    regressions: tuple[leakage.Regression, ...]
    losses: tuple[utility.Loss, ...]
    findings: tuple[findings.Found, ...]


def gate(
    record: AuditRecord,
    policy: Policy,
    baseline: tuple[str, Baseline] | None = None,
    waivers: Sequence[Waiver] = (),
    *,
    of_run: bool = False,
) -> GateOutcome:
    """What the policy says of a run; `baseline` with the name of its file, or `of_run` with that of a run's folder."""
    now = snapshot(record)
    note = None if baseline is None else replace(note_on(now, baseline[1], baseline[0]), of_run=of_run)
    before = None if note is None or note.stale or baseline is None else baseline[1].snapshot
    matches = {} if before is None else matched(now.subjects, before.subjects) or {}
    asked = _asked(record, policy, now, before, matches, stale=note is not None and bool(note.stale))
    unanswered = (*_unanswered(policy, now, asked, note), *_unplayed(record, policy, note))
    if before is not None and note is not None:
        unanswered += (*_unattacked(record, policy, now, before, note),)
    checks = [*_checks(record, policy, now, asked, matches), *unanswered]
    left, notes = apply(waivers, checks)
    if all(c.kind == "finding" and (c.asset in policy.findings.allow or c.status == "waived") for c in left):
        nothing = "nothing else" if left else "nothing"
        reason = f"the policy asks {nothing} that this run answers; a ceiling, or a baseline beside it, would"
        left.append(_open("policy", reason))
    outcome = GateOutcome(
        run=record.run.id,
        head=record.head,
        policy=policy.digest,
        checks=tuple(left),
        alpha=policy.gate.alpha,
        power=policy.gate.power,
        family=_family(asked),
        baseline=note,
        waivers=tuple(notes),
        notes=tuple(_notes(record, policy, now, note)),
    )
    status, code = _decided(left, notes, waivers)
    return replace(outcome, status=status, exit_code=code)


def _asked(
    record: AuditRecord,
    policy: Policy,
    now: Snapshot,
    before: Snapshot | None,
    matches: Mapping[str, str],
    *,
    stale: bool,
) -> Asked:
    grown: tuple[leakage.Regression, ...] = ()
    lost: tuple[utility.Loss, ...] = ()
    finished: dict[str, list[int]] = {}
    for case in record.cases:
        finished.setdefault(case.setting.id, []).append(case.seed)
    if before is not None:
        grown = tuple(leakage.regressions(now, finished, before, matches, policy.leakage, policy.gate))
        lost = tuple(utility.losses(now, before, matches, policy.utility, policy.gate))
    above = tuple(ceilings.ceilings(record.cases, policy.leakage, policy.gate))
    facts = findings.found(now, finished, before, matches, policy.findings, policy.gate.alpha, stale)
    return Asked(above, grown, lost, tuple(facts))


def _tested(asked: Asked) -> list[ceilings.Ceiling | leakage.Regression | utility.Loss]:
    return [*asked.ceilings, *asked.regressions, *asked.losses]


def _family(asked: Asked) -> int:
    return sum(t.p is not None for t in _tested(asked))


def _checks(
    record: AuditRecord, policy: Policy, now: Snapshot, asked: Asked, matches: Mapping[str, str]
) -> Iterator[Check]:
    """The answers, p-values corrected over all of them."""
    tested = _tested(asked)
    members = [k for k, t in enumerate(tested) if t.p is not None]
    adjusted = dict(zip(members, holm([float(tested[k].p or 0.0) for k in members]), strict=True))
    family = Family(len(members), len(tested))
    words = {s.id: s.words for s in now.subjects}
    granted = any(record.run.config.get("attacks", {}).get(name) == "known" for name in GRANTS)
    for k, t in enumerate(tested):
        p = adjusted.get(k)
        if isinstance(t, ceilings.Ceiling):
            check = _of_ceiling(t, p, policy, granted)
        elif isinstance(t, leakage.Regression):
            check = _of_regression(t, p, family, policy, granted)
        else:
            check = _of_loss(t, p, family, policy)
        yield _finished(replace(check, subject=words.get(check.setting, "")), now)
    for check in _unmeasured(record, policy, now, asked, matches):
        yield replace(check, subject=words.get(check.setting, ""))
    for f in asked.findings:
        yield _finished(replace(_of_finding(f, granted), subject=words.get(f.fact.cell.setting, "")), now)


def _finished(check: Check, now: Snapshot) -> Check:
    """The check, with no pass where cases of the run are missing."""
    if now.incomplete and check.status == "pass":
        reason = f"{plural(now.incomplete, 'case')} of the run did not run to the end"
        return replace(check, status="inconclusive", reasons=(reason, *check.reasons))
    return check


def fingerprint(kind: str, cell: Cell, what: str = "") -> str:
    """The name of a question: its kind, setting, adversary, asset. Nothing that was measured is in it."""
    return f"LL-{digest_of(canonical([kind, *cell, what]))[:16]}"


def _of_ceiling(c: ceilings.Ceiling, p: float | None, policy: Policy, granted: bool) -> Check:
    status, reasons = ceilings.answer(c, p, policy.gate)
    series = c.speaks(p, policy.gate.alpha)
    mean, low, high = ceilings.measured(series)
    limit = c.gate.ceiling or 0.0
    check = _check("ceiling", c.gate, c.cell, status, reasons)
    check = replace(check, beside=c.doubts, limit=limit, floor=limit, observed=mean, low=low, high=high, p=p)
    if series is None:
        return check
    observers = series.observers
    return replace(
        check,
        clusters=len({*series.seeds}),
        needed=ceilings.needed(limit, policy.gate),
        attack=series.attack,
        observers=observers,
        metric=series.metric,
        most=c.most(policy.gate.alpha),
        severity=severity(c.cell.asset, c.cell.asset, len(observers), granted, low or 0.0),
    )


def _of_regression(r: leakage.Regression, p: float | None, family: Family, policy: Policy, granted: bool) -> Check:
    status, reasons, worst = leakage.answer(r, p, family.now, policy.gate)
    d, m = worst.difference, worst.measure
    return replace(
        _check("regression", r.gate, r.cell, status, reasons),
        beside=r.doubts,
        limit=r.gate.margin,
        floor=r.gate.floor,
        observed=worst.now,
        before=worst.before,
        difference=d.mean,
        low=d.low,
        high=d.high,
        p=p,
        clusters=r.clusters,
        needed=leakage.needed(r, worst, family.planned, policy.gate),
        attack=m.attack,
        observers=m.observers,
        metric=m.metric,
        most=r.most(policy.gate.alpha),
        severity=severity(r.cell.asset, r.cell.asset, len(m.observers), granted, worst.now_low or 0.0),
    )


def _of_loss(loss: utility.Loss, p: float | None, family: Family, policy: Policy) -> Check:
    status, reason = utility.answer(loss, p, family.now, policy.gate)
    cell, g, d = Cell(loss.setting, "", loss.gate.metric), loss.gate, loss.difference
    check = _check("utility", g, cell, status, (reason,))
    if d is None:
        return check
    return replace(
        check,
        limit=g.margin,
        floor=g.floor,
        observed=loss.now,
        before=loss.before,
        difference=d.mean,
        low=d.low,
        high=d.high,
        p=p,
        clusters=d.clusters,
        needed=clusters_needed(d.scatter, g.margin, policy.gate.alpha, policy.gate.power, family.planned),
        metric=g.metric,
    )


def _of_finding(f: findings.Found, granted: bool) -> Check:
    fact = f.fact
    return Check(
        gate=_question("finding", fact.cell._replace(asset=fact.what)),
        kind="finding",
        setting=fact.cell.setting,
        subject="",
        adversary=fact.cell.adversary,
        asset=fact.what,
        status=f.status,
        reasons=(f.reason,),
        fingerprint=fingerprint("finding", fact.cell, fact.what),
        observed=CERTAIN,
        clusters=len(fact.seeds),
        attack=fact.attack,
        observers=fact.observers,
        severity=severity(fact.cell.asset, fact.what, len(fact.observers), granted, CERTAIN, certain=True),
        new=f.new,
    )


def _check(
    kind: CheckKind, g: LeakageGate | UtilityGate | None, cell: Cell, status: Status, reasons: Sequence[str]
) -> Check:
    return Check(
        gate=_question(kind, cell, getattr(g, "name", "")),
        kind=kind,
        setting=cell.setting,
        subject="",
        adversary=cell.adversary,
        asset=cell.asset,
        status=status,
        reasons=tuple(reasons),
        fingerprint=fingerprint(kind, cell),
    )


def _question(kind: CheckKind, cell: Cell, entry: str = "") -> str:
    """What is asked of whom, and the entry of the policy that asks: no two checks of a setting are called alike."""
    by = f" by {cell.adversary}" if cell.adversary else ""
    known = metric_title(cell.asset) if kind == "utility" else ASSETS.get(cell.asset, "")
    asset = known or f"{check_title(cell.asset)} ({cell.asset})"  # the name that `findings.allow` takes
    return f"{kind}: {asset}{by}{f' ({entry})' if entry else ''}"


def _unanswered(policy: Policy, now: Snapshot, asked: Asked, note: BaselineNote | None) -> Iterator[Check]:
    """What the policy asks for and nothing answers: never a silent pass."""
    if note is not None and note.stale:
        for reason in note.stale:
            if note.of_run:
                yield _open("comparison", f"the run before cannot be compared: {reason}")
            else:
                yield _open("baseline", f"the baseline is stale: {reason}; `leakledger baseline save` moves it")
    compared = note is not None and not note.stale
    judged = {id(t.gate) for t in asked.ceilings} | {id(t.gate) for t in asked.regressions}
    for k, g in enumerate(policy.leakage, 1):
        name = _entry(g, k, note)
        if g.regression and note is None:
            yield _open(name, "it asks for a comparison, and no baseline was given")
        elif id(g) not in judged and (g.ceiling is not None or (compared and g.regression is not False)):
            about = ", ".join(ASSETS[a] for a in g.assets[:3])
            yield _open(name, f"nothing was measured of {g.adversary} adversaries about {about}")
    if policy.utility and note is None:
        yield _open("utility", "it asks for a comparison, and no baseline was given")
    if policy.findings.forbid != "none":
        yield from _unfound(now)
    if now.incomplete:
        yield _open("run", f"{plural(now.incomplete, 'case')} of it did not run to the end; finish it first")
    elif not now.subjects:
        yield _open("run", "no case of a federated setting has finished")


def _entry(g: LeakageGate, number: int, note: BaselineNote | None) -> str:
    """The name of an entry of the policy; of two runs that are compared nobody has written one."""
    return g.name or ("leakage" if note is not None and note.of_run else f"leakage[{number}]")


def _unplayed(record: AuditRecord, policy: Policy, note: BaselineNote | None) -> Iterator[Check]:
    """Assets that an entry names and that no attack in use is about: the others' answers are none for these. And rows,
    where what updates tell of them has changed.
    """
    played = _played(record)
    fresh = None if note is None or note.stale else note
    asking = [
        (_entry(g, k, note), g)
        for k, g in enumerate(policy.leakage, 1)
        if g.ceiling is not None or (fresh is not None and g.regression is not False)
    ]
    for name, g in asking:
        without = [asset for asset in g.assets if asset not in played]
        if without and "assets" in g.model_fields_set and len(without) < len(g.assets):
            yield _open(name, f"no attack in use is about {', '.join(without)}")
    changed = [section for section in OF_UPDATES if fresh is not None and section in fresh.changed]
    if changed and not played & {*ROWS} and any("records" in g.assets for _, g in asking):
        yield _open(
            "what updates tell",
            f"{', '.join(changed)} changed, and no attack in use is about rows: play one on updates, "
            "or name the assets that the policy is to judge",
        )


def _unattacked(
    record: AuditRecord, policy: Policy, now: Snapshot, before: Snapshot, note: BaselineNote
) -> Iterator[Check]:
    """Rounds of training that no claim is about, where these are more than before and what updates tell has changed:
    they show batches of their own, and that the attacked ones show no more says nothing of these.
    """
    changed = [section for section in OF_UPDATES if section in note.changed]
    judged = any("records" in g.assets and g.regression is not False for g in policy.leakage)
    if not changed or not judged or not _played(record) & {*ROWS}:
        return
    matches = matched(now.subjects, before.subjects) or {}
    for s in now.subjects:
        left, rounds = (now.rounds or {}).get(s.id, (0, 0))
        known, of = (before.rounds or {}).get(matches[s.id], (0, 0))
        if left > known:
            reason = (
                f"{', '.join(changed)} changed, and no claim is about any batch of {left} of "
                f"{plural(rounds, 'round')} of training, before of {known} of {of}: name more of them in attacks.rounds"
            )
            yield replace(_open("what updates tell", reason, s.id), subject=s.words)


def _played(record: AuditRecord) -> set[str]:
    """The assets that attacks in use are about."""
    return {
        asset
        for case in record.cases
        for t in case.trials
        if not is_calibrator(t.attack)
        for asset in GROUPS.get(t.asset, ()) or (asset_of_trial(t),)
    }


def _unmeasured(
    record: AuditRecord, policy: Policy, now: Snapshot, asked: Asked, matches: Mapping[str, str]
) -> Iterator[Check]:
    """Questions that a gate judges, of which no attack claims anything in either run while something is unread, or an
    attack on records gave up: what that tells may have grown, however long nobody looked.
    """
    answered = {t.cell for t in asked.ceilings} | {t.cell for t in asked.regressions}
    silent = _silent(record)
    for ruling in record.rulings:
        cell = Cell(ruling.setting, ruling.adversary, ruling.asset)
        judge = next((g for g in policy.leakage if g.judges(cell.adversary, cell.asset)), None)
        topics = sorted({t for s, kind, t in now.unread if (s, kind) == cell[:2] and _bears_on(t, cell.asset)})
        gave_up = sorted(silent.get(cell, ()) if cell.asset == "records" else ())
        if judge is None or cell in answered or not (topics or gave_up):
            continue
        if judge.ceiling is not None or (cell.setting in matches and judge.regression is not False):
            unread = [f"no attack reads {', '.join(topics)}"] if topics else []
            abstained = [f"{', '.join(gave_up)} made no claim"] if gave_up else []
            reason = f"nothing was measured of it: {', and '.join([*unread, *abstained])}"
            kind: CheckKind = "regression" if cell.setting in matches else "ceiling"
            yield _check(kind, judge, cell, "inconclusive", (reason,))


def _bears_on(topic: str, asset: str) -> bool:
    """Whether an unread kind may tell of an asset: models and updates tell of records, any other of anything."""
    return asset == "records" or topic not in KINDS or KINDS[topic].discloses is not Disclosure.UPDATE


def _silent(record: AuditRecord) -> dict[Cell, set[str]]:
    """Cell -> the attacks that apply and claimed nothing in some case."""
    found: dict[Cell, set[str]] = {}
    for case in record.cases:
        for t in case.trials:
            if t.status == "abstained":
                found.setdefault(Cell(case.setting.id, adversary(t.observers), t.asset), set()).add(t.attack)
    return found


def _unfound(now: Snapshot) -> Iterator[Check]:
    """Attacks whose findings count for nothing (`snapshot`): that there is none, or none that is new, says nothing."""
    words = {s.id: s.words for s in now.subjects}
    reasons: dict[tuple[str, str], list[str]] = {}
    for b in now.broken:
        if b.kind == UNTRUE:
            reasons.setdefault((b.setting, b.attack), []).append(f"{b.attack} vouched for something that is not so")
        elif b.kind not in (POWER, UNTRIED):
            reasons.setdefault((b.setting, b.attack), []).append(f"the {b.kind} control of {b.attack} did not hold")
    for (setting, attack), why in reasons.items():
        reason = f"{', and '.join(why)}: what it finds for certain is not counted"
        yield replace(_open(f"findings of {attack}", reason, setting), subject=words.get(setting, ""))


def _open(name: str, reason: str, setting: str = "") -> Check:
    cell = Cell(setting, "", "")
    check = _check("precondition", None, cell, "inconclusive", (reason,))
    return replace(check, gate=name, fingerprint=fingerprint("precondition", cell, name))


def _notes(record: AuditRecord, policy: Policy, now: Snapshot, note: BaselineNote | None) -> Iterator[str]:
    yield from filter(None, (record.other_code, other_protocols(record.run)))
    if note is None:
        yield "No baseline: nothing was compared, and every finding counts as new."
    else:
        yield from note.notes
    if pooled := dict.fromkeys(c.setting.method for c in record.cases if c.setting.reference):
        yield f"Rows are pooled, which no federation could, and nothing is judged, under {', '.join(pooled)}"
    if note is not None and (unread := sorted({topic for *_, topic in now.unread})):
        yield f"No attack reads {', '.join(unread)}: whether what they tell has grown is not compared"
    if policy.findings.forbid == "none":
        yield "The policy does not look at deterministic findings."
    unjudged: dict[str, set[str]] = {}
    for cell in {m.cell for m in now.measures}:
        judge = next((g for g in policy.leakage if g.judges(cell.adversary, cell.asset)), None)
        if judge is None or (judge.ceiling is None and judge.regression is False):
            unjudged.setdefault(cell.adversary, set()).add(cell.asset)
    for kind, assets in sorted(unjudged.items()):
        yield f"No entry of the policy judges what {kind} learns: {', '.join(sorted(assets))}"
    if nobody := unasked(_played(record)):
        yield nobody
    yield from unobserved(record.cases)


def _decided(checks: Sequence[Check], notes: Sequence[WaiverNote], waivers: Sequence[Waiver]) -> tuple[Status, int]:
    """The outcome and its exit code: a violation that no waiver was written for, before a void waiver, before an open
    question.
    """
    fates = zip(notes, waivers, strict=True)
    void = [w for n, w in fates if n.void]
    covered = {(w.fingerprint, w.scope) for w in void}
    failed = [c for c in checks if c.status == "fail"]
    if any((c.fingerprint, c.setting) not in covered for c in failed):
        return "fail", VIOLATION
    if void:
        return "fail", WAIVER
    if any(c.status == "inconclusive" for c in checks):
        return "inconclusive", INCONCLUSIVE
    return "pass", PASS
