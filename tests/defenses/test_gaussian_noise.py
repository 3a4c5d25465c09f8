import numpy as np
import pytest

from leakledger.defenses import DEFENSES, chain
from leakledger.defenses.gaussian_noise import GaussianNoise

UPDATE = {"0.weight": np.ones((200, 100), np.float32), "0.bias": np.zeros(100, np.float32)}


def test_the_noise_has_the_stated_deviation_and_no_drift():
    sent = GaussianNoise(0.5).protect(UPDATE, np.random.default_rng(0))
    noise = sent["0.weight"] - UPDATE["0.weight"]
    assert noise.std() == pytest.approx(0.5, rel=0.02)
    assert noise.mean() == pytest.approx(0, abs=4 * 0.5 / np.sqrt(noise.size))


@pytest.mark.parametrize("defense", [chain(), GaussianNoise(0.1), chain(GaussianNoise(0.1), GaussianNoise(0.2))])
def test_names_shapes_and_types_stay_and_the_input_is_untouched(defense):
    before = {name: a.copy() for name, a in UPDATE.items()}
    sent = defense.protect(UPDATE, np.random.default_rng(0))
    assert {n: (a.shape, a.dtype) for n, a in sent.items()} == {n: (a.shape, a.dtype) for n, a in UPDATE.items()}
    for name, a in UPDATE.items():
        np.testing.assert_array_equal(a, before[name])


def test_a_chain_applies_its_parts_in_order_with_the_same_coins():
    coins = np.random.default_rng(7)
    expected = GaussianNoise(0.2).protect(GaussianNoise(0.1).protect(UPDATE, coins), coins)
    got = chain(GaussianNoise(0.1), GaussianNoise(0.2)).protect(UPDATE, np.random.default_rng(7))
    np.testing.assert_array_equal(got["0.weight"], expected["0.weight"])


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf")])
def test_a_deviation_that_is_no_noise_is_refused_with_its_value(sigma):
    with pytest.raises(ValueError, match=f"sigma is {sigma}; it must be "):
        GaussianNoise(sigma)


def test_every_defense_is_registered_under_its_own_name_with_a_reference():
    assert all(name == defense.name and defense.reference for name, defense in DEFENSES.items())
