"""The verdict of an audit in sentences, from its rulings and what its models are worth."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from math import comb

from leakledger.audit.leakage import SERVER, adversary
from leakledger.audit.records import (
    ASSETS,
    INFORMATION,
    CaseRecord,
    Ruling,
    Score,
    Setting,
    UtilityScore,
    Verdict,
    confidence,
    plural,
    speaks,
    within,
)
from leakledger.audit.verdicts.evidence import CHECKS, GROUPS, played_by
from leakledger.audit.verdicts.policy import Policy

NOUNS = {
    "records": "cells of records",
    "vocabulary": "local vocabularies",
    "mean": "local means",
    "std": "local deviations",
    "minimum": "local minima",
    "maximum": "local maxima",
    "count": "local row counts",
    "size": "local dictionary sizes",
    "quantile": "local quartiles",
    "frequency": "local shares of values",
    "target_rate": "local rates of the outcome",
    "held_out_count": "local counts of held-out rows",
    "held_out_rate": "local rates of the outcome in held-out rows",
    "held_out_mean": "local means of the target in held-out rows",
    "held_out_std": "local deviations of the target in held-out rows",
    "membership": "the ranking of who holds which value (AUC)",
    "columns": "the columns of a party, record by record (correlation)",
    CHECKS: "what checks of the protocol are about",
}
ASKED = {
    "rows or columns": ("records", "columns"),
    "values held": ("vocabulary",),
    "who holds a value": ("membership",),
    **GROUPS,
}
"""What there is to learn, in words, and the assets that it is."""
SAID = 3  # of what is missing, so many of the commonest reasons


def verdict(
    records: Sequence[CaseRecord],
    found: Sequence[Ruling],
    all_scores: Sequence[Score],
    rows: Sequence[UtilityScore],
    missing: int = 0,
    alpha: float = Policy.alpha,
) -> Verdict:
    """One sentence on leakage, one on utility; `missing` cases have not run yet, which forbids that nothing leaks.
    `alpha`: the level that the rulings were found at. `records`: aborted ones too; a setting that has no others was not
    judged.
    """
    settings = {r.setting.id: r.setting for r in records}
    reference = {name for name, s in settings.items() if s.reference}
    leaks = [r for r in found if r.verdict == "leaks"]
    open_ones = [r for r in found if r.verdict == "inconclusive"]
    utility = _utility_sentence(rows, reference)
    if leaks:
        federated = settings.keys() - reference
        judged = len({r.setting.id for r in records if not r.aborts} & federated)
        return Verdict("leaks", _leak_sentence(leaks, judged, len(federated) - judged, settings, all_scores), utility)
    if open_ones or not found or missing:
        return Verdict("inconclusive", _doubt_sentence(open_ones, len(found), missing), utility)
    ceiling, worst = found[0].ceiling, max(found, key=lambda r: r.advantage or 0.0)
    mean = "" if worst.advantage is None else f"; the nearest is {_who(worst)}, advantage {worst.advantage:.2f}"
    whole = f"No leak above {ceiling:g} of what a perfect attack gains, with {confidence(alpha)} confidence{mean}."
    return Verdict("no leak", " ".join((whole, *unsaid(records, found))), utility)


def unsaid(records: Iterable[CaseRecord], found: Iterable[Ruling]) -> tuple[str, ...]:
    """What a verdict that nothing leaks says nothing of, a sentence each."""
    return tuple(filter(None, (unasked({r.asset for r in found}), *unobserved(records))))


def unobserved(records: Iterable[CaseRecord]) -> Iterator[str]:
    """A sentence where neither alone nor with others the server, or any client, was played, and one for each kind of
    adversary of which not all were played, whatever a kind is called in a verdict.
    """
    most: dict[str, tuple[int, int]] = {}
    played_parties: set[bool] = set()  # whether it is the server
    for r in (r for r in records if not r.setting.reference):
        who = played_by(r)
        played_parties |= {p == SERVER for o in who for p in o}
        clients = {adversary(o): sum(p != SERVER for p in o) for o in who}
        for kind, played in Counter(map(adversary, who)).items():
            if played < (there := comb(r.setting.parties, clients[kind])):
                most[kind] = max(most.get(kind, (0, 0)), (there, played))
    if played_parties == {False}:
        yield "The server was not played as an adversary: nothing is said of what it learns."
    if played_parties == {True}:
        yield "No client was played as an adversary: nothing is said of what clients learn."
    for kind, (there, played) in sorted(most.items()):
        yield f"Played of the kind {kind}: {played} of {there}; nothing is said of the others."


def unasked(asked: Set[str]) -> str:
    """A sentence that names what no attack was played on, where `asked` are the assets on which one was; else ""."""
    *others, last = [words for words, assets in ASKED.items() if not asked & {*assets}] or [""]
    names = f"{', '.join(others)} and {last}" if others else last
    return f"No attack was played on {names}: nothing is said of that." if names else ""


def _leak_sentence(
    leaks: Sequence[Ruling], judged: int, lost: int, settings: dict[str, Setting], all_scores: Sequence[Score]
) -> str:
    """In how many of the `judged` settings something leaks, and that `lost` more were not; the worst leak of records in
    full (or the worst of all), then the other kinds in short.
    """
    worst: dict[str, Ruling] = {}
    for r in sorted(leaks, key=lambda r: -(r.advantage if r.advantage is not None else -1.0)):
        worst.setdefault(r.asset, r)
    first, *others = sorted(worst.values(), key=lambda r: (r.asset != "records", r.asset == CHECKS))
    rest = ", ".join(NOUNS[r.asset] for r in others if r.asset != CHECKS)
    places = len({r.setting for r in leaks})
    effect = _effect(first, settings[first.setting], all_scores)
    unjudged = f" that {'was' if judged == 1 else 'were'} judged ({lost} more could not be: all cases were aborted)"
    where = f"{places} of {plural(judged, 'setting')}{unjudged if lost else ''}"
    return f"Leaks in {where}: {effect}{'; also ' if rest else ''}{rest}."


def _effect(r: Ruling, setting: Setting, all_scores: Sequence[Score]) -> str:
    """What was got, beside the prior, and what shows it where the mean does not."""
    where = setting.method if setting.defense == "none" else f"{setting.method} with {setting.defense}"
    score = next((s for s in all_scores if _speaks_for(s, r)), None)
    if score is None or score.value is None or score.baseline is None:
        return f"{r.reasons[0]} under {where}"
    spread = "" if r.low is None or r.high is None else f", {within(r.low, r.high, 2)}"
    who = f"{score.attack} by {'+'.join(score.observers)}"
    if score.metric != r.metric and r.advantage is not None:  # what shows it is not the share of hits
        what = "the bits" if r.metric.endswith(INFORMATION) else "the worst record"
        return (
            f"{who} gets {r.advantage:.0%} of what the prior leaves of {what} of {NOUNS[r.asset]} under {where}{spread}"
        )
    gain = "" if r.advantage is None else f"; advantage {r.advantage:.2f}{spread}"
    return f"{who} gets {score.value:.1%} of {NOUNS[r.asset]} under {where} (prior alone {score.baseline:.1%}{gain})"


def _speaks_for(s: Score, r: Ruling) -> bool:
    same = (s.setting, s.attack, s.observers) == (r.setting, r.attack, r.observers)
    return same and (s.asset if s.asset in ASSETS else s.metric) == r.asset and speaks(s.asset, s.metric)


def _who(r: Ruling) -> str:
    return f"{r.attack} by {'+'.join(r.observers)} about {NOUNS[r.asset]}"


def _doubt_sentence(open_ones: Sequence[Ruling], of: int, missing: int) -> str:
    if missing:
        return f"Inconclusive: {missing} case{'' if missing == 1 else 's'} did not run to the end."
    if not of:
        return "Inconclusive: no attack made a claim that could be scored."
    reasons = Counter(reason for r in open_ones for reason in dict.fromkeys(r.missing))
    said = "; ".join(reason for reason, _ in reasons.most_common(SAID))
    more = f"; and {len(reasons) - SAID} more" if len(reasons) > SAID else ""
    return f"Inconclusive in {len(open_ones)} of {of} questions: {said}{more}."


def _utility_sentence(rows: Sequence[UtilityScore], reference: set[str]) -> str:
    main = next((m for m in ("f1", "r2") if any(u.metric == m for u in rows)), None)
    if main is None:
        return "No model was evaluated."
    chosen = [u for u in rows if u.metric == main]
    name = {"f1": "F1", "r2": "R²"}[main]
    best = max((u for u in chosen if u.setting not in reference), key=lambda u: u.value, default=None)
    yardstick = max((u for u in chosen if u.setting in reference), key=lambda u: u.value, default=None)
    parts = []
    if best is not None:
        defense = "" if best.defense == "none" else f" with {best.defense}"
        spread = "" if best.low is None or best.high is None else f" ({within(best.low, best.high, 3)})"
        parts.append(f"best {name} {best.value:.3f}{spread} by {best.method}{defense}, {best.training}")
        own = (u.value for u in rows if (u.setting, u.metric) == (best.setting, f"majority_{main}"))
        parts += [f"who always says the commonest class has {value:.3f}" for value in own]
    if yardstick is not None:
        parts.append(f"pooled reference {yardstick.value:.3f}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
