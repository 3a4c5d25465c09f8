"""Which messages of a view were read, and which were not: what nobody read is no evidence of safety.

A message counts as read when an attack that applies to the view names its kind, and has passed a leaky control in which
its claims rest on that kind (of updates: in which it was shown that kind). What hides (shares, ciphertexts, messages
sealed for others, steps of the protocol) counts as read when it passed its named check (`hiding`), or when such an
attack reads it. From those who can open it nothing hides: a sealed message from its recipient, a ciphertext from who
has the key (`OpenedBy`). A kind that an attack does not name, and accepts for what it discloses, counts where claims
that can be scored state all of every message of it. All others are listed, and forbid the verdict that no leak was
found. An attack that would read anything reads nothing in this sense: kinds are named, or accepted for what they
disclose and then tried one by one.

The unit is a message. One of a kind that an attack names, of which a field is behind a claim and another is not, counts
as read, unless the attack says that it reads its kind in part.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from leakledger.attacks.base import Attack
from leakledger.attacks.observed.undeclared import features_of, says_no_more
from leakledger.audit.hiding import HIDDEN
from leakledger.audit.records import Control, Unread
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.federation import CASE_STEPS
from leakledger.preprocess.messages import HIDING, About, Disclosure, GlobalLoss, OpenedBy, Payload, SecureSum, kind_of
from leakledger.preprocess.messages.shapes import axes_of, common_lengths
from leakledger.preprocess.method_errors import OWN, is_own
from leakledger.preprocess.raised import package_of
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.views import MalformedMessage, Message, View

Told = tuple[str, bytes | None]  # topic, content
OUTCOMES = frozenset({Disclosure.VALUE, Disclosure.AGGREGATE, Disclosure.NOISED, Disclosure.SIZE})
LOSSES = (GlobalLoss,)
"""Sums over a few rows of all under models that are told: whoever has a list of people finds out which of them add up.
"""
SENT_BY: dict[str, tuple[str, ...]] = {**dict.fromkeys(CASE_STEPS, ()), "encode": ("encoder",), "scale": ("scaler",)}
"""Step of a case -> the methods that send in it, as public facts call them; in a step of another name either may."""


@dataclass(frozen=True)
class Ran:
    """An attack that ran on a view; `applicable` unless it said that a precondition is not met.

    `scored`: numbers of the messages behind its claims that the truth can be asked about, findings not among them.
    """

    attack: Attack
    applicable: bool
    scored: frozenset[int] = frozenset()


def unread(
    view: View, ledger: Iterable[Message], ran: Sequence[Ran], controls: Collection[Control], hiding: Mapping[str, str]
) -> Iterator[Unread]:
    """What others told the observers, by topic, that was not read. `ledger`: all messages of the run, which say who
    else was told the same; `hiding` is the outcome of the check by topic.
    """
    to_all = _held_by_all(ledger, view.public.clients)
    told: dict[str, list[Message]] = {}
    for m in view.messages:
        if m.sender not in view.observers:
            told.setdefault(m.topic, []).append(m)
    why = {t: _why_unread(kind_of(t), messages, view, to_all, ran, controls, hiding) for t, messages in told.items()}
    read = {m.sequence for t, messages in told.items() if not why[t] for m in messages}
    for topic, messages in told.items():
        opened = kind_of(topic).opened_by is OpenedBy.CLIENTS and read.issuperset(m.sequence for m in messages)
        if why[topic] and not opened:  # what was worked out of a message has its number, and may be read in its place
            observers, disclosed = tuple(sorted(view.observers)), str(kind_of(topic).discloses)
            yield Unread(observers, topic, disclosed, len(messages), why[topic])


def _why_unread(
    kind: type[Payload],
    messages: Sequence[Message],
    view: View,
    to_all: Collection[Told],
    ran: Sequence[Ran],
    controls: Collection[Control],
    hiding: Mapping[str, str],
) -> str:
    """Why messages of a kind do not count as read; "" where they do."""
    if all(hides_from(m, view) for m in messages) and hiding.get(kind.topic) == "":
        return ""
    if wide := too_wide(messages, view):
        return wide
    applicable = [r for r in ran if r.applicable and r.attack.accepts(kind)]
    known_to_work = [r for r in applicable if proven(r.attack, kind, controls)]
    by_plugin = kind.about is About.EVERYONE and any(_sent_by_plugin(m, view) for m in messages)
    outcome = applicable and is_outcome(kind) and _leaves_several(view) and _told_alike(messages, view, to_all)
    if outcome and not by_plugin:
        return ""
    if any(understands(r, kind, messages, view) for r in known_to_work if not (by_plugin and is_own(r.attack))):
        return ""
    if by_plugin:
        return "a plugin sends it, and that it is about everyone only its author says"
    if hiding.get(kind.topic):
        return f"it is to hide, and {hiding[kind.topic]}"
    if not any(r.attack.accepts(kind) for r in ran):
        return "no attack that was played reads this kind"
    if not applicable:
        return "no attack that reads this kind applies here"
    if any(issubclass(kind, r.attack.reads_in_part) or claims_on_each(r, messages) for r in known_to_work):
        return "it is read in part: it tells more of rows than is claimed"
    if known_to_work:
        return "it is read out by what it discloses, and no claim that can be scored follows from it"
    return "no attack that reads this kind has passed a control with it"


def too_wide(messages: Iterable[Message], view: View) -> str:
    """That a message says something of more columns than rows have, which no claim can name; "" for none."""
    if view.public.layout is None:
        return ""
    width, readable = view.public.layout.width, (m for m in messages if m.content is not None)
    for m in (m for m in readable if any("columns" in (axes_of(f) or ()) for f in fields(m.kind))):
        with suppress(MalformedMessage):  # which ends the attacks that read it
            if (columns := common_lengths(m.payload).get("columns", 0)) > width:
                return f"it is about {columns} columns, and rows have {width}"
    return ""


def hides_from(message: Message, view: View) -> bool:
    """Whether a message, as the observers of this view hold it, is to hide from all of them what it is about."""
    kind = kind_of(message.topic)
    if message.content is None:
        return True
    if kind.discloses not in HIDDEN:
        return False
    openers = {OpenedBy.RECIPIENT: {message.recipient}, OpenedBy.CLIENTS: set(view.public.clients)}
    outcome = kind.about is About.EVERYONE and kind.discloses is Disclosure.SHARE  # what all shares together add up to
    return view.observers.isdisjoint(openers.get(kind.opened_by, set())) or (outcome and _leaves_several(view))


def _leaves_several(view: View) -> bool:
    """Whether more than one client is outside, so that what is about all is not about one."""
    return len(set(view.public.clients) - view.observers) > 1


def _held_by_all(ledger: Iterable[Message], clients: Collection[str]) -> frozenset[Told]:
    """What was told about everyone and every client has: as whoever told it, was told, or passed it on in the clear."""
    held: dict[Told, set[str]] = {}
    for m in ledger:
        if is_outcome(kind_of(m.topic)):
            held.setdefault((m.topic, m.content), set()).update((m.sender, m.recipient) if m.sealed else m.ends)
    return frozenset(told for told, who in held.items() if who.issuperset(clients))


def _told_alike(messages: Sequence[Message], view: View, to_all: Collection[Told]) -> bool:
    """Whether everyone is told the same, and no two clients tell something else: one of them may tell what is about
    all, several what is their own. What a client tells the next one alone may be about itself, whatever its kind says.
    """
    if any((m.topic, m.content) not in to_all for m in messages):
        return False
    told: dict[str, list[bytes | None]] = {}
    for m in messages:
        if m.sender in view.public.clients:
            told.setdefault(m.sender, []).append(m.content)
    return len({tuple(contents) for contents in told.values()}) <= 1


def is_outcome(kind: type[Payload]) -> bool:
    """Whether a kind is what a protocol is for: told to everyone, about everyone. Reading it out is all there is to it,
    which takes no control, unless it leaves one client outside, of whom it then says what the others' own rows do not.
    Models are no such kind, nor numbers that stand for values, nor losses under models, which say something beside
    others. Nor is a kind of a plugin: that it is about everyone only its author says, and it may hold rows. For the
    same reason a kind of this package is none where a plugin's method sends it (`_sent_by_plugin`).
    """
    pooled = kind.about is About.EVERYONE and kind.discloses in OUTCOMES
    return pooled and _is_own(kind) and not issubclass(kind, LOSSES)


def understands(ran: Ran, kind: type[Payload], messages: Sequence[Message], view: View) -> bool:
    """Whether an attack makes more of a kind than that it is there: it names the kind, or claims all that each says."""
    if issubclass(kind, ran.attack.reads_in_part):
        return False
    if names(ran.attack, kind):
        return True
    features = features_of(view)
    return claims_on_each(ran, messages) and all(says_no_more(m, features) for m in messages if m.content is not None)


def names(attack: Attack, kind: type[Payload]) -> bool:
    """Whether an attack was written for a kind, or for one that it is derived from. An attack that names a kind of this
    package knows nothing of the fields that a plugin adds to it.
    """
    named = [k for k in attack.reads if issubclass(kind, k)]
    own = {f.name for base in kind.__mro__ if issubclass(base, Payload) and _is_own(base) for f in fields(base)}
    return bool(named) and (own.issuperset(f.name for f in fields(kind)) or not all(map(_is_own, named)))


def claims_on_each(ran: Ran, messages: Sequence[Message]) -> bool:
    """Whether something that can be scored is claimed on each of the messages that can be read."""
    return all(m.sequence in ran.scored for m in messages if m.content is not None)


def _sent_by_plugin(message: Message, view: View) -> bool:
    """Whether an encoder or a scaler that is not of this package sent a message, or may have. In steps of their own
    names aggregations send what hides alone, of which the check is one of its own.
    """
    either = () if message.kind.discloses in HIDING else ("encoder", "scaler")
    chosen = {"encoder": ENCODERS.get(view.public.encoder.name), "scaler": SCALERS.get(view.public.scaler.name)}
    senders = (chosen[role] for role in SENT_BY.get(message.step, either))
    return any(method is not None and not _is_own(method) for method in senders)


def _is_own(kind: type[Any]) -> bool:
    """Whether a kind, or a method, is one of this package, and not of a plugin."""
    return package_of(kind.__module__) == OWN


def proven(attack: Attack, kind: type[Payload], controls: Collection[Control]) -> bool:
    """Whether the attack has passed a leaky control with this kind, or its twin of another sum."""
    passed = [c for c in controls if c.attack == attack.technique and c.kind == "leaky" and c.passed]
    shown = {topic for c in passed for topic in c.kinds}
    return any(alike(kind_of(topic)) == alike(kind) for topic in shown)


def alike(kind: type[Payload]) -> object:
    """What two kinds have in common that are read the same way: parts of whatever secure sum, or the kind itself."""
    return kind.__bases__ if issubclass(kind, SecureSum) else kind
