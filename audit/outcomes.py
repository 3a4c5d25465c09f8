"""What an attack says of a view, checked before anything is made of it: an attack may be a plugin, and a claim that is
none would end in an error about something else, elsewhere, or be scored for what it is not. An error that it raises
itself is told under its name: the text alone would seem to be about the audit's input.
"""

from typing import Any, get_args

import numpy as np

from leakledger.attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    Claim,
    NotApplicable,
    Outcome,
    RecordsClaim,
    clients_of,
)
from leakledger.audit.terminal import ToldFailure, one_line
from leakledger.preprocess.views import View

CLAIMS = get_args(Claim)


def outcome_of(attack: Attack, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
    """What the attack returns. Raises ValueError, one line that names the attack, for what is no outcome of this view
    and for what the attack itself finds wrong with its input, and ToldFailure for its other errors, or where it would
    end the whole process, as if nothing were left to do.
    """
    try:
        outcome = attack.run(view, knowledge)
    except SystemExit as error:
        raise ToldFailure(one_line(f"{attack.technique} called sys.exit({error.code!r})")) from error
    except Exception as error:
        of_input = isinstance(error, ValueError | OSError) or (
            isinstance(error, ModuleNotFoundError) and error.name is None  # a text that says what to install
        )
        text = one_line(f"the attack {attack.technique} raised {type(error).__name__}: {error}")
        raise (ValueError if of_input else ToldFailure)(text) from error
    if problem := _problem(outcome, view):
        raise ValueError(f"{attack.technique} is no attack that can be scored: {problem}")
    return outcome


def _problem(outcome: Any, view: View) -> str:
    """What is wrong with an outcome, or ""."""
    if isinstance(outcome, NotApplicable | Abstained):
        return "" if isinstance(outcome.reason, str) else "the reason of its silence is no text"
    if not isinstance(outcome, list | tuple):
        return f"it returns a value of type {type(outcome).__name__}, not claims, NotApplicable or Abstained"
    if strange := [c for c in outcome if not isinstance(c, CLAIMS)]:
        return f"among its claims is a value of type {type(strange[0]).__name__}"
    return next(filter(None, (_of_records(c, view) for c in outcome if isinstance(c, RecordsClaim))), "")


def _of_records(claim: RecordsClaim, view: View) -> str:
    """What is wrong with a claim about rows: of whom, how many cells, and values that no cell has."""
    layout = claim.layout or view.public.layout
    if layout is None:
        return "it claims rows where no layout says what their columns are"
    senders = {*view.public.clients, *(m.sender for m in view.messages)}  # of a control, others than the clients
    if unknown := set(clients_of(claim.victim)) - senders:
        return f"it claims rows of {min(unknown)!r}, which is no client"
    shapes: dict[str, tuple[int, ...]] = {
        "categories": (len(claim.categories), len(layout.categorical)),
        "numbers": (len(claim.categories), len(layout.numeric)),
    }
    shapes |= {"category_entropy": shapes["categories"], "number_entropy": shapes["numbers"]}
    shapes |= {name: shapes["categories"][:1] for name in ("residual", "verified") if getattr(claim, name) is not None}
    for name, shape in shapes.items():
        if np.shape(getattr(claim, name)) != shape:
            return f"{name} of a claim have shape {np.shape(getattr(claim, name))}, not {shape}"
    sizes = [b.size for b in layout.categorical]
    if not ((claim.categories >= -1) & (claim.categories < sizes)).all():
        return "a category of a claim is none of the layout's"
    if claim.layout is None and not np.isfinite(claim.numbers).all():
        return "a number of a claim is not finite"
    return ""
