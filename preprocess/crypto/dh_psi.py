"""Labelled set intersection from an oblivious pseudorandom function on a Diffie-Hellman group, for many pairs at once.

Each receiver learns, for the elements that it shares with a sender, the sender's label; the sender learns how many
elements the receiver has, and the receiver how many the sender has. Sources: Jarecki and Liu, "Fast secure computation
of set intersection" (2010), for the construction; `oprf` for the function; labels as in Chen, Huang, Laine, Rindal,
"Labeled PSI from fully homomorphic encryption" (2018).

The receiver has each element x blinded twice, by its own scalar and by the sender's, takes its own off, and is left
with F(k, x). Half of that names x, the other half is the key that seals its label (libsodium secretbox; each key seals
one label, so the nonce is zero). The blinded elements that two parties have in common never meet in the clear as
r k H(x) of both sides, so that a relay cannot count them.

A party uses one blinding and one key for all its peers of a run. Peers who compare notes see the same list twice and
learn nothing more than each alone. Assumes honest-but-curious parties (a receiver could ask about elements it does not
hold) and the one-more gap Diffie-Hellman assumption in the random oracle model.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from leakledger.preprocess.crypto.oprf import Blinded, blind, evaluate, finish, values
from leakledger.preprocess.crypto.randomness import Randomness, randomness
from leakledger.preprocess.crypto.refusal import MessageError, accept
from leakledger.preprocess.crypto.ristretto import new_scalar
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import Ciphertext, DhAnswer, DhRequest

TAG_BYTES, LABEL_BYTES = 32, 8
ENTRY_BYTES = TAG_BYTES + LABEL_BYTES + SecretBox.MACBYTES
NONCE = bytes(SecretBox.NONCE_SIZE)

Labelled = dict[bytes, int]
Pair = tuple[str, str]


def intersect(
    fed: Federation, sets: Mapping[str, At[Labelled]], pairs: Iterable[Pair], *, via: str | None, sealed: bool = False
) -> dict[Pair, At[Labelled]]:
    """For each (receiver, sender): at the receiver, the sender's labels of the elements that both hold.

    Two messages per pair: `dh-psi.request` (32 bytes per element of the receiver) and `dh-psi.answer` (32 bytes for
    each of those, 56 for each element of the sender). Labels are in [0, 2^64).
    """
    blinded = {p: fed.local(p, blind_set, s, randomness(fed, p)) for p, s in sets.items()}
    keys = {p: fed.local(p, new_scalar, randomness(fed, p)) for p in sets}
    tables = {p: fed.local(p, sealed_table, keys[p], s) for p, s in sets.items()}
    found: dict[Pair, At[Labelled]] = {}
    for receiver, sender in pairs:
        asked = fed.send(fed.local(receiver, request_of, blinded[receiver]), sender, via=via, sealed=sealed)
        answer = accept(fed, sender, receiver, answer_request, keys[sender], tables[sender], asked)
        answered = fed.send(answer, receiver, via=via, sealed=sealed)
        found[receiver, sender] = accept(fed, receiver, sender, read_answer, blinded[receiver], answered)
    return found


def blind_set(own: Labelled, source: Randomness) -> Blinded:
    return blind(list(own), source)


def sealed_table(key: bytes, own: Labelled) -> bytes:
    """For each element its tag and its sealed label, in the order of the tags, which says nothing of the elements."""
    outputs = values(key, list(own))
    labels = (label.to_bytes(LABEL_BYTES, "big") for label in own.values())
    entries = [
        out[:TAG_BYTES] + _box(out).encrypt(label, NONCE).ciphertext for out, label in zip(outputs, labels, strict=True)
    ]
    return b"".join(sorted(entries))


def request_of(blinded: Blinded) -> DhRequest:
    return DhRequest(Ciphertext(blinded.request))


def answer_request(key: bytes, table: bytes, request: DhRequest) -> DhAnswer:
    return DhAnswer(Ciphertext(evaluate(key, request.points.value)), Ciphertext(table))


def read_answer(blinded: Blinded, answer: DhAnswer) -> dict[bytes, int]:
    """The labels of shared elements. Raises MessageError where a part is cut short or has a broken seal."""
    entries = _entries(answer.table.value)
    outputs = finish(blinded, answer.evaluated.value)
    shared = [(x, out) for x, out in zip(blinded.elements, outputs, strict=True) if out[:TAG_BYTES] in entries]
    return {x: _open(out, entries[out[:TAG_BYTES]]) for x, out in shared}


def _entries(table: Any) -> dict[bytes, bytes]:
    if not isinstance(table, bytes) or len(table) % ENTRY_BYTES:
        raise MessageError("its table of labels is cut short")
    rows = [table[i : i + ENTRY_BYTES] for i in range(0, len(table), ENTRY_BYTES)]
    return {row[:TAG_BYTES]: row[TAG_BYTES:] for row in rows}


def _open(output: bytes, sealed: bytes) -> int:
    try:
        return int.from_bytes(_box(output).decrypt(sealed, NONCE), "big")
    except CryptoError:
        raise MessageError("the seal of a label is broken") from None


def _box(output: bytes) -> SecretBox:
    return SecretBox(output[TAG_BYTES:])
