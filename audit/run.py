"""The main path: a configuration becomes cases, each case a record, all records one audit.

Read downwards: `run_audit` finds what is left to do and does it; `run_case` is one case from federation to scores.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from attacks import ATTACKS
from attacks.base import Attack, AuxiliaryKnowledge, FindingClaim, RecordsClaim, claims_in
from audit.adversaries import observer_sets
from audit.case import Case, cases
from audit.config import Config
from audit.controls import control_attack
from audit.facts import run_facts
from audit.federate import Federated, federate
from audit.found import found
from audit.observe import observations
from audit.play import Play, view_of
from audit.pool import Clock, each
from audit.records import AuditRecord, CaseRecord, Control, Finding, RecoveredRecord, Trial, UtilityRow, results
from audit.scoring import score
from audit.store import Store, only_writer
from audit.summary import scores, utility, verdict
from audit.truth import Truth
from audit.uncertainty import surest
from preprocess.transcript import write_transcript

ATTACK_STREAM, BASELINE_STREAM, CONTROL_STREAM = 2_001, 2_002, 2_003

Progress = Callable[[str, int, int], None]
"""Called with the name of a finished case, how many are done and how many there are."""


def run_audit(
    config: Config, folder: Path, *, command: str = "leakledger run", progress: Progress = lambda *_: None
) -> AuditRecord:
    """Runs every case of `config` that `folder` does not hold yet, and writes `results.json` there.

    Raises ValueError (with one line) for data or settings that cannot be used, before anything is written.
    """
    todo = cases(config)
    facts = run_facts(config, todo, folder.name, command)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with only_writer(folder), closing(Store.create(folder, facts, started)) as store:
        done = store.finished()
        left = [c for c in todo if c.id not in done]
        work = partial(run_case, config, folder=folder)
        jobs = config.audit.jobs or (
            None if config.audit.device == "cpu" else 1
        )  # one case at a time on one accelerator
        for i, finished in enumerate(each(work, left, jobs), start=len(done) + 1):
            store.add(finished)
            progress(finished.id, i, len(todo))
        record = assemble(store, todo)
        write_json(folder / "results.json", results(record))
    return record


def run_case(config: Config, case: Case, folder: Path) -> CaseRecord:
    """One case: run the federation, split its ledger into views, attack each, score against the truth."""
    clock = Clock()
    with clock.stage("federation"):
        federated = federate(config, case)
        truth = Truth(federated)
    with clock.stage("transcript"):
        path = folder / "transcripts" / f"{case.id}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_transcript(path, federated.fed.ledger, federated.public, {"case": case.id})
    findings = Findings()
    knowledge, attempted = granted_knowledge(config, truth), attempts(config, truth)
    with clock.stage("attacks"):
        for observers in observer_sets(config.audit.observers, federated.public):
            view = view_of(observers, truth)
            for name in config.attacks.use:
                play = Play(make_attack(name, config, case), view, knowledge, truth)
                findings.add(play, attempted, config.audit.baseline_draws, case.seed)
    return CaseRecord(
        id=case.id,
        setting=case.setting,
        seed=case.seed,
        trials=tuple(findings.trials),
        controls=tuple(findings.controls),
        findings=tuple(findings.findings),
        observations=observations(federated.fed.ledger, federated.public),
        recovered=tuple(findings.recovered),
        utility=utility_rows(federated),
        transcript_head=federated.fed.ledger.head.hex(),
        seconds=clock.seconds,
    )


@dataclass
class Findings:
    """What the attacks of one case have left so far."""

    trials: list[Trial] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    recovered: list[RecoveredRecord] = field(default_factory=list)

    def add(self, play: Play, attempted: Sequence[tuple[str, int]], draws: int, seed: int) -> None:
        """Runs the attack and scores its claims; plays its controls the first time that it makes any."""
        technique, outcome = play.attack.technique, play.attack.run(play.view, play.knowledge)
        coins = _stream(seed, BASELINE_STREAM)
        self.trials += score(play.attack, play.observers, outcome, play.knowledge, play.truth, attempted, coins, draws)
        claims = claims_in(outcome)
        if not claims:
            return
        for c in claims:
            if isinstance(c, FindingClaim):
                self.findings.append(Finding(technique, play.observers, c.party, c.check, c.text, c.evidence))
        records = [c for c in claims if isinstance(c, RecordsClaim)]
        self.recovered += surest(technique, play.observers, records, play.truth)
        if technique not in {c.attack for c in self.controls}:
            attacked = {(c.victim, c.round) for c in records}
            self.controls += control_attack(play, attacked, _stream(seed, CONTROL_STREAM))


def make_attack(name: str, config: Config, case: Case) -> Attack:
    """The configured attack with those of the configured options that it has; its randomness from the case's seed."""
    kind = ATTACKS[name]
    offered = {
        "seed": int(_stream(case.seed, ATTACK_STREAM).integers(2**31)),
        "rounds": tuple(config.attacks.rounds),
        "device": config.audit.device,
        "recover_labels": config.attacks.labels == "recovered",
        "label_recovery": config.attacks.label_recovery,
        "tableak": {**config.attacks.tableak.model_dump(), "label_recovery": config.attacks.label_recovery},
        "tableak_fedavg": config.attacks.tableak_fedavg.model_dump(),
        **(options.model_dump() if (options := getattr(config.attacks, name, None)) else {}),
    }
    return kind(**{k: v for k, v in offered.items() if k in getattr(kind, "__dataclass_fields__", {})})


def attempts(config: Config, truth: Truth) -> list[tuple[str, int]]:
    """The batches under attack: (client, round)."""
    return [key for key in truth.federated.batches if key[1] in config.attacks.rounds]


def granted_knowledge(config: Config, truth: Truth) -> AuxiliaryKnowledge:
    """What the configuration grants every adversary beside its view: the only thing taken from the truth."""
    granted = config.attacks
    return AuxiliaryKnowledge(
        labels={key: truth.labels(*key) for key in attempts(config, truth)} if granted.labels == "known" else {},
        bounds=truth.bounds if granted.bounds == "known" else {},
        dictionaries=truth.dictionaries if granted.dictionaries == "known" else {},
        marginals=truth.marginals if granted.marginals == "known" else {},
        codes=truth.public_codes if granted.dictionaries == "known" else {},
        dependencies=truth.dependencies(granted.determined) if granted.dependencies == "known" else {},
    )


def utility_rows(federated: Federated) -> tuple[UtilityRow, ...]:
    """What the model is worth on held-out rows, and what it took to get there."""
    ledger = federated.fed.ledger
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
    records = sorted(store.cases(), key=lambda r: position[r.id])
    all_scores, rows = scores(records), utility(records)
    return AuditRecord(
        run=store.facts(),
        cases=tuple(records),
        scores=all_scores,
        utility=rows,
        verdict=verdict(records, all_scores, rows),
        missing=len(todo) - len(records),
        created=store.created(),
        found=found(records, all_scores),
    )


def load_record(folder: Path) -> AuditRecord:
    """The audit in `folder`, finished or not. Raises StoreError when there is none."""
    with closing(Store.read(folder)) as store:
        return assemble(store, cases(Config.model_validate(dict(store.facts().config))))


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Writes a file that is whole or not there at all."""
    temporary = path.with_suffix(".partial")
    temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def _stream(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))
