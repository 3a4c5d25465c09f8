"""Options of a method, each stated once: a field of the method's own frozen dataclass, with type, default, range, help.

    @dataclass(frozen=True)
    class RollingHash(TextEncoder):
        buckets: int = option(5000, at_least=1, at_most=MAX_BUCKETS, help="columns of a feature, M of the paper")
        seed: int = 0  # no option: whoever makes the method sets it

The configuration, its error messages, its documentation and the method's own checks read them from here.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from math import isfinite
from numbers import Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

KEY = "option"  # of a field's metadata


@dataclass(frozen=True)
class Option:
    """One option. `default` is Ellipsis where it has none. Bounds hold for each number of a tuple, and for
    no None.

    `read` turns what a configuration says into the value, or raises ValueError. `only` names the methods that have it,
    where several share a dataclass; empty: all of them. `name`, `type` and `default` are those of the field.
    """

    help: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    choices: tuple[Any, ...] = ()
    read: Callable[[Any], Any] | None = None
    only: tuple[str, ...] = ()
    name: str = ""
    type: Any = None
    default: Any = ...

    @property
    def required(self) -> bool:
        return self.default is ...

    @property
    def range(self) -> str:
        """What it may be, in words: its choices, or its type and bounds."""
        if self.choices:
            return " or ".join(filter(None, [", ".join(in_toml(c) for c in self.choices), _beside(self.type)]))
        bounds = {"from": self.at_least, "above": self.above, "up to": self.at_most, "below": self.below}
        stated = [f"{word} {bound}" for word, bound in bounds.items() if bound is not None]
        kind, *alternatives = in_words(self.type).split(", or ")
        alternatives = ["0" if a == "none" and self._zero_is_none else a for a in alternatives]
        return ", or ".join([" ".join([kind, " and ".join(stated)]).strip(), *alternatives])

    def problem(self, value: Any) -> str:
        """What is wrong with `value`, or ""; of its type only whether it is a number where one is needed."""
        if self._counts and not isinstance(value, Real | None):
            return f"is {value!r}; it must be {self.range}"
        if value is None or (isinstance(value, str) and not self.choices):
            return ""
        if self.choices and isinstance(value, str | int):
            known = value in self.choices
            return "" if known else f"{value!r} is unknown; choose one of {', '.join(map(str, self.choices))}"
        numbers = [v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Real)]
        return next((f"is {value}; {rule}" for v in numbers if (rule := self._broken(v))), "")

    @property
    def _zero_is_none(self) -> bool:
        """Whether a configuration, which has no none, writes it as 0."""
        try:
            return self.read is not None and self.read(0) is None
        except ValueError:
            return False

    @property
    def _counts(self) -> bool:
        """Whether it is a number, or a number or none."""
        parts = get_args(self.type) if get_origin(self.type) in (Union, UnionType) else (self.type,)
        return {int, float} >= {*parts} - {NoneType} != set() and not self.choices

    def _broken(self, number: Any) -> str:
        rules = {
            "it must be finite": not isinstance(number, float) or isfinite(number),
            f"it must be at least {self.at_least}": self.at_least is None or number >= self.at_least,
            f"it must be above {self.above}": self.above is None or number > self.above,
            f"it must be at most {self.at_most}": self.at_most is None or number <= self.at_most,
            f"it must be below {self.below}": self.below is None or number < self.below,
        }
        return next((rule for rule, kept in rules.items() if not kept), "")


def option(
    default: Any = MISSING,
    *,
    help: str,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: Iterable[Any] = (),
    read: Callable[[Any], Any] | None = None,
    only: tuple[str, ...] = (),
) -> Any:
    """A field that a configuration can set; see `Option`. The choices of a Literal need not be repeated."""
    stated = Option(help, at_least, above, at_most, below, tuple(choices), read, only)
    return field(default=default, metadata={KEY: stated})


@cache
def options_of(method: Any, name: str = "") -> Mapping[str, Option]:
    """The options of a method (a class) by name, in the order of its fields.

    `name`: which method, where several share the class.
    """
    if not hasattr(method, "__dataclass_fields__"):
        return {}
    types = get_type_hints(method)
    stated = [
        replace(f.metadata[KEY], name=f.name, type=types[f.name], default=... if f.default is MISSING else f.default)
        for f in fields(method)
        if KEY in f.metadata
    ]
    complete = [replace(o, choices=o.choices or literals(o.type)) for o in stated]
    return {o.name: o for o in complete if not name or not o.only or name in o.only}


def check_options(method: Any) -> None:
    """Raises ValueError, with name and value, for the first option of `method` that is out of its range."""
    kind: Any = type(method)
    for name, stated in options_of(kind).items():
        if problem := stated.problem(getattr(method, name)):
            raise ValueError(f"{name} {problem}")


def literals(kind: Any) -> tuple[Any, ...]:
    """The values that a Literal type, or one of a union, allows."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else ()
    return tuple(value for part in parts for value in literals(part))


def in_words(kind: Any) -> str:
    """A type in words: "a whole number", "a list of texts", "a text, or none"."""
    if get_origin(kind) in (Union, UnionType):
        return ", or ".join(in_words(k) for k in get_args(kind))
    if get_origin(kind) in (tuple, list):
        return f"a list of {in_words(get_args(kind)[0]).removeprefix('a ')}s"
    if get_origin(kind) is Annotated:
        return in_words(get_args(kind)[0])
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", NoneType: "none"}
    return names.get(kind, "a table")


def in_toml(value: Any) -> str:
    """A value as a configuration file writes it; "none" for what leaving it out means."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(in_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{in_toml(k)} = {in_toml(v)}' for k, v in value.items())} }}" if value else "{}"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _beside(kind: Any) -> str:
    """What a value may be beside its choices: "none", for example."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else ()
    return " or ".join(in_words(p) for p in parts if p not in (str, bool) and get_origin(p) is not Literal)
