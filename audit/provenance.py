"""The facts of a run: everything that is needed to run it again, none of the data's values."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import torch

from leakledger.attacks import ATTACKS
from leakledger.audit.adversaries import not_played, observer_sets
from leakledger.audit.case import Case, source_name
from leakledger.audit.chain import canonical, digest_of, digest_of_file
from leakledger.audit.config import Config
from leakledger.audit.dependencies import known_dependencies
from leakledger.audit.federate import party_tables
from leakledger.audit.federate_alignment import check_dealt, deal
from leakledger.audit.plugins import versions_of_plugins
from leakledger.audit.privacy_accounting import check_declarations
from leakledger.audit.records import DataFacts, RunFacts
from leakledger.preprocess.data.impute import filled
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.views import PublicFacts

ROOT = Path(__file__).parents[1]
LIBRARIES = ("leakledger", "torch", "numpy", "scipy", "pandas", "scikit-learn", "pynacl")


def partitioned(config: Config, todo: Sequence[Case]) -> dict[str, dict[str, Table]]:
    """Each party's rows under each partition that the cases have. Raises ValueError for data that cannot be used."""
    partitions = {c.setting.partition: c for c in reversed(todo)}
    return {name: party_tables(config, case) for name, case in partitions.items()}


def run_facts(
    config: Config,
    todo: Sequence[Case],
    name: str,
    command: str,
    tables: Mapping[str, Mapping[str, Table]] | None = None,
) -> RunFacts:
    """Everything needed to run it again. Reads the data and partitions it, so that bad input stops here; `tables` are
    those of `partitioned`, where they are read already.
    """
    tables = partitioned(config, todo) if tables is None else tables
    parties = next(iter(tables.values()))
    first = next(iter(parties.values()))
    if config.attacks.dependencies == "known":
        known_dependencies(tuple(filled(t) for t in parties.values()), config.attacks.determined)
    public = PublicFacts(tuple(parties), "server")
    played = observer_sets(config.audit.observers, public)
    schema = first.schema
    check_declarations(todo, schema)
    check_alignments(config, todo)
    return RunFacts(
        id=name,
        config=config.in_force(),
        command=command,
        seeds=tuple(config.audit.seeds),
        versions=versions(),
        device=device_name(config.audit.device),
        data=DataFacts(
            name=source_name(config.data.source),
            rows=len(first) if config.features else sum(len(t) for t in parties.values()),
            features=len(schema.categorical) + len(schema.numeric),
            categorical=len(schema.categorical),
            numeric=len(schema.numeric),
            target=schema.target,
            task=schema.task,
            sensitive=tuple(schema.sensitive),
            negotiated=first.basis.negotiated if first.basis else (),
            fingerprint="-".join(t.fingerprint()[:16] for t in ([first] if config.features else parties.values())),
            party_rows={name: {p: len(t) for p, t in split.items()} for name, split in tables.items()},
        ),
        adversaries=tuple(played),
        not_tested=(*not_played(played, public), *unread_times(config)),
        instrument=instrument(),
        code=code(),
    )


def check_alignments(config: Config, todo: Sequence[Case]) -> None:
    """Raises ValueError for an alignment whose encoder, names or rows cannot be used; looks at one seed."""
    for case in {c.setting.id: c for c in reversed(todo)}.values():
        if case.alignment is not None:
            check_dealt(deal(config, case), case.alignment.alignment)


def unread_times(config: Config) -> list[str]:
    """In words, that times are noted and nobody looks at them."""
    if not config.audit.times or any(ATTACKS[name].reads_times for name in config.attacks.use):
        return []
    return ["the times of messages: they are in the transcripts, and no attack in use reads them"]


def versions() -> dict[str, str]:
    """Of what results depend on, plugins included."""
    own = {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}
    return own | versions_of_plugins()


MEASURES = (
    "attacks/**/*.py",
    "audit/scoring/**/*.py",
    "audit/verdicts/**/*.py",
    *(f"audit/{name}.py" for name in ("*control*", "*truth", "aborts", "assemble", "bounds", "case_results", "cells")),
    *(f"audit/{name}.py" for name in ("clusters", "dependencies", "granted", "hiding", "intervals", "leakage")),
    *(f"audit/{name}.py" for name in ("made_up", "observe", "outcomes", "planted_batches", "play", "reading")),
    *(f"audit/{name}.py" for name in ("records/assets", "records/case", "scorable", "summary", "uncertainty")),
)
"""The files that measure."""

PLAYS = (
    "preprocess/**/*.py",
    "preprocess/alignment/aliases.toml",
    "defenses/**/*.py",
    "audit/records/**/*.py",
    *(f"audit/{name}.py" for name in ("*_protocol", "aborts", "adversaries", "case", "case_kinds", "config")),
    *(f"audit/{name}.py" for name in ("config_alignment", "config_features", "federate*", "privacy_accounting")),
    *(f"audit/{name}.py" for name in ("run", "streams")),
)
"""The files that play what is measured: protocols, defenses, and what a case's record is made of."""

PLAYS_NOT = tuple(
    f"preprocess/{name}.py" for name in ("atomic_file", "protocol_rules", "recorder", "data/sniff", "data/survey")
)
"""Those among them that no case comes by."""


@cache
def instrument() -> str:
    """SHA-256 over the source of what measures: attacks, controls, scoring, verdicts, and what counts as read. Another
    attack is another yardstick.
    """
    return _digest(_files(MEASURES))


@cache
def code() -> Mapping[str, str]:
    """Folder of the package -> SHA-256 over what is in it of the source that plays: all cases of a run are of one.

    A gate does not ask for it: what another version of a protocol leaks is its question.
    """
    files = [name for name in _files(PLAYS) if name not in PLAYS_NOT]
    return {folder: _digest(names) for folder, names in groupby(files, lambda name: str(Path(name).parent))}


def _files(patterns: Iterable[str]) -> list[str]:
    """The files of this package that fit one of the patterns, folder by folder."""
    found = {path.relative_to(ROOT) for pattern in patterns for path in ROOT.glob(pattern)}
    return [str(path) for path in sorted(found, key=lambda path: (str(path.parent), path.name))]


def _digest(files: Iterable[str]) -> str:
    return digest_of(canonical([[name, digest_of_file(ROOT / name)] for name in files]))


def other_code(run: RunFacts) -> str:
    """A sentence where a run was attacked and scored by code other than what is installed, or with other versions of
    libraries and plugins: what is installed decides anew each time that the record is read. Else empty.
    """
    found = []
    if run.instrument != instrument():
        found.append(
            "by other code than is installed now" if run.instrument else "by code that its record does not name"
        )
    now = versions()
    if changed := [n for n in sorted({*now, *run.versions}) if now.get(n) != run.versions.get(n)]:
        told = (f"{n} {run.versions.get(n, 'none')} (now {now.get(n, 'none')})" for n in changed)
        found.append(f"with other versions: {', '.join(told)}")
    if not found:
        return ""
    return f"This run was attacked and scored {', and '.join(found)}: what is decided here, the installed code decided."


def other_protocols(run: RunFacts) -> str:
    """A sentence where a run was played by code other than what is installed, so that a change of protocols since is
    not in what it leaked. Else empty, and for a record that does not name that code.
    """
    now = code()
    changed = [folder for folder in sorted({*now, *run.code}) if run.code and now.get(folder) != run.code.get(folder)]
    where = ", ".join(changed)
    return f"This run was played by other code than is installed now, in {where}: run the audit anew" if changed else ""


def device_name(device: str, said: str = "audit.device") -> str:
    """The device in words. Raises ValueError for one that this machine does not have; `said`: where it was named."""
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):  # whose text lists devices that no machine has
        raise ValueError(f"{said}: {device!r} cannot be used on this machine; write cpu, or one that it has") from None
    kind = torch.device(device).type
    return torch.cuda.get_device_name(device) if kind == "cuda" else f"{kind} ({platform.machine()})"
