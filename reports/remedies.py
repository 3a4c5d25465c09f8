"""What an audit without an answer is missing, and what to do about each: reasons of its rulings, the commonest first.

Nothing is decided here. A remedy says what would let the audit answer, never what the answer would be.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from leakledger.audit.records import Ruling
from leakledger.reports.overview import SEEDS

FEW = "too few seeds"
ADVICE = {
    "unread": (
        "messages that no attack read",
        "Give attacks.use attacks that read them: “What was not tested” names the messages, leakledger info each "
        "attack's. Where none does, an audit cannot certify this protocol.",
    ),
    "gets nowhere against": (
        "of planted rows the attack has no more than luck",
        "Play a stronger attack or give this one more effort; where none succeeds, only a guarantee of the defense "
        "counts (“Differential privacy”).",
    ),
    "made no claim": (
        "an attack made no claim",
        "“What was not tested” has its reasons; grant what it lacks under [attacks], or play another. Where it was "
        "told nothing, no setting helps: silence is no evidence, and that messages hide is for checks to refute.",
    ),
    "no claim about any batch": (
        "rounds of training about which no attack made a claim",
        "Name every round in attacks.rounds; of one that is named, “What was not tested” says why nothing was claimed.",
    ),
    "no attack made a claim": ("no attack made a claim", "Add attacks on it to attacks.use."),
    "control of": (
        "a control of the attack failed or is missing",
        "What it found counts for nothing where one failed, nor does its silence where one is missing; play another.",
    ),
    "is on record of all columns together alone": (
        "single columns are not in this record",
        "Run the audit again: it was recorded before they were kept.",
    ),
    "may get up to": ("the bound is above the ceiling", "Give audit.seeds more seeds."),
    "vouched for": ("an attack vouched for what is not so", "Nothing that it proved counts; play another attack."),
}
"""What reasons of `audit.verdicts` contain -> the reason in short, and what to do. The first that fits counts."""


@dataclass(frozen=True)
class Remedy:
    """What keeps so many `questions` (a setting, a kind of adversary, an asset) without an answer, and what to do."""

    reason: str
    action: str
    questions: int


def remedies(rulings: Iterable[Ruling]) -> list[Remedy]:
    """One for each kind of reason that is known, the commonest first."""
    found: dict[tuple[str, str], int] = {}
    for r in rulings:
        if r.verdict == "inconclusive":
            for kind in dict.fromkeys(filter(None, map(_kind, r.missing))):
                found[kind] = found.get(kind, 0) + 1
    return sorted((Remedy(*kind, n) for kind, n in found.items()), key=lambda remedy: -remedy.questions)


def _kind(missing: str) -> tuple[str, str] | None:
    """The reason in short and what to do; None for one that nothing here is about."""
    if seeds := SEEDS.fullmatch(missing):
        return FEW, f"Give audit.seeds {seeds[2]} seeds or more."
    if missing in ADVICE:
        return ADVICE[missing]
    return next((advice for part, advice in ADVICE.items() if part in missing), None)
