"""Canaries in one run: known ceilings, known worked values, and no more rejections of the truth than stated."""

from collections import Counter
from math import exp, log

import numpy as np
import pytest
from scipy.stats import beta, binom

from leakledger.audit.dp_audit.one_run import Guesses, chance, guess, one_run_ceiling, one_run_epsilon
from leakledger.audit.dp_audit.one_run_gaussian import one_run_mu, refuted
from leakledger.defenses.accounting.gaussian import epsilon_of
from tests.every import every

TRIES = 1000


def canaries(mu, number, coins):
    included = coins.random(number) < 0.5
    return coins.normal(included * mu, 1), included


@every(("number", "ceiling"), [(20, 1.82), (100, 3.49), (1000, 5.81), (10_000, 8.11)])
def test_a_perfect_adversary_reaches_the_known_ceiling(number, ceiling):
    assert one_run_ceiling(number, 0) == pytest.approx(ceiling, abs=0.005)


# Canaries, guesses made, right ones; epsilon at delta 0, at 1e-5, and at 1e-5 for a Gaussian mechanism: what the module
# `auditing` of jax-privacy 2.0.0 gives for them (Apache-2.0, run on 2026-11-25).
KNOWN = [
    (1000, 100, 80, 0.95839, 0.95532, 1.40221),
    (1000, 100, 99, 3.01934, 3.00283, 4.72672),
    (1000, 1000, 600, 0.29747, 0.29723, 0.58354),
    (10_000, 1000, 900, 2.02123, 2.01519, 2.80260),
    (200, 20, 20, 1.82272, 1.81647, 2.89210),
    (100_000, 5000, 4500, 2.11912, 2.10438, 2.62910),
]


@pytest.mark.parametrize(("number", "made", "right", "pure", "approximate", "gaussian"), KNOWN)
def test_bounds_are_those_of_another_implementation(number, made, right, pure, approximate, gaussian):
    guesses = Guesses(number, made, right)
    assert one_run_epsilon(guesses, 0.0) == pytest.approx(pure, abs=1e-5)
    assert one_run_epsilon(guesses, 1e-5) == pytest.approx(approximate, abs=1e-5)
    assert epsilon_of(1e-5, one_run_mu(guesses)) == pytest.approx(gaussian, abs=1e-5)


def test_without_delta_the_chance_is_that_of_randomised_response():
    rate = exp(1.5) / (1 + exp(1.5))
    assert chance(Guesses(50, 30, 27), 1.5, 0) == pytest.approx(binom.sf(26, 30, rate))


def test_with_delta_the_chance_is_that_of_the_paper_summed_term_by_term():
    m, r, v, epsilon, delta = 40, 30, 26, 1.2, 1e-3
    rate = exp(epsilon) / (1 + exp(epsilon))
    terms = [sum(binom.pmf(v - j, r, rate) for j in range(1, i + 1)) / i for i in range(1, v + 1)]
    expected = binom.sf(v - 1, r, rate) + 2 * m * delta * max(terms)
    assert chance(Guesses(m, r, v), epsilon, delta) == pytest.approx(expected, rel=1e-9)


def test_guesses_are_the_highest_and_the_lowest_scores_and_the_rest_is_left_open():
    included = np.array([True, True, False, False, True, False])
    scores = np.array([5.0, 4, -5, -4, 0, 0])
    assert guess(scores, included, 4) == Guesses(6, 4, 4)
    assert guess(-scores, included, 4) == Guesses(6, 4, 0)
    assert guess(np.array([5.0, -9, -5, -4, 0, 0]), included, 2) == Guesses(6, 2, 1)


@every(
    ("scores", "made", "message"),
    [
        (np.zeros(6), 3, "3 guesses on 6"),
        (np.zeros(6), 8, "8 guesses on 6"),
        (np.zeros(6), 0, "0 guesses"),
        (np.zeros(5), 2, r"\(5,\)"),
        (np.full(6, np.nan), 2, "6 scores"),
    ],
)
def test_guesses_that_cannot_be_made_are_refused(scores, made, message):
    with pytest.raises(ValueError, match=message):
        guess(scores, np.array([True, True, False, False, True, False]), made)


def test_counts_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="9 right guesses of 8 on 10"):
        Guesses(10, 8, 9)
    with pytest.raises(ValueError, match="delta is 1"):
        one_run_epsilon(Guesses(10, 8, 8), 1)


def test_reversed_scores_show_nothing():
    scores, included = canaries(4, 1000, np.random.default_rng(0))
    assert one_run_epsilon(guess(-scores, included, 500), 1e-5) == 0
    assert one_run_mu(guess(-scores, included, 500)) == 0


def test_an_epsilon_is_refuted_up_to_where_its_chance_is_one_in_twenty():
    guesses = Guesses(1000, 400, 330)
    found = one_run_epsilon(guesses, 1e-5)
    assert chance(guesses, found, 1e-5) == pytest.approx(0.05, rel=1e-6)


def test_the_gaussian_form_says_more_at_small_delta_than_the_general_one():
    coins = np.random.default_rng(1)
    guesses = guess(*canaries(1, 10_000, coins), 1000)
    mu = one_run_mu(guesses)
    assert 0.5 < mu < 1
    assert epsilon_of(1e-5, mu) > one_run_epsilon(guesses, 1e-5)


def test_the_trade_off_form_for_a_pure_epsilon_refutes_what_the_binomial_form_does_or_little_less():
    guesses = Guesses(1000, 400, 330)

    def least(epsilon):  # the inverse of min(exp(e) x, 1 - exp(-e) (1 - x))
        return lambda y: max(exp(-epsilon) * y, 1 - exp(epsilon) * (1 - y))

    binomial = one_run_epsilon(guesses, 0)
    refutes = [e for e in np.arange(0, 3, 0.01) if refuted(guesses, least(e))]
    assert max(refutes) <= log(330 / 70)  # what the share of right guesses is under randomised response
    assert max(refutes) == pytest.approx(binomial, abs=0.25)
    assert refutes == list(np.arange(0, 3, 0.01)[: len(refutes)])  # and everything below


@pytest.mark.slow
@every(("mu", "number", "made"), [(0, 200, 100), (1, 200, 40), (1, 500, 500)])
def test_the_truth_is_refuted_no_more_often_than_stated(mu, number, made):
    coins = np.random.default_rng(3)
    truth = epsilon_of(1e-5, mu) if mu else 0
    found = Counter(guess(*canaries(mu, number, coins), made) for _ in range(TRIES))  # few ways to be right
    for count in (
        sum(times for g, times in found.items() if one_run_epsilon(g, 1e-5) > truth),
        sum(times for g, times in found.items() if one_run_mu(g) > mu),
    ):
        assert count == 0 or beta.ppf(0.05, count, TRIES - count + 1) <= 0.05


@pytest.mark.slow
def test_randomised_response_is_refuted_about_as_often_as_stated_so_that_nothing_is_given_away():
    coins = np.random.default_rng(4)
    rate = exp(1) / (1 + exp(1))
    found = Counter(Guesses(500, 500, int(coins.binomial(500, rate))) for _ in range(TRIES))
    count = sum(times for g, times in found.items() if one_run_epsilon(g, 0) > 1)
    assert count > 0.02 * TRIES
    assert beta.ppf(0.05, count, TRIES - count + 1) <= 0.05
