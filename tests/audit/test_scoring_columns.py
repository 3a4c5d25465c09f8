"""Claims about columns, against the true ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.base import ColumnClaim
from leakledger.audit.scoring import score_columns
from leakledger.audit.scoring.columns import column_agreement
from tests.audit.example import truth

X = np.array([1.0, 2, 2, -5])


def agreement(values, relation="exact"):
    return column_agreement(ColumnClaim("P1", "x", np.array(values, float), (), relation), X)


def test_a_column_is_right_record_by_record():
    assert agreement(X).exact == 1
    assert agreement(X).correlation == pytest.approx(1)
    assert agreement([1, 2, 9, 9]).exact == 0.5
    assert agreement([1, 2, 2, -5.001]).exact == 0.75
    assert agreement(X).commonest == 0.5


def test_one_number_far_out_excuses_no_error_in_all_others():
    column = np.array([*np.linspace(0, 1, 99), 1e9])
    claim = ColumnClaim("P1", "x", np.where(column < 1e9, column + 0.5, column), ())
    assert column_agreement(claim, column).exact == 0.01
    rare = np.array([0.0] * 98 + [1e9, 1e9])
    near = ColumnClaim("P1", "x", rare + 1e-9, ())
    assert column_agreement(near, rare).exact == 1


def test_what_is_not_claimed_is_wrong_and_tells_nothing():
    assert agreement([1, np.nan, np.nan, np.nan]).exact == 0.25
    assert agreement([np.nan] * 4).correlation == 0
    assert agreement([7.0] * 4).correlation == 0


def test_magnitudes_are_held_against_magnitudes():
    assert agreement([1, 2, 2, 5]).exact == 0.75
    assert agreement([1, 2, 2, 5], "magnitude").exact == 1


@given(shift=st.floats(-5, 5), scale=st.floats(0.1, 9))
def test_place_and_scale_do_not_matter_to_the_correlation_and_direction_does(shift, scale):
    assert agreement(X * scale + shift, "scaled").correlation == pytest.approx(1)
    assert agreement(-X, "scaled").correlation == pytest.approx(-1)


def test_a_claim_about_another_number_of_records_is_refused():
    with pytest.raises(ValueError, match="P1, x: 3 values claimed of 4 records"):
        agreement([1, 2, 3])


def test_claims_of_a_party_are_scored_beside_the_best_guess_without_messages():
    known = truth()
    party, feature = known.parties[0], known.federated.schema.numeric[0]
    column = known.column(party, feature)
    right, wrong = (ColumnClaim(party, feature, x, (3,)) for x in (column, column + 1))
    correlation, exact = score_columns([right], known)
    assert (correlation.asset, correlation.metric, correlation.baseline) == ("columns", "correlation", 0.0)
    assert (exact.value, exact.certain_wrong) == (1.0, 0)
    assert 0 < exact.baseline < 1
    assert next(score_columns([wrong], known)).certain_wrong == 1
    few = np.where(np.arange(len(column)) < 2, column, np.nan)
    vouched = [next(score_columns([ColumnClaim(party, feature, x)], known)) for x in (few, few + 1, np.nan * column)]
    assert [(v.certain, v.certain_wrong) for v in vouched] == [(1, 0), (1, 1), (0, 0)]
    with pytest.raises(KeyError, match="'colour' is no numeric feature"):
        known.column(party, "colour")
