from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preprocess.federation import At, Federation, FederationError, Public, describe
from preprocess.transport.simulated import Simulated
from preprocess.views import Message
from preprocess.wire import encode

PARTIES = ["a", "b", "c", "server"]


@pytest.fixture
def fed() -> Simulated:
    return Simulated(["a", "b", "c"], seed=11)


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
    result = fed.local("a", lambda *v: sum(v), fed.at("a", 1), Public(10), 100)
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
    assert fed.public(lambda x, y: x + y, Public(1), 2).value == 3
    with pytest.raises(FederationError, match="public value cannot depend on one at b"):
        fed.public(abs, fed.at("b", -1))


def use_at(fed: Federation, party: str) -> list[Callable[[], Any]]:
    one = fed.at("a", 1)
    return [
        lambda: fed.at(party, 1),
        lambda: fed.local(party, abs, 1),
        lambda: fed.coins(party),
        lambda: fed.send(one, party, "t"),
        lambda: fed.send(one, "b", "t", via=party),
    ]


@pytest.mark.parametrize("use", range(5))
def test_an_unknown_party_is_refused_everywhere(fed: Simulated, use: int) -> None:
    with pytest.raises(FederationError, match=r"'mallory' is not a party \(step start\)"):
        use_at(fed, "mallory")[use]()
    assert len(fed.ledger) == 0


def test_a_message_to_oneself_is_refused(fed: Simulated) -> None:
    with pytest.raises(FederationError, match=r"a sends to itself \(note, step start\)"):
        fed.send(fed.at("a", 1), "a", "note")


def test_only_located_values_are_sent(fed: Simulated) -> None:
    with pytest.raises(FederationError, match=r"only located values are sent, not int \(note, step start\)"):
        fed.send(1, "a", "note")  # type: ignore[arg-type]


def test_a_value_without_encoding_is_refused_and_nothing_recorded(fed: Simulated) -> None:
    with pytest.raises(FederationError, match=r"a cannot send to b: .*object.* \(note, step start\)"):
        fed.send(fed.at("a", object()), "b", "note")
    assert len(fed.ledger) == 0


@pytest.mark.parametrize("sealed", [False, True])
def test_content_that_is_no_value_is_refused_by_recipient_reason_and_message(sealed: bool) -> None:
    class Cut(Simulated):
        def _carry(self, header: Message, content: bytes | None) -> bytes | None:
            received = super()._carry(header, content)
            return received[:-1] if header.topic == "numbers" and received is not None else received

    fed = Cut(["a", "b"], seed=1)
    with (
        fed.scope("count", round=3),
        pytest.raises(
            FederationError, match=r"^b refuses a message: .+ \(a -> b, numbers, step count, round 3\)$"
        ) as error,
    ):
        fed.send(fed.at("a", [1, 2]), to="b", topic="numbers", via="server", sealed=sealed)
    assert "WireError" not in str(error.value)


def test_no_object_crosses_by_reference(fed: Simulated) -> None:
    original: dict[str, Any] = {"array": np.zeros(2), "list": [1]}
    arrived = fed.own(fed.send(fed.at("a", original), "b", "note"))
    original["array"][0] = 7
    assert arrived["array"].tolist() == [0, 0]
    assert arrived["list"] is not original["list"]


def test_a_message_records_who_told_whom_in_which_step_on_what_route(fed: Simulated) -> None:
    with fed.scope("fit", round=3):
        fed.send(fed.at("a", [1]), "b", "moments", via="server")
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
    assert (m.body, m.content, m.payload) == (encode([1]), encode([1]), [1])
    assert describe(m) == "a -> b, moments, step fit, round 3"


@pytest.mark.parametrize("via", ["a", "b"])
def test_a_relay_that_is_an_end_of_the_message_is_no_relay(fed: Simulated, via: str) -> None:
    fed.send(fed.at("a", 1), "b", "note", via=via)
    assert [m.relay for m in fed.ledger] == [None]


@given(st.sampled_from(PARTIES), st.sampled_from(PARTIES), st.sampled_from([None, *PARTIES]), st.booleans())
@settings(deadline=None)
def test_every_route_brings_the_same_value(sender: str, to: str, via: str | None, sealed: bool) -> None:
    fed = Simulated(PARTIES[:-1], seed=2)
    if sender != to:
        arrived = fed.send(fed.at(sender, {"x": [1, 2.5]}), to, "note", via=via, sealed=sealed)
        assert (arrived.party, fed.own(arrived)) == (to, {"x": [1, 2.5]})
        assert list(fed.ledger)[-1].sealed is sealed


def test_a_broadcast_gives_equal_values_through_one_message_per_other_party(fed: Simulated) -> None:
    pair: Any = (1, 2)
    public = fed.broadcast(fed.at("b", pair), "mean", via="server")
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
    gathered = fed.gather(located, "a", "name")
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


def test_coins_repeat_with_the_seed_and_differ_between_parties() -> None:
    one, again, other = (draws(Simulated(["a", "b", "c"], seed=s)) for s in (1, 1, 2))
    assert one == again
    assert len({*one.values(), *other.values()}) == 8


def test_coins_come_from_the_operating_system_without_a_seed() -> None:
    one, other = draws(Simulated(["a", "b"])), draws(Simulated(["a", "b"]))
    assert len({*one.values(), *other.values()}) == 6
    assert set(Simulated(["a", "b"]).coin_seeds().values()) == {None}


def test_coin_seeds_regenerate_the_coins_and_say_nothing_about_other_parties(fed: Simulated) -> None:
    seeds = fed.coin_seeds()
    for party, seed in seeds.items():
        assert seed is not None
        assert seed > 2**128  # a hash: neither the run's seed nor a neighbour's follows from it
        assert np.random.default_rng(seed).bytes(16) == draws(Simulated(["a", "b", "c"], seed=11))[party]
    assert len(set(seeds.values())) == 4


def test_a_located_value_shows_only_its_home(fed: Simulated) -> None:
    assert repr(fed.at("a", "a record")) == "At(a)"


def test_a_process_without_the_party_holds_nothing_of_it() -> None:
    class OnlyA(Simulated):
        def holds(self, party: str) -> bool:
            return party == "a"

    fed = OnlyA(["a", "b"], seed=1)
    assert isinstance(fed.at("b", "secret"), At)
    for absent in (fed.at("b", "secret"), fed.coins("b"), fed.local("b", abs, fed.at("b", 1))):
        with pytest.raises(FederationError, match=r"a value of b is not in this process \(step start\)"):
            fed.own(absent)
