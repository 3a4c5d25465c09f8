"""Every key of a configuration with its default, range and help: docs/configuration.md, generated from the code.

`python -m leakledger.audit.reference docs/configuration.md` (or `make docs`) writes the page again.
"""

import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from leakledger.attacks import ATTACKS
from leakledger.audit.config import Config
from leakledger.audit.options import Methods, OneOf
from leakledger.audit.sections import MethodSection
from leakledger.preprocess.options import Option, in_toml, literals, options_of

INTRODUCTION = """\
# Configuration

*Generated from the code by `make docs`; a test fails when it is stale.*

A configuration is a TOML file (`leakledger init audit.toml` writes one, `leakledger validate audit.toml` checks it). Of
every value the last of these counts: default, file, environment (`LEAKLEDGER_SECTION__KEY=value`), command line
(`--set section.key=value`). A key that nothing knows is an error, and so is an option of another method than the one
that its section names. `[[partition]]`, `[[features]]`, `[[alignment]]`, `[[preprocessing]]`, `[[training]]` and
`[[defense]]` may occur several times: all combinations are run, and an override reaches every one of them.
`leakledger info NAME` prints the options of a method. Where the default is `none`, without quotation marks, leaving the
key out is the only way to say so; `"none"` is a value like any other."""

Rows = Iterable[Iterable[str]]
BOUNDS = {"ge": "at_least", "gt": "above", "le": "at_most", "lt": "below"}  # of annotated types


def page() -> str:
    """The whole page."""
    return "\n\n".join([INTRODUCTION, *(part for name in Config.model_fields for part in _section(name))]) + "\n"


def sections() -> dict[str, type[BaseModel]]:
    """The sections of a configuration by name."""
    return {name: section_of(f.annotation) for name, f in Config.model_fields.items()}


def repeated(name: str) -> bool:
    """Whether a section may occur several times."""
    return get_origin(Config.model_fields[name].annotation) is list


def section_of(annotation: Any) -> type[BaseModel]:
    """The section behind the type of a field: itself, or what a list holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(section_of(a) for a in get_args(annotation))


def keys_of(section: type[BaseModel]) -> dict[str, Option]:
    """The keys that a section has whatever methods it names."""
    return {f.alias or name: _stated(f.alias or name, f) for name, f in section.model_fields.items()}


def options_text(methods: Methods, name: str) -> str:
    """The options of one method as lines of text; empty where it has none."""
    options = options_of(methods[name], name).values()
    lines = [f"  {o.name} = {_default(o)}\n      {o.help} ({o.range})" for o in options]
    return "\n".join(["Options:", *lines]) if lines else ""


def _section(name: str) -> Iterator[str]:
    section = sections()[name]
    yield f"## {name}\n\n{inspect.cleandoc(section.__doc__ or '')}"
    yield _table(("key", "default", "values", "what it is"), (_cells(o) for o in keys_of(section).values()))
    if issubclass(section, MethodSection):
        for key, methods in section.tables.items():
            yield _shared(f"Options by `{key}`", methods)
    if name == "attacks":
        for attack, kind in ATTACKS.items():
            if options := options_of(kind):
                yield f"### attacks.{attack}"
                yield _table(("option", "default", "values", "what it is"), map(_cells, options.values()))


def _shared(title: str, methods: Methods) -> str:
    """One row per option and the methods that have it alike."""
    owners: dict[Option, list[str]] = {}
    for name, kind in methods.items():
        for o in options_of(kind, name).values():
            owners.setdefault(o, []).append(f"`{name}`")
    rows = ([_cells(o)[0], ", ".join(names), *_cells(o)[1:]] for o, names in owners.items())
    return f"### {title}\n\n{_table(('option', 'of', 'default', 'values', 'what it is'), rows)}"


def _cells(o: Option) -> list[str]:
    return [f"`{o.name}`", f"`{_default(o)}`" if not o.required else "needed", o.range.replace("|", "\\|"), o.help]


def _default(o: Option) -> str:
    return "(needed)" if o.required else in_toml(o.default)


def _table(head: Iterable[str], rows: Rows) -> str:
    cells = list(head)
    lines = [cells, ["---"] * len(cells), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _stated(name: str, f: FieldInfo) -> Option:
    """A field of a section as an option."""
    found = list(_metadata(f.annotation, f.metadata))
    limits = {ours: getattr(m, theirs) for m in found for theirs, ours in BOUNDS.items() if hasattr(m, theirs)}
    checks = [m.func for m in found if isinstance(m, BeforeValidator)]
    names = next((c.names for c in checks if isinstance(c, OneOf)), literals(f.annotation))
    default = f.get_default(call_default_factory=True)
    return Option(f.description or "", **limits, choices=names, name=name, type=f.annotation, default=default)


def _metadata(annotation: Any, own: Iterable[Any]) -> Iterator[Any]:
    """What annotations say of a type and of what it holds."""
    for m in own:
        yield from m.metadata if isinstance(m, FieldInfo) else [m]
    for part in get_args(annotation):
        if get_origin(part) is Annotated:
            yield from _metadata(part, part.__metadata__)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
