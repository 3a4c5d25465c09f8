"""Which rounds of a played federation have the very same rows, for those who see one client's update or a sum."""

import pytest

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.gradient.posterior import Posterior
from leakledger.attacks.observed.repeats import with_repeats
from leakledger.attacks.observed.updates import find_updates
from leakledger.audit.play import view_of
from tests.audit.example import truth


def noised(scaler="federated-minmax", **training):
    """Three clients with 16 training rows each."""
    return truth(
        preprocessing=[{"encoder": "server-dictionary", "scaler": scaler}],
        training={"rounds": 4, **training},
        partition={"kind": "iid", "parties": 3},
        data={"rows": 60},
        defense={"name": "gaussian-noise", "sigma": 0.01},
        audit={"seeds": [0], "jobs": 1, "baseline_draws": 3},
    )


@pytest.fixture(scope="module")
def federation():
    return noised(batch_size=0)


@pytest.mark.parametrize("observer", ["server", "P1"])
def test_labels_of_one_round_say_of_how_many_rows_it_is_in_all(federation, observer):
    """A sum of several clients is of as many rows as labels are granted."""
    labels = {(client, 0): federation.labels(client, 0) for client in federation.parties}
    known, view = AuxiliaryKnowledge(labels=labels), view_of((observer,), federation)
    updates = find_updates(view, known, rounds=(0,))
    assert {u.victim for u in updates} == ({"P1", "P2", "P3"} if observer == "server" else {"P2+P3"})
    for u in with_repeats(view, known, updates, find_updates):
        assert [r.round for r in u.repeats] == [0, 1, 2, 3]
        assert {(r.victim, r.rows) for r in u.repeats} == {(u.victim, u.rows)}


@pytest.mark.parametrize(
    ("scaler", "training", "together"),
    [
        ("federated-zscore", {"batch_size": 16}, True),
        ("federated-zscore", {"batch_size": 15}, False),
        ("federated-zscore", {"batch_size": 12, "patience": 9, "validation": 0.25}, True),  # 4 of 16 validate
        ("federated-zscore", {"batch_size": 11, "patience": 9, "validation": 0.25}, False),
        ("federated-minmax", {"batch_size": 16}, False),  # nobody said how many rows it has
    ],
)
def test_a_client_of_just_a_batch_gives_the_same_rows_again_if_it_said_how_many_it_has(scaler, training, together):
    """Its updates look like those of one that has more: each was read behind its own noise."""
    federation = noised(scaler, **training)
    labels = {(client, 0): federation.labels(client, 0) for client in federation.parties}
    known = AuxiliaryKnowledge(labels=labels)
    for observer in ("server", "P1"):
        view = view_of((observer,), federation).restricted(Posterior.accepts)
        for u in with_repeats(view, known, find_updates(view, known, rounds=(0,)), find_updates):
            seen = together and observer == "server"  # who said so to the server did not to others
            assert [r.round for r in u.repeats] == ([0, 1, 2, 3] if seen else [])
