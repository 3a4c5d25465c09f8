"""All that one case leaves behind: what was observed, tried, found and spent."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from leakledger.audit.records.assets import Kind
from leakledger.audit.records.digits import at_most
from leakledger.audit.records.trials import POWER, Control, Trial

Unit = Literal["record", "client"]
Relation = Literal["add-remove", "replace"]


@dataclass(frozen=True)
class Setting:
    """One combination that the configuration asks for. `id` is short, stable and readable. Where features are made, the
    method that makes them stands as the encoder, and there is no scaler.
    """

    id: str
    data: str
    partition: str
    parties: int
    encoder: str
    scaler: str
    defense: str
    training: str
    reference: bool  # rows are pooled somewhere: no federation, kept as the yardstick
    encoder_said: str = ""  # what the methods share by their own account, and where that is said; empty: no account
    scaler_said: str = ""
    steps: tuple[tuple[str, float], ...] = ()  # the defense: "name parameter" and value of each number, in order

    @property
    def method(self) -> str:
        """How reports name the preprocessing."""
        return self.encoder if self.scaler in ("", self.encoder) else f"{self.encoder} + {self.scaler}"


@dataclass(frozen=True)
class Unread:
    """Messages that reached `observers` and that no attack read which is known to work on such messages: `reason`."""

    observers: tuple[str, ...]
    topic: str
    discloses: str
    messages: int
    reason: str


@dataclass(frozen=True)
class Finding:
    """A property of the protocol that a transcript shows (`FindingClaim`): it lets `observers` learn about `party`."""

    attack: str
    observers: tuple[str, ...]
    party: str
    check: str
    text: str
    evidence: tuple[int, ...] = ()


@dataclass(frozen=True)
class Observation:
    """What one observer saw on one topic from one sender, over a whole case."""

    observer: str
    topic: str
    step: str
    sender: str
    role: Literal["received", "sent", "relayed"]
    form: Literal["plaintext", "ciphertext"]
    content: str  # shape and type in words, never values
    messages: int
    size: int  # bytes of bodies
    first_round: int
    last_round: int
    hops: int = 0  # transmissions that the observer was an end of: a relay sees a message come and go
    wire_size: int = 0  # bytes of these transmissions, headers included
    discloses: str = ""  # how whoever can read it may read it; empty where the kind is not installed


@dataclass(frozen=True)
class Cell:
    """One cell of a claimed record: `value` and `truth` as texts are shown only when a report is told to reveal them.

    `truth` is of the row that matching sets beside the claimed one; empty where there is none.
    """

    feature: str
    kind: Kind
    value: str
    correct: bool
    entropy: float | None  # None where the attack states none
    truth: str = ""


@dataclass(frozen=True)
class RecoveredRecord:
    """One of the rows that an attack is surest of, with what the audit knows about its cells."""

    attack: str
    observers: tuple[str, ...]
    victim: str
    round: int
    cells: tuple[Cell, ...]
    verified: bool = False  # the attack says that it has proven the row


@dataclass(frozen=True)
class Aborted:
    """That `party` could not go on, which ended a case: where, and the name of the kind of error. Never its text, which
    may repeat what the party holds. `step` is empty where the party is gone and nobody knows how far it came.
    """

    party: str
    step: str
    round: int
    reason: str

    @property
    def text(self) -> str:
        where = f"in step {self.step}, round {self.round}" if self.step else "in a step that nobody knows"
        return f"{self.party} could not go on {where}: {self.reason}"


@dataclass(frozen=True)
class PrivacyPart:
    """What a client sends under noise in one stage, in words, and the epsilon that this alone would have."""

    stage: Literal["statistics", "training"]
    text: str
    epsilon: float


@dataclass(frozen=True)
class PrivacyAccount:
    """(`epsilon`, `delta`)-differential privacy of one `unit` over all that a client sends, or why there is none.

    `unit`: "record" is one training row of one client, "client" all its training rows. `relation`: neighbours differ by
    a unit that is there or not ("add-remove"), or by the data of one ("replace"). `missing`: the steps that have no
    guarantee; where there are any, `epsilon` is None. `outside`: what the figure does not speak of.
    """

    unit: Unit
    relation: Relation
    delta: float
    epsilon: float | None
    method: str = ""
    parts: tuple[PrivacyPart, ...] = ()
    missing: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The account in one sentence."""
        if self.epsilon is None:
            return f"per {self.unit}: no epsilon: {'; '.join(self.missing)}"
        differ = "is there or not" if self.relation == "add-remove" else "has any data or any other"
        neighbours = f"neighbours: one {self.unit} {differ} ({self.relation})"
        return (
            f"per {self.unit}: epsilon {at_most(self.epsilon, 4)} at delta {self.delta:g}; {neighbours}; {self.method}"
        )


@dataclass(frozen=True)
class UtilityRow:
    """One metric of the trained model on held-out rows of all parties, or of the cost of getting there."""

    metric: str
    value: float


@dataclass(frozen=True)
class CaseRecord:
    """All that one case leaves behind; of an aborted one, what was observed until then and nothing that was tried."""

    id: str
    setting: Setting
    seed: int
    trials: tuple[Trial, ...] = ()
    controls: tuple[Control, ...] = ()
    findings: tuple[Finding, ...] = ()
    unread: tuple[Unread, ...] = ()
    observations: tuple[Observation, ...] = ()
    recovered: tuple[RecoveredRecord, ...] = ()
    utility: tuple[UtilityRow, ...] = ()
    aborts: tuple[Aborted, ...] = ()
    privacy: tuple[PrivacyAccount, ...] = ()
    transcript_head: str = ""
    seconds: Mapping[str, float] = field(
        default_factory=dict
    )  # by stage; machine-dependent, so not part of results.json


def failed_controls(cases: Iterable[CaseRecord]) -> frozenset[tuple[str, str]]:
    """The attacks, by setting, of which a control failed: what they found shows nothing. Failing at `POWER` is no such
    failure.
    """
    failed = ((r.setting.id, c) for r in cases for c in r.controls if not c.passed)
    return frozenset((setting, c.attack) for setting, c in failed if c.kind != POWER)


def case_digest(case: CaseRecord) -> str:
    """SHA-256 of all that a case left but its seconds, as canonical JSON: the same for every run of the case."""
    plain = json.dumps(asdict(replace(case, seconds={})), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()
