"""Checks of what needs no statistics: a check of the protocol that fired, claims that an attack vouched for.

`forbid = "new"`: against a baseline, what it did not have; without one, everything. What a fact shows in every seed of
the run, and in none of the baseline, is there by construction and fails. What shows in some seeds only depends on
coins: that is inconclusive, and more seeds tell. What the baseline had in some seeds fails where it shows in a larger
share of them than coins explain (Fisher's exact test, alpha over all facts that can grow). So does one that the
baseline had, of another party or before other eyes: in every seed and never before it fails, unless the seeds are so
few that coins may explain that; in some seeds it is tested as well, and open where it would be beyond chance by itself.
`forbid = "any"`: whatever shows fails. Checks in `allow` never do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from leakledger.audit.gate.baseline import UNKEPT
from leakledger.audit.gate.policy import Findings
from leakledger.audit.gate.snapshot import Fact, Snapshot
from leakledger.audit.gate_records import Status
from leakledger.audit.records import plural

NAMED = 3  # parties that one reason names


@dataclass(frozen=True)
class Found:
    """One fact of the run, or one that is gone, and what the policy says of it."""

    fact: Fact
    status: Status
    reason: str
    new: bool


def found(
    now: Snapshot,
    finished: Mapping[str, Sequence[int]],
    before: Snapshot | None,
    matches: Mapping[str, str],
    rules: Findings,
    alpha: float,
    stale: bool = False,
) -> Iterator[Found]:
    """One for each setting, kind of adversary and fact of the run. `finished`: the seeds under which each setting ran
    to its end. `stale`: there is a baseline, and none `before`.
    """
    if rules.forbid == "none":
        return
    groups = list(_groups(now.facts).values())
    known = [_same(group[0], before.facts, matches) if before else [] for group in groups]
    can_grow = sum(_can_grow(g, k, len(before.seeds)) for g, k in zip(groups, known, strict=True)) if before else 0
    for group, its in zip(groups, known, strict=True):
        cases = len(finished[group[0].cell.setting])
        if rules.forbid == "new" and before and its and group[0].what not in rules.allow:
            yield _known(group, cases, its, len(before.seeds), Levels(alpha, alpha / max(can_grow, 1)))
        else:
            judged = _judged(group, bool(its), cases, rules, before is not None)
            yield _unknown(judged) if stale and rules.forbid == "new" and judged.status == "fail" else judged


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


class Levels(NamedTuple):
    """Of one test by itself, and of one of all that are made."""

    single: float
    corrected: float


def _each(group: Sequence[Fact]) -> dict[tuple[tuple[str, ...], str], set[int]]:
    """The seeds by observers and party."""
    found: dict[tuple[tuple[str, ...], str], set[int]] = {}
    for fact in group:
        for s in fact.shown or ():
            found.setdefault((s.observers, s.party), set()).update(s.seeds)
    return found


def _single(group: Sequence[Fact], known: Sequence[Fact]) -> dict[tuple[tuple[str, ...], str], tuple[int, int]]:
    """In how many seeds a fact shows now and before, by observers and party where these are several."""
    now, before = _each(group), _each(known)
    several = len({*now, *before}) > 1 and all(f.shown is not None for f in known)
    return {who: (len(now[who]), len(before.get(who, ()))) for who in now} if several else {}


def _can_grow(group: Sequence[Fact], known: Sequence[Fact], cases: int) -> int:
    """The tests that are made of a fact."""
    return (0 < len(_seeds(known)) < cases) + sum(k < cases for _, k in _single(group, known).values())


def _known(group: Sequence[Fact], cases: int, known: Sequence[Fact], known_cases: int, levels: Levels) -> Found:
    """What the baseline had under some of its seeds."""
    seeds, before = len(_seeds(group)), len(_seeds(known))
    where = f"in {seeds} of {plural(cases, 'seed')}; before in {before} of {known_cases}"
    p = _more(seeds, cases, before, known_cases)
    if p <= levels.corrected:
        return Found(group[0], "fail", f"{group[0].text} ({where}, by chance with p = {p:.2g})", False)
    if any(f.shown is None for f in known):
        return Found(group[0], "inconclusive", f"{where}; {UNKEPT}", False)
    grown = []
    for (observers, party), (n, k) in _single(group, known).items():
        p = _more(n, cases, k, known_cases)
        always = n == cases and k == 0
        sure = p <= (levels.single if always else levels.corrected)
        if always or p <= levels.single:
            whom = f"{f'of {party} ' if party else ''}to {'+'.join(observers)}"
            grown.append((not sure, p, f"{whom} in {n} of {plural(cases, 'seed')}, {k} before"))
    if not grown:
        return Found(group[0], "pass", where, False)
    grown.sort()
    more = [f"{len(grown) - NAMED} more"] if len(grown) > NAMED else []
    status: Status = "inconclusive" if grown[0][0] else "fail"
    said = f"{group[0].text} (before less, or of others): "
    said += "; ".join([*(text for _, _, text in grown[:NAMED]), *more])
    return Found(group[0], status, said, status == "fail")


def _more(seeds: int, cases: int, known: int, known_cases: int) -> float:
    """The p-value that a fact shows in a larger share of seeds than before by chance (Fisher's exact test)."""
    if seeds * known_cases <= known * cases:
        return 1.0
    from scipy.stats import fisher_exact  # imported late: takes half a second that most runs need not wait

    table = [[seeds, cases - seeds], [known, known_cases - known]]
    return float(fisher_exact(table, alternative="greater").pvalue)


def _unknown(f: Found) -> Found:
    reason = f"{f.reason}: nothing is compared, so nobody can say whether it is new"
    return Found(f.fact, "inconclusive", reason, f.new)


def _judged(group: Sequence[Fact], known: bool, cases: int, rules: Findings, compared: bool) -> Found:
    """What the baseline did not have, and what is forbidden or allowed whether it had it or not."""
    first, seeds = group[0], len(_seeds(group))
    where = f"in {seeds} of {plural(cases, 'seed')}"
    if first.what in rules.allow:
        return Found(first, "pass", f"{where}; the policy accepts it", not known)
    if rules.forbid == "any" or not compared:
        return Found(first, "fail", f"{first.text} ({where})", not known)
    if seeds == cases:
        return Found(first, "fail", f"{first.text} ({where}; never before)", True)
    return Found(first, "inconclusive", f"{first.text} ({where}; never before); more seeds tell", True)
