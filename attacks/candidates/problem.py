"""A target in the terms of candidates: fewer columns to invert, and a claim that names values.

`posed` restates each target with the columns and codes that its candidates leave open (`codebooks`, `buckets`):
weights, gradient, layout and model of a smaller network with the same hidden layers. Any attack on gradients runs on it
as it is. What it claims about codes is then read as values, where the adversary knows candidates (`meaning`), else as
ids. Targets whose layout names its candidates one by one, or whose columns are numbers to the adversary, stay as they
are.

Exact: the change of columns loses nothing but columns that no row of the batch uses.
"""

from collections.abc import Callable, Sequence

from attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable, RecordsClaim
from attacks.candidates.buckets import hashed_problem
from attacks.candidates.codebooks import coded_problem
from attacks.candidates.codes import named_codes
from attacks.candidates.columns import Problem
from attacks.candidates.hashed import hashed
from attacks.tableak.targets import Target, unsuitable
from preprocess.views import View

Inverted = RecordsClaim | NotApplicable | Abstained
"""What an attack makes of one target."""


def by_candidates(
    view: View,
    knowledge: AuxiliaryKnowledge,
    targets: Sequence[Target],
    attack: Callable[[View, Sequence[Target]], Sequence[Inverted]],
) -> list[Inverted]:
    """What `attack` claims about each target, posed in the terms of candidates. It is called for several targets at
    once where these share a view.
    """
    problems = posed(view, knowledge, targets)
    if isinstance(problems, NotApplicable):
        return [problems] * len(targets)
    outcomes: list[Inverted | None] = [p if isinstance(p, NotApplicable) else None for p in problems]
    for i, first in enumerate(problems):
        if outcomes[i] is not None or isinstance(first, NotApplicable):
            continue
        alike = [(j, p) for j, p in enumerate(problems) if isinstance(p, Problem) and p.view is first.view]
        found = attack(first.view, [p.target for _, p in alike])
        for (j, problem), outcome in zip(alike, found, strict=True):
            outcomes[j] = problem.told(outcome) if isinstance(outcome, RecordsClaim) else outcome
    return [o for o in outcomes if o is not None]


def posed(
    view: View, knowledge: AuxiliaryKnowledge, targets: Sequence[Target]
) -> list[Problem | NotApplicable] | NotApplicable:
    """A problem for each target, or why it cannot be posed; one reason where the candidates themselves are at fault."""
    try:
        code, codes = hashed(view, knowledge), named_codes(view, knowledge)
    except ValueError as error:
        return NotApplicable(str(error))
    if code is not None:
        return [hashed_problem(view, knowledge, t, code) for t in targets]
    if codes:
        return [coded_problem(view, knowledge, t, codes) for t in targets]
    if reason := unsuitable(view.public.layout, view.public.model):
        return NotApplicable(reason)
    return [Problem(view, t, lambda claim: claim) for t in targets]
