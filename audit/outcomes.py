"""What an attack says of a view, checked before anything is made of it: an attack may be a plugin, and a claim that is
none would end in an error about something else, elsewhere, or be scored for what it is not. An error that it raises
itself is told under its name: the text alone would seem to be about the audit's input.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import fields
from math import isnan
from numbers import Integral, Real
from typing import Any, get_args, get_type_hints

import numpy as np

from leakledger.attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    Claim,
    ColumnClaim,
    NotApplicable,
    Outcome,
    RecordsClaim,
    Statistic,
    clients_of,
)
from leakledger.audit.kept_code import code_kept
from leakledger.audit.kept_settings import settings_kept
from leakledger.audit.terminal import one_line
from leakledger.audit.termination import interrupts_noted
from leakledger.preprocess.method_errors import OWN, is_own, may_be_told
from leakledger.preprocess.raised import functions_through, held_through, package_of
from leakledger.preprocess.told_failure import ON_REQUEST, ToldFailure, exit_code
from leakledger.preprocess.views import FeatureLayout, MalformedMessage, Message, View

CLAIMS = get_args(Claim)
TEXTS = ("feature", "value", "statistic", "check", "text", "relation")  # fields of claims
NUMBERS = ("estimate", "low", "high", "counts", "scores")
OPTIONAL = [f.name for f in fields(RecordsClaim) if f.default is None]
CHOICES = {"statistic": get_args(Statistic), "relation": get_args(get_type_hints(ColumnClaim)["relation"])}


class AttackError(Exception):
    """An attack that was not played to its end: what it was given is at fault, or the attack itself."""


class AttackInputError(AttackError, ValueError):
    """It finds its input wrong, or what it makes of that is no outcome."""


class AttackFailure(AttackError, ToldFailure):
    """It raised what nobody foresaw."""


def outcome_of(attack: Attack, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
    """What the attack returns. It works on copies of its own: what it changes in them reaches no other attack and no
    truth; nor do settings of the process that it changes. Raises AttackInputError, one line that names the attack, for
    what is no outcome of this view and for what the attack itself finds wrong with its input, AttackFailure for its
    other errors, and ToldFailure where it would end the whole process, as if nothing were left to do.
    """
    with nullcontext() if is_own(attack) else code_kept(f"the attack {attack.technique}"), _interrupts_of_users(attack):
        outcome: Outcome = _answer(attack, view, knowledge)
    if problem := _problem(outcome, view):
        raise AttackInputError(f"{attack.technique} is no attack that can be scored: {problem}")
    return outcome


def _answer(attack: Attack, view: View, knowledge: AuxiliaryKnowledge) -> Any:
    """Whatever the attack returns. Raises what `outcome_of` says of an attack that raises something."""
    try:
        with settings_kept():
            return attack.run(deepcopy(view), deepcopy(knowledge))
    except SystemExit as error:
        raise ToldFailure(one_line(f"{attack.technique} called sys.exit({exit_code(error)})")) from error
    except KeyboardInterrupt:
        raise
    except MalformedMessage as error:
        raise AttackInputError(one_line(f"the attack {attack.technique} cannot read {error}")) from error
    except BaseException as error:
        of_input = isinstance(error, ValueError | OSError) or (
            isinstance(error, ModuleNotFoundError) and error.name is None  # a text that says what to install
        )
        said = f"raised {type(error).__name__}{_reading(error)}{_said(attack, error)}"
        text = one_line(f"the attack {attack.technique} {said}")
        raise (AttackInputError if of_input else AttackFailure)(text) from error


@contextmanager
def _interrupts_of_users(attack: Attack) -> Iterator[None]:
    """A KeyboardInterrupt that somebody else's attack raises by itself is no interruption: the same command would meet
    it again.
    """
    with interrupts_noted() as interrupted:
        try:
            yield
        except KeyboardInterrupt as error:
            if is_own(attack) or interrupted():
                raise
            raise ToldFailure(
                f"the attack {attack.technique} raised KeyboardInterrupt, and nobody interrupted"
            ) from error


def _reading(error: BaseException) -> str:
    """Which message the attack was at: the one that the innermost function with any held; "" where none did."""
    read = next(reversed(held_through(error.__traceback__, Message)), None)
    return "" if read is None else f" at {read.name}"


def _said(attack: Attack, error: BaseException) -> str:
    """What follows the kind of an error: its text where this package says it or it names a module that is missing; else
    in which function of the attack's package it was, since any other text may quote a record.
    """
    through, package = functions_through(error.__traceback__), package_of(type(attack).__module__)
    frames = [f for f in through if package_of(f[0]) == package] or through
    names_module = isinstance(error, ImportError) and (error.name is not None or package_of(frames[-1][0]) == OWN)
    said = str(error) if names_module else may_be_told(error)
    if said == ON_REQUEST:
        return f" in {'.'.join(frames[-1])}; {said}"
    return f": {said}" if said.strip() else ""


def _problem(outcome: Any, view: View) -> str:
    """What is wrong with an outcome, or ""."""
    if isinstance(outcome, NotApplicable | Abstained):
        return "" if isinstance(outcome.reason, str) else "the reason of its silence is no text"
    if not isinstance(outcome, list | tuple):
        return f"it returns a value of type {type(outcome).__name__}, not claims, NotApplicable or Abstained"
    if strange := [c for c in outcome if not isinstance(c, CLAIMS)]:
        return f"among its claims is a value of type {type(strange[0]).__name__}"
    senders = {*view.public.clients, *(m.sender for m in view.messages)}  # of a control, others than the clients
    handed = {m.sequence for m in view.messages}
    for claim in outcome:
        if problem := next(filter(None, _problems(claim, view, senders, handed)), ""):
            return f"{problem}{resting(claim, view)}"
    return ""


def resting(claim: Claim, view: View) -> str:
    """The message that a claim rests on first; "" where it names none."""
    first = next((m for m in view.messages if isinstance(claim.evidence, tuple) and m.sequence in claim.evidence), None)
    return "" if first is None else f"; it rests on {first.name}"


def _problems(claim: Claim, view: View, senders: set[str], handed: set[int]) -> Iterator[str]:
    """What is wrong with a claim, or "": whom it is about, what it rests on, and what is in it."""
    yield _of_party(claim, senders)
    if not isinstance(claim.evidence, tuple) or not all(isinstance(n, int) and n in handed for n in claim.evidence):
        yield "the evidence of a claim is no tuple of the numbers of messages that it was handed"
    yield _of_records(claim, view) if isinstance(claim, RecordsClaim) else _of_fields(claim)


def _of_party(claim: Claim, senders: set[str]) -> str:
    """What is wrong with whom a claim is about, or ""."""
    victim, what = (claim.victim, "rows") if isinstance(claim, RecordsClaim) else (claim.party, "something")
    if not isinstance(victim, str):
        return f"it claims {what} of a party that is of type {type(victim).__name__}, not a name"
    unknown = set(clients_of(victim)) - senders
    return f"it claims {what} of a party that is none of {', '.join(sorted(senders))}" if unknown else ""


def _of_fields(claim: Claim) -> str:
    """What is wrong with a claim about anything but rows, or "": texts, numbers and values that are none."""
    given = {f.name: getattr(claim, f.name) for f in fields(claim)}
    if strange := [name for name in TEXTS if name in given and not isinstance(given[name], str)]:
        return f"{strange[0]} of a claim is of type {type(given[strange[0]]).__name__}, not a text"
    if strange := [name for name, known in CHOICES.items() if name in given and given[name] not in known]:
        return f"{strange[0]} of a claim is none of {', '.join(CHOICES[strange[0]])}"
    if not isinstance(given.get("certain", False), bool | np.bool_):
        return "whether a claim is certain is no bool"
    return _of_values(claim, given) if "values" in given else _of_numbers(given, ())


def _of_values(claim: Claim, given: Mapping[str, Any]) -> str:
    """What is wrong with the values of a claim, or with what it says of each of them, or ""."""
    values = given["values"]
    if isinstance(claim, ColumnClaim):
        column = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf"
        finite = column and not np.isinf(values).any()
        return (
            "" if finite else "the values of a claimed column are no array (n,) of finite numbers, or NaN for no claim"
        )
    if not isinstance(values, tuple) or not all(isinstance(v, str) for v in values):
        return "the values of a claim are no tuple of texts"
    proven = given.get("proven", frozenset())
    if not isinstance(proven, frozenset) or not proven <= {*values}:
        return "what a claim says is proven is no frozenset of its values"
    unsaid = {"counts"} if isinstance(given.get("counts"), tuple) and not given["counts"] else set()
    return _of_numbers({name: v for name, v in given.items() if name not in unsaid}, (len(values),))


def _of_numbers(given: Mapping[str, Any], shape: tuple[int, ...]) -> str:
    """What is wrong with the numbers of a claim, or "": each field of them has that shape."""
    for name in (n for n in NUMBERS if n in given):
        numbers = np.array(given[name], dtype=object)
        if numbers.shape != shape or not all(isinstance(n, Real) and _is_float(n) for n in numbers.flat):
            return f"{name} of a claim is not {'a number for each of its values' if shape else 'a number'}"
    return ""


def _of_records(claim: RecordsClaim, view: View) -> str:
    """What is wrong with a claim about rows: how many cells, and values that no cell has."""
    layout = view.public.layout if claim.layout is None else claim.layout
    if not isinstance(layout, FeatureLayout):
        return "it claims rows where no layout says what their columns are"
    if not isinstance(claim.round, Integral) or isinstance(claim.round, bool):
        return "the round of a claim is no whole number"
    if problem := _of_arrays(claim, len(layout.categorical), len(layout.numeric)):
        return problem
    sizes = [b.size for b in layout.categorical]
    if not ((claim.categories >= -1) & (claim.categories < sizes)).all():
        return "a category of a claim is none of the layout's"
    if claim.layout is None and not np.isfinite(claim.numbers).all():
        return "a number of a claim is not finite"
    if claim.probability is not None and not ((claim.probability >= 0) & (claim.probability <= 1)).all():
        return "a probability of a claim is not from 0 to 1"
    return ""


def _is_float(number: Real) -> bool:
    """Whether a number is what arithmetic can take: not NaN, and no whole number beyond all floats."""
    try:
        return not isnan(number)
    except OverflowError:
        return False


def _of_arrays(claim: RecordsClaim, categorical: int, numeric: int) -> str:
    """What is wrong with the arrays of a claim about rows of so many cells, or ""."""
    rows = len(claim.categories) if isinstance(claim.categories, np.ndarray) and claim.categories.ndim else 0
    own = {
        "categories": ("iu", (rows, categorical)),
        "numbers": ("iuf", (rows, numeric)),
        "category_entropy": ("iuf", (rows, categorical)),
        "number_entropy": ("iuf", (rows, numeric)),
        "residual": ("iuf", (rows,)),
        "verified": ("b", (rows,)),
        "probability": ("iuf", (rows, categorical + numeric)),
        "owners": ("U", (rows,)),
    }
    for name, (kinds, shape) in own.items():
        array = getattr(claim, name)
        if array is None and name in OPTIONAL:
            continue
        if np.shape(array) != shape:
            return f"{name} of a claim have shape {np.shape(array)}, not {shape}"
        if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
            kind = f"of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
            return f"{name} of a claim are no array of the type that they must have, but {kind}"
    return ""
