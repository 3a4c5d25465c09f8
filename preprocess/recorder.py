"""Writes a transcript from any runtime: whoever sends or receives messages records them, and `leakledger attack` reads
them like those of an audit.

    recorder = Recorder(["hospital A", "hospital B"], layout=layout, model=spec, training=training)
    recorder.send(GlobalModel(weights), "server", "hospital A", round=0)
    recorder.send(ClientGradient(rows=8, gradient=gradient), "hospital A", "server", round=0)
    recorder.write("round-0.parquet")

A transcript holds what was sent: treat it like the data itself (it is written for its owner alone).
"""

import os
from collections.abc import Mapping, Sequence

from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.messages import Payload
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
from leakledger.preprocess.wire import encode


class Recorder:
    """The messages of one run between `clients` and a `server`, in the order in which they are told to it.

    What is public in the run is said once: the `layout` of the network's inputs, the `model`, the `training`, the
    `mechanisms` that protect updates, and by name the methods that preprocessed. Raises ValueError for names that do
    not tell the parties apart.
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
        self._parties = (*clients, server)
        if not clients or len(set(self._parties)) < len(self._parties) or "" in self._parties:
            raise ValueError(f"the parties {list(self._parties)} need names of their own, and one client at least")
        methods = encoder or Method(), scaler or Method()
        self.public = PublicFacts(
            tuple(clients), server, *methods, tuple(mechanisms), layout=layout, model=model, training=training
        )
        self.ledger = Ledger()

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
        not fit its kind.
        """
        if not isinstance(payload, Payload):
            raise ValueError(f"a {type(payload).__name__} is no kind of message; see leakledger.preprocess.messages")
        if round < 0:
            raise ValueError(f"round is {round}; the first is 0")
        for party in (sender, recipient, *([relay] if relay is not None else [])):
            if party not in self._parties:
                raise ValueError(f"{party!r} takes no part; the parties are {', '.join(self._parties)}")
        if sender == recipient:
            raise ValueError(f"{sender!r} cannot send to itself; what stays at a party is no message")
        content = encode(type(payload).from_plain(payload.to_plain()).to_plain())
        message = Message(
            sequence=len(self.ledger),
            step=step or payload.topic.partition(".")[0],
            round=round,
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
        """Writes the transcript, whole or not at all, and returns the head of its hash chain, to be noted elsewhere."""
        write_transcript(path, self.ledger, self.public, meta)
        return self.ledger.head.hex()
