"""The certificate of spear on batches whose rows are known: what is proven, and what only looks like it."""

import numpy as np
import pytest

from leakledger.attacks.gradient.exact.certificate import RESIDUAL
from leakledger.attacks.gradient.exact.deflation import without
from leakledger.attacks.gradient.exact.network import error_of_labels, forward
from leakledger.attacks.gradient.exact.rows import EncodedRows
from leakledger.attacks.gradient.spear import certificate
from leakledger.attacks.gradient.spear.batch import UnsolvedBatch
from leakledger.attacks.gradient.spear.certificate import alone, certified
from leakledger.attacks.gradient.spear.search import RecoveredRows
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.views import FeatureLayout, ModelSpec, NumericBlock

LAYOUT = FeatureLayout(tuple(NumericBlock(f"n{i}", i) for i in range(8)))
ROWS = np.random.default_rng(3).normal(size=(6, LAYOUT.width))


def batch_of(encoded, rank=None):
    """The batch of these rows, the first with label 0 and so on in turn, and their output errors."""
    spec = ModelSpec(LAYOUT.width, 2, (60, 60))
    weights = {k: w.astype(np.float64) for k, w in initial_weights(spec, np.random.default_rng(0)).items()}
    possible = error_of_labels(forward(weights, encoded).probabilities, len(encoded))
    error = possible[np.arange(len(encoded)), np.arange(len(encoded)) % 2]
    zero = {k: 0 * w for k, w in weights.items()}
    gradient = {k: -g for k, g in without(weights, zero, encoded, error).items()}
    return UnsolvedBatch(LAYOUT, weights, gradient, len(encoded), rank or len(encoded)), error


def proven(batch, encoded, error, limit=RESIDUAL):
    none = np.zeros((len(encoded), 0), np.int64)
    return certified(batch, RecoveredRows(EncodedRows(none, encoded), error), limit)[2]


@pytest.mark.parametrize("some", [slice(6), slice(1, 4)], ids=["the whole batch", "a part of it"])
def test_rows_of_a_batch_are_proven(some):
    batch, error = batch_of(ROWS)
    assert proven(batch, ROWS[some], error[some]).all()


@pytest.mark.parametrize("some", [slice(6), slice(1, 4)], ids=["a whole batch", "a part of one"])
def test_rows_of_another_batch_are_not_proven(some):
    batch, error = batch_of(ROWS)
    others = np.random.default_rng(4).normal(size=ROWS.shape)
    assert not proven(batch, others[some], error[some]).any()


@pytest.mark.parametrize("distance", [1e-4, 1e-3])
def test_rows_of_a_part_that_are_slightly_off_are_brought_to_where_they_are(distance):
    batch, error = batch_of(ROWS)
    off = ROWS[:3] + distance * np.random.default_rng(5).normal(size=(3, LAYOUT.width))
    rows, _, sure, exact = certified(
        batch, RecoveredRows(EncodedRows(np.zeros((3, 0), np.int64), off), error[:3]), 1e-5
    )
    assert sure.all()
    assert exact.all()
    assert np.abs(rows.encoded - ROWS[:3]).max() < 1e-9


@pytest.mark.parametrize(("distance", "limit"), [(1e-3, RESIDUAL), (1e-2, RESIDUAL), (1e-2, 1.0)])
def test_rows_of_a_part_that_stay_off_are_not_proven_whatever_residual_is_granted(monkeypatch, distance, limit):
    batch, error = batch_of(ROWS)
    monkeypatch.setattr(certificate, "settled", lambda batch, rows: (rows, np.zeros(rows.shape)))
    off = ROWS[:3].copy()
    off[1, 0] += distance
    assert proven(batch, off, error[:3], limit).tolist() == [True, False, True]


def test_a_row_of_a_whole_batch_that_another_shares_its_patterns_with_is_not_proven():
    twins = np.concatenate([ROWS, ROWS[:1] + 1e-7])
    batch, error = batch_of(twins)
    assert alone(batch, twins).tolist() == [False, *[True] * 5, False]
    assert not proven(batch, twins, error)[[0, 6]].any()


def test_a_row_that_occurs_twice_in_a_part_is_not_proven():
    """With one label both times, their errors add up to one that no single row has."""
    batch, error = batch_of(np.concatenate([ROWS, ROWS[[0]]]), rank=6)
    assert proven(batch, ROWS[:3], error[:3]).tolist() == [False, True, True]
