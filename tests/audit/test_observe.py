"""What each party saw of a run, counted and described without any of its values."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leakledger.audit.observe import content_of, describe, observations, public_names
from leakledger.preprocess.messages import KINDS, LocalMeans
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import FeatureLayout, Message, ModelSpec, NumericBlock, PublicFacts
from leakledger.preprocess.wire import encode
from tests.preprocess.notes import tell

PUBLIC = PublicFacts(("a", "b"), "server")


def run(**route: Any) -> list[Any]:
    """What each party saw of one note from a to b; the exchange of keys left out."""
    fed = Simulated(["a", "b"], secret=pinned(1))
    tell(fed, fed.at("a", "confidential"), "b", "note", **route)
    (sent,) = (m for m in fed.ledger if m.topic == "note")
    seen = [o for o in observations(fed.ledger, PUBLIC) if o.topic == "note"]
    return [sent, {o.observer: o for o in seen}]


def test_a_relay_sees_a_message_twice_and_its_ends_once_with_headers() -> None:
    sent, seen = run(via="server")
    assert {p: (o.role, o.messages, o.hops) for p, o in seen.items()} == {
        "a": ("sent", 1, 1),
        "b": ("received", 1, 1),
        "server": ("relayed", 1, 2),
    }
    one = len(encode(sent.header())) + len(sent.body)
    assert {p: o.wire_size for p, o in seen.items()} == {"a": one, "b": one, "server": 2 * one}
    assert {o.size for o in seen.values()} == {len(sent.body)}
    assert {o.discloses for o in seen.values()} == {str(KINDS["note"].discloses)}


def test_a_direct_message_is_one_hop_that_nobody_else_sees() -> None:
    _, seen = run()
    assert {p: o.hops for p, o in seen.items()} == {"a": 1, "b": 1}


@pytest.mark.parametrize(("sealed", "at_relay"), [(False, "text"), (True, "sealed")])
def test_content_is_described_for_who_can_read_it(sealed: bool, at_relay: str) -> None:
    _, seen = run(via="server", sealed=sealed)
    assert {p: o.content for p, o in seen.items()} == {"a": "text", "b": "text", "server": at_relay}
    assert {p: o.form for p, o in seen.items()}["server"] == ("ciphertext" if sealed else "plaintext")


def message(topic: str, payload: Any) -> Message:
    body = encode(payload)
    return Message(0, "fit", 0, topic, "a", "b", None, False, body, body)


def test_content_is_shape_and_type_and_never_a_value() -> None:
    means = LocalMeans(12345, np.array([0.125, 7.5]))
    assert content_of(message("zscore.mean", means.to_plain()), ()) == "count: number, mean: float64[2]"
    dictionary = message("dictionary.local", {"ward": ["secret"] * 3, "job": []})
    assert content_of(dictionary, ("ward", "job")) == "ward: 3 texts, job: 0 items"


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"ward": {"secret": 2, "other secret": 1}}, "ward: 2 entries (first: number)"),
        ({"secret": {"ward": 2}}, "1 entry (first: {ward: number})"),
        ({"secret": {"other secret": 1}}, "1 entry (first: 1 entry (first: number))"),
    ],
)
def test_a_key_that_is_no_public_name_is_data_and_only_counted(counts: dict[str, Any], told: str) -> None:
    assert describe(counts, ("ward",)) == told


def test_parts_are_called_by_the_names_of_parties_columns_and_tensors() -> None:
    public = replace(
        PUBLIC,
        schema={"categorical": ["ward"], "numeric": ["age"], "classes": ["secret"]},
        layout=FeatureLayout((NumericBlock("height", 0, 1),)),
        model=ModelSpec(1, 2, (), norm="none"),
    )
    assert public_names(public) == {"a", "b", "server", "ward", "age", "height", "0.weight", "0.bias"}


def test_a_message_whose_kind_is_not_installed_says_so() -> None:
    assert content_of(message("never.declared", {"total": 3}), ()) == "its kind is not installed"
