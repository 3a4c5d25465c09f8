"""Secret sharing, and the secure sum on top of it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.secure_moments import root
from leakledger.preprocess.crypto.secure_sum import secure_sum
from leakledger.preprocess.crypto.sharing import Proportional, Ring
from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.messages import PartialSum, SumKinds, SumPart
from leakledger.preprocess.secret import KeyStream, pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import PublicFacts
from tests.every import every
from tests.preprocess.contract import assert_same_views
from tests.preprocess.notes import plain

SCHEMES = {
    "proportional": Proportional(),
    "exponential": Proportional("exponential"),
    "ring": Ring(),
    "z64": Ring(1, 20),
}
ROUTES = ("relay", "sealed", "direct")
CLIENTS = ("P1", "P2", "P3")
whole = st.integers(-(2**40), 2**40)
real = st.floats(-1e12, 1e12, allow_nan=False)


def split(scheme, values, parties=3, seed=0):
    return scheme.split(values, parties, Randomness(KeyStream(pinned(seed))))


SAC = SumKinds.of("sac")


def sum_protocol(fed, inputs, params):
    """The secure sum as a protocol over plain inputs."""
    values = {c: fed.local(c, list, inputs[c]) for c in fed.clients}
    sums = secure_sum(fed, values, SCHEMES[params["scheme"]], params["route"], SAC)
    held = {c: fed.local(c, lambda s: [float(v) for v in s], s) for c, s in sums.items()}
    return {**held, fed.server: fed.at(fed.server, None)}


def simulate(values, scheme, route="relay", seed=0):
    fed = Simulated([f"P{i + 1}" for i in range(len(values))], secret=pinned(seed))
    located = {c: fed.at(c, v) for c, v in zip(fed.clients, values, strict=True)}
    sums = secure_sum(fed, located, scheme, route, SAC)
    return fed, [fed.own(s) for s in sums.values()]


@given(st.lists(st.lists(whole, min_size=2, max_size=2), min_size=3, max_size=6), st.integers(0, 99))
def test_the_ring_sum_of_whole_numbers_is_exact_and_the_same_at_every_client(values, seed):
    _, sums = simulate(values, Ring(2, 40), seed=seed)
    assert all(s == [sum(column) for column in zip(*values, strict=True)] for s in sums)


@given(st.lists(real, min_size=3, max_size=6), st.integers(0, 99))
def test_a_ring_sum_is_off_by_half_a_step_of_the_grid_per_number_at_most(values, seed):
    _, sums = simulate([[v] for v in values], Ring(2, 20), seed=seed)
    assert abs(sums[0][0] - sum(map(Fraction, values))) <= Fraction(len(values), 2**21)


@given(st.lists(real, min_size=3, max_size=6), st.sampled_from(["uniform", "exponential"]), st.integers(0, 99))
def test_a_proportional_sum_is_off_by_the_stated_rounding_at_most(values, weights, seed):
    _, sums = simulate([[v] for v in values], Proportional(weights), seed=seed)
    bound = 2 * (len(values) + 2) * 2**-53 * sum(map(abs, values)) + 1e-300
    assert abs(sums[0][0] - sum(map(Fraction, values))) <= bound
    assert all(s == sums[0] for s in sums)


@given(st.lists(whole, min_size=1, max_size=4), st.sampled_from(sorted(SCHEMES)), st.integers(2, 7))
def test_parts_add_up_to_the_numbers(values, scheme, parties):
    scheme = SCHEMES[scheme]
    values = [v / 2**20 for v in values]
    back = scheme.reveal(*split(scheme, values, parties))
    np.testing.assert_allclose([float(v) for v in back], values, rtol=1e-14)


def test_any_two_of_three_ring_parts_are_the_same_distribution_whatever_the_number():
    # Bits of the parts at chance: 3 parts x 400 draws x 64 bits; a fair bit is further than 5 deviations off in 1 of
    # 1.7 million cases.
    for value in (0, 1, -(2**30)):
        parts = np.array([split(Ring(1, 0), [value], seed=s) for s in range(400)]).reshape(400, 3)
        bits = np.unpackbits(parts.astype("<u8").view(np.uint8).reshape(400, 3, 8), axis=2, bitorder="little")
        assert abs(bits.mean(0) - 0.5).max() < 5 * 0.5 / np.sqrt(400)
        for i, j in ((0, 1), (0, 2), (1, 2)):
            together = (bits[:, i] == bits[:, j]).mean(0)
            assert abs(together - 0.5).max() < 5 * 0.5 / np.sqrt(400)


def test_proportional_parts_keep_the_sign_and_the_zero_and_are_smaller_than_the_number():
    parts = np.array(split(Proportional(), [5.0, -5.0, 0.0], parties=4))
    assert (parts[:, 0] > 0).all()
    assert (parts[:, 0] < 5).all()
    assert (parts[:, 1] < 0).all()
    assert not parts[:, 2].any()


def test_ring_parts_of_zero_are_not_zero():
    assert all(part.all() for part in split(Ring(), [0]))


def test_every_number_of_a_message_gets_its_own_proportion():
    parts = np.array(split(Proportional(), [1.0, 1.0]))
    assert (parts[:, 0] != parts[:, 1]).all()


@pytest.mark.parametrize("scheme", ["proportional", "ring"])
def test_parts_follow_from_the_secret(scheme):
    one, again, other = (np.array(split(SCHEMES[scheme], [1.0], seed=s)) for s in (0, 0, 1))
    assert (one == again).all()
    assert (one != other).any()


def test_a_holder_of_ring_parts_cannot_continue_the_generator_that_made_them():
    parts = split(Ring(1, 0), [0], parties=3, seed=7)
    raw = np.frombuffer(KeyStream(pinned(7)).bytes(8 * 64), "<u8")
    assert not set(np.array(parts).ravel().tolist()) & set(raw.tolist())


@every("scheme", SCHEMES)
@every("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_refused(scheme, value):
    with pytest.raises(ValueError, match="is not finite"):
        split(SCHEMES[scheme], [1.0, value])


def test_a_number_beyond_the_ring_is_refused_and_not_repeated():
    ring = Ring(1, 20)
    limit = ring.bound(3)
    split(ring, [float(limit) - 1, 1 - float(limit)])
    with pytest.raises(ValueError, match=r"beyond the ring's range, 2\^43 over 3 parties; scale large") as error:
        split(ring, [123456789 * 10**9])
    assert "123456789" not in str(error.value)


def test_numbers_at_the_bound_of_the_ring_do_not_wrap_around():
    ring = Ring(1, 0)
    most = int(ring.bound(5)) - 1
    _, sums = simulate([[most, -most]] * 5, ring)
    assert sums[0] == [5 * most, -5 * most]


def test_a_number_beyond_float64_is_refused_by_proportional_and_shared_by_a_ring():
    with pytest.raises(ValueError, match="beyond the range of float64; share it over a ring"):
        split(Proportional(), [10**400])
    assert Ring(40, 0).reveal(*split(Ring(40, 0), [10**400])) == [10**400]
    with pytest.raises(ValueError, match="the sum is beyond the range of float64"):
        simulate([[1.5e308]] * 3, Proportional())


@pytest.mark.parametrize(("limbs", "bits"), [(0, 0), (300, 0), (1, 60), (1, -1)])
def test_a_ring_without_room_is_refused(limbs, bits):
    with pytest.raises(ValueError, match=r"limbs|fraction bits"):
        Ring(limbs, bits)


@pytest.mark.parametrize("scheme", ["proportional", "ring"])
def test_a_part_of_another_form_is_refused(scheme):
    scheme = SCHEMES[scheme]
    own = split(scheme, [1.0, 2.0])[0]
    assert (scheme.check(own.copy(), own) == own).all()
    for wrong in (own[:1], own.astype(np.float32), own.tolist(), None, split(Ring(2, 20), [1, 2])[0]):
        with pytest.raises(MessageError, match="no part of 2 numbers"):
            scheme.check(wrong, own)


def test_a_client_refuses_a_bad_part_by_the_name_of_its_sender():
    with pytest.raises(FederationError, match=r"P2 refuses a message of P1: it is no part of 1 numbers"):
        simulate([[1.0, 2.0], [3.0], [4.0, 5.0]], Ring())


def test_two_clients_are_refused_because_each_would_learn_the_others_number():
    with pytest.raises(ValueError, match="at least 3 clients, got 2"):
        simulate([[1], [2]], Ring())


def test_an_unknown_route_is_refused():
    with pytest.raises(ValueError, match="route 'carrier' is unknown; choose one of relay, sealed, direct"):
        simulate([[1]] * 3, Ring(), route="carrier")


@pytest.mark.parametrize("clients", [3, 4, 7])
@pytest.mark.parametrize("route", ["relay", "direct"])
def test_a_sum_takes_two_messages_from_every_client_to_every_other(clients, route):
    fed, _ = simulate([[1.0, 2.0, 3.0]] * clients, Proportional(), route)
    assert len(fed.ledger) == 2 * clients * (clients - 1)
    assert all(sum(m.sender == c for m in fed.ledger) == 2 * clients - 2 for c in fed.clients)


def view(fed, *observers):
    return fed.ledger.view(observers, PublicFacts(fed.clients, fed.server))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("scheme", ["proportional", "ring"])
def test_a_client_reads_its_own_parts_and_all_partial_sums_whatever_the_route(scheme, route):
    fed, _ = simulate([[10.0], [20.0], [30.0]], SCHEMES[scheme], route)
    seen = [(m.topic, m.sender) for m in view(fed, "P2").received(SumPart)]
    part = {"proportional": "sac.part", "ring": "sac.share"}[scheme]
    assert seen == [(part, "P1"), (part, "P3")]
    assert [m.sender for m in view(fed, "P2").received(PartialSum)] == ["P1", "P3"]
    assert all("P2" in (m.sender, m.recipient) for m in view(fed, "P2").messages)


def test_the_relay_reads_every_part_but_the_one_that_stays_home():
    fed, _ = simulate([[10.0], [20.0], [30.0]], Proportional())
    server = view(fed, "server")
    assert {m.relay for m in server.messages} == {"server"}
    pairs = [(a, b) for a in CLIENTS for b in CLIENTS if a != b]
    assert sorted((m.sender, m.recipient) for m in server.received(SumPart)) == pairs
    from_p1 = sum(float(plain(m)[0]) for m in server.on(SumPart, sender="P1"))
    assert 0 < from_p1 < 10


def test_the_relay_of_sealed_messages_reads_keys_only():
    fed, _ = simulate([[10.0], [20.0], [30.0]], Proportional(), "sealed")
    read = {m.topic for m in view(fed, "server").messages if m.content is not None}
    assert read == {"channel.public-key"}
    assert view(fed, "server").topics == {"channel.public-key", "sac.part", "sac.partial"}


def test_the_server_sees_nothing_of_messages_between_clients():
    fed, _ = simulate([[10.0], [20.0], [30.0]], Proportional(), "direct")
    assert not view(fed, "server").messages


def test_a_message_does_not_grow_with_the_number_it_hides():
    for scheme in (Proportional(), Ring()):
        sizes = {m.size for v in (0, 1, 2**70) for m in simulate([[v]] * 3, scheme)[0].ledger}
        assert len(sizes) == 1


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("scheme", ["proportional", "ring"])
def test_the_sum_runs_with_a_process_per_party(scheme, route):
    inputs = {"P1": [1.5, -2.0], "P2": [0.0, 3.0], "P3": [4.25, 1e6]}
    found = assert_same_views(sum_protocol, CLIENTS, inputs, {"scheme": scheme, "route": route})
    np.testing.assert_allclose(found["P3"].value, [5.75, 1000001.0], rtol=1e-15)


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**200))
def test_the_root_of_a_fraction_is_correct_to_float64(square):
    assert abs(Fraction(root(square)) ** 2 / square - 1) < Fraction(1, 2**50)


def test_the_root_of_nothing_is_nothing_and_of_a_number_beyond_float64_is_finite():
    assert root(Fraction(0)) == 0
    assert root(Fraction(10**500)) == pytest.approx(1e250, rel=1e-15)
