"""Settings from a file (TOML, JSON) and from the command line, to the reader that knows them.

A file says `format = "flower-local-dp"`, or is an entry of an NVFlare configuration ({"path": "….SVTPrivacy", "args":
{…}}) or a whole one with one such filter. A key that the reader does not know is an error: an option that nobody read
may be the one that voids the privacy.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from leakledger.audit.dp_claims.readers import READERS
from leakledger.audit.dp_claims.readers.base import Reader
from leakledger.audit.toml_value import toml_value
from leakledger.preprocess import strict_json
from leakledger.preprocess.data.suggest import closest, shown
from leakledger.preprocess.options import Option, in_words, options_of

FORMAT = "format"
SECTIONS = frozenset(["data", "partition", "preprocessing", "model", "training", "defense", "attacks", "audit"])
LARGEST = 10**15  # of whole numbers: a float holds them exactly
ENTRY = ({"path", "args"}, {"name", "args"}, {"id", "path", "args"})


def read_settings(path: Path | None, more: Mapping[str, Any], format_: str | None = None) -> Reader:
    """The settings in `path`, if there is one, and `more` over them. Raises ValueError, one line, that names both."""
    values = _read(path) if path else {}
    where = f"{path}: " if path else ""
    try:
        values, named = _unwrapped(values)
        stated = format_ or named or values.pop(FORMAT, "plain")
        values.pop(FORMAT, None)
        return _of(_known(stated), {**values, **more})
    except ValueError as error:
        raise ValueError(f"{where}{error}") from None


def assigned(overrides: Iterable[str]) -> dict[str, Any]:
    """Keys and values of "KEY=VALUE", values in TOML notation; text that is no TOML value is a string."""
    found: dict[str, Any] = {}
    for item in overrides:
        key, equals, text = item.partition("=")
        if not equals:
            raise ValueError(f"--set {item}: write KEY=VALUE")
        found[key.strip()] = toml_value(text)
    return found


def _read(path: Path) -> dict[str, Any]:
    language = "JSON" if path.suffix.lower() == ".json" else "TOML"
    try:
        text = path.read_text(encoding="utf-8")
        values = strict_json.loads(text) if language == "JSON" else tomllib.loads(text)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: cannot be read as {language}: {error}") from None
    if not isinstance(values, dict):
        found = "a list" if isinstance(values, list) else in_words(type(values))
        raise ValueError(f"{path}: a table of settings is needed, not {found}")
    return values


def _unwrapped(values: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The settings, and their format, out of what an NVFlare configuration has around them."""
    if "task_result_filters" in values:
        groups = values["task_result_filters"]
        if not (isinstance(groups, list) and all(isinstance(g, dict) for g in groups)):
            raise ValueError("task_result_filters is no list of tables")
        entries = [entry for group in groups for entry in group.get("filters", [])]
        known = [e for e in entries if isinstance(e, dict) and _class_of(e) in _by_class()]
        if len(known) != 1:
            raise ValueError(f"task_result_filters has {len(known)} filters that are known; check them one by one")
        values = known[0]
    if not (isinstance(values.get("args"), dict) and set(values) in ENTRY):
        return values, None
    named = _class_of(values)
    if named not in _by_class():
        raise ValueError(f"nothing is known of {named!r}; known are {', '.join(_by_class())}")
    return values["args"], _by_class()[named]


def _class_of(entry: Mapping[str, Any]) -> str:
    return str(entry.get("path", entry.get("name", ""))).rpartition(".")[2]


def _by_class() -> dict[str, str]:
    return {c: name for name, reader in READERS.items() for c in reader.classes}


def _known(name: Any) -> type[Reader]:
    if not isinstance(name, str) or name not in READERS:
        raise ValueError(f"format {name!r} is unknown{closest(str(name), READERS)}; known: {', '.join(READERS)}")
    return READERS[name]


def _of(reader: type[Reader], values: Mapping[str, Any]) -> Reader:
    options = options_of(reader)
    if unknown := [key for key in values if key not in options]:
        if unknown[0] in SECTIONS:
            raise ValueError(
                f"{unknown[0]}: a section of an audit's configuration; here settings of a mechanism are read, and "
                "`leakledger validate` prints what an audit's defenses are worth"
            )
        near = closest(unknown[0], options)
        raise ValueError(f"{shown(unknown[0])}: unknown key of {reader.name}{near}; known: {', '.join(options)}")
    if missing := [name for name, o in options.items() if o.required and name not in values]:
        raise ValueError(f"{missing[0]} is missing ({options[missing[0]].help}); {reader.name} needs it")
    return reader(**{key: _value(options[key], value) for key, value in values.items()})


def _value(option: Option, value: Any) -> Any:
    """The value, if it is of the option's type and in its range."""
    if isinstance(value, int) and abs(value) > LARGEST and option.type is not Any:
        raise ValueError(f"{option.name} is a whole number of {len(str(value))} digits; it must be at most {LARGEST:g}")
    kinds = option.type.__args__ if hasattr(option.type, "__args__") and not option.choices else (option.type,)
    if option.choices:
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{option.name} is {value!r}; choose one of {', '.join(option.choices)}")
    elif option.type is Any:
        return value
    elif float in kinds and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    elif type(value) not in kinds:
        raise ValueError(f"{option.name} is {value!r}; it must be {option.range}")
    if problem := option.problem(value):
        raise ValueError(f"{option.name} {problem}")
    return value
