"""Suggestions for misspelt names, and names as errors show them."""

from collections.abc import Iterable
from difflib import get_close_matches

NEAR = 0.6  # of 1: how much of two names must agree


def closest(word: str, known: Iterable[str], near: float = NEAR) -> str:
    """ " (did you mean 'x'?)" for the known name nearest to `word`, or "" where none is near. Case does not matter."""
    by_folded = {name.casefold(): name for name in known}
    match = get_close_matches(word.casefold(), list(by_folded), n=1, cutoff=near)
    return f" (did you mean {by_folded[match[0]]!r}?)" if match else ""


def shown(name: str) -> str:
    """A name from a file as a part of one line: as it is, or quoted, its controls and ends of lines as codes."""
    return name if name.isprintable() and "," not in name and name == name.strip() else repr(name)


def listed(names: Iterable[str]) -> str:
    """Names from a file as a list in one line, in which a name's own comma parts nothing."""
    return ", ".join(map(shown, names))
