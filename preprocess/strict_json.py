"""JSON that somebody wrote: of a key that is there twice Python's own reader takes the last, and nobody is told."""

import json
from typing import Any


def loads(text: str) -> Any:
    """The value. Raises ValueError for what is no JSON, and for an object with a key twice, as TOML does."""
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is there twice; remove one")
        found[key] = value
    return found
