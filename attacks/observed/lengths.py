"""How many values a party holds over all features, from the lengths of its messages in a set intersection.

A request has 32 bytes for each element of its sender, an answer of `dh-psi` 56 for each element of the answering party
(tag, sealed label) and 32 for each element asked. A relay of sealed messages sees the same: a seal adds 16 bytes, and
the envelope of a request 2 to 5, that of an answer 21 to 27, less than an element takes, unless all are filled up to
one size (`sealed_bytes`, a public option). The elements are those of all features together.
"""

from collections.abc import Iterator

from leakledger.attacks.observed.ring import Contradiction, payload_of
from leakledger.preprocess.messages import ApsiRequest, DhAnswer, DhRequest, OtmpRequest
from leakledger.preprocess.views import Message, View

POINT, ENTRY, SEAL = 32, 56, 16
ANSWER_ENVELOPE = 21  # at least: longer parts have longer headers
REQUESTS = (DhRequest, OtmpRequest, ApsiRequest)


def element_counts(view: View) -> dict[str, tuple[int, int]]:
    """Party -> (elements, number of the message that shows it), by the messages of whole elements. Raises Contradiction
    where two of a party have other lengths.
    """
    counts: dict[str, tuple[int, int]] = {}
    for party, elements, message in [*_requested(view), *_answered(view)]:
        if counts.setdefault(party, (elements, message.sequence))[0] != elements:
            raise Contradiction(f"message {message.sequence} ({message.topic}) has another length than an earlier one")
    return counts


def _requested(view: View) -> Iterator[tuple[str, int, Message]]:
    for kind in REQUESTS:
        for m in view.on(kind):
            if m.content is None:
                if not _filled(view):
                    yield m.sender, (m.size - SEAL) // POINT, m
                continue
            if not wrong_length(m):
                yield m.sender, len(payload_of(m).points.value) // POINT, m


def _answered(view: View) -> Iterator[tuple[str, int, Message]]:
    asked = {party: elements for party, elements, _ in _requested(view)}
    for m in view.on(DhAnswer):
        if m.content is None:
            if m.recipient in asked and not _filled(view):
                yield m.sender, (m.size - SEAL - ANSWER_ENVELOPE - POINT * asked[m.recipient]) // ENTRY, m
            continue
        if not wrong_length(m):
            yield m.sender, len(payload_of(m).table.value) // ENTRY, m


def wrong_length(message: Message) -> str:
    """Why a request or an answer has no number of elements; "" where it has one, is sealed, or is of another kind."""
    if message.content is None or message.kind not in (*REQUESTS, DhAnswer):
        return ""
    answers = message.kind is DhAnswer
    told, unit = (message.payload.table.value, ENTRY) if answers else (message.payload.points.value, POINT)
    if isinstance(told, bytes) and not len(told) % unit:
        return ""
    what = "has no table of labels" if answers else "is not a list of group elements"
    return f"message {message.sequence} ({message.topic}) {what}"


def _filled(view: View) -> bool:
    """Whether lengths of sealed messages are all alike."""
    return bool(view.public.encoder.options.get("sealed_bytes"))
