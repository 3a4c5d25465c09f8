"""What the methods of each setting are said to share, beside what adversaries of each kind were found to learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.records import ASSETS, Found, Setting


@dataclass(frozen=True)
class Line:
    """One kind of adversary: what it learns of each asset, in the order of the table's columns."""

    adversary: str
    found: tuple[Found, ...]


@dataclass(frozen=True)
class Told:
    """One setting with the page's number of it."""

    number: int
    setting: Setting
    lines: tuple[Line, ...]


def assets(found: Sequence[Found]) -> list[str]:
    """The assets that anything was found about, as column headings."""
    seen = {f.asset for f in found}
    return [heading for asset, heading in ASSETS.items() if asset in seen]


def told(settings: Mapping[int, Setting], found: Sequence[Found]) -> list[Told]:
    """Every setting that adversaries were played in, with a line for each kind of them."""
    rows: dict[tuple[str, str], list[Found]] = {}
    for f in found:
        rows.setdefault((f.setting, f.adversary), []).append(f)
    order = list(ASSETS)
    lines: dict[str, list[Line]] = {}
    for (setting, adversary), cells in rows.items():
        line = Line(adversary, tuple(sorted(cells, key=lambda f: order.index(f.asset))))
        lines.setdefault(setting, []).append(line)
    return [Told(number, s, tuple(lines[s.id])) for number, s in settings.items() if s.id in lines]


def learnt(found: Found) -> bool:
    """Whether more than nothing was learnt beyond chance: the whole interval of the advantage lies above 0, and no
    control of the attack failed.
    """
    return found.low is not None and found.low > 0 and found.score is not None and found.score.status == "scored"
