"""The certificate of rows behind noise: they must explain the gradient as well as the noise allows, and no worse."""

from dataclasses import replace

import pytest

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, RecordsClaim
from leakledger.attacks.gradient.exact import certificate, rows
from leakledger.attacks.gradient.exact.certificate import explained
from leakledger.attacks.gradient.exact.polish import least_squares
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.span import Span, span
from leakledger.attacks.gradient.span.search import settled_coordinates
from leakledger.attacks.observed.updates import find_updates
from leakledger.preprocess.views import TrainingSpec
from tests.attacks.example import LAYOUT, observe_training, rows_of
from tests.attacks.gradient.test_span_polish import COLUMNS, batch
from tests.attacks.gradient.test_span_polish import LAYOUT as NARROW

NOTHING = AuxiliaryKnowledge()


@pytest.mark.parametrize("seed", range(5))
def test_only_rows_that_leave_no_more_than_noise_explain_a_gradient_with_noise(seed):
    space, weight, bias, encoded = batch(seed, 1e-5)
    fitted = least_squares(space, weight, bias, encoded, COLUMNS)[0]
    assert explained(space, NARROW, weight, bias, fitted)
    fitted[0, 0] += 1e-3
    assert not explained(space, NARROW, weight, bias, fitted)


def test_a_gradient_without_noise_is_not_asked_how_much_its_noise_explains():
    space, weight, bias, encoded = batch(0, 0.0)
    assert explained(space, NARROW, weight, bias, encoded + 1.0)


@pytest.fixture
def trained():
    """The update of a local training on 8 rows of a layout with narrow codes."""
    training = TrainingSpec("fedavg", rounds=1, learning_rate=0.01, batch_size=4, local_epochs=5)
    (update,) = find_updates(observe_training(rows_of(LAYOUT, 8, 3)[2], training), NOTHING)
    return update


def test_rows_that_miss_an_update_by_more_than_its_noise_are_claimed_and_not_verified(trained, monkeypatch):
    assert Span().invert(trained, NOTHING).verified.all()
    monkeypatch.setattr(certificate, "MOST", 0.01)  # less than any noise leaves
    claim = Span().invert(trained, NOTHING)
    assert len(claim.numbers) == 8
    assert not claim.verified.any()


def test_rows_of_an_update_whose_size_is_assumed_are_claimed_and_not_verified(trained):
    """Rows of others may be mixed with it, as well verified as its own."""
    claim = Span().invert(replace(trained, assumed_size=True), NOTHING)
    assert len(claim.numbers) == 8
    assert not claim.verified.any()


def test_behind_noise_a_row_is_claimed_only_where_no_other_code_is_near(trained, monkeypatch):
    assert isinstance(LinearLayer().invert(trained, NOTHING), RecordsClaim)
    monkeypatch.setattr(rows, "CLEAR", 1e9)  # times farther than its own code, which no noise allows
    for attack in (Span(), LinearLayer()):
        assert isinstance(attack.invert(trained, NOTHING), Abstained)


def test_the_numbers_of_a_part_of_the_rows_behind_noise_are_not_exact(trained, monkeypatch):
    monkeypatch.setattr(span, "settled_coordinates", lambda *given: settled_coordinates(*given)[:3])
    claim = Span().invert(trained, NOTHING)
    assert len(claim.numbers) == 3
    assert not claim.category_entropy.any()
    assert not claim.verified.any()
