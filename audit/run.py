"""The main path: a configuration becomes cases, each case a record, all records one audit.

Read downwards: `run_audit` finds what is left to do and does it; `run_case` is one case from federation to scores. A
case whose federation a party ends is kept as aborted, and the others go on.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from pathlib import Path

from leakledger.attacks import ATTACKS
from leakledger.audit.aborts import Played, aborted_record, tell_cause
from leakledger.audit.adversaries import observer_sets
from leakledger.audit.assemble import assemble, loaded
from leakledger.audit.case import Case, cases
from leakledger.audit.case_kinds import run_federation, truth_of
from leakledger.audit.case_results import CaseResults
from leakledger.audit.cluster import Cluster, connected, each_on_cluster
from leakledger.audit.config import Config
from leakledger.audit.control_parties import frozen
from leakledger.audit.estimate import check_fits, estimate
from leakledger.audit.federate import Federated, OnAbort, frozen_methods, public_options
from leakledger.audit.granted import attempts, granted_knowledge, make_attack
from leakledger.audit.guarded import guarded
from leakledger.audit.hiding import hides, hides_columns, hides_updates, is_hidden
from leakledger.audit.input_files import by_key, check_unchanged, digests
from leakledger.audit.installed import check_extras
from leakledger.audit.observe import observations
from leakledger.audit.play import Play, view_of
from leakledger.audit.plugin_errors import naming_plugins, told_of_plugin
from leakledger.audit.pool import Clock, each
from leakledger.audit.privacy_accounting import privacy_accounts
from leakledger.audit.provenance import partitioned, run_facts
from leakledger.audit.reading import unread
from leakledger.audit.records import AuditRecord, CaseRecord, RunFacts, UtilityRow, plural, results
from leakledger.audit.run_files import keep_results
from leakledger.audit.run_secret import check_secret, master_secret, secret_text
from leakledger.audit.scorer_controls import scorer_controls
from leakledger.audit.scoring import baseline
from leakledger.audit.steps import Listener, Steps
from leakledger.audit.store import FILE as STORE
from leakledger.audit.store import RESULTS, SECRETS, TRANSCRIPTS, NoRecordYet, Store, only_writer, transcript_name
from leakledger.audit.streams import BASELINE_STREAM, SCORER_STREAM, stream
from leakledger.audit.termination import Interrupted, interrupts_noted
from leakledger.preprocess.atomic_file import private_folder, remove_leftovers
from leakledger.preprocess.features.transformations import BINARY
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.method_errors import may_be_told, place_of
from leakledger.preprocess.secret import derive
from leakledger.preprocess.told_failure import ON_REQUEST, ToldFailure
from leakledger.preprocess.transcript import write_transcript
from leakledger.preprocess.views import Message, PublicFacts, View

Progress = Callable[[str, int, int], None]
"""Called with the name of a finished case, how many are done and how many there are."""


def run_audit(
    config: Config,
    folder: Path,
    *,
    master: bytes | None = None,
    command: str = "leakledger run",
    progress: Progress = lambda *_: None,
    on_step: Listener | None = None,
    cluster: str | None = None,
    transcripts: bool = True,
) -> AuditRecord:
    """Runs every case of `config` that `folder` does not hold yet, and writes `results.json` there.

    All secrets of the parties follow from `master`; None is the one that the folder keeps, or else a new one. Cases run
    on this machine, or on the Dask cluster with the scheduler at `cluster`: results are the same to the byte. `on_step`
    is told what cases on this machine are at. Without `transcripts` no message is kept, only what was found. Of a run
    that has finished nothing is written, so its folder may be read-only. Raises ValueError (with one line) for data or
    settings that cannot be used or a cluster that does not answer, before anything is written, for a cluster that is
    lost, and for an input file that changed while cases read it, of which no case that may have read the other one is
    kept; StoreError for a record that was changed; what ended the first case, where all that were played were aborted
    and none has finished before; and Interrupted, which says how to continue, for a KeyboardInterrupt while cases run.
    """
    with guarded():  # what methods state is asked of plugins too
        todo, files_read = cases(config), digests(config)
        inputs = by_key(config, files_read)
        tables = partitioned(config, todo)
        facts = replace(run_facts(config, todo, folder.name, command, tables), transcripts=transcripts, inputs=inputs)
        if (before := _finished(folder, facts, master)) is not None:
            return before
        if cluster is None:
            check_extras(config)
        planned = estimate(config, todo, next(iter(tables.values())))
        if cluster is not None:  # workers have memory of their own, and how many there will be nobody knows
            planned = replace(planned, memory=0.0, seconds=0.0)
        check_fits(planned, folder=folder if transcripts else None)
        del tables  # cases read their own
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with (
        nullcontext() if cluster is None else connected(config, cluster) as remote,
        only_writer(folder),
        closing(Store.create(folder, facts, started)) as store,
    ):
        remove_leftovers(folder)
        remove_leftovers(folder / TRANSCRIPTS)
        done, kept = store.finished(), store.facts().transcripts  # as the run was begun
        left = [c for c in todo if c.id not in done]
        secret = master_secret(folder, master, begun=bool(done), recorded=store.digests(SECRETS))
        store.add_file(SECRETS, secret_text(secret))
        own = derive(secret, "run", json.dumps(facts.versions, sort_keys=True))
        errors: dict[str, Exception] = {}
        running = play_cases(config, left, folder, own, remote, on_step, kept)
        with resumable(store, len(todo)) as go_on:
            with closing(running):  # what is raised here ends its workers first
                for i, played in enumerate(running, start=len(done) + 1):
                    go_on()
                    check_unchanged(config, files_read)
                    case = played.record
                    files = [transcript_name(case.id)] if kept else []
                    if played.error is None:
                        store.add(case, files)
                    else:
                        store.add_aborted(case, files)
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
            return loaded(store)
    return None


def play_cases(
    config: Config,
    left: Sequence[Case],
    folder: Path,
    master: bytes,
    cluster: Cluster | None = None,
    on_step: Listener | None = None,
    transcripts: bool = True,
) -> Generator[Played, None, None]:
    """The cases as they end, here or on a cluster."""
    play = play_case if transcripts else play_unrecorded
    if cluster is not None:
        return each_on_cluster(play, config, left, folder, master, cluster)
    one_accelerator = config.audit.device != "cpu"  # one case at a time on it
    jobs = config.audit.jobs or (1 if one_accelerator else None)
    return each(partial(play, config, folder=folder, master=master), left, jobs, on_step, name=attrgetter("id"))


@contextmanager
def resumable(store: Store, total: int) -> Iterator[Callable[[], None]]:
    """A KeyboardInterrupt becomes one that says what the store has kept. Yields what raises one where code of others
    has caught it: of a case that it came into, nothing is to be kept.
    """
    with interrupts_noted() as interrupted:

        def go_on() -> None:
            if interrupted():
                raise KeyboardInterrupt

        try:
            yield go_on
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt) and not interrupted():
                raise
            finished = f"{len(store.finished())} of {plural(total, 'case is', 'cases are')} finished"
            kept = f"{finished} and kept in {store.folder}"
            raise Interrupted(f"interrupted: {kept}; the same command does the rest") from None


def play_case(config: Config, case: Case, folder: Path, master: bytes) -> Played:
    """`run_case`, or what is left of a case that a party ended: its transcript until then and a record that says so.

    Other errors are raised: they are no party's, and would meet every case.
    """
    left: list[tuple[Ledger, PublicFacts]] = []
    try:
        with guarded(), naming_plugins():
            return Played(run_case(config, case, folder, master, lambda *ended: left.append(ended)))
    except Exception as error:
        if not left:
            raise
        tell_cause(error)
        keep_transcript(folder, case, *left[0])
        return Played(aborted_record(case, *left[0]), error)


def play_unrecorded(config: Config, case: Case, folder: Path, master: bytes) -> Played:
    """`play_case`, whose transcript is thrown away once everything that is to be found in it was."""
    played = play_case(config, case, folder, master)
    (folder / transcript_name(case.id)).unlink(missing_ok=True)
    return played


def keep_transcript(folder: Path, case: Case, ledger: Ledger, public: PublicFacts) -> None:
    path = folder / transcript_name(case.id)
    private_folder(path.parent)
    write_transcript(path, ledger, public, {"case": case.id})


def run_case(
    config: Config, case: Case, folder: Path, master: bytes, on_abort: OnAbort = lambda ledger, public: None
) -> CaseRecord:
    """One case: run the federation, split its ledger into views, attack each, score against the truth."""
    clock, steps = Clock(), steps_of(config, case)
    steps.federation()
    with clock.stage("federation"):
        with naming(case):
            federated = run_federation(config, case, master, on_abort)
        truth = truth_of(federated)
    with clock.stage("transcript"):
        keep_transcript(folder, case, federated.ledger, federated.public)
    with clock.stage("accounting"), naming(case):
        rows, negotiated = [len(t) for t in federated.tables.values()], federated.public.schema["negotiated"]
        privacy = privacy_accounts(config, case, federated.schema, rows, negotiated)
    kept, views = CaseResults(), list[View]()
    knowledge, attempted = granted_knowledge(config, truth), attempts(config, truth)
    prior = baseline(truth, knowledge, stream(case.seed, BASELINE_STREAM), config.audit.baseline_draws)
    with clock.stage("attacks"):
        hiding = hiding_of(case, federated.ledger)
        for observers in observer_sets(config.audit.observers, federated.public):
            view = view_of(observers, truth)
            ran = []
            for name in config.attacks.use:
                steps.attack(name, observers)
                play = Play(make_attack(name, config, case), view, knowledge, truth, prior)
                ran.append(kept.add(play, attempted, config.audit.baseline_draws, case.seed))
            kept.unread += unread(view, federated.ledger, ran, kept.controls, hiding)
            views.append(view)
        tried, coins = attempted if _attacks_records(config) else (), stream(case.seed, SCORER_STREAM)
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
        privacy=privacy,
        transcript_head=federated.ledger.head.hex(),
        seconds=clock.seconds,
    )


def steps_of(config: Config, case: Case) -> Steps:
    """The steps of a case, told while it runs."""
    clients = tuple(f"P{i + 1}" for i in range(case.setting.parties))  # their number decides, not their names
    try:
        adversaries = len(observer_sets(config.audit.observers, PublicFacts(clients, "server")))
    except ValueError:  # parties that have other names
        adversaries = len(config.audit.observers)
    attacks = [(name, "records" in ATTACKS[name].asset) for name in config.attacks.use]
    return Steps(case.id, attacks, adversaries)


class CaseError(ValueError):
    """A case whose federation cannot be run: the text names it, and where in it that was."""


@contextmanager
def naming(case: Case) -> Iterator[None]:
    """An error of bad input or of a protocol becomes one that names the case."""
    try:
        yield
    except ValueError as error:
        said = may_be_told(error)
        own = f"{type(error).__name__}; {said}" if said == ON_REQUEST else said
        raise CaseError(f"case {case.id}: {told_of_plugin(error) or own}{place_of(error)}") from error


def _attacks_records(config: Config) -> bool:
    return any("records" in ATTACKS[name].asset for name in config.attacks.use)


def hiding_of(case: Case, ledger: Ledger) -> Mapping[str, str]:
    """What the named check says of the case's encoder and scaler and how it aggregates updates, or of how columns are
    exchanged for features: topic -> what tells two worlds apart, or why it was not checked. That an aggregation hides
    what it sends says nothing of what an encoder or a scaler sent on its topic, on these tables and on no made-up ones.
    """
    if case.features is not None and case.features.flfe.exchange != "masked":
        flfe = case.features.flfe
        tried = tuple(t for t in flfe.tried if t in BINARY)
        return _checked(ledger, lambda: hides_columns(flfe.exchange, tried))
    if case.features is not None or case.alignment is not None:
        return {}  # nothing that is sent says that it hides by itself
    chosen, protocol = frozen_methods(case), frozen(public_options(case.training.protocol))
    messages = list(ledger)
    aggregation = case.training.aggregation
    prepared = next((i for i, m in enumerate(messages) if _is_training(m.step, aggregation)), len(messages))
    methods = _checked(messages[:prepared], lambda: hides(*chosen))
    updates = _checked(messages[prepared:], lambda: hides_updates(aggregation, protocol))
    before = {m.topic for m in messages[:prepared] if m.step not in ("schema", "impute")}
    vouched = {topic: "" for topic, why in updates.items() if not why and topic not in before}
    return {**vouched, **methods, **{topic: why for topic, why in updates.items() if why}}


def _is_training(step: str, aggregation: str) -> bool:
    """Whether a message of this step comes after all of encoder and scaler, whatever they call steps of their own: an
    aggregation agrees on keys before the first step of training, under its own name.
    """
    return step in ("train", "evaluate") or step.startswith(aggregation)


def _checked(messages: Iterable[Message], check: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
    """What the named check of `messages` finds. A method may refuse what the check makes up where it took what the
    parties hold: then nothing is known of those that were to hide.
    """
    try:
        return check()
    except (ValueError, ToldFailure) as error:
        tell_cause(error)
        why = f"whether it does was not checked, since made-up values were refused: {error}"
        return {m.topic: why for m in messages if is_hidden(m)}


def utility_rows(federated: Federated) -> tuple[UtilityRow, ...]:
    """What the model is worth on held-out rows, and what it took to get there."""
    ledger, layout = federated.ledger, federated.public.layout
    cost = {
        **({"input_width": layout.width} if layout is not None else {}),
        "messages": len(ledger),
        "bytes": sum(m.size for m in ledger),
        "rounds": federated.rounds,
    }
    return tuple(UtilityRow(name, float(v)) for name, v in {**federated.metrics, **cost}.items())
