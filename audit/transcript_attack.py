"""Attacks on a transcript that comes from elsewhere: claims with no truth to hold them against, and their controls.

Who has only a transcript can say what attacks read out of it and whether these attacks are known to work on such
messages, and not how much of it is right. So there are no scores and no verdict here, and silence is no evidence; kinds
of message that no attack read are listed, and that a transcript ends early is said. Others wrote it, so that a message
may be malformed: an attack that fails on one is inconclusive, and says which message it was at. What stands for itself
is what an attack proves: a row that the update fits and no other would, a value told in the clear, one that both sides
of a set intersection hold.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import (
    Attack,
    AuxiliaryKnowledge,
    Claim,
    ColumnClaim,
    FindingClaim,
    MembershipClaim,
    NotApplicable,
    Outcome,
    RecordsClaim,
    StatisticClaim,
    VocabularyClaim,
    claims_in,
)
from leakledger.attacks.observed.aggregation import with_recovered
from leakledger.attacks.observed.lengths import wrong_length
from leakledger.audit.aborts import aborts_of, tell_cause
from leakledger.audit.adversaries import observer_sets
from leakledger.audit.config_alignment import ALIGNMENTS
from leakledger.audit.config_alignment import PLAYED as OF_ALIGNED
from leakledger.audit.config_features import PLAYED as OF_FEATURES
from leakledger.audit.controls import shown_kinds
from leakledger.audit.federation_controls import federation_controls
from leakledger.audit.field_controls import field_controls
from leakledger.audit.hiding import HIDDEN
from leakledger.audit.kept_code import code_kept
from leakledger.audit.kept_settings import settings_kept
from leakledger.audit.outcomes import AttackError, outcome_of
from leakledger.audit.own_code import claimed_rows
from leakledger.audit.planted_controls import planted_controls
from leakledger.audit.reading import Ran, unread
from leakledger.audit.records import POWER, Aborted, Control, Unread, plural
from leakledger.audit.terminal import one_line
from leakledger.defenses import defense_of
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.messages import KINDS, ClientGradient, ClientWeights, SummedUpdate, kind_of
from leakledger.preprocess.messages.shapes import common_lengths
from leakledger.preprocess.method_errors import OWN
from leakledger.preprocess.public_check import check_public, check_senders, check_update
from leakledger.preprocess.raised import package_of
from leakledger.preprocess.told_failure import ToldFailure
from leakledger.preprocess.transcript import read_transcript
from leakledger.preprocess.views import FeatureLayout, MalformedMessage, Message, ModelSpec, PublicFacts, View

DEFAULT = ("plaintext", "portfolio", "statistics", "ring_size", "vocabulary", "membership", "sac_audit")
FAILED = "it was not played to its end"
UNFINISHED = "an attack that reads this kind was not played to its end"
POWERLESS = "the attack that reads this kind claims nothing, and gets nowhere against planted rows here"
UPDATES = (ClientGradient, ClientWeights, SummedUpdate)
UNCHECKED = "whether it does is not checked of a transcript"
MASK = "•••"
SHOWN = 8  # values of a vocabulary in one line


class NothingPlanted(ValueError):
    """A model or updates of a transcript that no rows can be planted in."""


@dataclass(frozen=True)
class Played:
    """One attack by some observers on a transcript: its outcome, and its controls where it applies.

    `failed`: why it was not played to its end, or which message it could not read, in one line; "" where neither is so.
    It may claim something all the same, and nobody knows what else it would have claimed.
    """

    attack: Attack
    observers: tuple[str, ...]
    outcome: Outcome
    controls: tuple[Control, ...]
    failed: str = ""

    @property
    def technique(self) -> str:
        return self.attack.technique

    @property
    def trusted(self) -> str:
        """Whether its controls passed, in a word."""
        if not self.controls:
            return "none played"
        failed = [c.kind for c in self.controls if not c.passed]
        return f"failed: {', '.join(dict.fromkeys(failed))}" if failed else "passed"

    @property
    def powerless(self) -> bool:
        """Whether it is silent, and was of planted rows too: that it found nothing says nothing of what was sent."""
        return not claims_in(self.outcome) and any(c.kind == POWER and not c.passed for c in self.controls)


@dataclass(frozen=True)
class Attacked:
    """A transcript after the attacks on it: what was played, what was sent and not read, and who ended it early.

    `inconclusive`: whether an attack was not played to its end.
    """

    played: tuple[Played, ...]
    unread: tuple[Unread, ...]
    aborts: tuple[Aborted, ...]
    layout: FeatureLayout | None

    @property
    def inconclusive(self) -> bool:
        return any(one.failed for one in self.played)


def attack_transcript(path: Path, observers: str = "server", names: Sequence[str] = (), seed: int = 0) -> Attacked:
    """Plays the attacks on what `observers` hold of a stored transcript, which is verified first.

    Without `names`, those that read what the parties do. Labels are not known. An attack that cannot read a message, or
    fails on what is sent, is told of (`Played.failed`), and all others are played. Raises ValueError for a damaged
    transcript, public facts that cannot be, unknown attacks or parties, messages of a kind that nothing installed has,
    and, where rows are sought, a defense that nothing installed is.
    """
    if unknown := [n for n in names if n not in ATTACKS]:
        raise ValueError(
            f"--attack {unknown[0]}: unknown{closest(unknown[0], ATTACKS)}; choose one of {', '.join(ATTACKS)}"
        )
    stored = read_transcript(path)
    if strange := sorted({m.topic for m in stored.ledger} - KINDS.keys()):
        raise ValueError(
            f"{path}: no installed kind of message has the topic {strange[0]!r}; install the plugin that has"
        )
    try:
        check_public(stored.public)
        check_senders(stored.ledger, stored.public)
    except ValueError as error:
        raise ValueError(f"{path}: what is public in it cannot be: {error}") from None
    chosen = tuple(names) or played_by_default(stored.public)
    if any("records" in ATTACKS[name].asset for name in chosen):  # which take updates to be protected as is stated
        try:
            defense_of(stored.public.mechanisms)
        except ValueError as error:
            raise ValueError(f"{path}: its mechanisms are of no defense that is installed: {error}") from None
    views = [stored.ledger.view(who, stored.public) for who in observer_sets([observers], stored.public, "--party")]
    wrong = [malformed(view.messages, stored.public.model) for view in views]
    whole = [_with_updates(view) for view in views]
    played = [
        [_play(_made(name, seed), view, of_view, hidden, seed) for name in chosen]
        for (view, hidden), of_view in zip(whole, wrong, strict=True)
    ]
    return Attacked(
        played=tuple(one for of_view in played for one in of_view),
        unread=tuple(
            u for (view, _), of_view in zip(whole, played, strict=True) for u in _unread(view, stored.ledger, of_view)
        ),
        aborts=aborts_of(stored.ledger),
        layout=stored.public.layout,
    )


def played_by_default(public: PublicFacts) -> tuple[str, ...]:
    """The attacks that read what parties do by these facts."""
    if public.features.name:
        return OF_FEATURES
    return OF_ALIGNED if public.encoder.name in ALIGNMENTS else DEFAULT


def _made(name: str, seed: int) -> Attack:
    kind = ATTACKS[name]
    known = getattr(kind, "__dataclass_fields__", {})
    with settings_kept(), nullcontext() if package_of(kind.__module__) == OWN else code_kept():
        return kind(**{k: v for k, v in {"seed": seed, "recover_labels": True}.items() if k in known})


def _with_updates(view: View) -> tuple[View, str]:
    """The view with the updates that its observers take out of an aggregation, as in an audit, and ""; or as it is, and
    what is wrong with what hides them.
    """
    try:
        return with_recovered(view), ""
    except MalformedMessage as error:
        return view, str(error)
    except Exception as error:  # others wrote it: of lengths, keys and ciphertexts that do not go together
        tell_cause(error)
        said = f": {error}" if isinstance(error, ValueError) else ""  # of a defect nobody knows what its text quotes
        return view, one_line(f"the updates that were aggregated ({type(error).__name__}{said})")


def _play(attack: Attack, view: View, wrong: Mapping[int, str], hidden: str, seed: int) -> Played:
    """`wrong`: what is wrong with messages of the view that are none of their kind, by their numbers; `hidden`: why
    updates that the observers could take out of an aggregation are not in it.
    """
    knowledge = AuxiliaryKnowledge()
    readable = view.restricted(attack.accepts)
    observers = tuple(sorted(view.observers))
    first = next((wrong[m.sequence] for m in readable.messages if m.sequence in wrong), "")
    first = first or (hidden if any(map(attack.accepts, UPDATES)) else "")
    try:
        outcome = (
            outcome_of(attack, readable, knowledge) if readable.messages else NotApplicable("no message that it reads")
        )
    except AttackError as error:
        tell_cause(error)
        return Played(attack, observers, NotApplicable(FAILED), (), _why_failed(attack, readable, first, error))
    coins = np.random.default_rng([seed, len(view.messages)])
    failed = _cannot_read(attack, first)
    if isinstance(outcome, NotApplicable) and outcome.contradicted and not failed:
        failed = f"the attack {attack.technique} cannot use what was sent: {outcome.reason}"
    if failed or isinstance(outcome, NotApplicable):
        return Played(attack, observers, outcome, (), failed)
    try:
        return Played(attack, observers, outcome, tuple(_controls(attack, view, knowledge, coins)))
    except NothingPlanted as error:
        tell_cause(error)
        return Played(attack, observers, outcome, (), str(error))


def _why_failed(attack: Attack, view: View, first: str, error: AttackError) -> str:
    """In one line: what is wrong with a message by itself, else with one beside another, else what the attack met."""
    wrong = "" if isinstance(error.__cause__, MalformedMessage) else first or unlike(view.messages)
    return _cannot_read(attack, wrong) or str(error)


def _cannot_read(attack: Attack, wrong: str) -> str:
    return f"the attack {attack.technique} cannot read {wrong}" if wrong else ""


def malformed(messages: Iterable[Message], model: ModelSpec | None) -> dict[int, str]:
    """Number of each message that is none of its kind, or none of the stated model's -> what is wrong with it."""
    found = {}
    for m in (m for m in messages if m.content is not None):
        try:
            check_update(m.payload, model)
            if wrong := wrong_length(m):
                found[m.sequence] = wrong
        except MalformedMessage as error:
            found[m.sequence] = str(error)
        except ValueError as error:
            found[m.sequence] = f"{m.name}: {error}"
    return found


def unlike(messages: Iterable[Message]) -> str:
    """The first message that is not as long as an earlier one of the same method where all are; "" for none."""
    told: dict[tuple[str, str], tuple[int, Message]] = {}
    for m in (m for m in messages if m.content is not None):
        for axis, length in common_lengths(m.payload).items():
            other, earlier = told.setdefault((m.topic.partition(".")[0], axis), (length, m))
            if length != other:
                return f"{m.name}: it has {length} {axis}, and {earlier.name} {other}"
    return ""


def _unread(view: View, ledger: Iterable[Message], played: Sequence[Played]) -> Iterator[Unread]:
    """As in an audit, but that no truth is there to ask about a claim, and nothing to check what hides by."""
    ran = [
        Ran(
            one.attack,
            not isinstance(one.outcome, NotApplicable) and not one.failed and not one.powerless,
            frozenset(n for c in claims_in(one.outcome) if not isinstance(c, FindingClaim) for n in c.evidence),
        )
        for one in played
    ]
    hiding = {t: UNCHECKED for t in view.topics if kind_of(t).discloses in HIDDEN}
    for u in unread(view, ledger, ran, [c for one in played for c in one.controls], hiding):
        readers = [one for one in played if one.attack.accepts(kind_of(u.topic))]
        if any(one.failed for one in readers):
            yield replace(u, reason=UNFINISHED)
        else:
            yield replace(u, reason=POWERLESS) if any(one.powerless for one in readers) else u


def _controls(
    attack: Attack, view: View, knowledge: AuxiliaryKnowledge, coins: np.random.Generator
) -> Iterator[Control]:
    """Those that need no truth of the audited run, and have a kind of message in common with it."""
    for spec in attack.controls:
        if spec.expects == "records":
            yield from _planted(attack, view, knowledge, coins)
        elif spec.expects == "fields":
            yield from field_controls(attack, view)
        elif any(attack.accepts(KINDS[t]) and t in view.topics for t in shown_kinds(spec)):
            yield from federation_controls(attack, spec)


def _planted(
    attack: Attack, view: View, knowledge: AuxiliaryKnowledge, coins: np.random.Generator
) -> tuple[Control, ...]:
    """Controls of rows that go through the model of the transcript. Raises NothingPlanted where that is none."""
    try:
        return planted_controls(attack, view, knowledge, coins)
    except (AttackError, ValueError, LookupError, RuntimeError, MemoryError) as error:  # what torch and numpy say of it
        if isinstance(error, ToldFailure) and not isinstance(error, AttackError):  # of a plugin, not of the model
            raise
        raise NothingPlanted(
            f"the attack {attack.technique} cannot be checked: no rows go through the model and updates that were sent "
            f"({type(error).__name__})"
        ) from error


def claim_rows(found: Sequence[Played], reveal: bool) -> list[dict[str, Any]]:
    """A row per claim: by which attack, about whom and what; values and statistics, but sizes, are masked unless they
    are to be revealed.
    """
    rows = []
    for one in found:
        for claim in claims_in(one.outcome):
            for told in _told(claim, reveal):
                who = {"attack": one.technique, "observers": "+".join(one.observers)}
                rows.append({**who, **told, "controls": one.trusted})
    return rows


def failed_lines(found: Sequence[Played]) -> list[str]:
    """That nobody can say what else each attack finds that could not read everything, and why."""
    return [f"Inconclusive ({'+'.join(one.observers)}): {one.failed}" for one in found if one.failed]


def silent_rows(found: Sequence[Played]) -> list[str]:
    """Why each of the other attacks claims nothing, and which of its controls failed: it would then be silent whatever
    was sent.
    """
    return [
        f"{one.technique} ({'+'.join(one.observers)}): {getattr(one.outcome, 'reason', 'no claim')}"
        + (f" (controls {one.trusted})" if any(not c.passed for c in one.controls) else "")
        for one in found
        if not claims_in(one.outcome) and not one.failed
    ]


def unread_lines(unread: Sequence[Unread]) -> list[str]:
    """What of the messages no attack read, and why: a line per kind, with the observers who were told as many."""
    who: dict[tuple[str, int, str], list[str]] = {}
    for u in unread:
        who.setdefault((u.topic, u.messages, u.reason), []).append("+".join(u.observers))
    return [f"Not read by {', '.join(w)}: {topic} ({n} of it): {why}" for (topic, n, why), w in who.items()]


def aborted_lines(aborts: Sequence[Aborted]) -> list[str]:
    """That the transcript ends early, and who ended it."""
    return [f"This transcript ends early: {'; '.join(a.text for a in aborts)}"] if aborts else []


def _told(claim: Claim, reveal: bool) -> Iterator[dict[str, str]]:
    if isinstance(claim, RecordsClaim):
        yield _records(claim)
    elif isinstance(claim, StatisticClaim):
        of = f"{claim.statistic} {claim.value if reveal or not claim.value else MASK}".strip()
        shown = reveal or claim.statistic == "size"  # a number of values, as stands beside values that are masked
        yield _row(claim.party, claim.feature, of, f"{claim.estimate:.6g}" if shown else MASK, "")
    elif isinstance(claim, VocabularyClaim):
        values = f": {', '.join(claim.values[:SHOWN])}" if reveal else ""
        proven = "yes" if claim.vouched.issuperset(claim.values) else f"{len(claim.vouched)} of them"
        told = f"{len(claim.values)}{values}"
        what = "values" if claim.evidence else "values (guessed: no message tells)"
        yield _row(claim.party, claim.feature, what, told, proven if claim.vouched else "")
    elif isinstance(claim, MembershipClaim):
        best = claim.values[int(np.argmax(claim.scores))] if reveal and claim.values else MASK
        told = f"{plural(len(claim.values), 'candidate')}, likeliest {best}"
        proven = f"{len(claim.proven)} of them" if claim.proven else ""
        yield _row(claim.party, claim.feature, "membership", told, proven)
    elif isinstance(claim, ColumnClaim):
        known = int(np.isfinite(claim.values).sum())
        yield _row(
            claim.party,
            claim.feature,
            f"column ({claim.relation})",
            f"{known} of {plural(len(claim.values), 'record')}",
            "",
        )
    elif isinstance(claim, FindingClaim):
        yield _row(claim.party, "", f"check {claim.check}", claim.text, "yes")


def _records(claim: RecordsClaim) -> dict[str, str]:
    """One line for the batch."""
    verified = 0 if claim.verified is None else int(claim.verified.sum())
    counted = f"{plural(len(claim.numbers), 'row')}, {verified} proven"
    return _row(claim.victim, "", f"records of round {claim.round}", counted, "yes" if verified else "")


def record_tables(found: Sequence[Played], layout: FeatureLayout | None) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The rows of each claim about records, under a title."""
    for one in found:
        for claim in claims_in(one.outcome):
            if isinstance(claim, RecordsClaim) and (own := claim.layout or layout) is not None:
                rows = claimed_rows([claim], own).to_dict("records")
                of = f"{claim.victim} in round {claim.round}"
                yield f"Rows of {of} by {one.technique}", [{str(k): _short(v) for k, v in r.items()} for r in rows]


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _row(party: str, feature: str, what: str, claimed: str, certain: str) -> dict[str, str]:
    return {"about": party, "feature": feature, "what": what, "claimed": claimed, "proven": certain}


def to_plain(found: Attacked) -> dict[str, Any]:
    """Reasons, controls, what was not read and who ended it, as plain data beside `claim_rows`."""
    return {
        "attacks": [
            {
                "attack": one.technique,
                "observers": list(one.observers),
                "claims": len(claims_in(one.outcome)),
                "reason": one.failed or getattr(one.outcome, "reason", ""),
                "failed": bool(one.failed),
                "controls": [
                    {"kind": c.kind, "passed": c.passed, "value": c.value, "expected": c.expected} for c in one.controls
                ],
            }
            for one in found.played
        ],
        "unread": [asdict(u) for u in found.unread],
        "aborts": [asdict(a) for a in found.aborts],
    }
