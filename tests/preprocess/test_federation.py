from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.crypto.refusal import MessageError, accept, accept_public
from leakledger.preprocess.federation import At, Federation, FederationError, describe, returned_kind
from leakledger.preprocess.messages import LocalMeans
from leakledger.preprocess.secret import KeyStream, generator, pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Abort, Message
from leakledger.preprocess.wire import encode
from tests.preprocess.notes import Noted, collect, noted, spread, tell
from tests.preprocess.protocols import Overfull

PARTIES = ["a", "b", "c", "server"]


@pytest.fixture
def fed() -> Simulated:
    return Simulated(["a", "b", "c"], secret=pinned(11))


@pytest.mark.parametrize("clients", [[], ["a"]])
def test_a_federation_needs_two_clients(clients: list[str]) -> None:
    with pytest.raises(FederationError, match="at least two clients"):
        Simulated(clients)


@pytest.mark.parametrize(
    ("clients", "server"), [(["a", "a"], "s"), (["a", "s"], "s"), (["a", ""], "s"), (["a", 1], "s")]
)
def test_parties_need_distinct_names(clients: list[str], server: str) -> None:
    with pytest.raises(FederationError, match="distinct, non-empty names"):
        Simulated(clients, server=server)


def test_an_argument_that_lives_elsewhere_is_refused_by_function_parties_and_step(fed: Simulated) -> None:
    with (
        fed.scope("scale"),
        pytest.raises(FederationError, match=r"max at a reads a value that lives at b \(step scale\)"),
    ):
        fed.local("a", max, fed.at("a", 1), fed.at("b", 2))


def test_local_reads_own_public_and_constant_values(fed: Simulated) -> None:
    result = fed.local("a", lambda *v: sum(v), fed.at("a", 1), fed.public(lambda: 10), 100)
    assert (result.party, fed.own(result)) == ("a", 111)


def test_a_failing_function_is_noted_with_party_step_and_round(fed: Simulated) -> None:
    def divide(value: int) -> float:
        return value / 0

    with fed.scope("scale", round=4), pytest.raises(ZeroDivisionError) as caught:
        fed.local("a", divide, fed.at("a", 1))
    assert caught.value.__notes__ == ["in divide at a (step scale, round 4)"]


def test_an_error_outside_a_function_is_noted_with_the_innermost_step() -> None:
    fed = Simulated(["a", "b"])
    with pytest.raises(KeyError) as caught, fed.scope("outer"), fed.scope("inner", round=2):
        raise KeyError("x")
    assert caught.value.__notes__ == ["in step inner, round 2"]


def test_a_public_value_cannot_depend_on_a_located_one(fed: Simulated) -> None:
    assert fed.public(lambda x, y: x + y, fed.public(lambda: 1), 2).value == 3
    with pytest.raises(FederationError, match="public value cannot depend on one at b"):
        fed.public(abs, fed.at("b", -1))


def use_at(fed: Federation, party: str) -> list[Callable[[], Any]]:
    one = fed.at("a", 1)
    return [
        lambda: fed.at(party, 1),
        lambda: fed.local(party, abs, 1),
        lambda: fed.coins(party),
        lambda: tell(fed, one, party, "t"),
        lambda: tell(fed, one, "b", "t", via=party),
    ]


@pytest.mark.parametrize("use", range(5))
def test_an_unknown_party_is_refused_everywhere(fed: Simulated, use: int) -> None:
    with pytest.raises(FederationError, match=r"'mallory' is not a party \(step start\)"):
        use_at(fed, "mallory")[use]()
    assert len(fed.ledger) == 0


@pytest.mark.parametrize("between", [[], ["mine"], ["encode"]])
def test_a_method_cannot_send_under_the_name_of_another_step_of_a_case(fed: Simulated, between: list[str]) -> None:
    with ExitStack() as steps:
        for step in ["encode", *between]:
            steps.enter_context(fed.scope(step))
        with pytest.raises(FederationError, match="step 'train' is opened within 'encode'"), fed.scope("train"):
            pass
        with fed.scope("encode", 3):
            assert (fed.step, fed.round) == ("encode", 3)
    with fed.scope("train"):
        assert fed.step == "train"


def test_a_message_to_oneself_is_refused(fed: Simulated) -> None:
    with pytest.raises(FederationError, match=r"a sends to itself \(note, step start\)"):
        tell(fed, fed.at("a", 1), "a", "note")


def test_only_located_values_are_sent(fed: Simulated) -> None:
    with pytest.raises(FederationError, match=r"only located values are sent, not int \(step start\)"):
        fed.send(1, "a")  # type: ignore[arg-type]


def test_a_value_that_is_not_of_its_kind_is_refused_before_it_is_sent(fed: Simulated) -> None:
    for value in (3, noted("note")(3)):
        with pytest.raises(
            FederationError, match=rf"a message of LocalMeans is no {type(value).__name__} \(a to b, step"
        ):
            fed.send(fed.at("a", value), to="b", kind=LocalMeans)
    with pytest.raises(FederationError, match=r"nothing says which kind of message int is \(a to b, step start\)"):
        fed.send(fed.at("a", 3), to="b")
    assert len(fed.ledger) == 0


def test_the_kind_of_a_message_is_that_given_else_that_of_the_function_that_made_it(fed: Simulated) -> None:
    def some(value: int) -> Noted:
        return noted("note")(value)

    fed.send(fed.local("a", some, 1), to="b", kind=noted("note"))
    fed.send(fed.local("a", noted("mean"), 1), to="b")
    assert [m.topic for m in fed.ledger] == ["note", "mean"]
    assert returned_kind(some) is returned_kind(partial(some, 1)) is returned_kind(partial(partial(some), 1)) is Noted
    assert returned_kind(noted("mean")) is noted("mean")
    assert (returned_kind(abs), returned_kind(int), returned_kind(lambda x: x)) == (None, None, None)


def test_a_payload_for_many_is_encoded_once_and_one_that_merely_equals_it_anew(fed: Simulated) -> None:
    class Counted(noted("note")):  # type: ignore[misc]
        encoded = 0

        def to_plain(self) -> Any:
            Counted.encoded += 1
            return super().to_plain()

    spread_to_all = fed.local("a", Counted, 7)
    fed.broadcast(spread_to_all)
    fed.gather({"a": spread_to_all}, "server")
    assert Counted.encoded == 1
    assert [fed.own(tell(fed, fed.at("a", v), "b")) for v in (1, True, 1.0)] == [1, True, 1.0]
    assert [type(m.payload.value) for m in list(fed.ledger)[-3:]] == [int, bool, float]


def test_a_value_without_encoding_is_refused_and_nothing_recorded(fed: Simulated) -> None:
    with pytest.raises(FederationError, match=r"a cannot send to b: .*object.* \(note, step start\)"):
        tell(fed, fed.at("a", object()), "b", "note")
    assert len(fed.ledger) == 0


@pytest.mark.parametrize("sealed", [False, True])
def test_content_that_is_no_value_is_refused_by_recipient_reason_and_message(sealed: bool) -> None:
    class Cut(Simulated):
        def _carry(self, header: Message, content: bytes | None) -> bytes | None:
            received = super()._carry(header, content)
            return received[:-1] if header.topic == "numbers" and received is not None else received

    fed = Cut(["a", "b"], secret=pinned(1))
    with (
        fed.scope("count", round=3),
        pytest.raises(
            FederationError, match=r"^b refuses message \d: .+ \(a -> b, numbers, step count, round 3\)$"
        ) as error,
    ):
        tell(fed, fed.at("a", [1, 2]), to="b", topic="numbers", via="server", sealed=sealed)
    assert "WireError" not in str(error.value)


def test_a_run_that_ends_in_an_error_says_who_could_not_go_on_where_and_why_but_no_value(fed: Simulated) -> None:
    def refuses(value: str) -> None:
        raise MessageError("no such number")

    def fails(value: str) -> float:
        raise KeyError(value)

    with fed.scope("fit", round=2):
        for use in (
            lambda: fed.local("a", fails, fed.at("a", "confidential")),
            lambda: accept(fed, "server", "a", refuses, fed.at("server", "confidential")),
            lambda: tell(fed, fed.at("b", object()), "a", "note"),
            lambda: fed.send(fed.local("a", Overfull, 3, np.zeros(2)), to="b"),
            lambda: accept_public(fed, "server", refuses, fed.public(str, 1)),  # what all are told the first refuses
        ):
            with pytest.raises((KeyError, FederationError)):
                use()
    reasons = [("a", "KeyError"), ("server", "MessageError"), ("b", "WireError"), ("b", "MessageFormatError")]
    reasons.append((fed.clients[0], "MessageError"))
    assert fed.ledger.aborts == tuple(Abort(party, "fit", 2, reason) for party, reason in reasons)


def test_a_broken_seal_is_a_reason_to_abort() -> None:
    class Meddling(Simulated):
        def _seal(self, header: Message, content: bytes) -> bytes:
            body = super()._seal(header, content)
            return body[:-1] + bytes([body[-1] ^ header.sealed])

    fed = Meddling(["a", "b"], secret=pinned(1))
    with pytest.raises(FederationError, match="b refuses a message"):
        tell(fed, fed.at("a", 1), "b", "note", sealed=True)
    assert fed.ledger.aborts == (Abort("b", "start", 0, "SealError"),)


def test_no_object_crosses_by_reference(fed: Simulated) -> None:
    original: dict[str, Any] = {"array": np.zeros(2), "list": [1]}
    arrived = fed.own(tell(fed, fed.at("a", original), "b", "note"))
    original["array"][0] = 7
    assert arrived["array"].tolist() == [0, 0]
    assert arrived["list"] is not original["list"]


def test_a_message_records_who_told_whom_in_which_step_on_what_route(fed: Simulated) -> None:
    with fed.scope("fit", round=3):
        tell(fed, fed.at("a", [1]), "b", "moments", via="server")
    (m,) = fed.ledger
    assert m.header() == {
        "sequence": 0,
        "step": "fit",
        "round": 3,
        "topic": "moments",
        "sender": "a",
        "recipient": "b",
        "relay": "server",
        "sealed": False,
    }
    assert (m.body, m.content, m.payload.value) == (encode([1]), encode([1]), [1])
    assert describe(m) == "a -> b, moments, step fit, round 3"


@pytest.mark.parametrize("via", ["a", "b"])
def test_a_relay_that_is_an_end_of_the_message_is_no_relay(fed: Simulated, via: str) -> None:
    tell(fed, fed.at("a", 1), "b", "note", via=via)
    assert [m.relay for m in fed.ledger] == [None]


@given(st.sampled_from(PARTIES), st.sampled_from(PARTIES), st.sampled_from([None, *PARTIES]), st.booleans())
@settings(deadline=None)
def test_every_route_brings_the_same_value(sender: str, to: str, via: str | None, sealed: bool) -> None:
    fed = Simulated(PARTIES[:-1], secret=pinned(2))
    if sender != to:
        arrived = tell(fed, fed.at(sender, {"x": [1, 2.5]}), to, "note", via=via, sealed=sealed)
        assert (arrived.party, fed.own(arrived)) == (to, {"x": [1, 2.5]})
        assert list(fed.ledger)[-1].sealed is sealed


def test_a_broadcast_gives_equal_values_through_one_message_per_other_party(fed: Simulated) -> None:
    pair: Any = (1, 2)
    public = spread(fed, fed.at("b", pair), "mean", via="server")
    assert public.value == [1, 2]  # what the recipients decode, for the sender too
    assert [(m.sender, m.recipient, m.relay) for m in fed.ledger] == [
        ("b", "a", "server"),
        ("b", "c", "server"),
        ("b", "server", None),
    ]
    assert len({m.body for m in fed.ledger}) == 1
    sums = {p: fed.own(fed.local(p, sum, public)) for p in fed.everyone}
    assert sums == dict.fromkeys(fed.everyone, 3)


def test_gather_keeps_the_order_and_sends_only_from_elsewhere(fed: Simulated) -> None:
    located = {p: fed.at(p, p.upper()) for p in ("c", "a", "b")}
    gathered = collect(fed, located, "a", "name")
    assert [(v.party, fed.own(v)) for v in gathered] == [("a", "C"), ("a", "A"), ("a", "B")]
    assert [m.sender for m in fed.ledger] == ["c", "b"]


def test_scopes_nest_and_end(fed: Simulated) -> None:
    with fed.scope("outer", round=1):
        with fed.scope("inner"):
            assert (fed.step, fed.round) == ("inner", 1)
        assert (fed.step, fed.round) == ("outer", 1)
        with pytest.raises(KeyError), fed.scope("failing", round=9):
            raise KeyError
        assert (fed.step, fed.round) == ("outer", 1)
    assert (fed.step, fed.round) == ("start", 0)


def draws(fed: Federation) -> dict[str, bytes]:
    return {p: fed.own(fed.local(p, lambda coins: coins.bytes(16), fed.coins(p))) for p in fed.everyone}


def test_coins_repeat_with_the_secret_and_differ_between_parties() -> None:
    one, again, other = (draws(Simulated(["a", "b", "c"], secret=pinned(s))) for s in (1, 1, 2))
    assert one == again
    assert len({*one.values(), *other.values()}) == 8


def test_without_a_secret_it_comes_from_the_operating_system() -> None:
    one, other = draws(Simulated(["a", "b"])), draws(Simulated(["a", "b"]))
    assert len({*one.values(), *other.values()}) == 6


def test_a_partys_secret_regenerates_its_coins_and_its_key_stream(fed: Simulated) -> None:
    drawn = draws(fed)
    for party, secret in fed.party_secrets().items():
        assert generator(secret).bytes(16) == drawn[party]
        assert KeyStream(secret).bytes(40) == fed.own(fed.local(party, lambda s: s.bytes(40), fed.key_stream(party)))


def test_a_party_of_another_federation_has_another_secret() -> None:
    feds = [Simulated(clients, server=s, secret=pinned(1)) for clients in (["a", "b"], ["a", "c"]) for s in ("s", "t")]
    assert len({s for fed in feds for s in fed.party_secrets().values()}) == 12


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(33), "0" * 32, 7])
def test_what_is_no_secret_is_refused_without_being_shown(secret: Any) -> None:
    with pytest.raises(ValueError, match=r"a secret is 32 bytes, not (\d+ bytes|str|int)$"):
        Simulated(["a", "b"], secret=secret)


def test_a_located_value_shows_only_its_home(fed: Simulated) -> None:
    assert repr(fed.at("a", "a record")) == "At(a)"


def test_a_process_without_the_party_holds_nothing_of_it() -> None:
    class OnlyA(Simulated):
        def holds(self, party: str) -> bool:
            return party == "a"

    fed = OnlyA(["a", "b"], secret=pinned(1))
    assert isinstance(fed.at("b", "secret"), At)
    for absent in (fed.at("b", "secret"), fed.coins("b"), fed.local("b", abs, fed.at("b", 1))):
        with pytest.raises(FederationError, match=r"a value of b is not in this process \(step start\)"):
            fed.own(absent)
    assert list(fed.party_secrets()) == ["a"]


def test_a_value_that_was_changed_at_its_party_is_sent_as_it_is_then(fed: Simulated) -> None:
    note = fed.at("a", noted("note")([1]))
    first = fed.send(note, "b", kind=noted("note"))
    fed.local("a", lambda n: n.value.append(2), note)
    again = fed.send(note, "b", kind=noted("note"))
    assert (fed.own(first).value, fed.own(again).value) == ([1], [1, 2])


def test_a_value_that_is_told_to_many_is_encoded_once(fed: Simulated) -> None:
    note = fed.at("a", noted("note")([1]))
    for to in ("b", "c", "server"):
        fed.send(note, to, kind=noted("note"))
        fed.send(fed.at(to, noted("answer")(2)), "a", kind=noted("answer"))
    assert len({id(m.body) for m in fed.ledger if m.sender == "a"}) == 1


def test_what_is_public_cannot_be_changed_and_is_equal_to_what_it_was_made_of(fed: Simulated) -> None:
    made = {"list": [1, [2]], "dict": {"x": 1}, "array": np.zeros(2), "tuple": ([1],), "set": {1}}
    public = fed.public(lambda: made).value
    assert public["list"] == [1, [2]]
    assert isinstance(public["dict"], dict)
    for change in (
        lambda: public["list"].append(1),
        lambda: public["list"][1].append(1),
        lambda: public["dict"].update(y=1),
        lambda: public["tuple"][0].append(1),
    ):
        with pytest.raises(TypeError, match="a public value cannot be changed"):
            change()
    with pytest.raises(ValueError, match="read-only"):
        public["array"][0] = 1
    made["list"].append(3)  # type: ignore[attr-defined]
    made["array"][0] = 7  # type: ignore[index]
    assert (public["list"], public["array"].tolist()) == ([1, [2]], [0, 0])
    with pytest.raises(FederationError, match=r"Simulated cannot be public; .* \(step start\)"):
        fed.public(lambda: fed)


def test_a_value_of_another_federation_is_refused(fed: Simulated) -> None:
    other = Simulated(["a", "b"])
    with pytest.raises(FederationError, match=r"a value of a is of another federation \(step start\)"):
        fed.local("a", abs, other.at("a", 1))
