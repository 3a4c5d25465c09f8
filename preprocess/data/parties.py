"""Names of parties: numbered, or made from the values or files that tell the parties apart."""

import re
from collections.abc import Sequence

RESERVED = frozenset(["server", "clients"])  # what observers of an audit are called


def numbered(parties: int) -> list[str]:
    """P1 to Pn."""
    return [f"P{i + 1}" for i in range(parties)]


def named(labels: Sequence[str]) -> list[str]:
    """One distinct name per label: its letters, digits, "_", "." and "-", anything between them as one "-".

    Labels that would share a name, or take a reserved one, get a number: "north", "north-2".
    """
    taken = set(RESERVED)
    names = []
    for k, label in enumerate(labels, start=1):
        base = re.sub(r"[^\w.-]+", "-", label).strip("-.") or f"P{k}"
        choices = (base if i == 1 else f"{base}-{i}" for i in range(1, len(labels) + len(RESERVED) + 2))
        name = next(c for c in choices if c not in taken)
        taken.add(name)
        names.append(name)
    return names
