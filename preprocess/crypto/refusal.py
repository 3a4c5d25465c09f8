"""How a party refuses a message: the error names who refuses whose message, in which step, and shows nothing of it."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from leakledger.preprocess.federation import At, Federation, FederationError, Public

R = TypeVar("R")


class MessageError(ValueError):
    """What arrived is not what the protocol's next message can be. The text must not repeat keys or values."""


def accept(fed: Federation, party: str, sender: str, fn: Callable[..., R], *values: Any) -> At[R]:
    """`fed.local` for a function that reads a message of `sender`; its MessageError becomes a FederationError."""
    return fed.local(party, _refusing(fed, f"{party} refuses", sender, fn), *values)


def accept_public(fed: Federation, sender: str, fn: Callable[..., R], *values: Any) -> Public[R]:
    """`fed.public` likewise, for a function that reads what `sender` told everyone."""
    return fed.public(_refusing(fed, "all refuse", sender, fn), *values)


def _refusing(fed: Federation, who: str, sender: str, fn: Callable[..., R]) -> Callable[..., R]:
    where = f"step {fed.step}, round {fed.round}"

    @wraps(fn)
    def reading(*inside: Any) -> R:
        try:
            return fn(*inside)
        except MessageError as error:
            raise FederationError(f"{who} a message of {sender}: {error} ({where})") from None

    return reading
