"""Configuration as TOML 1.0: what a reader copies into a file of their own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def toml(values: Mapping[str, Any]) -> str:
    """`values` as TOML: plain keys first, then tables and arrays of tables. None has no word there and is left out."""
    return "\n".join(_table(values, ())).strip() + "\n"


def _table(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {k: v for k, v in values.items() if isinstance(v, Mapping) or _tables(v)}
    yield from (f"{_key(k)} = {_value(v)}" for k, v in values.items() if k not in inner and v is not None)
    for key, value in inner.items():
        own = (*path, str(key))
        name = ".".join(map(_key, own))
        for part in [value] if isinstance(value, Mapping) else value:
            yield ""
            yield f"[{name}]" if isinstance(value, Mapping) else f"[[{name}]]"
            yield from _table(part, own)


def _tables(value: Any) -> bool:
    """Whether it is a list of tables and nothing else."""
    plain = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
    return plain and all(isinstance(v, Mapping) for v in value)


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(str(value), repr(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(k))} = {_value(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_value(v) for v in value if v is not None) + "]"
    return _text(str(value))


def _text(value: str) -> str:
    r"""A basic string. Those of JSON are the same but for DEL, and for halves of surrogate pairs, which TOML lacks."""
    whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")
