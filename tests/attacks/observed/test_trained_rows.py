"""Row counts of updates and their sums are claimed as what they are, also where early stopping holds rows back."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leakledger.attacks.base import AuxiliaryKnowledge, StatisticClaim
from leakledger.attacks.observed.evaluated import rows_behind
from leakledger.attacks.observed.trained_rows import _determined, narrowed_rows
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.attacks.transcript.statistics import Statistics
from leakledger.audit.play import view_of
from leakledger.preprocess.training.base import validation_rows
from tests.audit.example import truth

UNTOLD = {"encoder": "rolling-hash", "scaler": "local"}  # which tell nobody how many rows there are
FEDAVG = {"algorithm": "fedavg", "rounds": 1, "batch_size": 4, "local_epochs": 1}


def counts(
    observers, *, parties=3, attack=None, hidden=(), methods=UNTOLD, partition=None, defense=None, rows=90, **training
):
    """Each party's number of training rows as it is claimed: (low, estimate, high), and what is true."""
    whole = truth(
        data={"source": "fair", "rows": rows},
        partition=partition or {"kind": "iid", "parties": parties},
        preprocessing=[methods],
        **({"defense": [defense]} if defense else {}),
        training={"rounds": 1, **training},
    )
    attack = attack or Statistics()
    view = view_of(observers, whole).restricted(lambda kind: attack.accepts(kind) and kind.topic not in hidden)
    found = attack.run(view, AuxiliaryKnowledge())
    claims = [c for c in found if isinstance(c, StatisticClaim)] if isinstance(found, list) else []
    told = {c.party: (c.low, c.estimate, c.high) for c in claims if c.statistic == "count"}
    return told, {p: whole.statistic(p, "", "count") for p in whole.parties}


def exactly(true, *parties):
    return {p: (true[p],) * 3 for p in parties or true}


@pytest.mark.parametrize("attack", [Plaintext(), Statistics()])
def test_weights_count_the_rows_that_early_stopping_left_and_not_all(attack):
    told, true = counts(["server"], attack=attack, **FEDAVG, patience=1)
    assert told.keys() == true.keys()
    assert all(low <= true[p] <= high for p, (low, _, high) in told.items())


def test_with_the_validation_rows_that_are_told_beside_them_the_number_is_exact():
    told, true = counts(["server"], **FEDAVG, patience=1)
    assert told == exactly(true)
    assert all(
        low <= true[p] <= high
        for p, (low, _, high) in counts(["server"], **FEDAVG, patience=1, hidden=["train.validation"])[0].items()
    )


@given(rows=st.integers(1, 5_000), share=st.floats(0.01, 0.99))
@example(rows=1, share=0.1)  # which is trained on, and nothing validates
def test_the_true_number_is_always_among_those_behind_the_rows_that_are_left(rows, share):
    assert rows in rows_behind(rows - validation_rows(share, rows), share)


def test_a_gradient_of_all_rows_tells_their_number_and_one_of_a_batch_does_not():
    told, true = counts(["server"], batch_size=0)
    assert told == exactly(true)
    assert counts(["server"], batch_size=500)[0] == exactly(true)
    assert counts(["server"], batch_size=4)[0] == {}


@pytest.mark.parametrize("training", [{"batch_size": 0}, FEDAVG])
def test_whoever_opens_a_sum_has_the_rows_of_the_only_client_outside(training):
    pytest.importorskip("tenseal")
    told, true = counts(["P2"], parties=2, aggregation="he-aggregation", **training)
    assert told == exactly(true, "P1")
    assert counts(["P2"], aggregation="he-aggregation", **training)[0] == {}  # of two others
    told, true = counts(["P1", "P3"], aggregation="he-aggregation", **training)
    assert told == exactly(true, "P2")


def test_masks_hide_the_rows_of_single_clients_from_all_but_a_coalition_of_all_others():
    told, true = counts(["server", "P1", "P2"], aggregation="secure-aggregation", batch_size=0)
    assert told == exactly(true, "P3")
    assert counts(["server"], aggregation="secure-aggregation", batch_size=0)[0] == {}
    assert counts(["P1", "P2"], aggregation="secure-aggregation", batch_size=0)[0] == {}


@pytest.mark.parametrize("training", [{"batch_size": 0, "algorithm": "fedsgd"}, FEDAVG])
def test_sums_over_other_clients_in_each_round_tell_the_server_the_rows_of_each(training):
    masked = {**training, "aggregation": "secure-aggregation", "threshold": 2, "participation": 0.67}
    told, true = counts(["server"], **{**masked, "rounds": 8})
    assert told == exactly(true)
    assert counts(["server"], **{**masked, "rounds": 1})[0] == {}


def test_a_client_that_takes_part_in_some_rounds_only_reads_the_rows_of_two_others_from_several():
    pytest.importorskip("tenseal")
    told, true = counts(["P1"], **{**FEDAVG, "rounds": 8}, aggregation="he-aggregation", participation=0.67, parties=3)
    assert told == exactly(true, "P2", "P3")


OWN_COLUMNS = {"encoder": "uhe", "scaler": "local"}
UNLIKE = {"kind": "divergent", "parties": 2, "minimum": 10}


@pytest.mark.parametrize("training", [{"batch_size": 0}, FEDAVG, {**FEDAVG, "optimizer": "adam"}])
def test_two_models_tell_a_client_the_rows_of_the_other_by_its_own_columns_under_uhe(training):
    for own, other in (("P1", "P2"), ("P2", "P1")):
        told, true = counts([own], methods=OWN_COLUMNS, partition=UNLIKE, **training)
        assert told == exactly(true, other)
    assert true["P1"] != true["P2"]


def test_models_tell_a_client_the_rows_of_two_others_where_it_meets_them_in_different_rounds():
    told, true = counts(["P1"], methods=OWN_COLUMNS, **{**FEDAVG, "rounds": 8}, participation=0.67)
    assert told == exactly(true, "P2", "P3")
    assert counts(["P1"], methods=OWN_COLUMNS, **FEDAVG)[0] == {}
    assert counts(["P1", "P3"], methods=OWN_COLUMNS, **FEDAVG)[0] == exactly(true, "P2")


@pytest.mark.parametrize("options", [{}, {"unused": "drop"}])
@pytest.mark.parametrize("encoder", ["dh-psi", "apsi", "otmp-psi"])
def test_two_models_tell_a_client_the_rows_of_the_other_by_its_own_values_in_no_intersection(encoder, options):
    pytest.importorskip("tenseal") if encoder == "apsi" else None
    asked = {"methods": {"encoder": encoder, "scaler": "local", **options}, "partition": UNLIKE}
    for own, other in (("P1", "P2"), ("P2", "P1")):
        told, true = counts([own], **asked, **FEDAVG)
        assert told == exactly(true, other)
    assert true["P1"] != true["P2"]


def test_of_values_that_may_be_the_others_no_rows_follow():
    upward = {"methods": {"encoder": "dh-psi", "scaler": "local", "directions": "upward"}, "partition": UNLIKE}
    assert counts(["P1"], **upward, **FEDAVG)[0] == {}  # it is not told which of its values the later one has
    told, true = counts(["P2"], **upward, **FEDAVG)
    assert told == exactly(true, "P1")
    assert counts(["P1"], **upward, **FEDAVG, hidden=["dh-psi.answer"])[0] == {}


def test_a_value_that_a_client_shares_with_some_tells_the_rows_of_those_who_lack_it():
    meeting = {**FEDAVG, "rounds": 8, "participation": 0.67}
    asked = {"methods": {"encoder": "dh-psi", "scaler": "local"}, "partition": {**UNLIKE, "parties": 3}}
    told, true = counts(["P1"], **asked, **meeting)
    assert told == exactly(true, "P2", "P3")


def told(**ends):
    return [
        StatisticClaim(p, "", "count", float(low), low, high, (i,)) for i, (p, (low, high)) in enumerate(ends.items())
    ]


def test_the_sum_of_a_round_narrows_down_what_held_out_rows_leave_of_two_clients_under_masks():
    """Held-out rows leave five numbers of each; nothing put them together with the sum, which is exact."""
    masked = {**FEDAVG, "parties": 2, "aggregation": "secure-aggregation", "threshold": 2}
    widths = []
    for rows in (80, 85, 91):
        partition = {"kind": "dirichlet-quantity", "beta": 2.0, "parties": 2}
        alone, true = counts(["server"], attack=Plaintext(), partition=partition, rows=rows, **masked)
        found, _ = counts(["server"], partition=partition, rows=rows, **masked)
        assert all(low <= true[p] <= high for p, (low, _, high) in found.items())
        widths += [(high - low, alone[p][2] - alone[p][0]) for p, (low, _, high) in found.items()]
    assert widths
    assert all(now < before for now, before in widths)


def test_of_sums_over_batches_no_number_of_rows_is_narrowed_down():
    masked = {"parties": 2, "aggregation": "secure-aggregation", "threshold": 2, "batch_size": 4}
    assert counts(["server"], **masked)[0] == {}


def test_sums_that_no_bounds_allow_narrow_nothing_down():
    whole = truth(
        data={"source": "fair", "rows": 90},
        partition={"kind": "iid", "parties": 2},
        preprocessing=[UNTOLD],
        training={**FEDAVG, "aggregation": "secure-aggregation", "threshold": 2},
    )
    view = view_of(["server"], whole)
    assert list(narrowed_rows(view, told(P1=(1, 3), P2=(1, 3)))) == []
    assert {c.party for c in narrowed_rows(view, told(P1=(1, 90), P2=(30, 40)))} == {"P1"}


def test_no_rows_follow_from_batches_noise_or_a_mean_in_which_every_client_counts_alike():
    asked = {"methods": OWN_COLUMNS, "partition": UNLIKE}
    assert counts(["P1"], **asked, batch_size=4)[0] == {}
    assert counts(["P1"], **asked, **FEDAVG, weighting="clients")[0] == {}
    noise = {"name": "gaussian-noise", "sigma": 0.01}
    assert counts(["P1"], **asked, defense=noise, **FEDAVG)[0] == {}


@given(st.lists(st.integers(1, 500), min_size=2, max_size=7), st.data())
def test_what_sums_determine_is_true_and_what_they_leave_open_is_not_told(rows, data):
    clients = [f"P{i}" for i in range(len(rows))]
    groups = data.draw(st.lists(st.sets(st.sampled_from(range(len(rows))), min_size=1), min_size=1, max_size=9))
    sums = [(frozenset(clients[i] for i in g), sum(rows[i] for i in g), (k,)) for k, g in enumerate(groups)]
    told = {client: n for client, n, _ in _determined(sums)}
    assert all(told[c] == rows[clients.index(c)] for c in told)
    rank = np.linalg.matrix_rank
    matrix = np.array([[float(i in g) for i in range(len(rows))] for g in groups])
    follows = [rank(np.vstack([matrix, np.eye(len(rows))[i]])) == rank(matrix) for i in range(len(rows))]
    assert {c for c, sure in zip(clients, follows, strict=True) if sure} == told.keys()


def test_sums_that_disagree_tell_nothing():
    pair, one, other = frozenset("AB"), frozenset("A"), frozenset("B")
    assert list(_determined([(pair, 9, (0,)), (one, 4, (1,))])) == [("A", 4, (1,)), ("B", 5, (0, 1))]
    assert list(_determined([(pair, 9, (0,)), (pair, 8, (1,)), (one, 4, (2,))])) == []
    assert list(_determined([(pair, 9, (0,)), (one, 4, (1,)), (other, 4, (2,))])) == []
    assert list(_determined([(pair, 4, (0,)), (one, 4, (1,))])) == [("A", 4, (1,))]
