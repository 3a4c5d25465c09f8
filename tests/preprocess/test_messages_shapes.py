"""What payloads promise beyond the types of their fields, and how what breaks it is named."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from leakledger.audit.field_controls import sample
from leakledger.preprocess.messages import (
    KINDS,
    LocalExtremes,
    LocalSizes,
    MaskedColumn,
    NoisedMoments,
    OtmpShares,
    PooledColumns,
    PredictionCounts,
    RingHighest,
    Share,
    TargetTally,
    ValueTally,
)
from leakledger.preprocess.messages.shapes import broken, common_lengths, shaped
from leakledger.preprocess.views import MalformedMessage, Message
from leakledger.preprocess.wire import encode

TALLY = ValueTally(["a", "b"], np.array([1, 2]), np.ones((2, 3)))
TARGETS = TargetTally(3, np.ones(3), {"ward": TALLY})


@pytest.mark.parametrize("topic", sorted(t for t, k in KINDS.items() if k.__module__.startswith("leakledger.")))
def test_made_up_messages_of_controls_keep_what_their_kind_promises(topic):
    made_up = sample(KINDS[topic])
    hidden = any(isinstance(v, Share) for v in vars(made_up).values())
    assert hidden or broken(made_up) == ""


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (PredictionCounts(np.ones((2, 3), np.int64), np.ones((2, 2, 4), np.int64)), "confusion has 3 classes, not 2"),
        (PredictionCounts(np.ones((2, 2), np.int64), np.ones((3, 2, 4), np.int64)), "scores has 3 classes, not 2"),
        (PredictionCounts(np.ones((2, 2), np.int64), np.ones((2, 3, 4), np.int64)), "scores has 3 entries, not 2"),
        (PredictionCounts(-np.eye(2, dtype=np.int64), np.ones((2, 2, 4), np.int64)), "confusion is less than 0"),
        (PooledColumns(np.ones(3)), "rows has 1 axis, not 2 (rows, columns)"),
        (LocalExtremes(np.ones(2), np.array([1.0, np.nan])), "maximum is not finite"),
        (LocalSizes({"ward": 2, "age": -1}), "sizes is less than 0"),
        (LocalSizes({"ward": 2**200}), "sizes is more than 2^53"),
        (RingHighest({"ward": -2}), "highest is less than -1"),
        (OtmpShares(Share(np.ones(3))), "shares has 1 axis, not 2 (bins, capacity)"),
        (OtmpShares(Share(None)), "shares has 0 axes, not 2 (bins, capacity)"),
        (
            replace(TARGETS, features={"ward": replace(TALLY, counts=np.ones(3, np.int64))}),
            "features: counts has 3 values",
        ),
        (replace(TARGETS, sums=np.ones(2)), "features: sums has 3 targets, not 2"),
    ],
)
def test_the_first_promise_that_is_broken_is_named_without_a_value(payload, what):
    assert broken(payload).startswith(what)


@pytest.mark.parametrize(
    "payload",
    [
        TARGETS,
        replace(TARGETS, features={"ward": TALLY, "age": ValueTally(["a"], np.array([1]), np.ones((1, 3)))}),
        RingHighest({"ward": -1}),
        NoisedMoments(-3, np.array([-1]), np.array([-1])),  # noise goes below nothing
        MaskedColumn(np.array([np.inf, np.nan])),  # a quotient may
    ],
)
def test_what_protocols_send_breaks_no_promise(payload):
    assert broken(payload) == ""


def test_lengths_that_messages_of_one_method_share_are_told_and_those_of_one_client_are_not():
    assert common_lengths(PooledColumns(np.ones((5, 2)))) == {"columns": 2}
    assert common_lengths(TARGETS) == {"targets": 3}


def test_fields_without_a_promise_may_hold_anything_of_their_type():
    @dataclass(frozen=True)
    class Told:
        any_number: int
        counted: int = field(metadata=shaped())

    assert broken(Told(-(2**99), 1)) == ""
    assert broken(Told(1, -1)) == "counted is less than 0"


def test_an_observer_who_reads_a_message_that_breaks_its_promise_is_told_which():
    body = encode([[1.0]]), encode(PooledColumns(np.ones(3)).to_plain())
    for content, what in zip(body, ("it is no PooledColumns: rows is list", "rows has 1 axis, not 2"), strict=True):
        message = Message(7, "s", 0, "pooled.columns", "P1", "server", None, False, content, content)
        with pytest.raises(MalformedMessage, match=rf"^message 7 \(pooled\.columns, from P1\): {what}"):
            _ = message.payload
