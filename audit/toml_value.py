"""What is given on the command line or in the environment as the value of a key."""

import tomllib
from typing import Any


def toml_value(text: str) -> Any:
    """The value in TOML notation; text that is no TOML value, or nested too deeply for one, is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
