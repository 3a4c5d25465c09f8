"""Numbers with their nouns."""


def plural(n: int, one: str, many: str | None = None) -> str:
    """`n` with its noun: 1 case, 2 cases."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
