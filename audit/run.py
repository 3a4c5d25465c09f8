"""The main path: a configuration becomes cases, each case a record, all records one audit.

Read downwards: `run_audit` finds what is left to do and does it; `run_case` is one case from federation to scores. A
case whose federation a party ends is kept as aborted, and the others go on.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import Attack, AuxiliaryKnowledge, FindingClaim, NotApplicable, RecordsClaim, claims_in
from leakledger.audit.aborts import Played, aborted_record, show_traceback, with_aborts
from leakledger.audit.adversaries import observer_sets
from leakledger.audit.case import Case, cases
from leakledger.audit.cluster import each_on_cluster
from leakledger.audit.config import Config
from leakledger.audit.control_federations import frozen
from leakledger.audit.controls import control_attack
from leakledger.audit.federate import Federated, OnAbort, federate, make_encoder, make_scaler, public_options
from leakledger.audit.hiding import hides
from leakledger.audit.leakage import leakage_table
from leakledger.audit.observe import observations
from leakledger.audit.play import Play, view_of
from leakledger.audit.pool import Clock, each
from leakledger.audit.provenance import run_facts
from leakledger.audit.reading import Ran, unread
from leakledger.audit.records import (
    AuditRecord,
    CaseRecord,
    Control,
    Finding,
    RecoveredRecord,
    RunFacts,
    Trial,
    Unread,
    UtilityRow,
    results,
)
from leakledger.audit.run_files import keep_results
from leakledger.audit.run_secret import check_secret, master_secret, secret_text
from leakledger.audit.scorer_controls import scorer_controls
from leakledger.audit.scoring import baseline, score
from leakledger.audit.signature import read_signature
from leakledger.audit.store import FILE as STORE
from leakledger.audit.store import (
    RESULTS,
    SECRETS,
    TRANSCRIPTS,
    NoRecordYet,
    Store,
    StoreError,
    only_writer,
    transcript_name,
)
from leakledger.audit.summary import scores, utility
from leakledger.audit.truth import Truth
from leakledger.audit.uncertainty import surest
from leakledger.audit.verdicts.policy import policy_of
from leakledger.audit.verdicts.rulings import rulings
from leakledger.audit.verdicts.words import verdict
from leakledger.preprocess.atomic_file import private_folder, remove_leftovers
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.secret import derive
from leakledger.preprocess.transcript import write_transcript
from leakledger.preprocess.views import PublicFacts, View

ATTACK_STREAM, BASELINE_STREAM, CONTROL_STREAM, SCORER_STREAM = 2_001, 2_002, 2_003, 2_004

Progress = Callable[[str, int, int], None]
"""Called with the name of a finished case, how many are done and how many there are."""


def run_audit(
    config: Config,
    folder: Path,
    *,
    master: bytes | None = None,
    command: str = "leakledger run",
    progress: Progress = lambda *_: None,
    cluster: str | None = None,
) -> AuditRecord:
    """Runs every case of `config` that `folder` does not hold yet, and writes `results.json` there.

    All secrets of the parties follow from `master`; None is the one that the folder keeps, or else a new one. Cases run
    on this machine, or on the Dask cluster with the scheduler at `cluster`: results are the same to the byte. Of a run
    that has finished nothing is written, so its folder may be read-only. Raises ValueError (with one line) for data or
    settings that cannot be used, before anything is written, and StoreError for a record that was changed; what ended
    the first case, where all that were played were aborted and none has finished before; and Interrupted, which says
    how to continue, for a KeyboardInterrupt while cases run.
    """
    todo = cases(config)
    facts = run_facts(config, todo, folder.name, command)
    if (before := _finished(folder, facts, master)) is not None:
        return before
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with only_writer(folder), closing(Store.create(folder, facts, started)) as store:
        remove_leftovers(folder)
        remove_leftovers(folder / TRANSCRIPTS)
        done = store.finished()
        left = [c for c in todo if c.id not in done]
        secret = master_secret(folder, master, begun=bool(done), recorded=store.digests(SECRETS))
        store.add_file(SECRETS, secret_text(secret))
        own = derive(secret, "run", json.dumps(facts.versions, sort_keys=True))
        errors: dict[str, Exception] = {}
        with resumable(store, len(todo)):
            running = play_cases(config, left, folder, own, cluster)
            for i, played in enumerate(running, start=len(done) + 1):
                case = played.record
                if played.error is None:
                    store.add(case, [transcript_name(case.id)])
                else:
                    store.add_aborted(case, [transcript_name(case.id)])
                    errors[case.id] = played.error
                progress(case.id if played.error is None else f"{case.id}: aborted", i, len(todo))
        record = assemble(store, todo)
        keep_results(store, f"{json.dumps(results(record), indent=1, allow_nan=False)}\n".encode())
        record = replace(record, head=store.head)
    if errors and not record.cases:
        raise next(errors[c.id] for c in todo if c.id in errors)
    return record


def _finished(folder: Path, facts: RunFacts, master: bytes | None) -> AuditRecord | None:
    """The audit in `folder` where it has finished and its results are as they were recorded; None where not."""
    if not (folder / STORE).is_file():
        return None
    with suppress(NoRecordYet), closing(Store.read(folder)) as store:
        store.must_match(facts)
        if store.complete and store.holds(RESULTS):
            check_secret(folder, master, store.digests(SECRETS))
            remove_leftovers(folder)
            return _loaded(store)
    return None


def play_cases(
    config: Config, left: Sequence[Case], folder: Path, master: bytes, cluster: str | None = None
) -> Iterator[Played]:
    """The cases as they end, here or on a cluster."""
    if cluster is not None:
        return each_on_cluster(play_case, config, left, folder, master, cluster)
    one_accelerator = config.audit.device != "cpu"  # one case at a time on it
    jobs = config.audit.jobs or (1 if one_accelerator else None)
    return each(partial(play_case, config, folder=folder, master=master), left, jobs)


class Interrupted(KeyboardInterrupt):
    """A run that its user stopped; the text says what is kept and how to continue."""


@contextmanager
def resumable(store: Store, total: int) -> Iterator[None]:
    """A KeyboardInterrupt becomes one that says what the store has kept."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"{len(store.finished())} of {total} cases are finished and kept in {store.folder}"
        raise Interrupted(f"interrupted: {kept}; the same command does the rest") from None


def play_case(config: Config, case: Case, folder: Path, master: bytes) -> Played:
    """`run_case`, or what is left of a case that a party ended: its transcript until then and a record that says so.

    Other errors are raised: they are no party's, and would meet every case.
    """
    left: list[tuple[Ledger, PublicFacts]] = []
    try:
        return Played(run_case(config, case, folder, master, lambda *ended: left.append(ended)))
    except Exception as error:
        if not left:
            raise
        show_traceback(error)
        keep_transcript(folder, case, *left[0])
        return Played(aborted_record(case, *left[0]), error)


def keep_transcript(folder: Path, case: Case, ledger: Ledger, public: PublicFacts) -> None:
    path = folder / transcript_name(case.id)
    private_folder(path.parent)
    write_transcript(path, ledger, public, {"case": case.id})


def run_case(
    config: Config, case: Case, folder: Path, master: bytes, on_abort: OnAbort = lambda ledger, public: None
) -> CaseRecord:
    """One case: run the federation, split its ledger into views, attack each, score against the truth."""
    clock = Clock()
    with clock.stage("federation"):
        with naming(case):
            federated = federate(config, case, master, on_abort)
        truth = Truth(federated)
    with clock.stage("transcript"):
        keep_transcript(folder, case, federated.ledger, federated.public)
    kept, views = CaseResults(), list[View]()
    knowledge, attempted = granted_knowledge(config, truth), attempts(config, truth)
    prior = baseline(truth, knowledge, _stream(case.seed, BASELINE_STREAM), config.audit.baseline_draws)
    with clock.stage("attacks"):
        for observers in observer_sets(config.audit.observers, federated.public):
            view = view_of(observers, truth)
            ran = []
            for name in config.attacks.use:
                play = Play(make_attack(name, config, case), view, knowledge, truth, prior)
                ran.append(kept.add(play, attempted, config.audit.baseline_draws, case.seed))
            kept.unread += unread(view, ran, kept.controls, hiding_of(case))
            views.append(view)
        tried, coins = attempted if _attacks_records(config) else (), _stream(case.seed, SCORER_STREAM)
        kept.controls += scorer_controls(truth, views, tried, prior, coins)
    return CaseRecord(
        id=case.id,
        setting=case.setting,
        seed=case.seed,
        trials=tuple(kept.trials),
        controls=tuple(kept.controls),
        findings=tuple(kept.findings),
        unread=tuple(kept.unread),
        observations=observations(federated.ledger, federated.public),
        recovered=tuple(kept.recovered),
        utility=utility_rows(federated),
        transcript_head=federated.ledger.head.hex(),
        seconds=clock.seconds,
    )


class CaseError(ValueError):
    """A case whose federation cannot be run: the text names it, and where in it that was."""


@contextmanager
def naming(case: Case) -> Iterator[None]:
    """An error of bad input or of a protocol becomes one that names the case."""
    try:
        yield
    except ValueError as error:
        where = "".join(f" ({note})" for note in getattr(error, "__notes__", [])[:1])
        raise CaseError(f"case {case.id}: {error}{where}") from error


@dataclass
class CaseResults:
    """What the attacks of one case have left so far."""

    trials: list[Trial] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    recovered: list[RecoveredRecord] = field(default_factory=list)

    def add(self, play: Play, attempted: Sequence[tuple[str, int]], draws: int, seed: int) -> Ran:
        """Runs the attack on what it reads, scores its claims and plays those of its controls that fit the view."""
        readable = play.view.restricted(play.attack.accepts, times=play.attack.reads_times)
        technique, outcome = play.attack.technique, play.attack.run(readable, play.knowledge)
        coins = _stream(seed, BASELINE_STREAM)
        self.trials += score(play.attack, play.observers, outcome, play.knowledge, play.truth, attempted, coins, draws)
        claims = claims_in(outcome)
        for c in claims:
            if isinstance(c, FindingClaim):
                self.findings.append(Finding(technique, play.observers, c.party, c.check, c.text, c.evidence))
        records = [c for c in claims if isinstance(c, RecordsClaim)]
        self.recovered += surest(technique, play.observers, records, play.truth)
        applicable = not isinstance(outcome, NotApplicable)
        if applicable:
            attacked = {(c.victim, c.round) for c in records}
            self._play_controls(play, attacked, seed)
        evidence = frozenset(n for c in claims if not isinstance(c, FindingClaim) for n in c.evidence)
        return Ran(play.attack, applicable, evidence)

    def _play_controls(self, play: Play, attacked: Collection[tuple[str, int]], seed: int) -> None:
        """Controls on updates once per attack, since they cost as much as an attack; others once each."""
        done = {(c.attack, c.kind, c.expected) for c in self.controls}
        if "records" in play.attack.asset and play.attack.technique in {attack for attack, _, _ in done}:
            return
        for control in control_attack(play, attacked, _stream(seed, CONTROL_STREAM)):
            if (control.attack, control.kind, control.expected) not in done:
                self.controls.append(control)


def _attacks_records(config: Config) -> bool:
    return any("records" in ATTACKS[name].asset for name in config.attacks.use)


def hiding_of(case: Case) -> Mapping[str, str]:
    """What the named check says of the case's encoder and scaler: topic -> what tells two worlds apart."""
    encoder, scaler = (frozen(public_options(m)) for m in (make_encoder(case), make_scaler(case)))
    return hides(case.preprocessing.encoder, encoder, case.preprocessing.scaler, scaler)


def make_attack(name: str, config: Config, case: Case) -> Attack:
    """The configured attack and those that it plays, with their options; its randomness from the case's seed."""
    kind, options = ATTACKS[name], config.attacks.options
    shared = {
        "seed": int(_stream(case.seed, ATTACK_STREAM).integers(2**31)),
        "rounds": tuple(config.attacks.rounds),
        "device": config.audit.device,
        "recover_labels": config.attacks.labels == "recovered",
        "label_recovery": config.attacks.label_recovery,
    }
    parts = {part: dict(options.get(part, {})) for part in kind.composed_of}
    if "tableak" in parts:
        parts["tableak"]["label_recovery"] = config.attacks.label_recovery
    own = {key: value for key, value in shared.items() if key in getattr(kind, "__dataclass_fields__", {})}
    return kind(**own, **options.get(name, {}), **parts)


def attempts(config: Config, truth: Truth) -> list[tuple[str, int]]:
    """The batches under attack: (client, round); an empty one, as Poisson sampling may draw, has nothing to attack."""
    return [key for key in _observed(config, truth) if len(truth.batch(*key))]


def _observed(config: Config, truth: Truth) -> list[tuple[str, int]]:
    """The batches of attacked rounds, empty ones too."""
    return [key for key in truth.federated.batches if key[1] in config.attacks.rounds]


def granted_knowledge(config: Config, truth: Truth) -> AuxiliaryKnowledge:
    """What the configuration grants every adversary beside its view: the only thing taken from the truth."""
    granted = config.attacks
    return AuxiliaryKnowledge(
        labels={key: truth.labels(*key) for key in _observed(config, truth)} if granted.labels == "known" else {},
        bounds=truth.bounds if granted.bounds == "known" else {},
        dictionaries=truth.dictionaries if granted.dictionaries == "known" else {},
        marginals=truth.marginals if granted.marginals == "known" else {},
        codes=truth.public_codes if granted.dictionaries == "known" else {},
        dependencies=truth.dependencies(granted.determined) if granted.dependencies == "known" else {},
    )


def utility_rows(federated: Federated) -> tuple[UtilityRow, ...]:
    """What the model is worth on held-out rows, and what it took to get there."""
    ledger = federated.ledger
    assert federated.public.layout is not None
    cost = {
        "input_width": federated.public.layout.width,
        "messages": len(ledger),
        "bytes": sum(m.size for m in ledger),
        "rounds": federated.rounds,
    }
    return tuple(UtilityRow(name, float(v)) for name, v in {**federated.metrics, **cost}.items())


def assemble(store: Store, todo: Sequence[Case]) -> AuditRecord:
    """The audit so far, its cases in the order of the configuration."""
    position = {c.id: i for i, c in enumerate(todo)}
    if unknown := sorted(store.finished() - position.keys()):
        raise StoreError(f"{store.folder}: its record has a case that its configuration does not ask for: {unknown[0]}")
    records = sorted(store.cases(), key=lambda r: position[r.id])
    aborted = sorted(store.aborted(), key=lambda r: position[r.id])
    facts, missing = store.facts(), len(todo) - len(records) - len(aborted)
    all_scores, rows, decided = scores(records), utility(records), rulings(records, policy_of(facts.config))
    signed = read_signature(store)
    return AuditRecord(
        run=facts,
        cases=tuple(records),
        scores=all_scores,
        utility=rows,
        verdict=with_aborts(verdict(records, decided, all_scores, rows, missing), aborted),
        missing=missing,
        created=store.created(),
        leakage=leakage_table(records, all_scores),
        rulings=decided,
        aborted=tuple(aborted),
        head=store.head,
        signer=signed.key if signed else "",
    )


def load_record(folder: Path) -> AuditRecord:
    """The audit in `folder`, finished or not. Raises StoreError when there is none."""
    with closing(Store.read(folder)) as store:
        return _loaded(store)


def _loaded(store: Store) -> AuditRecord:
    return assemble(store, cases(Config.model_validate(dict(store.facts().config))))


def _stream(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))
