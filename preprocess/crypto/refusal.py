"""How a party refuses a message: the error names who refuses whose message, in which step, and shows nothing of it."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from leakledger.preprocess.federation import At, Federation, FederationError

R = TypeVar("R")


class MessageError(ValueError):
    """What arrived is not what the protocol's next message can be. The text must not repeat keys or values."""


def accept(fed: Federation, party: str, sender: str, fn: Callable[..., R], *values: Any) -> At[R]:
    """`fed.local` for a function that reads a message of `sender`; its MessageError becomes a FederationError."""
    where = f"step {fed.step}, round {fed.round}"

    @wraps(fn)
    def reading(*inside: Any) -> R:
        try:
            return fn(*inside)
        except MessageError as error:
            raise FederationError(f"{party} refuses a message of {sender}: {error} ({where})") from None

    return fed.local(party, reading, *values)
