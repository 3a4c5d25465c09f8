"""A store becomes an audit: its cases in the order of the configuration, with all that follows from them."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from leakledger.audit.aborts import unsettled, with_aborts
from leakledger.audit.bounds import bound_checks
from leakledger.audit.case import Case, cases
from leakledger.audit.config import Config
from leakledger.audit.config_file import ConfigError, config_of
from leakledger.audit.frontier import frontier
from leakledger.audit.leakage import leakage_table
from leakledger.audit.limits import LARGEST
from leakledger.audit.provenance import other_code
from leakledger.audit.records import AuditRecord, CaseRecord, metric_title
from leakledger.audit.scoring.metrics import PERFECT
from leakledger.audit.signature import read_signature
from leakledger.audit.store import FILE, Store, StoreError
from leakledger.audit.summary import ROUNDED, UTILITY_ORDER, limits_of, scores, utility
from leakledger.audit.verdicts.policy import policy_of
from leakledger.audit.verdicts.rulings import rulings
from leakledger.audit.verdicts.words import verdict


def assemble(store: Store, todo: Sequence[Case]) -> AuditRecord:
    """The audit so far, its cases in the order of the configuration. Raises StoreError for one that cannot be."""
    position = {c.id: i for i, c in enumerate(todo)}
    aborts = list(store.aborted())
    if unknown := sorted((store.finished() | {r.id for r in aborts}) - position.keys()):
        raise StoreError(f"{store.folder}: its record has a case that its configuration does not ask for: {unknown[0]}")
    finished, facts = list(store.cases()), store.facts()
    for record in (*finished, *aborts):
        if problem := _unsound(record, todo[position[record.id]]):
            raise StoreError(f"{store.folder / FILE}: case {record.id} is damaged: {problem}")
    if set(facts.seeds) != {c.seed for c in todo}:
        raise StoreError(f"{store.folder / FILE}: its run facts are damaged: seeds are not those of the configuration")
    records, aborted = (sorted(own, key=lambda r: position[r.id]) for own in (finished, aborts))
    missing = len(todo) - len(records) - len(aborted)
    all_scores, rows = scores(records), utility(records)
    policy = policy_of(facts.config)
    decided = unsettled(rulings(records, policy), aborted)
    said = verdict((*records, *aborted), decided, all_scores, rows, missing, policy.alpha)
    signed, checks = read_signature(store), bound_checks(records)
    return AuditRecord(
        run=facts,
        cases=tuple(records),
        scores=all_scores,
        utility=rows,
        verdict=with_aborts(said, aborted),
        missing=missing,
        created=store.created(),
        leakage=leakage_table(records, all_scores),
        rulings=decided,
        aborted=tuple(aborted),
        bounds=checks,
        frontier=frontier(records, all_scores, rows, decided),
        head=store.head,
        signer=signed.key if signed else "",
        other_code=other_code(facts),
    )


def _unsound(record: CaseRecord, case: Case) -> str:
    """What no case leaves, in words; empty for what may be one."""
    mine, asked = ((s.id, s.reference) for s in (record.setting, case.setting))
    if (mine, record.seed) != (asked, case.seed):
        return "it is of another setting or seed than its name says"
    for t in (t for t in record.trials if t.status == "scored"):
        if t.metric not in PERFECT:
            return f"a score has the metric {t.metric!r}, which is none"
        if t.value is None or t.baseline is None:
            return f"a score of {metric_title(t.metric)} has no value"
        low, high = limits_of(t.metric) or (-LARGEST, 1.0 if PERFECT[t.metric] == 1.0 else LARGEST)
        if not low - ROUNDED <= min(t.value, t.baseline) <= max(t.value, t.baseline) <= high + ROUNDED:
            return f"a score of {metric_title(t.metric)} is not from {low:g} to {high:g}"
    if strange := [u for u in record.utility if u.metric not in UTILITY_ORDER or abs(u.value) > LARGEST]:
        return f"it has a utility that is none, {strange[0].metric!r}"
    return ""


def load_record(folder: Path) -> AuditRecord:
    """The audit in `folder`, finished or not. Raises StoreError when there is none."""
    with closing(Store.read(folder)) as store:
        return loaded(store)


def loaded(store: Store) -> AuditRecord:
    """The same of a store that is open."""
    return assemble(store, cases(kept_config(store)))


def kept_config(store: Store) -> Config:
    """The configuration of a run. Raises StoreError, one line, for one that names what is not known here."""
    try:
        return config_of(dict(store.facts().config), ())
    except ConfigError as error:
        raise StoreError(
            f"{store.folder}: {error} (the run names it: read it where the plugins are installed that it was made with)"
        ) from None
