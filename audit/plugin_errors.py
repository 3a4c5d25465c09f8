"""Which plugin an error comes from: it is told by the function that was called and the kind of the error.

Code of others is called in many places: to make a method, to ask what it states, to run it. Each of these calls may
raise anything, so an error is judged where it would end a case or a command, by the functions it came through. Its text
may quote a record (`preprocess.method_errors`) and is shown on request.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from leakledger.audit.plugins import DISTRIBUTIONS, PACKAGES
from leakledger.preprocess.method_errors import OWN, MethodError
from leakledger.preprocess.raised import functions_through, package_of
from leakledger.preprocess.told_failure import ON_REQUEST, ToldFailure


def told_of_plugin(error: BaseException) -> MethodError | ToldFailure | None:
    """The failure that names what was called of a plugin, for an error that came out of it: MethodError for a
    ValueError or OSError, ToldFailure for others.

    None where it came out of none, was told already, or is what this package says of bad input to who called it.
    """
    frames = functions_through(error.__traceback__)
    if isinstance(error, MethodError | ToldFailure | KeyboardInterrupt) or not frames:
        return None
    of_input = isinstance(error, ValueError | OSError)
    if of_input and package_of(frames[-1][0]) == OWN:
        return None
    called = ""
    for outer, (module, function) in zip([("", ""), *frames], frames, strict=False):
        package = package_of(module)
        if package in PACKAGES and package_of(outer[0]) != package:
            called = f"{module}.{function}, of the plugin {_distribution(package)},"
    if not called:
        return None
    return (MethodError if of_input else ToldFailure)(f"{called} raised {type(error).__name__}; {ON_REQUEST}")


@contextmanager
def naming_plugins() -> Iterator[None]:
    """An error that came out of a plugin, also one that would end the whole process, becomes one that names it."""
    try:
        yield
    except BaseException as error:
        if (told := told_of_plugin(error)) is None:
            raise
        raise told from error


def _distribution(package: str) -> str:
    name = PACKAGES[package]
    return f"{name} {DISTRIBUTIONS[name]}" if name in DISTRIBUTIONS else name
