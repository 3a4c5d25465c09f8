"""Updates that were taken out of ciphertexts carry the noise of these: exact attacks reckon with it."""

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import Abstained, AuxiliaryKnowledge
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.audit.cells import Cells
from leakledger.audit.play import view_of
from leakledger.audit.scoring.records import compare, proven
from tests.audit.example import truth

NOTHING = AuxiliaryKnowledge()


def opened(scale_bits):
    """A federation and what the server sees with a client's key."""
    found = truth(
        data={"source": "fair", "rows": 400},
        model={"hidden": [100, 100]},
        training={"rounds": 1, "batch_size": 4, "aggregation": "he-aggregation", "scale_bits": scale_bits},
    )
    return found, view_of(["server", "P1"], found)


@pytest.mark.parametrize("scale_bits", [28, 36, 44])
def test_whole_rows_come_back_and_some_are_proven_whatever_the_scale_of_the_ciphertexts(scale_bits):
    found, view = opened(scale_bits)
    attack = ATTACKS["span"]()
    claims = attack.run(view.restricted(attack.accepts), NOTHING)
    matches = [
        compare(Cells(c.categories, c.numbers), found.batch(c.victim, c.round), found.deviations) for c in claims
    ]
    assert [int(m.claimed_identical.sum()) for m in matches] == [4, 4]
    certain, false = np.sum([proven(c, m) for c, m in zip(claims, matches, strict=True)], axis=0)
    assert certain >= 4
    assert false == 0


def test_where_the_ciphertexts_are_noisier_than_any_neuron_the_attack_abstains():
    view = opened(20)[1]
    attack = ATTACKS["span"]()
    outcome = attack.run(view.restricted(attack.accepts), NOTHING)
    assert isinstance(outcome, Abstained), outcome


def test_the_noise_of_an_opened_update_is_that_of_its_ciphertext_or_none_where_rounding_is_more():
    loud, quiet = (find_gradients(opened(bits)[1], NOTHING)[0].noise for bits in (28, 50))
    assert loud == pytest.approx(290 * 2**-28 / 4, rel=0.01)
    assert quiet == 0


def test_searches_through_a_row_space_that_noise_turns_are_left_out_and_others_are_not(monkeypatch):
    tried = []
    monkeypatch.setattr("leakledger.attacks.gradient.portfolio.exact.searched", lambda *given: tried.append(1) or [])
    options = {"tableak": {"restarts": 1, "iterations": 1}, "posterior": {"chains": 2, "sweeps": 1, "repairs": 1}}
    for scale_bits, expected in ((20, 0), (36, 2)):
        found, view = opened(scale_bits)
        known = AuxiliaryKnowledge(labels={(p, 0): found.labels(p, 0) for p in ("P2", "P3")})
        attack = ATTACKS["portfolio"](**options)
        assert len(attack.run(view.restricted(attack.accepts), known)) == 2
        assert len(tried) == expected
