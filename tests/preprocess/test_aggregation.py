"""Secure and encrypted aggregation: the mean is the plain one, whoever drops; what cannot be is refused."""

import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.aggregation.base import mean_of_sum, to_vector, weighted_mean
from leakledger.preprocess.aggregation.secure_aggregation import STEPS, SecureAggregation
from leakledger.preprocess.crypto import seal
from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.messages import (
    ClientGradient,
    ClientWeights,
    EncryptedUpdate,
    GlobalModel,
    MaskedUpdate,
    RevealedShares,
)
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import PublicFacts
from tests.preprocess.registered import aggregations, made

SHAPES = {"0.weight": (3, 2), "0.bias": (3,), "1.weight": (1, 3)}
FLOAT32 = 2.0**-24  # relative, of rounding the mean


def updates(clients, seed=0, size=1.0, rows=None, kind=ClientGradient):
    coins = np.random.default_rng(seed)
    counts = rows or [int(n) for n in coins.integers(1, 500, clients)]
    return [
        kind(n, {name: (size * coins.normal(size=shape)).astype(np.float32) for name, shape in SHAPES.items()})
        for n in counts
    ]


def aggregate(method, offered, *, clients=None, round=0, fed=None):
    """The mean of the updates, at the first party that has it, and the federation."""
    fed = fed or Simulated([f"P{i + 1}" for i in range(clients or len(offered))], secret=pinned("aggregation"))
    zeros = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    with fed.scope("train", round):
        kept = method.begin(fed)
        holders = fed.clients if method.at_clients else [fed.server]
        located = {c: method.offer(fed, c, fed.at(c, u), type(u)) for c, u in zip(fed.clients, offered, strict=False)}
        mean = method.mean(fed, kept, located, {p: fed.at(p, zeros) for p in holders})
    return {p: fed.own(w) for p, w in mean.items()}, fed


def plain_mean(offered):
    arrays = [to_vector(u)[:-1] / u.rows for u in offered]
    return np.average(arrays, axis=0, weights=[u.rows for u in offered])


def assert_mean(found, offered, precision):
    expected = plain_mean(offered)
    (shape,) = {tuple(w) for w in [found.keys()]}
    assert shape == tuple(SHAPES)
    flat = to_vector(ClientGradient(1, found))[:-1]
    assert (np.abs(flat - expected) <= precision + FLOAT32 * np.abs(expected)).all()


def precision_of(method, offered):
    """What the two protocols state; ten standard deviations of the encrypted one."""
    rows, n = sum(u.rows for u in offered), len(offered)
    if isinstance(method, SecureAggregation):
        return n / rows * 2.0 ** -(method.fraction_bits + 1)
    return 10 * 290 * np.sqrt(n) / rows * 2.0**-36


@pytest.mark.parametrize("name", aggregations())
@given(n=st.integers(2, 6), seed=st.integers(0, 2**32), size=st.sampled_from([1e-6, 1.0, 1e3]))
@settings(max_examples=15, deadline=None)
def test_the_mean_is_the_plain_one_within_the_stated_precision(name, n, seed, size):
    method, offered = made(name), updates(n, seed, size)
    found, _ = aggregate(method, offered)
    for mean in found.values():
        assert_mean(mean, offered, precision_of(method, offered) if name != "plain" else 0.0)


@given(
    bits=st.sampled_from([(64, 8), (64, 32), (64, 40), (32, 8), (32, 14)]),
    n=st.integers(2, 7),
    seed=st.integers(0, 2**32),
    round=st.integers(0, 10**6),
)
@settings(max_examples=30, deadline=None)
def test_masked_sums_are_exact_but_for_rounding_each_number_once(bits, n, seed, round):
    method = SecureAggregation(ring_bits=bits[0], fraction_bits=bits[1])
    offered = updates(n, seed, rows=list(range(1, n + 1)))
    found, _ = aggregate(method, offered, round=round)
    assert_mean(found["server"], offered, precision_of(method, offered))


@pytest.mark.parametrize("step", STEPS)
@given(n=st.integers(3, 8), data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_clients_that_drop_at_any_step_do_not_hinder_the_others(step, n, data, seed):
    dropouts = data.draw(st.integers(1, n - 2))
    threshold = data.draw(st.integers(2, n - dropouts))
    method, offered = SecureAggregation(threshold, dropouts=dropouts, dropout_step=step), updates(n, seed)
    found, _ = aggregate(method, offered)
    left = offered if step == "unmasking" else offered[: n - dropouts]  # its masked update had arrived
    assert_mean(found["server"], left, precision_of(method, left))


@pytest.mark.parametrize("step", STEPS)
def test_fewer_clients_than_the_threshold_end_the_run_for_all_before_there_is_a_sum(step):
    method = SecureAggregation(4, dropouts=2, dropout_step=step)
    fed = Simulated(["P1", "P2", "P3", "P4", "P5"], secret=pinned("few"))
    with pytest.raises(ValueError, match=rf"3 of 5 clients are left in {step}, fewer than the threshold 4") as refused:
        aggregate(method, updates(5), fed=fed)
    assert "\n" not in str(refused.value)
    (abort,) = fed.ledger.aborts
    assert (abort.party, abort.step, abort.reason) == ("server", step, "TooFewClients")
    later = {m.step for m in fed.ledger} & set(STEPS[STEPS.index(step) + 1 :])
    assert later == set()


@pytest.mark.parametrize(
    ("options", "clients", "problem"),
    [
        ({"threshold": 6}, 5, "threshold 6 is above the 5 clients of a round"),
        ({}, 1, "needs at least 2 clients a round, got 1"),
        ({"ring_bits": 32, "fraction_bits": 31}, 5, "leave 5 clients no room"),
    ],
)
def test_options_that_do_not_fit_the_clients_are_refused(options, clients, problem):
    with pytest.raises(ValueError, match=problem):
        SecureAggregation(**options).check(clients)


@pytest.mark.parametrize("name", [a for a in aggregations() if "plain" not in a.values])
@pytest.mark.parametrize("value", [1e30, np.inf, np.nan])
def test_an_update_beyond_the_range_names_the_client_and_no_number(name, value):
    offered = updates(3)
    offered[1].gradient["0.bias"][0] = value
    with pytest.raises(ValueError, match=r"the update of P2 cannot be .* beyond the range .*; lower") as refused:
        aggregate(made(name), offered)
    assert "e+30" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_largest_numbers_that_fit_do_not_wrap_around():
    method, n = SecureAggregation(), 5
    most = method.ring.limit(n) * (1 - 1e-9)
    offered = [ClientWeights(1, {k: np.full(s, most, np.float64) for k, s in SHAPES.items()}) for _ in range(n)]
    found, _ = aggregate(method, offered)
    assert_mean(found["server"], offered, 1e-3)


# Who sees what --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [a for a in aggregations() if "plain" not in a.values])
def test_nobody_is_told_an_update_and_the_server_no_count(name):
    _, fed = aggregate(made(name), updates(4))
    for m in fed.ledger:
        assert not issubclass(m.kind, (ClientGradient, ClientWeights, GlobalModel))
    seen = fed.ledger.view(["server"], PublicFacts(fed.clients, fed.server))
    assert not any(m.content for m in seen.messages if m.topic.endswith((".shares", ".key")) and m.sealed)


@pytest.mark.parametrize(("name", "kind"), [("secure-aggregation", MaskedUpdate), ("he-aggregation", EncryptedUpdate)])
def test_the_same_update_looks_different_in_every_round_and_under_every_secret(name, kind):
    if name == "he-aggregation":
        pytest.importorskip("tenseal")
    method, bodies = made(name), set()
    for secret in ("one", "other"):
        fed = Simulated(["P1", "P2", "P3"], secret=pinned(secret))
        for round in range(2):
            aggregate(method, updates(3), fed=fed, round=round)
        bodies |= {m.body for m in fed.ledger if m.kind is kind and m.sender == "P1"}
    assert len(bodies) == 4


def test_a_masked_update_is_uniform_and_no_two_have_a_byte_pattern_in_common():
    big = {"w": np.zeros(40_000, np.float32)}
    fed = Simulated(["P1", "P2", "P3"], secret=pinned("uniform"))
    method = SecureAggregation()
    with fed.scope("train", 0):
        located = {c: fed.at(c, ClientGradient(1, big)) for c in fed.clients}
        method.mean(fed, {}, located, {"server": fed.at("server", big)})
    for m in (m for m in fed.ledger if m.kind is MaskedUpdate):
        words = m.payload.masked.value
        counts = np.bincount(words.view(np.uint8), minlength=256)
        assert abs(counts - counts.mean()).max() < 6 * np.sqrt(counts.mean())


@pytest.mark.parametrize("step", STEPS)
def test_of_no_client_both_secrets_are_revealed(step):
    """Shares of a seed belong to survivors, shares of a key to those that shared and did not survive."""
    n, gone = 5, step == "masked-input"
    _, fed = aggregate(SecureAggregation(3, dropouts=1, dropout_step=step), updates(n))
    for m in (m for m in fed.ledger if m.kind is RevealedShares):
        left = n if step == "unmasking" else n - 1
        assert (len(m.payload.seeds.value), len(m.payload.keys.value)) == (left, int(gone))


# What was changed on the way ------------------------------------------------------------------------------------------


class Tampering(Simulated):
    """Changes the content of the messages of one kind as they arrive."""

    def __init__(self, *args, kind, change, **options):
        super().__init__(*args, **options)
        self.kind, self.change, self.left = kind, change, 1

    def _decode(self, header, received):
        payload = super()._decode(header, received)
        if type(payload).__name__ == self.kind and self.left:
            self.left -= 1
            return self.change(payload)
        return payload


def other_words(name):
    def change(payload):
        share = getattr(payload, name)
        return replace(payload, **{name: replace(share, value=share.value ^ np.uint64(1))})

    return change


def cut(name):
    def change(payload):
        share = getattr(payload, name)
        return replace(payload, **{name: replace(share, value=share.value[:-1])})

    return change


DROPPING = SecureAggregation(3, dropouts=1)
TAMPERED = {
    "a share of a seed": ("RevealedShares", other_words("seeds"), "refuses .* the revealed shares"),
    "a share of a key": ("RevealedShares", other_words("keys"), "refuses .* the revealed shares"),
    "a missing share": ("RevealedShares", cut("seeds"), "it is no share of"),
    "a share on its way": ("SecretShares", cut("shares"), "P2 refuses a message of P1: it is no share of"),
    "a shorter vector": (
        "MaskedUpdate",
        cut("masked"),
        "server refuses a message of P1: it is no vector of 13 numbers",
    ),
    "a missing key": ("MaskKeys", lambda p: replace(p, keys=p.keys[:-1]), "P1 refuses .* no list of at least 3"),
    "a client whose share would be at zero": (
        "MaskKeys",
        lambda p: replace(p, clients=[*p.clients[:-1], -1]),
        "P1 refuses a message of server: it is no list of at least 3 different keys",
    ),
    "a client beyond the field": (
        "MaskKeys",
        lambda p: replace(p, clients=[*p.clients[:-1], 2**61 - 2]),
        "P1 refuses a message of server: it is no list of at least 3 different keys",
    ),
    "another key": (
        "MaskKeys",
        lambda p: replace(p, keys=[bytes([9, *k[1:]]) for k in p.keys]),
        "has another one under the recipient's own",
    ),
    "a key of low order": (
        "MaskKeys",
        lambda p: replace(p, keys=[p.keys[0], bytes(32), *p.keys[2:]]),
        "no point of X25519",
    ),
    "too few survivors": ("Survivors", lambda p: replace(p, clients=p.clients[:1]), "no list of at least 3 clients"),
    "a survivor that never shared": ("Survivors", lambda p: replace(p, clients=[0, 1, 9]), "no list of at least 3"),
    "a stranger among the sharers": ("Sharers", lambda p: replace(p, clients=[0, 1, 9]), "no list of at least 3"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_was_changed_is_refused_in_one_line_and_no_mean_comes_out(what):
    kind, change, problem = TAMPERED[what]
    fed = Tampering(["P1", "P2", "P3", "P4"], secret=pinned("tampered"), kind=kind, change=change)
    with pytest.raises(FederationError, match=problem) as refused:
        aggregate(DROPPING, updates(4), fed=fed)
    assert "\n" not in str(refused.value)
    assert fed.left == 0
    assert fed.ledger.aborts


def test_a_share_sealed_for_another_is_refused_where_a_bit_of_it_was_changed():
    class Flipping(Simulated):
        def _open(self, header, body):
            if header.topic == "secure-aggregation.shares":
                body = bytes([body[0] ^ 1, *body[1:]])
            return super()._open(header, body)

    with pytest.raises(FederationError, match=r"P2 refuses a message: the seal is broken .*secure-aggregation\.shares"):
        aggregate(SecureAggregation(), updates(3), fed=Flipping(["P1", "P2", "P3"], secret=pinned("flip")))


def test_updates_under_keys_of_different_contexts_are_refused_in_one_line():
    pytest.importorskip("tenseal")
    method = made("he-aggregation")

    def other(payload):
        return replace(payload, key=bytes(32))

    fed = Tampering(["P1", "P2", "P3"], secret=pinned("contexts"), kind="SharedKey", change=other)
    with pytest.raises(
        FederationError, match="P2 encrypts under another key or scale than P1: their contexts"
    ) as refused:
        aggregate(method, updates(3), fed=fed)
    assert "\n" not in str(refused.value)


def test_a_sum_under_another_context_or_of_another_length_is_refused():
    pytest.importorskip("tenseal")
    method = made("he-aggregation")

    def renamed(payload):
        return replace(
            payload, ciphertexts=replace(payload.ciphertexts, value=[b"x" * 16, *payload.ciphertexts.value[1:]])
        )

    def doubled(payload):
        value = payload.ciphertexts.value
        return replace(payload, ciphertexts=replace(payload.ciphertexts, value=[*value, value[-1]]))

    for change, problem in ((renamed, "their contexts differ"), (doubled, "2 ciphertexts do not hold 13 numbers")):
        fed = Tampering(["P1", "P2", "P3"], secret=pinned("sums"), kind="EncryptedSum", change=change)
        with pytest.raises(FederationError, match=problem):
            aggregate(method, updates(3), fed=fed)


def test_without_tenseal_encryption_is_refused_in_a_line_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tenseal.sealapi", None)
    seal.sealapi.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"he-aggregation needs tenseal; install leakledger\[he\]"):
            seal.check_installed("he-aggregation", made("he-aggregation").extra)
    finally:
        seal.sealapi.cache_clear()


def test_vectors_and_means_are_inverse():
    (update,) = updates(1)
    back = mean_of_sum(to_vector(update), update.gradient)
    assert all(np.allclose(back[name], a, rtol=1e-6) for name, a in update.gradient.items())
    assert list(back) == list(update.gradient)
    assert weighted_mean([update.gradient] * 2, [1, 5]).keys() == back.keys()


def test_steps_are_those_of_the_paper_in_order():
    assert all(STEPS.index(a) + 1 == STEPS.index(b) for a, b in pairwise(STEPS))
    assert set(AGGREGATIONS) == {"plain", "secure-aggregation", "he-aggregation"}
