"""Which rounds of a played federation have the very same rows, for those who see one client's update or a sum."""

import pytest

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.repeats import with_repeats
from leakledger.attacks.observed.updates import find_updates
from leakledger.audit.play import view_of
from tests.audit.example import truth


@pytest.fixture(scope="module")
def federation():
    return truth(
        training={"rounds": 4, "batch_size": 0},
        partition={"kind": "iid", "parties": 3},
        data={"rows": 60},
        defense={"name": "gaussian-noise", "sigma": 0.01},
        audit={"seeds": [0], "jobs": 1, "baseline_draws": 3},
    )


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
