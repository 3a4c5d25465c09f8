"""What is told of a method that fails: its name and the kind of the error.

An error quotes what it stumbled over: pandas and numpy name the value, and with it somebody's record. A ValueError that
this package's own methods raise is written for whoever chose the data, and names none. Of any other error, those of
libraries that these methods call and all of other people's methods, nobody knows what the text holds: it stays in the
traceback, which is printed on request.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from leakledger.preprocess.located import At, FederationError, Public
from leakledger.preprocess.raised import functions_through, package_of, raised_itself
from leakledger.preprocess.told_failure import ON_REQUEST, ToldFailure

OWN = package_of(__name__)


class MethodError(ValueError):
    """What a method did wrong, in one line that quotes no value."""


@contextmanager
def naming_method(role: str, method: Any) -> Iterator[None]:
    """An error of `method`, an encoder, say, becomes one that names it: MethodError for a ValueError or OSError,
    ToldFailure for others, or where it would end the whole process. Rules of the federation that it breaks, and what
    the package's own methods say of their input, are raised as they are.
    """
    who = f"the {role} {method.name}"
    try:
        yield
    except MethodError as error:
        raise MethodError(f"{who} cannot be used: {error}") from error
    except (ToldFailure, FederationError):
        raise
    except SystemExit as error:
        raise ToldFailure(f"{who} called sys.exit") from error
    except Exception as error:
        if is_own(method) and (isinstance(error, ModuleNotFoundError) or may_be_told(error) != ON_REQUEST):
            raise
        told = MethodError if isinstance(error, ValueError | OSError) else ToldFailure
        raise told(f"{who} raised {type(error).__name__}; {ON_REQUEST}") from error


def may_be_told(error: BaseException) -> str:
    """The text of an error where this package itself says it of bad input or of a broken rule, else how to see it."""
    at = error.__traceback__
    said = isinstance(error, OSError | ToldFailure) or (isinstance(error, ValueError) and raised_itself(at))
    through = functions_through(at)
    return str(error) if said and through and package_of(through[-1][0]) in (OWN, "__main__") else ON_REQUEST


def place_of(error: BaseException) -> str:
    """Where in a federation it was raised, in brackets, as it was noted there first; "" where nothing is noted."""
    return "".join(f" ({note})" for note in getattr(error, "__notes__", [])[:1])


def check_fit(fit: Any, kind: type, clients: Sequence[str]) -> None:
    """Raises MethodError unless `fit` is of that kind, which has two fields: what lives at each client, and what is
    public.
    """
    if not isinstance(fit, kind):
        raise MethodError(f"its fit returns a value of type {type(fit).__name__}, not {kind.__name__}")
    held, public = ((name, getattr(fit, name)) for name in kind.__annotations__)
    homes = {c: v.party for c, v in held[1].items() if isinstance(v, At)} if isinstance(held[1], Mapping) else {}
    if homes != {c: c for c in clients}:
        raise MethodError(f"{held[0]} of its fit are not a value at each of {', '.join(clients)}")
    if not isinstance(public[1], Public):
        raise MethodError(f"{public[0]} of its fit is of type {type(public[1]).__name__}, not Public")


def is_own(method: Any) -> bool:
    """Whether a method is one of this package, and not of somebody else."""
    return package_of(type(method).__module__) == OWN
