from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.transcript.membership import Membership
from leakledger.preprocess.scalers import SCALERS
from tests.attacks.ring_example import EVERYTHING, FEATURES, SETS, run

DICTIONARY = AuxiliaryKnowledge(dictionaries=EVERYTHING)
ALL_COLUMNS = SCALERS["federated-zscore"](columns="all")


def scores(found, *observers, knowledge=DICTIONARY):
    """(party, feature) -> value -> score."""
    claims = Membership().run(found.view(*observers), knowledge)
    return {(c.party, c.feature): dict(zip(c.values, c.scores, strict=True)) for c in claims}


def test_every_candidate_of_every_other_party_has_a_score_between_0_and_1():
    known = scores(run("dh-psi"), "P3")
    assert set(known) == {(p, f) for p in ("P1", "P2", "P4") for f in FEATURES}
    for (_, feature), found in known.items():
        assert set(found) == set(EVERYTHING[feature])
        assert all(0 <= s <= 1 for s in found.values())


@pytest.mark.parametrize(
    ("encoder", "observers"), [("rolling-hash", ("server",)), ("otmp-psi", ("P1", "P4")), ("dh-psi", ("server", "P3"))]
)
def test_what_is_held_scores_above_what_is_not(encoder, observers):
    found = run(encoder, scaler=ALL_COLUMNS)
    for (party, feature), known in scores(found, *observers).items():
        held = found.held(party, feature)
        if encoder == "dh-psi":  # certain of the observer's own values only
            held, known = held & found.held("P3", feature), {v: known[v] for v in found.held("P3", feature)}
        least = 0.999 if encoder == "rolling-hash" else 1  # a value that nobody listed may share a column
        assert all(known[v] >= least for v in held)
        assert all(known[v] < least for v in set(known) - held)


def test_a_value_that_no_source_speaks_of_has_the_prior_s_score():
    sets = {p: {"ward": ("burns", "xray") if p == "P1" else ("burns", "ent"), "diet": ("full",)} for p in SETS}
    marginals = {"ward": (["ent", "zoo"], np.array([0.9, 0.001]))}
    known = scores(run("otmp-psi", sets), "P1", knowledge=AuxiliaryKnowledge(marginals=marginals))["P2", "ward"]
    assert known["burns"] == 1
    assert known["xray"] == 0
    assert 0 < known["zoo"] < known["ent"] < 1


def test_without_candidates_it_does_not_apply_and_says_why():
    outcome = Membership().run(run("rolling-hash", scaler=ALL_COLUMNS).view("server"), AuxiliaryKnowledge())
    assert isinstance(outcome, NotApplicable)
    assert "dictionary" in outcome.reason


def test_an_unrelated_transcript_ranks_values_no_better_than_chance():
    """The messages of a federation with other sets, read against this one's."""
    coins = np.random.default_rng(0)
    gaps = []
    for seed in range(12):
        sets = {
            p: {f: tuple(coins.choice(EVERYTHING[f], max(len(EVERYTHING[f]) // 2, 1), replace=False)) for f in FEATURES}
            for p in SETS
        }
        other = run("rolling-hash", sets, scaler=ALL_COLUMNS, seed=seed)
        for (party, feature), known in scores(other, "server").items():
            held = set(SETS[party][feature])
            inside, outside = ([s for v, s in known.items() if (v in held) == side] for side in (True, False))
            if inside and outside:
                gaps.append(np.mean(inside) - np.mean(outside))
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / np.sqrt(len(gaps))


def test_an_empty_view_does_not_apply():
    assert isinstance(Membership().run(replace(run("uhe").view("P2"), messages=()), DICTIONARY), NotApplicable)
