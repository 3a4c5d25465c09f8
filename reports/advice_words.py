"""Advice in sentences: what a change did and what it cost, in the words of the verdicts."""

from collections.abc import Iterable, Sequence

from leakledger.reports import text
from leakledger.reports.advice import Change, Cost, Effect, leaking, risen
from leakledger.reports.overview import Cell, Row, lost, unasked
from leakledger.reports.words import adversary, level, listed, nothing_said
from leakledger.reports.words import noun as asset_noun

NOTHING = "none"


def name(change: Change) -> str:
    """The change itself: what to use in place of what."""
    if change.part == "defense" and change.before == NOTHING:
        return change.after
    together = " (encoder and scaler together)" if change.part == "preprocessing" else ""
    return f"{change.after} in place of {change.before}{together}"


def effects(change: Change) -> list[str]:
    """What got better, one clause each, in the order of the grid: what is shown, what is open, what got worse."""
    better = [*change.of("ends", "settles", "lowers", "level"), *change.of("open", "fewer")]
    return [*(_better(e) for e in better), *(_worse(e) for e in change.of("starts", "raises"))]


def _better(e: Effect) -> str:
    noun = e.before.group.noun
    if e.kind in ("ends", "settles"):
        ceiling = max(r.ceiling for r in e.after.rulings)
        return f"no leak of {e.after.asked or noun} above {ceiling:g} of what a perfect attack gains"
    if e.kind == "open":
        return f"{noun} {_verb(noun, 'are')} no longer shown to leak, but that is not ruled out ({_open(e.after)})"
    if e.kind == "level":
        assert e.after.ruling is not None
        return f"{noun} still {_verb(noun, 'leak')}, known {level(e.after.ruling.level)}"
    if e.kind == "fewer":
        assert e.after.ruling is not None
        worst = f" ({e.after.amount}, to {adversary(e.after.ruling.adversary)})" if e.after.amount else ""
        return (
            f"of {noun}, {_ended(e)} are no longer shown to leak, which is not ruled out; the rest still leaks{worst}"
        )
    leak, now, before = _verb(noun, "leak"), _range(e.after), _range(e.before)
    return f"{noun} {leak} less and still {leak}: {now}, before {before} of what guessing leaves open"


def _verb(noun: str, many: str) -> str:
    """The verb of a noun of `GROUPS`: one of many things, or a clause, which is one thing."""
    return {"are": "is", "leak": "leaks"}[many] if noun.startswith(("who ", "what ", "which ")) else many


def _ended(e: Effect) -> str:
    """What is no longer shown, by whom it leaked to."""
    return _to_whom(leaking(e.before) - leaking(e.after))


def _to_whom(leaks: Iterable[tuple[str, str]]) -> str:
    """Assets, by the kind of adversary that they leak to."""
    found: dict[str, list[str]] = {}
    for who, asset in sorted(leaks):
        found.setdefault(adversary(who), []).append(asset_noun(asset))
    return listed([f"{listed(list(dict.fromkeys(assets)))} to {who}" for who, assets in found.items()])


def _open(after: Cell) -> str:
    return f"inconclusive: {after.reason}"


def _range(cell: Cell) -> str:
    r = cell.ruling
    assert r is not None
    return f"{text.number(r.advantage)} {text.interval(r.low, r.high)}"


def _worse(e: Effect) -> str:
    told = f" ({e.after.amount})" if e.after.amount else ""
    noun = e.before.group.noun
    if len(leaking(e.before)) > 1 and (more := risen(e.before, e.after)):
        return f"but of {noun}, more leaks of {_to_whom(more)}"
    return f"but {noun} {_verb(noun, 'leak')} {'then' if e.kind == 'starts' else 'more'}{told}"


def unchanged(change: Change) -> list[str]:
    """The nouns of what leaks before and after alike."""
    return [e.before.group.noun for e in change.of("same") if e.before.verdict == "leaks"]


def costs(change: Change) -> str:
    """What it did to the model, in words; of several pairs the largest loss."""
    if not change.costs:
        return "what it costs was not measured"
    found = listed([_cost(c) for c in change.costs])
    fewest = min(c.seeds for c in change.costs)
    among = [f"the worse of {len(change.pairs)} comparisons"] if len(change.pairs) > 1 else []
    doubt = [] if all(c.low is not None for c in change.costs) else [f"{text.plural(fewest, 'seed')}, no interval"]
    said = "; ".join([*among, *doubt])
    return f"{found} ({said})" if said else found


def _cost(c: Cost) -> str:
    sign = "+" if c.change > 0 else "−" if round(c.change, 3) < 0 else "±"
    spread = "" if c.low is None else f" {text.interval(c.low, c.high)}"
    return f"{c.metric} {sign}{abs(c.change):.3f}{spread}"


def lead(made: Sequence[Change], rows: Sequence[Row], unstopped: Sequence[str]) -> list[str]:
    """Under the headline: what does most about the worst leak and what it costs; what nothing in this run stops; where
    nothing leaks, on what no attack was played.
    """
    sentences = []
    best = next((c for c in made if c.helps), None)
    if best is not None:
        first = next(iter(effects(best)))
        none = "" if best.shown else "No change between settings of this run is shown to make a leak smaller. "
        sentences.append(f"{none}With {name(best)}, {first}. The model: {costs(best)}.")
    elif made and any(c.verdict == "leaks" for row in rows for c in row.cells):
        sentences.append("No change between settings of this run made a leak smaller.")
    if unstopped and lost(rows):
        sentences.append(f"Every setting that was attacked leaks {listed(list(unstopped))}.")
    elif unstopped:
        whole = "Every setting of this run leaks" if len([r for r in rows if r.cells]) > 1 else "The one setting leaks"
        sentences.append(f"{whole} {listed(list(unstopped))}: nothing that was tried stops that.")
    if open_groups := unasked(rows):
        sentences.append(nothing_said(open_groups))
    return sentences
