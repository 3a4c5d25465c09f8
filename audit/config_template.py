"""A configuration as a file to edit: every value in force, each with its help; what `leakledger init` writes."""

import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leakledger.attacks import ATTACKS
from leakledger.audit.config import Attacks, Config
from leakledger.audit.config_features import NOT_TRAINED
from leakledger.audit.config_file import config_of, seen_from
from leakledger.audit.options import own_options
from leakledger.audit.reference import keys_of, repeated
from leakledger.audit.sections import MethodSection
from leakledger.preprocess.options import Option, in_toml, options_of

HEAD = """\
# An audit: every value in force. Delete what you do not change: it is the default, unless a comment says otherwise.
# `leakledger validate FILE` checks this file, `leakledger run FILE` runs it, `leakledger info NAME` describes a method.
# A [[section]] may occur several times: all combinations are run.
"""
COLUMN, WIDTH = 34, 120  # where comments begin, and where lines end
TWO_METHODS = [{}, {"encoder": "local", "scaler": "local"}]  # to compare, where none is chosen


def starter(overrides: Sequence[str] = (), folder: Path = Path()) -> str:
    """The file of the defaults under `overrides` ("section.key=value"), to be put into `folder`: what names files does
    so from there. Raises ConfigError for what cannot be.
    """
    chosen = chooses_methods(overrides)
    config = config_of({} if chosen else {"preprocessing": TWO_METHODS}, overrides)
    return config_text(config_of(seen_from(folder, config.model_dump(by_alias=True, exclude_unset=True)), ()))


def chooses_methods(overrides: Sequence[str]) -> bool:
    """Whether a method of preprocessing, or of features or of alignment in its place, is named, so that none is put
    beside it.
    """
    return any(item.startswith(("preprocessing.", "features.", "alignment.")) for item in overrides)


def config_text(config: Config) -> str:
    """The TOML file that says what `config` does. Reading it gives the same configuration."""
    left_out = NOT_TRAINED if config.features or config.alignment else ()
    names = [name for name in Config.model_fields if name not in left_out]
    return "\n".join([HEAD, *(line for name in names for line in _sections(config, name))])


def _sections(config: Config, name: str) -> Iterator[str]:
    value = getattr(config, name)
    header = f"[[{name}]]" if repeated(name) else f"[{name}]"
    for i, section in enumerate(value if isinstance(value, list) else [value]):
        yield from [] if i else [f"# {line}" for line in inspect.cleandoc(section.__doc__ or "").splitlines()]
        values = section.model_dump(by_alias=True)
        schema = values.pop("schema") if isinstance(values.get("schema"), dict) else None
        yield header
        yield from _lines((o for o in keys_of(type(section)).values() if o.name in values), values)
        yield from [] if schema is None else _schema_table(schema)
        if isinstance(section, MethodSection):
            names = {key: values[key] for key in section.tables}
            yield from _lines(own_options(names, section.tables).values(), values)
        yield ""
        if isinstance(section, Attacks):
            yield from _attack_tables(section.options)


def _schema_table(schema: Mapping[str, Any]) -> Iterator[str]:
    """The keys of a schema that stands in the configuration."""
    yield "[data.schema]"
    yield from (f"{key} = {in_toml(value)}" for key, value in schema.items() if value is not None)


def _attack_tables(tables: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, values in tables.items():
        yield f"[attacks.{name}]"
        yield from _lines(options_of(ATTACKS[name]).values(), values)
        yield ""


def _lines(keys: Iterable[Option], values: Mapping[str, Any]) -> Iterator[str]:
    """One line per key with its help behind, or above where that is long; what has no value is a comment."""
    for o in keys:
        value = values[o.name]
        if value is None and o.read is not None and o.read(0) is None:
            value = 0
        text = f"# {o.name} =" if value is None else f"{o.name} = {in_toml(value)}"
        line = f"{text:<{COLUMN}}  # {o.help}"
        if len(line) <= WIDTH:
            yield line
        else:
            yield from (f"# {part}" for part in textwrap.wrap(o.help, WIDTH - 2))
            yield text
