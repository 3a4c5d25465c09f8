import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from leakledger.defenses.accounting.gaussian import classical_sigma, delta_of, epsilon_of, mu_of
from tests.every import every

MUS = st.floats(1e-3, 1e4)
DELTAS = st.floats(1e-12, 0.5)


@every(
    ("mu", "epsilon"),
    [
        (1, 4.3772),  # dp-accounting's PLD gives the same four digits
        (20640, 213_092_826),
    ],
)
def test_known_epsilons_at_delta_1e_5(mu, epsilon):
    assert epsilon_of(1e-5, mu) == pytest.approx(epsilon, rel=2e-5)


def test_the_textbooks_noise_for_ten_gives_ten_point_three_nine():
    assert epsilon_of(1e-5, 1 / classical_sigma(10, 1e-5, 1)) == pytest.approx(10.39, abs=0.005)


def test_the_textbooks_noise_suffices_below_one_and_up_to_eight_and_from_nine_on_no_more():
    short = [e for e in (0.1, 0.5, 0.99, *range(1, 30)) if epsilon_of(1e-5, 1 / classical_sigma(e, 1e-5, 1)) > e]
    assert short == list(range(9, 30))


def test_delta_is_the_integral_of_what_one_world_has_beyond_the_other():
    mu, epsilon = 1.3, 0.7
    start = epsilon / mu + mu / 2  # where the likelihood ratio is exp(epsilon)
    gap, _ = quad(lambda x: norm.pdf(x, mu) - np.exp(epsilon) * norm.pdf(x), start, 40)
    assert delta_of(epsilon, mu) == pytest.approx(gap, rel=1e-9)


@given(MUS, DELTAS)
def test_epsilon_and_delta_undo_each_other(mu, delta):
    epsilon = epsilon_of(delta, mu)
    if epsilon > 0:
        assert delta_of(epsilon, mu) == pytest.approx(delta, rel=1e-5)
        assert delta_of(epsilon, mu) <= delta * (1 + 1e-6)


@given(st.floats(0, 1e6), DELTAS)
def test_mu_and_epsilon_undo_each_other(epsilon, delta):
    assert epsilon_of(delta, mu_of(epsilon, delta)) == pytest.approx(epsilon, rel=1e-6, abs=1e-6)


@given(MUS, st.floats(1.01, 10), DELTAS)
def test_less_noise_is_never_more_private(mu, factor, delta):
    assert epsilon_of(delta, mu * factor) >= epsilon_of(delta, mu)


@every("mu", [1e-6, 1e9])
def test_extreme_noise_neither_overflows_nor_cancels(mu):
    assert epsilon_of(1e-5, mu) == (
        0 if mu < 1 else pytest.approx(mu * (mu / 2 + norm.isf(1e-5) * -1 + 8.53), rel=1e-8)
    )
    assert 0 < delta_of(0, mu) <= 1


@every(
    ("call", "message"),
    [
        (lambda: epsilon_of(0, 1), "delta is 0"),
        (lambda: epsilon_of(1.5, 1), "delta is 1.5"),
        (lambda: epsilon_of(float("nan"), 1), "delta is nan"),
        (lambda: epsilon_of(1e-5, float("inf")), "mu is inf"),
        (lambda: epsilon_of(1e-5, -1), "mu is -1"),
        (lambda: delta_of(-1, 1), "epsilon is -1"),
        (lambda: mu_of(float("inf"), 1e-5), "epsilon is inf"),
    ],
)
def test_what_no_gaussian_mechanism_has_is_refused_with_its_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()
