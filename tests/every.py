"""Many inputs in one case: a test that says one thing of each of them."""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any


def every(names: str | tuple[str, ...], inputs: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like `pytest.mark.parametrize`, in one case: the test is called with one input after the other.

    A failure has the input as a note. Fixtures are made once, so a test that changes one belongs to `parametrize`.
    """
    fields = (names,) if isinstance(names, str) else names
    values = [(v,) if isinstance(names, str) else tuple(v) for v in inputs]
    assert values, f"no input for {names}"

    def over(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def each(**given: Any) -> None:
            for value in values:
                case = dict(zip(fields, value, strict=True))
                try:
                    test(**given, **case)
                except BaseException as error:  # pytest's own failures are no Exceptions
                    error.add_note(f"with {case}")
                    raise

        own = signature(test)
        left = [p for name, p in own.parameters.items() if name not in fields]
        each.__signature__ = own.replace(parameters=left)  # type: ignore[attr-defined]
        return each

    return over
