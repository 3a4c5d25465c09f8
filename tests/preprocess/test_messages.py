"""Kinds of messages: what they declare, what travels, and what is refused."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import leakledger.preprocess.messages as messages
from leakledger.preprocess.messages import (
    HIDING,
    KINDS,
    About,
    Ciphertext,
    ClientGradient,
    DhAnswer,
    Disclosure,
    LocalMeans,
    MessageFormatError,
    Payload,
    Share,
    UnknownKind,
    decode_payload,
    kind_of,
)
from leakledger.preprocess.messages.base import check_hiding, check_kind
from leakledger.preprocess.wire import encode
from tests.every import every

OWN = [k for k in KINDS.values() if k.__module__.startswith("leakledger.")]


@every("kind", OWN)
def test_a_kind_says_what_it_discloses_and_about_whom_and_describes_its_fields(kind: type[Payload]) -> None:
    assert isinstance(kind.discloses, Disclosure)
    assert isinstance(kind.about, About)
    assert kind.__doc__
    assert not kind.__doc__.startswith(kind.__name__)
    assert len(fields(kind)) == 1 or not kind.bare
    check_hiding(kind, {f.name: f.type for f in fields(kind)})


def test_every_class_of_the_package_is_exported_and_registered() -> None:
    exported = [getattr(messages, name) for name in messages.__all__]
    sums = {k for k in OWN if k.__module__.endswith(".sums")}
    assert [k for k in OWN if k not in sums and k not in exported] == []
    assert all(KINDS[k.topic] is k for k in OWN)


def test_a_payload_survives_the_wire() -> None:
    sent = LocalMeans(3, np.array([1.0, -2.5]))
    arrived = decode_payload("zscore.mean", encode(sent.to_plain()))
    assert isinstance(arrived, LocalMeans)
    assert (arrived.count, arrived.mean.tolist()) == (3, [1.0, -2.5])
    hidden = decode_payload("dh-psi.answer", encode(DhAnswer(Ciphertext(b"x"), Ciphertext(b"y")).to_plain()))
    assert hidden == DhAnswer(Ciphertext(b"x"), Ciphertext(b"y"))


@pytest.mark.parametrize(
    ("plain", "problem"),
    [
        ({"count": 3}, "mean missing"),
        ({"count": 3, "mean": np.zeros(2), "secret": 1}, "1 field too many"),
        ({"count": 3, "mean": np.zeros(2), "secret": 1, "more": 2}, "2 fields too many"),
        ({"count": True, "mean": np.zeros(2)}, "count is bool, not int"),
        ({"count": 3, "mean": [0.0]}, "mean is list, not an array of float64"),
        ({"count": 3, "mean": np.zeros(2, np.int64)}, "mean is an array of int64, not an array of float64"),
        ([3], "fields count, mean were expected, not list"),
    ],
)
def test_what_is_no_message_of_its_kind_is_refused_without_repeating_it(plain: Any, problem: str) -> None:
    with pytest.raises(MessageFormatError, match=f"it is no LocalMeans: {problem}") as refused:
        decode_payload("zscore.mean", encode(plain))
    assert "secret" not in str(refused.value)


def test_a_topic_that_nothing_installed_has_is_named_and_says_what_to_do() -> None:
    with pytest.raises(UnknownKind, match=r"no installed kind of message has the topic 'never\.declared'; install"):
        kind_of("never.declared")


def test_a_kind_that_does_not_say_what_it_discloses_is_refused() -> None:
    with pytest.raises(TypeError, match="does not say 'discloses'"):

        @dataclass(frozen=True)
        class Undeclared(Payload):
            topic = "test.undeclared"


def test_a_topic_belongs_to_one_kind() -> None:
    with pytest.raises(TypeError, match=r"the topic 'zscore\.mean' is that of"):

        @dataclass(frozen=True)
        class Other(Payload):
            topic = "zscore.mean"
            discloses = Disclosure.VALUE
            about = About.SENDER


@pytest.mark.parametrize("disclosure", sorted(HIDING))
def test_what_claims_to_hide_has_no_field_in_the_clear(disclosure: Disclosure) -> None:
    @dataclass(frozen=True)
    class Hides(Payload):
        topic = f"test.hides-{disclosure}"
        discloses = disclosure
        about = About.SENDER

        numbers: NDArray[np.float64]

    with pytest.raises(TypeError, match=r"Hides\.numbers is"):
        Hides.from_plain({"numbers": np.zeros(1)})
    hiding = {Disclosure.SHARE: Share, Disclosure.CIPHERTEXT: Ciphertext}[disclosure]
    check_hiding(Hides, {"numbers": hiding})


def test_a_family_of_kinds_has_no_topic_and_is_never_registered() -> None:
    assert messages.SecureSum not in KINDS.values()
    assert messages.SECURE_SUMS["zscore-sac.mean"].part.discloses is Disclosure.AGGREGATE
    assert messages.SECURE_SUMS["zscore-sac.mean"].share.discloses is Disclosure.SHARE


def test_nested_fields_are_checked_too() -> None:
    good = {"rows": 1, "gradient": {"0.weight": np.zeros((2, 2), np.float32)}}
    assert ClientGradient.from_plain(good).rows == 1
    with pytest.raises(MessageFormatError, match="gradient is an array of int64"):
        ClientGradient.from_plain({"rows": 1, "gradient": {"0.weight": np.zeros(2, np.int64)}})


@dataclass(frozen=True)
class Bits:
    bits: np.ndarray


UNDECLARED = {
    "numpy.ndarray says no element type; write NDArray": np.ndarray,
    "list says no element type": list,
    "says no element type; write dict": dict[str, dict],
    "set\\[str\\] is no type of a message; choose among bool": set[str],
    "complex is no type of a message": complex,
    "numpy.float64 is no type of a message": np.float64,
    "numpy.ndarray says no element": list[Bits] | None,
}


@pytest.mark.parametrize("problem", UNDECLARED)
def test_a_field_of_a_type_that_no_control_can_make_up_is_refused_in_one_line(
    problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages.base, "KINDS", {})
    namespace = {"topic": "bad", "discloses": Disclosure.VALUE, "about": About.SENDER}
    kind = type("LocalBits", (Payload,), {**namespace, "__annotations__": {"bits": UNDECLARED[problem]}})
    with pytest.raises(TypeError, match=rf"^LocalBits\.bits: .*{problem}") as error:
        check_kind(dataclass(frozen=True)(kind))
    assert "\n" not in str(error.value)
