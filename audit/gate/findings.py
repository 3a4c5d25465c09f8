"""Checks of what needs no statistics: a check of the protocol that fired, claims that an attack vouched for.

`forbid = "new"`: against a baseline, what it did not have; without one, everything. What a fact shows in every seed of
the run, and in none of the baseline, is there by construction and fails. What shows in some seeds only depends on
coins: that is inconclusive, and more seeds tell. What the baseline had in some seeds fails where it shows in a larger
share of them than coins explain (Fisher's exact test, alpha over all facts that can grow). `forbid = "any"`: whatever
shows fails. Checks in `allow` never do.
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


def found(
    now: Snapshot, before: Snapshot | None, matches: Mapping[str, str], rules: Findings, alpha: float
) -> Iterator[Found]:
    """One for each setting, kind of adversary and fact of the run."""
    if rules.forbid == "none":
        return
    groups = list(_groups(now.facts).values())
    known = [_seeds(_same(group[0], before.facts, matches)) if before else set() for group in groups]
    can_grow = sum(0 < len(k) < len(before.seeds) for k in known) if before else 0
    for group, seeds in zip(groups, known, strict=True):
        if rules.forbid == "new" and before and seeds and group[0].what not in rules.allow:
            yield _known(group, len(now.seeds), len(seeds), len(before.seeds), alpha / max(can_grow, 1))
        else:
            yield _judged(group, bool(seeds), len(now.seeds), rules, before is not None)


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


def _seeds(facts: Sequence[Fact]) -> set[int]:
    return {s for f in facts for s in f.seeds}


def _known(group: Sequence[Fact], cases: int, known: int, known_cases: int, alpha: float) -> Found:
    """What the baseline had under `known` of its seeds."""
    from scipy.stats import fisher_exact  # imported late: takes half a second that most runs need not wait

    seeds = len(_seeds(group))
    where = f"in {seeds} of {cases} seeds; the baseline had it in {known} of {known_cases}"
    p = fisher_exact([[seeds, cases - seeds], [known, known_cases - known]], alternative="greater").pvalue
    if p <= alpha:
        return Found(group[0], "fail", f"{group[0].text} ({where}, by chance with p = {p:.2g})", False)
    return Found(group[0], "pass", where, False)


def _judged(group: Sequence[Fact], known: bool, cases: int, rules: Findings, compared: bool) -> Found:
    """What the baseline did not have, and what is forbidden or allowed whether it had it or not."""
    first, seeds = group[0], len(_seeds(group))
    where = f"in {seeds} of {cases} seeds"
    if first.what in rules.allow:
        return Found(first, "pass", f"{where}; the policy accepts it", not known)
    if rules.forbid == "any" or not compared:
        return Found(first, "fail", f"{first.text} ({where})", not known)
    if seeds == cases:
        return Found(first, "fail", f"{first.text} ({where}; the baseline never)", True)
    return Found(first, "inconclusive", f"{first.text} ({where}; the baseline never); more seeds tell", True)
