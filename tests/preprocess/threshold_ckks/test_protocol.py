"""The protocol gives what its plain counterpart gives, tells each party what it says, and refuses wrong messages."""

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest

pytest.importorskip("tenseal.sealapi")
from leakledger.preprocess.crypto.threshold_ckks import party_steps
from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import LevelError
from leakledger.preprocess.crypto.threshold_ckks.protocol import set_up
from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.messages import (
    CkksContribution,
    CkksDecrypted,
    CkksDecryptionShare,
    CkksFirstSum,
    CkksInput,
    CkksPublicKey,
    Share,
)
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.processes import run_projected
from leakledger.preprocess.transport.simulated import Simulated, run_simulated
from tests.every import every

CLIENTS = ["a", "b", "c"]
NUMBERS = {"a": [0.5, -0.25], "b": [0.125, 1.0], "c": [-1.0, 0.75]}
SMUDGING, FINE = 8, 2.0**-13


def federation(coins=0):
    return Simulated(CLIENTS, secret=pinned("threshold ckks protocol", coins))


def sum_of_inputs(fed, inputs, params):
    """The sum of everyone's numbers, times the first client's."""
    run = set_up(fed, 13, products=params["products"], statistical_bits=20)
    values = [run.encrypted(c, fed.local(c, np.asarray, inputs[c]), 1.0) for c in fed.clients]
    total = run.add(run.add(values[0], values[1]), values[2])
    if params["products"]:
        total = run.multiply(run.ready(total, 1, 4.0), values[0])
    told = run.decrypted(total, 2, SMUDGING)
    return {p: fed.local(p, lambda t: t.numbers, told) for p in fed.everyone}


def simulated(products):
    fed = federation()
    results = sum_of_inputs(fed, {c: fed.at(c, n) for c, n in NUMBERS.items()}, {"products": products})
    return fed, {p: fed.own(r) for p, r in results.items()}


def test_everyone_learns_the_sum_and_the_view_has_exactly_these_messages():
    fed, results = simulated(products=False)
    for numbers in results.values():
        np.testing.assert_allclose(numbers, np.sum(list(NUMBERS.values()), axis=0), atol=FINE)
    topics = Counter(m.topic.removeprefix("threshold-ckks.") for m in fed.ledger)
    per_client = ("public-share", "public-key", "input", "to-decrypt", "decryption-share", "decrypted")
    assert topics == {"seed": 9, **dict.fromkeys(per_client, 3)}
    clear = {m.topic for m in fed.ledger if m.topic == CkksDecrypted.topic}
    assert clear == {"threshold-ckks.decrypted"}


def test_a_product_needs_the_two_rounds_of_its_key():
    fed, results = simulated(products=True)
    expected = np.sum(list(NUMBERS.values()), axis=0) * NUMBERS["a"]
    np.testing.assert_allclose(results["server"], expected, atol=FINE)
    topics = Counter(m.topic.removeprefix("threshold-ckks.") for m in fed.ledger)
    for topic in ("relinearisation-1", "relinearisation-sum", "relinearisation-2"):
        assert topics[topic] == 3


def test_a_refresh_goes_to_all_clients_and_keeps_the_numbers():
    fed = federation()
    run = set_up(fed, 13, products=False, statistical_bits=20)
    value = run.encrypted("a", fed.at("a", np.array([0.5, -0.25])), 1.0)
    for _ in range(2):
        value = run.multiply_constant(value, 0.5)
    fresh = run.ready(value, 1, 1.0)
    assert fresh.level == run.parameters.top - 1 == 2
    np.testing.assert_allclose(run.decrypted(fresh, 2, SMUDGING).value.numbers, [0.125, -0.0625], atol=FINE)
    topics = Counter(m.topic.removeprefix("threshold-ckks.") for m in fed.ledger)
    assert topics["to-refresh"] == topics["refresh-share"] == 3
    with pytest.raises(LevelError, match="no 3 products between refreshes"):
        run.ready(value, 3, 1.0)


def test_a_rotation_key_is_made_together_too():
    fed = federation()
    run = set_up(fed, 13, products=False, rotations=(1,))
    value = run.encrypted("b", fed.at("b", np.array([0.5, -0.25])), 1.0)
    rotated = fed.local(fed.server, lambda evaluator, v: evaluator.rotate(v, 1), run.evaluator, value.at)
    assert abs(run.decrypted(type(value)(rotated, value.level), 1, SMUDGING).value.numbers + 0.25) < FINE


@pytest.mark.slow
def test_the_projected_run_gives_the_same():
    given = sum_of_inputs, CLIENTS, NUMBERS, {"products": False}
    projected = run_projected(*given, secret=pinned(1), timeout=60)
    for party, expected in run_simulated(*given, secret=pinned(1)).items():
        np.testing.assert_array_equal(projected[party].value, expected.value)


def test_a_share_that_was_changed_and_an_input_of_another_context_are_refused(monkeypatch):
    fed = federation()
    run = set_up(fed, 13, products=False)
    value = run.encrypted("a", fed.at("a", np.array([0.5])), 1.0)
    honest = party_steps.decryption_share

    def cut(*given) -> CkksDecryptionShare:
        return CkksDecryptionShare(Share(honest(*given).share.value[:-1]))

    with monkeypatch.context() as patched:
        patched.setattr(party_steps, "decryption_share", cut)
        with pytest.raises(FederationError, match=r"server refuses a message of a: a decryption share was changed"):
            run.decrypted(value, 1, SMUDGING)
    other_fed = federation(1)
    other = set_up(other_fed, 13, products=False)
    stray = other_fed.own(
        other_fed.local(
            "b", party_steps.encrypted_input, other.public_key, np.array([0.5]), 1.0, other.sources["b"], None
        )
    )

    def of_another(*given) -> CkksInput:
        return stray

    monkeypatch.setattr(party_steps, "encrypted_input", of_another)
    with pytest.raises(FederationError, match=r"server refuses a message of a: a ciphertext is of another collective"):
        run.encrypted("a", fed.at("a", np.array([0.5])), 1.0)


@every(
    ("kind", "sender"),
    [(CkksContribution, "the clients"), (CkksPublicKey, "server"), (CkksFirstSum, "server")],
)
def test_what_was_told_to_everyone_and_changed_is_refused_by_the_name_of_its_sender(kind, sender):
    class Cutting(Simulated):
        def _decode(self, header, received):
            payload = super()._decode(header, received)
            if type(payload) is not kind:
                return payload
            return replace(payload, **{f.name: getattr(payload, f.name)[:-1] for f in fields(payload)})

    fed = Cutting(CLIENTS, secret=pinned("threshold ckks protocol", 0))
    with pytest.raises(FederationError, match=rf"^all refuse a message of {sender}: .* \(step threshold-ckks: keys, "):
        set_up(fed, 13)


def test_numbers_beyond_the_bound_stay_at_their_party():
    fed = federation()
    run = set_up(fed, 13, products=False)
    with pytest.raises(ValueError, match=r"not within \[-1, 1\]"):
        run.encrypted("a", fed.at("a", np.array([1.5])), 1.0)
    assert CkksInput.topic not in {m.topic for m in fed.ledger}
