"""Checks of what needs no statistics: a check of the protocol that fired, claims that an attack vouched for.

`forbid = "new"`: against a baseline, what it did not have; without one, everything. What a fact shows in every seed of
the run, and in none of the baseline, is there by construction and fails. What shows in some seeds only depends on
coins: that is inconclusive, and more seeds tell. `forbid = "any"`: whatever shows fails. Checks in `allow` never do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from leakledger.audit.gate.policy import Findings
from leakledger.audit.gate.snapshot import Fact, Snapshot
from leakledger.audit.gate_records import Status


@dataclass(frozen=True)
class Found:
    """One fact of the run, or one that is gone, and what the policy says of it."""

    fact: Fact
    status: Status
    reason: str
    new: bool


def found(now: Snapshot, before: Snapshot | None, matches: Mapping[str, str], rules: Findings) -> Iterator[Found]:
    """One for each setting, kind of adversary and fact of the run."""
    if rules.forbid == "none":
        return
    for group in _groups(now.facts).values():
        known = [] if before is None else _same(group[0], before.facts, matches)
        yield _judged(group, known, len(now.seeds), rules, before is not None)


def _name(f: Fact) -> tuple[object, ...]:
    return f.cell.setting, f.cell.adversary, f.what


def _groups(facts: Sequence[Fact]) -> dict[tuple[object, ...], list[Fact]]:
    groups: dict[tuple[object, ...], list[Fact]] = {}
    for f in facts:
        groups.setdefault(_name(f), []).append(f)
    return groups


def _same(f: Fact, facts: Sequence[Fact], matches: Mapping[str, str]) -> list[Fact]:
    wanted = (matches.get(f.cell.setting), f.cell.adversary, f.what)
    return [b for b in facts if _name(b) == wanted]


def _judged(group: Sequence[Fact], known: Sequence[Fact], cases: int, rules: Findings, compared: bool) -> Found:
    first = group[0]
    seeds = {s for f in group for s in f.seeds}
    where = f"in {len(seeds)} of {cases} seeds"
    if first.what in rules.allow:
        return Found(first, "pass", f"{where}; the policy accepts it", not known)
    if rules.forbid == "any" or not compared:
        return Found(first, "fail", f"{first.text} ({where})", not known)
    if known:
        return Found(first, "pass", f"{where}; the baseline had it", False)
    if len(seeds) == cases:
        return Found(first, "fail", f"{first.text} ({where}; the baseline never)", True)
    return Found(first, "inconclusive", f"{first.text} ({where}; the baseline never); more seeds tell", True)
