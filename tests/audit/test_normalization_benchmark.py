"""The benchmark of scalers under encryption measures what it says it does."""

import numpy as np
import pytest

pytest.importorskip("tenseal.sealapi")
from leakledger.audit.benchmarks import normalization, normalization_steps
from leakledger.audit.benchmarks.base import Options
from leakledger.preprocess.scalers.base import PublicScaling
from leakledger.preprocess.scalers.encrypted_extremes import compared_within
from leakledger.preprocess.scalers.ppf_minmax import PpfMinMax
from leakledger.preprocess.scalers.ppf_zscore import PpfZScore


def test_keys_and_each_scaler_have_their_time_their_bytes_and_their_error(monkeypatch):
    monkeypatch.setattr(normalization, "scalers", lambda *_: [PpfMinMax()])
    case = normalization.case_of(Options(), "breast_cancer", 2)
    rows = {(r.setting["scaler"], r.metric): r for r in normalization.totals(case, 14, 20)}
    assert rows["keys", "time"].measured > 0
    assert rows["keys", "bytes"].measured == pytest.approx(2 * 60, rel=0.1)  # MB
    assert 0 < rows["ppf-minmax", "largest error"].measured <= 2 * 100 * compared_within(2)
    assert rows["ppf-minmax", "bytes"].measured > 10
    assert rows["ppf-minmax", "time"].published is None  # of ten clients alone


def test_an_error_is_relative_to_half_the_range_and_a_quartile_may_lie_between_two_values():
    case = normalization.case_of(Options(), "breast_cancer", 2)
    whole = np.vstack(case.columns)
    found = PublicScaling(whole.mean(0) + 0.01 * case.ranges.half, whole.std(0))
    assert normalization.error("ppf-zscore", found, case) == pytest.approx(0.01)
    found = PublicScaling(np.median(whole, axis=0), whole.std(0))
    assert normalization.error("ppf-robust", found, case) == 0


def test_the_formula_is_that_of_table_three():
    case = normalization.case_of(Options(), "breast_cancer", 10)
    ciphertext = 2 * 9 * 2**14 * 8
    assert normalization.formula(PpfZScore(), case) == (3 * 10 + 3 * 9 + 13 * 9) * ciphertext
    assert normalization.formula(PpfMinMax(), case) == (2 * 10 + 2 * 9 + 2 * 10 * 9) * ciphertext


def test_every_published_step_is_measured(monkeypatch):
    for name in ("invert", "minimum", "maximum"):
        monkeypatch.setattr(normalization_steps, name, lambda *_: None)
    rows = list(normalization_steps.steps(2, 14, 20))
    assert {r.setting["step"] for r in rows} == normalization_steps.PUBLISHED.keys()
    assert all(r.published == normalization_steps.PUBLISHED[r.setting["step"]] for r in rows)
