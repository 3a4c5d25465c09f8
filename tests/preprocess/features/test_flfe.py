"""Algorithms 1 to 3: what is made, who is told what, and what is refused."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.crypto.ckks_public import DIVISION_FLOOD, FLOOD
from leakledger.preprocess.features.flfe import FLFE
from leakledger.preprocess.features.transformations import BINARY, UNARY, binary, unary
from tests.preprocess.contract import assert_same_views
from tests.preprocess.features.whole import BINS, CLIENTS, FEATURES, columns, inputs_of, simulated, whole_flfe

VARIANTS = {
    "as published": ({}, "P1"),
    "counts": ({"sketches": "counts", "ranges": "feature"}, "P2"),
    "labels at the server": ({}, "server"),
    "binned": ({"labels": "binned", "ranges": "feature"}, "P3"),
    "binned at the server": ({"labels": "binned", "ranges": "feature", "sketches": "counts"}, "server"),
    "reused masks": ({"masks": "reused", "mask_signs": True}, "P1"),
    "columns stay": ({"unary": "device"}, "P1"),
    "encrypted": ({"exchange": "encrypted"}, "P1"),
    "encrypted at the server": ({"exchange": "encrypted-at-server", "transformations": ["square", "sum"]}, "P1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("classes", [2, 3])
def test_it_runs_with_a_process_per_party(variant, classes):
    options, holder = VARIANTS[variant]
    held, labels = columns(classes=classes)
    chosen = {"bins": BINS, "threshold": 0.5, "transformations": ["square", "sum", "product", "quotient"], **options}
    params = {"flfe": chosen, "features": FEATURES, "classes": classes, "holder": holder}
    found = assert_same_views(whole_flfe, CLIENTS, inputs_of(held, labels, holder), params)
    pairs = 5 * 3  # of features of two devices, three transformations each
    pairs = pairs if "transformations" not in options else 5
    assert len(found["server"].value) == pairs + (0 if options.get("unary") == "device" else 4)


@settings(max_examples=15)
@given(seed=st.integers(0, 99), masks=st.sampled_from(["fresh", "reused"]), signs=st.booleans())
def test_the_server_ends_with_the_transformation_of_the_columns_themselves(seed, masks, signs):
    held, labels = columns(seed=seed)
    _, made = simulated(held, labels, masks=masks, mask_signs=signs, seed=seed)
    everything = {f: x for own in held.values() for f, x in own["columns"].items()}
    assert len(made) == 4 * len(UNARY) + 5 * len(BINARY)
    for task, party, column in made:
        own = [everything[f] for f in task.features]
        expected = (
            unary(task.transformation, "x", *own, labels["labels"])
            if len(own) == 1
            else binary(task.transformation, ("x", "y"), *own)
        )
        assert party == "server"
        assert np.allclose(column, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("exchange", ["encrypted", "encrypted-at-server"])
def test_encrypted_columns_give_the_server_the_same_results(exchange):
    held, labels = columns()
    held["P2"]["columns"]["weight"][:3] = 2e6, -0.0625, 1e-1  # divisors, too
    held["P3"]["columns"]["dose"][:3] = 4e6, 1.0, -0.25
    _, plain = simulated(held, labels, transformations=BINARY)
    fed, made = simulated(held, labels, exchange=exchange)
    expected = {(t.transformation, *t.features): c for t, _, c in plain}
    pairs = {(t.transformation, *t.features): c for t, _, c in made if len(t.features) == 2}
    assert expected.keys() - pairs.keys() == {k for k in expected if (k[0], exchange[-6:]) == ("quotient", "server")}
    for key, column in pairs.items():
        noise = DIVISION_FLOOD if key[0] == "quotient" else FLOOD
        at_server = 7 * 2e-8 * (4e6 + 2e6 if key[0] == "product" else 1.5)
        most = 7 * noise if exchange == "encrypted" else at_server
        assert np.abs(column - expected[key]).max() < most + 2.0**-49 * max(np.abs(expected[key]).max(), 8e6)
    assert not {"flfe.masked", "flfe.masked-result", "flfe.mask"} & {m.topic for m in fed.ledger}
    keys = [m.payload.public for m in fed.ledger if m.topic == "flfe.key"]
    assert len(set(keys)) == len(keys) / 2 == len(pairs)  # one for each loop, at both devices


def test_who_is_sent_ciphertexts_depends_on_where_they_meet():
    held, labels = columns()
    fed, _ = simulated(held, labels, transformations=("sum",), exchange="encrypted")
    topics = {(m.topic, m.sender, m.recipient) for m in fed.ledger if m.topic.startswith("flfe.encrypted")}
    assert ("flfe.encrypted", "P1", "P2") in topics
    assert ("flfe.encrypted-result", "P2", "server") in topics
    assert not [t for t in topics if t[0] == "flfe.encrypted" and t[2] == "server"]
    fed, _ = simulated(held, labels, transformations=("sum",), exchange="encrypted-at-server")
    topics = {(m.topic, m.recipient) for m in fed.ledger if m.topic.startswith("flfe.encrypted")}
    assert topics == {("flfe.encrypted", "server")}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"exchange": "encrypted", "masks": "reused"}, 'masks are for exchange = "masked"'),
        ({"exchange": "encrypted-at-server", "mask_signs": True}, "leave their options out"),
        ({"exchange": "encrypted", "mask_size": 2.0}, "leave their options out"),
        ({"exchange": "encrypted-at-server", "transformations": ("quotient",)}, "nobody divides ciphertexts"),
        ({"exchange": "paillier"}, "exchange"),
    ],
)
def test_options_that_encryption_has_no_use_for_are_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        FLFE(**options)


def test_a_column_without_room_in_a_ciphertext_is_named_and_not_shown():
    held, labels = columns()
    held["P2"]["columns"]["weight"][0] = 5e6
    with pytest.raises(ValueError, match="weight cannot be encrypted: a number is beyond 4194304") as error:
        simulated(held, labels, transformations=("product",), exchange="encrypted")
    assert "5000000" not in str(error.value)
    held["P2"]["columns"]["weight"][0] = 1e-3
    with pytest.raises(ValueError, match="weight cannot be encrypted: a divisor is below 1/16"):
        simulated(held, labels, transformations=("quotient",), exchange="encrypted")


def told(fed, party):
    """How often each party told this one something, by topic and sender."""
    return Counter((m.topic, m.sender) for m in fed.ledger if m.recipient == party)


def test_exactly_these_topics_reach_each_party():
    held, labels = columns()
    fed, _ = simulated(held, labels, transformations=("sum",))
    assert told(fed, "P1").keys() == {("flfe.task", "server"), ("flfe.judgement", "server")}
    assert told(fed, "P2").keys() == {
        *(("flfe.task", "server"), ("flfe.judgement", "server")),
        *(("flfe.labels", "P1"), ("flfe.sketch", "P1"), ("flfe.masked", "P1")),
    }
    assert {topic for topic, _ in told(fed, "server")} == {
        *("flfe.records", "flfe.sketch-pair", "flfe.masked-result", "flfe.mask"),
    }


def test_binned_labels_stay_with_their_holder_and_no_device_sees_a_sketch():
    held, labels = columns()
    fed, _ = simulated(held, labels, "P3", options={"labels": "binned", "ranges": "feature"})
    topics = {(m.topic, m.recipient) for m in fed.ledger}
    assert ("flfe.bins", "P3") in topics
    assert "flfe.labels" not in {topic for topic, _ in topics}
    assert {who for topic, who in topics if topic.startswith("flfe.sketch")} == {"server"}


def test_what_is_not_useful_is_not_exchanged():
    held, labels = columns()
    fed, made = simulated(held, labels, threshold=0.6)
    assert made == []
    assert not {"flfe.masked", "flfe.masked-result", "flfe.mask", "flfe.column"} & {m.topic for m in fed.ledger}


def test_a_column_that_stays_at_its_device_is_told_to_nobody():
    held, labels = columns()
    fed, made = simulated(held, labels, transformations=("square",), unary="device")
    assert {party for _, party, _ in made} == set(CLIENTS)
    assert "flfe.column" not in {m.topic for m in fed.ledger}


def test_a_reused_mask_is_one_vector_and_fresh_ones_differ():
    held, labels = columns()
    for masks, distinct in (("reused", 1), ("fresh", 3)):
        fed, _ = simulated(held, labels, masks=masks, transformations=("sum",), max_loops=3)
        vectors = {m.payload.values.tobytes() for m in fed.ledger if m.topic == "flfe.mask" and m.sender == "P1"}
        assert len(vectors) == distinct


def test_loops_end_at_their_most():
    held, labels = columns()
    fed, _ = simulated(held, labels, max_loops=3)
    assert {m.round for m in fed.ledger if m.step == "judge"} == {0, 1, 2}


@pytest.mark.parametrize(
    ("break_it", "problem"),
    [
        (lambda held, labels: held["P2"].update(ids=held["P2"]["ids"][::-1]), "P2 holds other records than P1"),
        (
            lambda held, labels: labels.update(ids=[*labels["ids"][1:], "other"]),
            r"the labels' holder \(P1\) holds other",
        ),
        (
            lambda held, labels: held["P3"].update(ids=held["P3"]["ids"][:9], columns={"dose": np.arange(9.0)}),
            "P3 holds 9 records and P1 40",
        ),
        (lambda held, labels: held["P2"].update(ids=["same"] * 40), "39 record ids occur twice"),
        (lambda held, labels: held["P2"]["columns"].update(weight=np.ones(40)), "weight does not vary over 20 records"),
        (
            lambda held, labels: held["P2"]["columns"].update(weight=np.full(40, np.nan)),
            "weight has a value that is miss",
        ),
        (
            lambda held, labels: held["P2"]["columns"].update(weight=np.arange(40.0)),
            "quotient .* 1 record has 0 in weight",
        ),
        (lambda held, labels: labels.update(labels=np.eye(40, dtype=np.int64)[0]), "class 1 has 1 record; its sketch"),
        (lambda held, labels: labels.update(labels=np.arange(40)), "labels run from 0 to 39"),
        (lambda held, labels: held["P2"]["columns"].update(weight=np.ones(3)), r"weight has shape \(3,\)"),
    ],
)
def test_what_cannot_be_engineered_is_refused_with_its_place(break_it, problem):
    held, labels = columns()
    break_it(held, labels)
    with pytest.raises(ValueError, match=problem):
        simulated(held, labels, transformations=("quotient",))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"labels": "binned"}, 'cannot bin by class; set ranges = "feature"'),
        ({"labels": "binned", "ranges": "feature", "transformations": ("isotonic",)}, "needs labels at the device"),
        ({"transformations": ("cosine",)}, "'cosine' is unknown; choose from log"),
        ({"mask_size": 1.0}, "mask_size is 1.0; it must be above 1"),
        ({"bins": 1}, "bins is 1; it must be at least 2"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        FLFE(**options)
