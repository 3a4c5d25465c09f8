"""The signs of what docs/findings.md states, on fewer rows and one seed."""

import pytest

from audit.adversaries import observer_sets
from audit.case import cases
from audit.config import Config
from audit.federate import federate
from audit.play import Play, view_of
from audit.run import attempts, granted_knowledge, make_attack
from audit.scoring import score
from audit.truth import Truth

METHODS = {
    "plain": {"encoder": "server-dictionary", "scaler": "server-zscore"},
    "uhe": {"encoder": "uhe", "scaler": "zscore-sac"},
    "psi": {"encoder": "dh-psi", "scaler": "zscore-sac", "route": "sealed"},
    "ring": {"encoder": "otmp-psi", "scaler": "zscore-sac", "sharing": "ring", "route": "sealed"},
    "open ring": {"encoder": "uhe", "scaler": "zscore-sac", "sharing": "ring"},
}
ATTACKS = ("plaintext", "statistics", "ring_size", "vocabulary", "membership", "sac_audit")


def played(method):
    """(attack, observers) -> trials and claims, of every attack by the server, each client and each pair."""
    config = Config.model_validate(
        {
            "data": {"rows": 500},
            "partition": {"kind": "divergent", "parties": 5},
            "preprocessing": METHODS[method],
            "training": {"rounds": 1},
            "attacks": {"dictionaries": "known"},
        }
    )
    case = cases(config)[0]
    truth = Truth(federate(config, case))
    knowledge, found = granted_knowledge(config, truth), {}
    for observers in observer_sets(["server", "clients", "coalitions of 2"], truth.federated.public):
        for name in ATTACKS:
            play = Play(make_attack(name, config, case), view_of(observers, truth), knowledge, truth)
            outcome = play.attack.run(play.view, knowledge)
            coins = truth.federated.fed.own(truth.federated.fed.coins("server"))
            trials = score(play.attack, observers, outcome, knowledge, truth, attempts(config, truth), coins, 1)
            found[name, observers] = trials, list(outcome) if isinstance(outcome, list | tuple) else []
    return found


@pytest.fixture(scope="module")
def found():
    return {method: played(method) for method in METHODS}


def values(found, attack, observers, metric):
    return [t.value for t in found[attack, observers][0] if t.metric == metric]


def sizes(found, observers):
    """The parties of whose dictionaries all sizes are claimed exactly and rightly."""
    return {t.victim for t in found["ring_size", observers][0] if t.metric == "size" and t.value == 1}


def checks(found, observers):
    return {c.check for c in found["sac_audit", observers][1]}


def test_a_server_that_adds_up_plain_summaries_knows_them_all(found):
    for metric in ("count", "mean", "std"):
        assert values(found["plain"], "plaintext", ("server",), metric) == [1.0] * 5
    assert "plaintext-told" in checks(found["plain"], ("server",))


@pytest.mark.parametrize("method", ["uhe", "open ring"])
def test_an_open_relay_reads_every_number_behind_secure_sums_however_they_are_shared(found, method):
    for metric in ("count", "mean", "std"):
        assert values(found[method], "statistics", ("server",), metric) == [1.0] * 5


def test_sealed_uniform_parts_give_nothing_beyond_the_sum(found):
    for observers in (("server",), ("P1",), ("P1", "P2")):
        assert values(found["ring"], "statistics", observers, "count") == []
        assert values(found["ring"], "statistics", observers, "mean") == []
        assert "parts-not-hiding" not in checks(found["ring"], observers)


def test_proportional_parts_are_recognised_by_two_clients_and_bound_the_others_counts(found):
    assert "parts-not-hiding" in checks(found["psi"], ("P1", "P2"))
    claims = [c for c in found["psi"]["statistics", ("P1",)][1] if c.statistic == "count"]
    assert {c.party for c in claims} == {"P2", "P3", "P4", "P5"}
    assert all(0 < c.low < c.high for c in claims)


def test_the_second_of_the_ring_knows_the_first_ones_sizes_and_neighbours_those_between_them(found):
    assert "P1" in sizes(found["uhe"], ("P2",))
    assert "P3" in sizes(found["uhe"], ("P2", "P4"))
    assert "P3" not in sizes(found["uhe"], ("P5",))


@pytest.mark.parametrize("method", ["psi", "ring"])
def test_an_intersection_tells_clients_who_holds_what_and_a_sealed_server_nothing(found, method):
    for metric in ("f1", "auc"):
        attack = "vocabulary" if metric == "f1" else "membership"
        trials = [t for t in found[method][attack, ("P1", "P5")][0] if t.metric == metric]
        assert trials
        assert sum(t.value for t in trials) > sum(t.baseline for t in trials)
    assert values(found[method], "vocabulary", ("server",), "f1") == []
