"""Options of methods as a configuration sets them: those of the chosen methods and no others, as their home says.

Their home is the method's dataclass (`preprocess.options`). Here an option becomes a field of a pydantic model, so that
a problem with it reads like one with any other key: where it is, what is wrong, what was given.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import InitErrorDetails, PydanticCustomError

from leakledger.audit.plugins import failure
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.options import Option, literals, options_of

Methods = Mapping[str, type]
"""What a configuration can name, each with its class. A class without options has none to set."""


class OneOf:
    """A check of a value: something known by name, or an error that suggests one."""

    def __init__(self, known: Collection[Any], *more: Any) -> None:
        self._known, self._more = known, more

    @property
    def names(self) -> tuple[Any, ...]:
        """What is known by now: a method that is registered later too."""
        return (*self._more, *(sorted(self._known) if isinstance(self._known, Mapping) else self._known))

    def __call__(self, value: Any) -> Any:
        if value not in self.names and not isinstance(value, tuple):
            near = failure(str(value)) or closest(str(value), map(str, self.names))
            raise ValueError(f"{value!r} is unknown{near}; choose one of {', '.join(map(str, self.names))}")
        return value


def one_of(known: Collection[Any], *more: Any) -> Any:
    """The check as part of a type: names of a table, sorted, or a list of names; `more` come before them."""
    return BeforeValidator(OneOf(known, *more))


def own_options(names: Mapping[str, str], tables: Mapping[str, Methods]) -> dict[str, Option]:
    """The options of the named methods: `names` has one of each kind, `tables` all of that kind."""
    return {key: o for kind, name in names.items() for key, o in options_of(tables[kind][name], name).items()}


def checked(
    given: Mapping[str, Any], names: Mapping[str, str], tables: Mapping[str, Methods], beside: Iterable[str] = ()
) -> dict[str, Any]:
    """Every option of the named methods: as `given`, else its default.

    Raises ValidationError, located at the key, for an option that none of them has (it names those that have it; keys
    that may stand `beside` options are known too), for one that is needed and missing, a wrong type, a value out of
    range, and options that do not fit together.
    """
    own = own_options(names, tables)
    for key in given:
        if key not in own:
            raise located_error(_unknown(key, names, tables, [*own, *beside]), given[key], key)
    for key, stated in own.items():
        if stated.required and key not in given:
            raise located_error(f"{_listed(names.values())} needs it: {stated.help}", None, key)
    values = _model(tuple(own.values())).model_validate(dict(given)).model_dump()
    for kind, name in names.items():
        method = tables[kind][name]
        try:
            method(**{key: values[key] for key in options_of(method, name)})
        except ValueError as error:
            raise located_error(str(error), None) from None
    return values


def _unknown(key: str, names: Mapping[str, str], tables: Mapping[str, Methods], known: Iterable[str]) -> str:
    """What is wrong with `key`: which methods have such an option, else which keys are known."""
    owners = {
        kind: [n for n, method in table.items() if key in options_of(method, n)] for kind, table in tables.items()
    }
    if not any(owners.values()):
        return f"unknown key{closest(key, known)}; known here: {', '.join(sorted(known))}"
    without = dict.fromkeys(names[kind] for kind, having in owners.items() if having)
    having = dict.fromkeys(n for names in owners.values() for n in names)
    return f"{_listed(without)} {_have(without)} no such option; {_listed(having)} {_have(having)}"


def _listed(names: Iterable[str]) -> str:
    *first, last = dict.fromkeys(names)
    return f"{', '.join(first)} and {last}" if first else last


def _have(names: Collection[str]) -> str:
    return "has" if len(names) == 1 else "have"


def located_error(problem: str, value: Any, *location: str | int) -> ValidationError:
    """The error that says what is wrong with `value`, at the keys and numbers that lead to it."""
    kind = PydanticCustomError("option", "{problem}", {"problem": problem})
    return ValidationError.from_exception_data("options", [InitErrorDetails(type=kind, loc=location, input=value)])


@cache
def _model(options: tuple[Option, ...]) -> type[BaseModel]:
    fields: dict[str, Any] = {o.name: (_annotation(o), o.default) for o in options}
    return create_model("Options", __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)


def _annotation(stated: Option) -> Any:
    """The type with its range. Where there is a `read`, it comes first, then the choices."""
    limits = Field(ge=stated.at_least, gt=stated.above, le=stated.at_most, lt=stated.below)
    kind = stated.type
    if get_origin(kind) is tuple and get_args(kind)[0] in (int, float):
        kind = tuple[Annotated[get_args(kind)[0], limits], ...]  # type: ignore[misc]
    elif kind in (int, float, int | None, float | None):
        kind = Annotated[kind, limits]
    elif stated.choices and not literals(kind):
        kind = Annotated[kind, one_of(stated.choices)]
    return Annotated[kind, BeforeValidator(stated.read)] if stated.read else kind
