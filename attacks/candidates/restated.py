"""Updates in the terms of candidates: fewer columns to invert, and a claim that names values.

`restated` puts each update in the columns and codes that its candidates leave open (`codebooks`, `buckets`): weights,
gradient, layout and model of a smaller network with the same hidden layers. Any attack on updates runs on it as it is.
What it claims about codes is then read as values, where the adversary knows candidates (`meaning`), else as ids.
Updates whose layout names its candidates one by one, or whose columns are numbers to the adversary, stay as they are.

Exact: the change of columns loses nothing but columns that no row of the batch uses. So other rounds of the same rows
(`ObservedUpdate.repeats`) are restated in the same columns, where each shows these.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable, RecordsClaim
from leakledger.attacks.candidates.buckets import in_buckets
from leakledger.attacks.candidates.codebooks import in_codes
from leakledger.attacks.candidates.codes import named_codes
from leakledger.attacks.candidates.columns import RestatedUpdate
from leakledger.attacks.candidates.hashed import hashed
from leakledger.attacks.observed.gradients import unsuitable
from leakledger.attacks.observed.update import Inverted, ObservedUpdate
from leakledger.preprocess.views import View


def by_candidates(
    view: View,
    knowledge: AuxiliaryKnowledge,
    updates: Sequence[ObservedUpdate],
    invert: Callable[[Sequence[ObservedUpdate]], Sequence[Inverted]],
) -> list[Inverted]:
    """What `invert` claims about each update, restated in the terms of candidates. It is called for several at once
    where these share a layout.
    """
    forms = restated(view, knowledge, updates)
    if isinstance(forms, NotApplicable):
        return [forms] * len(updates)
    outcomes: list[Inverted | None] = [f if isinstance(f, NotApplicable) else None for f in forms]
    for i, first in enumerate(forms):
        if outcomes[i] is not None or isinstance(first, NotApplicable):
            continue
        layout = first.update.layout
        alike = [(j, f) for j, f in enumerate(forms) if isinstance(f, RestatedUpdate) and f.update.layout is layout]
        for (j, form), outcome in zip(alike, invert([f.update for _, f in alike]), strict=True):
            outcomes[j] = form.meant(outcome) if isinstance(outcome, RecordsClaim) else outcome
    return [o for o in outcomes if o is not None]


def restated(
    view: View, knowledge: AuxiliaryKnowledge, updates: Sequence[ObservedUpdate]
) -> list[RestatedUpdate | NotApplicable] | NotApplicable:
    """Each update restated, or why it cannot be; one reason where the candidates themselves are at fault."""
    try:
        code, codes = hashed(view, knowledge), named_codes(view, knowledge)
    except ValueError as error:
        return NotApplicable(str(error))
    if code is not None:
        return _in_common_columns(updates, lambda u: in_buckets(view, knowledge, u, code))
    if codes:
        return _in_common_columns(updates, lambda u: in_codes(view, knowledge, u, codes))
    if reason := unsuitable(view.public.layout, view.public.model, any_loss=True):
        return NotApplicable(reason)
    return [RestatedUpdate(u, lambda claim: claim) for u in updates]


def _in_common_columns(
    updates: Sequence[ObservedUpdate], restate: Callable[[ObservedUpdate], RestatedUpdate | NotApplicable]
) -> list[RestatedUpdate | NotApplicable]:
    """Each update restated; those of the very same rows in the columns of the first, so that rounds stay alike, unless
    they would not be so by themselves: of what pruning left, one round may use columns that another does not. These are
    read one by one.
    """
    forms: dict[int, RestatedUpdate | NotApplicable] = {}
    for i, first in enumerate(updates):
        if i in forms:
            continue
        if not (again := first.repeats):
            forms[i] = restate(first)
            continue
        same = [j for j, u in enumerate(updates) if u.victim == first.victim and u.repeats == again]
        each = [replace(u, repeats=()) for u in (*again, *(updates[j] for j in same))]
        alone = [restate(u) for u in each]
        form = restate(replace(first, repeats=tuple(each)))
        if isinstance(form, RestatedUpdate) and all(map(_in_same_columns, alone, form.update.repeats)):
            rounds = form.update.repeats
            for k, j in enumerate(same, start=len(again)):
                forms[j] = replace(form, update=replace(rounds[k], repeats=rounds[: len(again)]))
        else:
            forms |= dict(zip(same, alone[len(again) :], strict=True))
    return [forms[i] for i in range(len(updates))]


def _in_same_columns(form: RestatedUpdate | NotApplicable, other: ObservedUpdate) -> bool:
    """Whether an update that was restated by itself is in the columns that it was restated in beside others."""
    if isinstance(form, NotApplicable) or form.update.layout != other.layout:
        return False
    return np.array_equal(form.update.weights["0.weight"], other.weights["0.weight"])
