"""What the methods of each setting are said to share, beside what adversaries of each kind were found to learn.

What evaluation tells of held-out rows is no matter of a method, and stands with the other findings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakledger.audit.records import ASSETS, HELD_OUT, Leakage, Ruling, Setting


@dataclass(frozen=True)
class Line:
    """One kind of adversary: what it learns of each asset, in the order of the table's columns, and the verdict on each
    (None for a reference, which no federation runs).
    """

    adversary: str
    leakage: tuple[tuple[Leakage, Ruling | None], ...]


@dataclass(frozen=True)
class Account:
    """One setting with the page's number of it."""

    number: int
    setting: Setting
    lines: tuple[Line, ...]


def assets(leakage: Sequence[Leakage]) -> list[str]:
    """The assets that anything was found about, as column headings."""
    seen = {f.asset for f in leakage} - {*HELD_OUT}
    return [heading for asset, heading in ASSETS.items() if asset in seen]


def accounts(settings: Mapping[int, Setting], leakage: Sequence[Leakage], rulings: Sequence[Ruling]) -> list[Account]:
    """Every setting that adversaries were played in, with a line for each kind of them."""
    ruled = {(r.setting, r.adversary, r.asset): r for r in rulings}
    rows: dict[tuple[str, str], list[Leakage]] = {}
    for f in (f for f in leakage if f.asset not in HELD_OUT):
        rows.setdefault((f.setting, f.adversary), []).append(f)
    order = list(ASSETS)
    lines: dict[str, list[Line]] = {}
    for (setting, adversary), cells in rows.items():
        ordered = sorted(cells, key=lambda f: order.index(f.asset))
        line = Line(adversary, tuple((f, ruled.get((f.setting, f.adversary, f.asset))) for f in ordered))
        lines.setdefault(setting, []).append(line)
    return [Account(number, s, tuple(lines[s.id])) for number, s in settings.items() if s.id in lines]
