"""Waivers: a failure that somebody answers for, for a while, up to a size. A TOML file beside the policy.

    [[waiver]]
    id = "W-7"
    fingerprint = "LL-0123456789abcdef"   # the check, as the gate prints it
    scope = "divergent-uhe-zscore-sac-fedsgd-1a2b3c"   # the setting
    max_observed = 0.30                   # it breaks when more is measured
    reason = "..."
    owner = "..."
    approver = "..."
    created = 2026-11-01
    expires = 2027-02-01

Every key is needed. A date that cannot be read is over; one more than a year after `created` is refused. So are
wildcards: a waiver is for one check. What is waived stays in every output; an unused waiver is reported. What keeps a
check open beside its failure is not waived. An invalid or expired one ends the gate with an exit code of its own.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from leakledger.audit.gate_records import Check, WaiverNote
from leakledger.audit.records import at_most
from leakledger.preprocess.data.suggest import closest, shown

TEXTS = ("id", "fingerprint", "scope", "reason", "owner", "approver")
KEYS = (*TEXTS, "max_observed", "created", "expires")
FINGERPRINT = re.compile(r"LL-[0-9a-f]{16}")
WILD = re.compile(r"[*?\[\]]")
LONGEST = timedelta(days=366)  # from `created` to `expires`: a year, then somebody has to answer for it again
SLACK = 1e-9  # of a limit that was copied from an output with all its digits


class WaiverFileError(ValueError):
    """A file that holds no waivers at all; a bad waiver in one that does is a note."""


@dataclass(frozen=True)
class Waiver:
    """One entry; `problem` says why it is void, empty where it is not."""

    id: str
    fingerprint: str = ""
    scope: str = ""
    max_observed: float = 0.0
    reason: str = ""
    owner: str = ""
    approver: str = ""
    expires: str = ""
    problem: str = ""
    expired: bool = False

    def note(self, fate: Any, text: str) -> WaiverNote:
        return WaiverNote(self.id, fate, text, self.reason, self.owner, self.approver, self.expires)


def read_waivers(path: Path, today: date) -> tuple[Waiver, ...]:
    """The waivers of a file, void ones too. Raises WaiverFileError where there is no such file or no TOML in it."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8, not TOML, nested too deeply
        raise WaiverFileError(f"{path}: cannot be read as waivers: {error}") from None
    entries = values.get("waiver", [])
    if set(values) - {"waiver"} or not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise WaiverFileError(f"{path}: write one [[waiver]] table for each waiver, and nothing else")
    found = [_waiver(e, number, today) for number, e in enumerate(entries, 1)]
    return tuple(_once(found))


def _waiver(entry: Mapping[str, Any], number: int, today: date) -> Waiver:
    name = entry.get("id")
    known = Waiver(
        id=name if isinstance(name, str) and name.strip() else f"[{number}]",
        fingerprint=str(entry.get("fingerprint", "")),
        scope=str(entry.get("scope", "")),
        reason=str(entry.get("reason", "")),
        owner=str(entry.get("owner", "")),
        approver=str(entry.get("approver", "")),
        expires=str(entry.get("expires", "")),
    )
    if problem := _problem(entry, today):
        return replace(known, problem=problem)
    known = replace(known, max_observed=float(entry["max_observed"]))
    expires = _day(entry["expires"])
    if expires is None:
        return replace(known, expired=True, problem=f"expires = {entry['expires']!r} is no date, so it is over")
    if expires <= today:
        return replace(known, expired=True, problem=f"expired on {expires.isoformat()}")
    return known


def _problem(entry: Mapping[str, Any], today: date) -> str:
    """What makes an entry invalid, whatever the day; empty for nothing."""
    for key in entry:
        if key not in KEYS:
            return f"{shown(key)}: unknown key{closest(key, KEYS)}"
    for key in KEYS:
        if key not in entry or (key in TEXTS and not (isinstance(entry[key], str) and entry[key].strip())):
            return f"{key} is missing or empty"
    for key in ("id", "fingerprint", "scope"):
        if WILD.search(entry[key]):
            return f"{key} = {entry[key]!r} has a wildcard; a waiver is for one check"
    if not FINGERPRINT.fullmatch(entry["fingerprint"]):
        return f"fingerprint = {entry['fingerprint']!r} is none; the gate prints those of its checks"
    limit = entry["max_observed"]
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < float("inf"):
        return f"max_observed = {limit!r} is no number from 0"
    created = _day(entry["created"])
    if created is None or created > today:
        return f"created = {created or repr(entry['created'])} is no day until today"
    expires = _day(entry["expires"])
    if expires is not None and expires - created > LONGEST:
        return f"it is for {(expires - created).days} days; a waiver lasts {LONGEST.days} days at most"
    return ""


def _day(value: Any) -> date | None:
    """The day that a value of TOML means; None for none."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _once(waivers: Sequence[Waiver]) -> list[Waiver]:
    """The second waiver of one name, or for one check, is void: nobody could say which one holds."""
    names: set[str] = set()
    checks: set[tuple[str, str]] = set()
    found = []
    for w in waivers:
        again = w.id in names or (not w.problem and (w.fingerprint, w.scope) in checks)
        names.add(w.id)
        checks |= set() if w.problem else {(w.fingerprint, w.scope)}
        found.append(replace(w, problem="there is another waiver of this name or for this check") if again else w)
    return found


def apply(waivers: Sequence[Waiver], checks: Sequence[Check]) -> tuple[list[Check], list[WaiverNote]]:
    """The checks with failures waived where that holds, and what became of each waiver."""
    left, notes = list(checks), []
    for w in waivers:
        at = [k for k, c in enumerate(left) if (c.fingerprint, c.setting) == (w.fingerprint, w.scope)]
        failed = [k for k in at if left[k].status == "fail"]
        if w.expired:
            notes.append(w.note("expired", f"{w.problem}; {_left_open(w, left, failed)}"))
            continue
        if w.problem:
            notes.append(w.note("invalid", w.problem))
            continue
        if not failed:
            notes.append(w.note("unused", _unused(w, [left[k] for k in at], checks)))
            continue
        check = left[failed[0]]
        observed = check.cost
        if observed > w.max_observed + SLACK:
            measured = f"{at_most(observed, 3)} was measured, max_observed is {w.max_observed:g}"
            text = f"{_named(check)} fails: {measured}; mend what leaks, or have a larger max_observed approved"
            notes.append(w.note("exceeded", text))
            continue
        left[failed[0]] = _waived(check, w)
        measured = f"up to {w.max_observed:g} where {at_most(observed, 3)} was measured"
        notes.append(w.note("used", f"{check.gate}, until {w.expires}, {measured}"))
    return left, notes


def _named(check: Check) -> str:
    return f"{check.gate} [{check.fingerprint}]"


def _left_open(waiver: Waiver, checks: Sequence[Check], failed: Sequence[int]) -> str:
    """Of an expired waiver: whether what it was for still fails, and what to do."""
    if failed:
        return f"{_named(checks[failed[0]])} still fails: mend it, or have the waiver approved anew with other dates"
    return f"no failed check is [{waiver.fingerprint}] in {waiver.scope}: take it out"


def _unused(waiver: Waiver, same: Sequence[Check], checks: Sequence[Check]) -> str:
    """Why a waiver covers nothing, and what to do. `same`: the checks that it names, none of which failed."""
    if same:
        becomes = {"pass": "passes: take it out", "inconclusive": "is inconclusive: waivers cover failures alone"}
        return f"{_named(same[0])} {becomes.get(same[0].status, 'is waived already: take it out')}"
    elsewhere = [c for c in checks if c.fingerprint == waiver.fingerprint and c.status == "fail"]
    if elsewhere:
        return f"{_named(elsewhere[0])} failed in {elsewhere[0].setting}, and scope is {waiver.scope}: correct it"
    return f"no check of this gate is [{waiver.fingerprint}] in {waiver.scope}: take it out"


def _waived(check: Check, waiver: Waiver) -> Check:
    """The check without its failure: a message that nobody reads, say, keeps it as open as one that did not fail."""
    if check.beside:
        reasons = (*check.reasons, *(f"beside what is waived: {text}" for text in check.beside))
        return replace(check, status="inconclusive", waiver=waiver.id, reasons=reasons)
    return replace(check, status="waived", waiver=waiver.id)
