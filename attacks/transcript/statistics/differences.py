"""From facts about groups to facts about single parties, over all secure sums of a view.

A round of secure sums gives counts and sums, then squared deviations around the mean that the counts and sums stand
for. Rounds over different sets of clients differ by who joined or left. Squares around different means are brought to
squares around 0 first: sum (x - M)^2 = sum x^2 - 2 M sum x + n M^2. It assumes that a table stays the same; where two
ways to the same sum disagree, nothing is combined.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from leakledger.attacks.observed.equations import determine
from leakledger.attacks.observed.secure_sums import Run, Slot
from leakledger.attacks.transcript.statistics.exact import EPSILON, Fact, Means, own_figures, run_facts
from leakledger.attacks.transcript.statistics.own import OwnTable

AGREEMENT = 1e-6  # relative: two ways to a sum agree


@dataclass(frozen=True)
class Round:
    """Secure sums that belong together: counts with sums, and deviations around `means` or squares around 0."""

    runs: tuple[Run, ...]
    means: Means = field(repr=False)
    facts: tuple[Fact, ...] = field(repr=False)


def rounds(runs: Iterable[Run], tables: Mapping[str, OwnTable], told: Means) -> list[Round]:
    """Each count with the deviations that follow it. `told` are announced means, for who cannot add the sums up."""
    found: list[Round] = []
    for run in runs:
        before = found[-1] if found else None
        if run.stage == "variance" and before and before.runs[-1].base == run.base and len(before.runs) == 1:
            facts = run_facts(run, tables, before.means, before.facts)
            found[-1] = Round((*before.runs, run), before.means, (*before.facts, *facts))
        elif run.stage != "variance":
            own = run_facts(run, tables, {})
            found.append(Round((run,), {**told, **_means(run, own, tables)}, tuple(own)))
    return found


def _means(run: Run, facts: Sequence[Fact], tables: Mapping[str, OwnTable]) -> Means:
    """(feature, value) -> mean over the clients of this run, where all of them are accounted for."""
    inside = frozenset(c for c in run.clients if c in tables)
    rest = frozenset(run.clients) - inside
    whole = next((f.values for f in facts if f.group == rest), None if rest else {})
    if whole is None:
        return {}
    own = sum(own_figures(run, tables[c], {}) for c in inside) + np.zeros(len(run.slots))
    totals = {s: whole.get(s, 0.0) + x for s, x in zip(run.slots, own.tolist(), strict=True)}
    rows = totals.get(Slot("count"), 0.0)
    return {(s.feature, s.value): x / rows for s, x in totals.items() if s.kind == "sum" and rows >= 1}


def party_facts(found: Sequence[Round]) -> tuple[list[Fact], list[str]]:
    """What is known of single parties, and in words what could not be combined."""
    single = [f for r in found for f in r.facts if len(f.group) == 1]
    groups = [f for r in found for f in _around_zero(r)]
    if len(found) < 2:
        return single, []
    combined: list[Fact] = []
    problems: list[str] = []
    by_slots: dict[frozenset[Slot], list[Fact]] = defaultdict(list)
    for fact in groups:
        by_slots[frozenset(fact.values)].append(fact)
    for slots, facts in by_slots.items():
        try:
            combined += _combined(sorted(slots), facts)
        except ValueError as error:
            problems.append(str(error))
    return [*single, *combined], problems


def _around_zero(found: Round) -> list[Fact]:
    """The facts of a round with squares around 0 in place of deviations."""
    first = {f.group: f for f in found.facts if Slot("count") in f.values}
    return [_raw(f, first.get(f.group), found.means) for f in found.facts]


def _raw(fact: Fact, first: Fact | None, means: Means) -> Fact:
    if first is None or not all(s.kind == "deviation" for s in fact.values):
        return fact
    rows, values, within = first.values[Slot("count")], {}, {}
    for slot, deviation in fact.values.items():
        mean, added = means[slot.feature, slot.value], Slot("sum", slot.feature, slot.value)
        total, square = first.values[added], Slot("square", slot.feature, slot.value)
        values[square] = deviation + 2 * mean * total - rows * mean**2
        far = fact.within.get(slot, 0.0) + 2 * abs(mean) * first.within.get(added, 0.0)
        within[square] = far + 4 * EPSILON * (abs(deviation) + 2 * abs(mean * total) + rows * mean**2)
    return Fact(fact.group, values, fact.evidence, within=within)


def _combined(slots: Sequence[Slot], facts: Sequence[Fact]) -> list[Fact]:
    """Single parties that no fact is about alone. Raises ValueError where facts contradict each other."""
    parties = sorted(frozenset().union(*(f.group for f in facts)))
    alone = {next(iter(f.group)) for f in facts if len(f.group) == 1}
    equations = np.array([[p in f.group for p in parties] for f in facts], np.int64)
    wanted = [p for p in parties if p not in alone]
    targets = np.array([[p == q for p in parties] for q in wanted], np.int64).reshape(len(wanted), len(parties))
    solved = determine(equations, targets)
    numbers = np.array([[f.values[s] for s in slots] for f in facts])
    far = np.array([[f.within.get(s, 0.0) for s in slots] for f in facts])
    size = np.abs(solved.relations) @ np.abs(numbers)
    if (np.abs(solved.relations @ numbers) > AGREEMENT * size + 1e-300).any():
        raise ValueError("rounds over the same clients differ, so a table changed; nothing is subtracted")
    found = []
    for party, known, weights, scale in zip(wanted, solved.known, solved.weights, solved.scale, strict=True):
        if known:
            used = [f for f, w in zip(facts, weights, strict=True) if w]
            evidence = tuple(sorted({number for f in used for number in f.evidence}))
            values = dict(zip(slots, (weights @ numbers / scale).tolist(), strict=True))
            lost = np.abs(weights) @ (far + len(facts) * EPSILON * np.abs(numbers)) / scale
            within = dict(zip(slots, lost.tolist(), strict=True))
            found.append(Fact(frozenset([party]), values, evidence, within=within))
    return found
