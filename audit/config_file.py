"""Reads the configuration of an audit: a TOML file, the environment and the command line; one line for each problem.

Precedence: command line (`--set section.key=value`) over environment (`LEAKLEDGER_SECTION__KEY=value`) over file over
defaults. An unknown key is an error with a suggestion.

Variables are read here and not by `pydantic-settings`, which leaves unknown sections unread, cannot reach the tables of
a list, and takes JSON where files and `--set` take TOML.
"""

import copy
import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from leakledger.attacks import ATTACKS
from leakledger.audit.config import Config
from leakledger.audit.guarded import guarded
from leakledger.audit.toml_value import toml_value
from leakledger.preprocess.alignment.text_encoder import is_named
from leakledger.preprocess.data.embedded import EMBEDDED
from leakledger.preprocess.data.suggest import closest, shown

ENVIRONMENT = "LEAKLEDGER_"
PLACES = {  # keys that name files
    "data": ("source", "schema"),
    "partition": ("aliases",),
    "alignment": ("encoder",),
    "preprocessing": ("fasttext_model",),
}


class ConfigError(ValueError):
    """A configuration that cannot be used; the text names file and key and says what to do.

    `location`: the keys, and the places in lists from 0, that lead to what does not fit, and `problem` what is said of
    it; empty where the file as a whole cannot be used.
    """

    def __init__(self, text: str, location: Sequence[str | int] = (), problem: str = "") -> None:
        super().__init__(text)
        self.location, self.problem = tuple(location), problem


def load_config(
    path: Path | None, overrides: Iterable[str] = (), environment: Mapping[str, str] = os.environ
) -> Config:
    """The configuration in `path` (None: defaults) under `environment` and `overrides` ("section.key=value").

    Raises ConfigError, one line: a missing or broken file, an unknown key, a value out of range.
    """
    values = relative_to(path.parent, _read(path)) if path else {}
    return config_of(values, [*environment_overrides(environment), *overrides], path)


def config_of(values: dict[str, Any], overrides: Iterable[str], path: Path | None = None) -> Config:
    """The configuration that plain `values`, read from `path`, say under `overrides`. Raises ConfigError."""
    try:
        values = copy.deepcopy(values)
    except RecursionError:
        raise ConfigError(f"{path}: its tables are nested too deeply for a configuration") from None
    for item in overrides:
        key, equals, text = item.partition("=")
        if not equals:
            raise ConfigError(f"--set {item}: write section.key=value")
        _set(values, key.strip().split("."), text, f"--set {key}")
    try:
        with guarded():  # methods of plugins are made, to see whether their options fit
            return Config.model_validate(values)
    except ValidationError as error:
        raise _first_problem(error, path, values) from None


def relative_to(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Values of a file in `folder`, with the paths in them as seen from the current folder. What is no path, or is of a
    wrong type, stays.
    """

    return _with_places(values, lambda place: str(folder / place))


def seen_from(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The inverse: values of the current folder with the paths in them as a file in `folder` names them."""
    return _with_places(values, lambda place: os.path.relpath(place, folder))


def _with_places(values: dict[str, Any], moved: Callable[[str], str]) -> dict[str, Any]:
    def one(place: Any) -> Any:
        unmoved = not isinstance(place, str) or place in EMBEDDED or is_named(place) or os.path.isabs(place)
        return place if unmoved else moved(place)

    def one_or_many(places: Any) -> Any:
        return [one(p) for p in places] if isinstance(places, list) else one(places)

    def with_places(table: Any, keys: Iterable[str]) -> Any:
        return table | {k: one_or_many(table[k]) for k in keys if k in table} if isinstance(table, dict) else table

    changed = {name: with_places(section, PLACES.get(name, ())) for name, section in values.items()}
    for name, keys in PLACES.items():
        if isinstance(tables := values.get(name), list):
            changed[name] = [with_places(table, keys) for table in tables]
    return changed


def environment_overrides(environment: Mapping[str, str]) -> list[str]:
    """What `LEAKLEDGER_SECTION__KEY=value` variables say, as "section.key=value"."""
    found = [(n, text) for n, text in sorted(environment.items()) if n.startswith(ENVIRONMENT) and "__" in n]
    return [f"{n.removeprefix(ENVIRONMENT).lower().replace('__', '.')}={text}" for n, text in found]


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; `leakledger init {path}` writes one to start from") from None
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8, not TOML, numbers too long, nested too deeply
        is_table = path.is_file() and path.suffix != ".toml"
        table = f"; of a table, `leakledger init audit.toml --data {path}` writes one" if is_table else ""
        raise ConfigError(f"{path}: cannot be read as TOML: {error}{table}") from None


def _set(values: dict[str, Any], keys: list[str], text: str, where: str) -> None:
    """Sets a nested key from text in TOML notation; text that is no TOML value is a string.

    Where the section is a list of tables ([[training]]), the key is set in every one of them.
    """
    if len(keys) < 2:
        raise ConfigError(f"{where}: name a section and a key, like audit.seeds")
    value = toml_value(text)
    section = values.setdefault(keys[0], {})
    if isinstance(section, list) and keys[1].strip("[]").isdigit():
        every = ".".join([keys[0], *(keys[2:] or ["KEY"])])
        raise ConfigError(f"{where}: {every} sets it in every [[{keys[0]}]]; to change one of them, edit the file")
    for table in section if isinstance(section, list) else [section]:
        for key in keys[1:-1]:
            table = table.setdefault(key, {}) if isinstance(table, dict) else None
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: {'.'.join(keys[:-1])} is not a table")
        table[keys[-1]] = value


def _first_problem(error: ValidationError, path: Path | None, values: Mapping[str, Any]) -> ConfigError:
    """The first problem in one line: file, key, what is wrong, what to do."""
    problem = error.errors(include_url=False)[0]
    location = [p for p in problem["loc"] if isinstance(p, str | int)]
    key = _dotted(location, values)
    prefix = f"{path}: {key}" if path else key
    if problem["type"] == "extra_forbidden":
        known = _known_keys(location[:-1])
        message = f"unknown key{closest(str(location[-1]), known)}; known here: {', '.join(known)}"
        return ConfigError(f"{prefix}: {message}", location, message)
    message = problem["msg"].removeprefix("Value error, ")
    value = problem.get("input")
    quoted = isinstance(value, str | int | float | bool | list) and problem["type"] not in ("option", "value_error")
    return ConfigError(f"{prefix}: {message}{f' (got {json.dumps(value)})' if quoted else ''}", location, message)


def _dotted(location: list[str | int], values: Mapping[str, Any]) -> str:
    """`training.rounds`, or `training[2].rounds` where the configuration has several such tables."""
    key = ""
    for part in location:
        if isinstance(part, str):
            key += f".{shown(part)}" if key else shown(part)
        elif isinstance(tables := values.get(str(location[0])), list) and len(tables) > 1:
            key += f"[{part + 1}]"
    return key


def _known_keys(location: list[str | int]) -> list[str]:
    """The keys that the section at `location` knows."""
    section = Config.model_fields[str(location[0])].annotation if location else Config
    known = [f.alias or n for n, f in _model_of(section).model_fields.items()]
    return sorted([*known, *ATTACKS] if location == ["attacks"] else known)


def _model_of(annotation: Any) -> type[BaseModel]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(_model_of(a) for a in annotation.__args__)
