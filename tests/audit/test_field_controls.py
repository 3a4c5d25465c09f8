"""Messages that are made up for controls, and what an attack is to make of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import FindingClaim, VocabularyClaim
from leakledger.audit.federation_controls import claims_of
from leakledger.audit.field_controls import field_controls, sample, with_message
from leakledger.preprocess.messages import KINDS, About, Disclosure, Payload
from leakledger.preprocess.messages.base import check_kind
from leakledger.preprocess.views import PublicFacts, View

VIEW = View(frozenset({"server"}), (), PublicFacts(("P1", "P2"), "server"))


@dataclass(frozen=True)
class Listed:
    values: list[str]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class Described:
    commonest: str
    rows: int


@pytest.fixture
def kind(request, monkeypatch):
    """A kind of a plugin with one field of the type that a test asks for; it is taken out again."""
    monkeypatch.setattr("leakledger.preprocess.messages.base.KINDS", known := dict(KINDS))
    monkeypatch.setattr("leakledger.preprocess.messages.KINDS", known)
    facts = {"topic": "made.told", "discloses": Disclosure.VALUE, "about": About.SENDER, "__module__": __name__}
    made = dataclass(frozen=True)(type("Told", (Payload,), {"__annotations__": {"told": request.param}, **facts}))
    check_kind(made)
    return made


def played(kind):
    """The controls on a view with one message of the kind, and what the attack claims of it."""
    attack, view = ATTACKS["plaintext"](), with_message(VIEW, sample(kind))
    return list(field_controls(attack, view)), claims_of(attack, view)


def test_of_every_kind_that_may_be_declared_a_message_can_be_made_up():
    for kind in [k for k in KINDS.values() if k.__module__.startswith("leakledger.")]:
        check_kind(kind)
        assert isinstance(sample(kind), kind)


@pytest.mark.parametrize(
    "kind",
    [list[str], Any, dict[str, list[str]], dict[str, dict[str, int]], dict[str, dict[str, float]], dict[str, Listed]],
    indirect=True,
)
def test_text_that_says_which_values_a_party_holds_must_be_read_as_that(kind):
    controls, claims = played(kind)
    assert [c.passed for c in controls] == [True, True]
    named = kind.__annotations__["told"] != list[str]  # nothing says which feature a bare list is of
    assert any(isinstance(c, VocabularyClaim) for c in claims) == named


@pytest.mark.parametrize(
    "kind",
    [
        dict[str, str],
        dict[str, str | None],
        dict[str, Described],
        dict[str, list[list[str]]],
        dict[str, list[Described]],
        dict[str, dict[str, str]],
        dict[str, dict[str, bool]],
        dict[str, dict[str, list[str]]],
        dict[str, dict[str, dict[str, int]]],
        dict[str, dict[str, Described]],
    ],
    indirect=True,
)
def test_text_of_which_nothing_says_that_a_party_holds_it_must_be_found_in_the_clear(kind):
    controls, claims = played(kind)
    assert [(c.kind, c.passed) for c in controls] == [("leaky", True), ("null", True)]
    assert [type(c) for c in claims] == [FindingClaim]


@pytest.mark.parametrize("kind", [dict[str, list[str]], dict[str, dict[str, int]], dict[str, str]], indirect=True)
def test_an_attack_that_does_not_look_into_a_message_fails_its_control(kind, monkeypatch):
    monkeypatch.setattr("leakledger.attacks.transcript.plaintext.generic_claims", lambda *_: [])
    held = kind.__annotations__["told"] == dict[str, str]  # of this the finding is all that there is
    assert [c.passed for c in played(kind)[0]] == [held, True]
    monkeypatch.setattr("leakledger.attacks.transcript.plaintext.findings", lambda *_: [])
    assert [c.passed for c in played(kind)[0]] == [False, True]
