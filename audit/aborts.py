"""Cases that a party ended: what is kept of them, and what they mean for the verdict.

Nothing was attacked in them, so nothing that an audit says of the others is about them.
"""

import os
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from leakledger.audit.case import Case
from leakledger.audit.observe import observations
from leakledger.audit.records import Aborted, CaseRecord, Ruling, Verdict, plural
from leakledger.audit.terminal import ITSELF, echo, tell_unforeseen
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.told_failure import DEBUG, ToldFailure
from leakledger.preprocess.views import PublicFacts


@dataclass(frozen=True)
class Played:
    """A case as it was left: its record, and the error behind it where a party ended it."""

    record: CaseRecord
    error: Exception | None = None


def aborted_record(case: Case, ledger: Ledger, public: PublicFacts) -> CaseRecord:
    """The record of a case that ended with `ledger`: who could not go on and where, what everybody saw until then."""
    return CaseRecord(
        id=case.id,
        setting=case.setting,
        seed=case.seed,
        observations=observations(ledger, public),
        aborts=aborts_of(ledger),
        transcript_head=ledger.head.hex(),
    )


def aborts_of(ledger: Ledger) -> tuple[Aborted, ...]:
    """Who could not go on, as a record keeps it; none where the protocol came to its end."""
    return tuple(Aborted(a.party, a.step, a.round, a.reason) for a in ledger.aborts)


def unsettled(rulings: Sequence[Ruling], aborted: Sequence[CaseRecord]) -> tuple[Ruling, ...]:
    """Rulings that hold for the cases that finished; of a setting some of whose cases did not, none that nothing leaks:
    what was sent there was not attacked.
    """
    ended = Counter(case.setting.id for case in aborted)
    return tuple(_unsettled(r, ended[r.setting]) if r.verdict == "no leak" and ended[r.setting] else r for r in rulings)


def _unsettled(ruling: Ruling, cases: int) -> Ruling:
    return replace(ruling, verdict="inconclusive", missing=(*ruling.missing, _lost(cases)))


def _lost(cases: int) -> str:
    return f"{plural(cases, 'case was', 'cases were')} aborted and not attacked"


def with_aborts(verdict: Verdict, aborted: Sequence[CaseRecord]) -> Verdict:
    """The verdict on the cases that finished, where some did not: no longer that nothing leaks."""
    if not aborted:
        return verdict
    note = f"{_lost(len(aborted))}, first {aborted[0].id} ({aborted[0].aborts[-1].text})"
    if verdict.status == "no leak":
        return replace(verdict, status="inconclusive", leakage=f"Inconclusive: {note}.")
    return replace(verdict, leakage=f"{verdict.leakage} {note[0].upper()}{note[1:]}.")


def tell_cause(error: Exception) -> None:
    """Prints where `error` is from, since the record has its kind alone: of a defect, and of any on request."""
    if not isinstance(error, ValueError | OSError | ToldFailure):
        tell_unforeseen(ITSELF, type(error), error, error.__traceback__)
    elif DEBUG in os.environ:
        echo("".join(traceback.format_exception(error)), err=True, nl=False)
