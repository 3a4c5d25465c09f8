"""Writes a transcript from any runtime: whoever sends or receives messages records them, and `leakledger attack` reads
them like those of an audit.

    recorder = Recorder(["hospital A", "hospital B"], layout=layout, model=spec, training=training)
    recorder.send(GlobalModel(weights), "server", "hospital A", round=0)
    recorder.send(ClientGradient(rows=8, gradient=gradient), "hospital A", "server", round=0)
    recorder.write("round-0.parquet")

A transcript holds what was sent: treat it like the data itself (it is written for its owner alone).
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from glob import escape
from numbers import Integral
from pathlib import Path
from threading import Lock

from leakledger.preprocess.atomic_file import remove_leftovers
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.messages import Payload
from leakledger.preprocess.messages.base import KINDS
from leakledger.preprocess.public_check import check_parties, check_public, check_update
from leakledger.preprocess.transcript import write_transcript
from leakledger.preprocess.views import (
    FeatureLayout,
    Mechanism,
    Message,
    Method,
    ModelSpec,
    PublicFacts,
    TrainingSpec,
    View,
)
from leakledger.preprocess.wire import decode, encode

LAST_ROUND = 2**31 - 1
FACTS = FeatureLayout, ModelSpec, TrainingSpec, Method, Method


class Recorder:
    """The messages of one run between `clients` and a `server`, in the order in which they are told to it.

    What is public in the run is said once: the `layout` of the network's inputs, the `model`, the `training`, the
    `mechanisms` that protect updates, and by name the methods that preprocessed. Several threads may tell it messages.
    Raises ValueError for names that do not tell the parties apart, for facts that no transcript could hold, and for a
    model, a layout and a training that cannot be or do not fit each other.
    """

    def __init__(
        self,
        clients: Sequence[str],
        *,
        server: str = "server",
        layout: FeatureLayout | None = None,
        model: ModelSpec | None = None,
        training: TrainingSpec | None = None,
        mechanisms: Sequence[Mechanism] = (),
        encoder: Method | None = None,
        scaler: Method | None = None,
    ) -> None:
        if isinstance(clients, str | bytes) or not isinstance(clients, Iterable):
            raise ValueError(f"clients is of type {type(clients).__name__}; give a list of their names")
        self._parties = (*clients, server)
        check_parties(self._parties)
        given = {"layout": layout, "model": model, "training": training, "encoder": encoder, "scaler": scaler}
        for (name, value), kind in zip(given.items(), FACTS, strict=True):
            if value is not None and not isinstance(value, kind):
                raise ValueError(f"{name} is of type {type(value).__name__}; give a {kind.__name__}")
        stated = tuple(mechanisms) if isinstance(mechanisms, Iterable) else (mechanisms,)
        if not all(isinstance(m, Mechanism) for m in stated):
            raise ValueError("mechanisms are no list of Mechanism(kind, parameters)")
        methods = encoder or Method(), scaler or Method()
        self.public = PublicFacts(
            self._parties[:-1], server, *methods, stated, layout=layout, model=model, training=training
        )
        self._check_public()
        self.ledger = Ledger()
        self._lock = Lock()

    def _check_public(self) -> None:
        """Raises ValueError for what is public and cannot be."""
        _check_facts(self.public)

    def send(
        self,
        payload: Payload,
        sender: str,
        recipient: str,
        *,
        round: int = 0,
        step: str = "",
        relay: str | None = None,
        ciphertext: bytes | None = None,
    ) -> Message:
        """Records one message: a payload of a kind (`preprocess.messages`, or one's own), and who told it to whom.

        `relay`: who passed it on. `ciphertext`: what travelled where the payload was sealed for the recipient, so that
        a relay saw no more. `step` names the part of the protocol [default: the first part of the topic]. Raises
        ValueError for a party that takes no part, a round before the first, and a payload that is of no kind or does
        not fit its kind, or, of updates and models, the stated model.
        """
        if not isinstance(payload, Payload):
            raise ValueError(f"a {type(payload).__name__} is no kind of message; see leakledger.preprocess.messages")
        if KINDS.get(payload.topic) is not type(payload):
            raise ValueError(f"{type(payload).__name__} has no topic, or that of another kind; give it one of its own")
        if isinstance(round, bool) or not isinstance(round, Integral) or not 0 <= round <= LAST_ROUND:
            raise ValueError(f"round is {round!r}; a whole number is needed, and the first is 0")
        if not isinstance(step, str):
            raise ValueError(f"step is of type {type(step).__name__}; a text is needed")
        if ciphertext is not None and not isinstance(ciphertext, bytes):
            raise ValueError(f"ciphertext is of type {type(ciphertext).__name__}; bytes are needed")
        for party in (sender, recipient, *([relay] if relay is not None else [])):
            if party not in self._parties:
                raise ValueError(f"{party!r} takes no part; the parties are {', '.join(self._parties)}")
        if relay in (sender, recipient):
            raise ValueError(f"{relay!r} is an end of the message and no relay of it")
        if sender == recipient:
            raise ValueError(f"{sender!r} cannot send to itself; what stays at a party is no message")
        check_update(payload, self.public.model)
        content = encode(type(payload).from_plain(payload.to_plain()).to_plain())
        with self._lock:
            message = Message(
                sequence=len(self.ledger),
                step=step or payload.topic.partition(".")[0],
                round=int(round),
                topic=payload.topic,
                sender=sender,
                recipient=recipient,
                relay=relay,
                sealed=ciphertext is not None,
                body=content if ciphertext is None else ciphertext,
                content=content,
            )
            self.ledger.append(message)
        return message

    def view(self, *observers: str) -> View:
        """What these parties hold together of the messages so far."""
        return self.ledger.view(observers, self.public)

    def write(self, path: str | os.PathLike[str], meta: Mapping[str, str] | None = None) -> str:
        """Writes the transcript, whole or not at all, and returns the head of its hash chain, to be noted elsewhere.

        What a killed writer of the same file left beside it, which is what was sent, is removed.
        """
        if not isinstance(meta or {}, Mapping):
            raise ValueError(f"meta is of type {type(meta).__name__}; give a dictionary of texts")
        if not all(isinstance(part, str) for item in dict(meta or {}).items() for part in item):
            raise ValueError("meta has a key or a value that is no text")
        with self._lock:
            remove_leftovers(Path(path).parent, escape(Path(path).name))
            write_transcript(path, self.ledger, self.public, meta)
            return self.ledger.head.hex()


def _check_facts(public: PublicFacts) -> None:
    """Raises ValueError for facts that cannot be, as whoever reads the transcript will have them."""
    try:
        written = encode(public.to_plain())
    except ValueError as error:
        raise ValueError(f"the public facts cannot be written: {error}") from None
    check_public(PublicFacts.from_plain(decode(written)))
