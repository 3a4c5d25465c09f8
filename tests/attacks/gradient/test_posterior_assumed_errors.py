"""Errors that are assumed where nobody made any: as large as what a column holds, so that none hides the others."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.gradient.posterior import Posterior, evidence
from leakledger.attacks.gradient.posterior.assumed_errors import ASSUMED, ENORMOUS, by_column
from leakledger.attacks.gradient.posterior.chains import from_prior
from leakledger.attacks.gradient.posterior.evidence import channel, evidence_of
from leakledger.attacks.gradient.posterior.row_space import RowSpace
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.preprocess.views import Mechanism
from tests.attacks.example import LAYOUT, observe, rows_of
from tests.attacks.gradient.posterior_example import tiny
from tests.attacks.gradient.test_posterior_attack import BRIEF, LABELS


def enormous(size):
    """A batch of four rows, one with an age so many deviations off."""
    categories, numbers, encoded = rows_of(LAYOUT, 4, 0)
    encoded[1, 0] = size
    numbers[1, 0] = 40 + 13 * size
    return categories, numbers, encoded


def layers(large):
    """Two layers of three outputs: biases of 1, columns of 2, and one of `large`."""
    first = np.column_stack([np.full(3, large), np.full(3, -2.0), np.ones(3)])
    return [first, np.column_stack([np.full((3, 2), 0.5), np.ones(3)])]


def test_a_column_has_errors_by_its_own_entries_and_at_least_by_those_of_the_biases():
    first, second = by_column(layers(100.0))
    np.testing.assert_allclose(first, ASSUMED * np.tile([100.0, 2.0, 1.0], (3, 1)))
    np.testing.assert_allclose(second, ASSUMED * np.ones((3, 3)))


@pytest.mark.parametrize("large", [0.0, ENORMOUS])
def test_columns_of_usual_size_have_errors_alike(large):
    assert by_column(layers(large)) is None


@pytest.mark.parametrize("biases", [0.0, np.nan])
def test_without_a_gradient_of_the_biases_no_column_is_told_apart(biases):
    assert by_column([np.column_stack([np.full(3, 100.0), np.full(3, biases)])]) is None


def test_of_an_update_with_errors_of_its_own_none_are_assumed_by_column():
    (update,) = find_gradients(observe(enormous(-300.0)[2]), LABELS)
    noise = [Mechanism("gaussian-noise", {"sigma": 1e3})]
    assert evidence_of(update, channel((), update.gradient), "cpu").weights is not None
    assert evidence_of(update, channel(noise, update.gradient), "cpu").weights is None


@pytest.mark.parametrize("size", [50.0, -300.0])
def test_one_enormous_number_does_not_hide_the_other_rows(size, monkeypatch):
    categories, _, encoded = enormous(size)
    view = observe(encoded)
    (claim,) = Posterior(**BRIEF).run(view, LABELS)
    found = (claim.categories[:, None] == categories[[0, 2, 3]]).mean(2).max(0)
    monkeypatch.setattr(evidence, "by_column", lambda _: None)
    (hidden,) = Posterior(**BRIEF).run(view, LABELS)
    assert found.mean() > 0.9
    assert found.mean() > (hidden.categories[:, None] == categories[[0, 2, 3]]).mean(2).max(0).mean() + 0.2


def test_the_row_space_is_the_same_in_whatever_units_a_column_is_told():
    """A column of hundredfold codes and errors says of rows what it says with neither."""
    network, cells = tiny()
    index = from_prior(cells, 6, torch.Generator().manual_seed(0), "cpu")
    fits = []
    for size in (1.0, 100.0):
        scale = torch.ones(network.weights[0].shape[1] + 1)
        scale[3] = size
        own = [replace(c, codes=c.codes * scale[c.columns]) for c in cells]
        total = torch.randn(8, len(scale), generator=torch.Generator().manual_seed(1)) * scale
        weights = [(1 / scale**2).expand(total.shape)]
        about = evidence.Evidence([total], 1e-3, 2, None, torch.zeros(2), weights=weights)
        fits.append(RowSpace(about, own, index.clone(), torch.Generator()).fits())
    torch.testing.assert_close(fits[0], fits[1], rtol=1e-3, atol=1e-3)
