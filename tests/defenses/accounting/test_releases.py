"""One budget over statistics and training: composition against closed forms, and what it refuses."""

from math import sqrt

import pytest

from leakledger.defenses.accounting.gaussian import epsilon_of
from leakledger.defenses.accounting.guarantee import guarantee
from leakledger.defenses.accounting.mechanism import GaussianMechanism
from leakledger.defenses.accounting.releases import Release, composed_epsilon, in_words
from leakledger.preprocess.views import Mechanism

DELTA = 1e-5
LAPLACE = Release("discrete-laplace", 512, 5120)  # epsilon 0.1
GAUSSIAN = Release("discrete-gaussian", 256, 2560)  # mu 0.1
EXTREME = Release("exponential", 0.1, 1.0)
POISSON = GaussianMechanism(1.0, 100, "poisson", 0.01)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("numbers", [1, 5])
def test_gaussian_numbers_are_one_gaussian_mechanism(numbers, relation):
    found = composed_epsilon([GAUSSIAN] * numbers, None, DELTA, relation)
    mu = (2 if relation == "replace" else 1) * 0.1 * sqrt(numbers)
    exact = epsilon_of(DELTA, mu)
    assert exact - 1e-4 <= found <= exact + 2e-3  # rounded up on a grid; the noise is discrete


@pytest.mark.parametrize(("sampling", "rate"), [("none", 1.0), ("poisson", 0.01)])
def test_noise_of_training_beyond_what_accountants_can_count_adds_nothing_to_statistics(sampling, rate):
    training = GaussianMechanism(1e200, 3, sampling, rate)
    assert composed_epsilon([LAPLACE], training, DELTA, "add-remove") <= 0.1


def test_pure_releases_cost_at_most_their_sum_and_less_when_there_are_many():
    for release in (LAPLACE, EXTREME):
        assert composed_epsilon([release] * 3, None, DELTA, "add-remove") <= 0.3
        many = composed_epsilon([release] * 400, None, DELTA, "add-remove")
        advanced = sqrt(2 * 400 * 0.1**2 * 11.52) + 400 * 0.1 * (2.718281828**0.1 - 1)  # Dwork, Rothblum, Vadhan 2010
        assert many < advanced < 40


def test_a_table_whose_record_is_replaced_moves_two_counts_by_one_step_each():
    table = Release("discrete-gaussian", 256, 2560, table=True)
    one, other = (composed_epsilon([r], None, DELTA, "replace") for r in (table, GAUSSIAN))
    assert one == pytest.approx(epsilon_of(DELTA, 0.1 * sqrt(2)), abs=2e-3)
    assert other == pytest.approx(epsilon_of(DELTA, 0.2), abs=2e-3)
    pure = Release("discrete-laplace", 512, 5120, table=True)
    assert composed_epsilon([pure], None, DELTA, "replace") <= 0.2


def test_training_alone_is_what_the_guarantee_says():
    for mechanism in (POISSON, GaussianMechanism(2.0, 10)):
        assert composed_epsilon([], mechanism, DELTA, "add-remove") == guarantee(mechanism, DELTA).epsilon


def test_statistics_and_training_cost_more_than_either_and_no_more_than_both_at_half_the_delta():
    releases = [LAPLACE] * 5 + [GAUSSIAN] * 3 + [EXTREME] * 2
    statistics, training = (composed_epsilon(*p, DELTA, "add-remove") for p in ((releases, None), ([], POISSON)))
    both = composed_epsilon(releases, POISSON, DELTA, "add-remove")
    split = sum(composed_epsilon(*p, DELTA / 2, "add-remove") for p in ((releases, None), ([], POISSON)))
    assert max(statistics, training) < both <= split


def test_gaussian_statistics_and_gaussian_rounds_add_up_exactly():
    training = GaussianMechanism(2.0, 4)
    found = composed_epsilon([GAUSSIAN] * 9, training, DELTA, "add-remove")
    exact = epsilon_of(DELTA, sqrt(9 * 0.01 + 4 * 0.25))
    assert exact - 1e-4 <= found <= exact + 1e-2


def test_batches_of_a_fixed_size_are_composed_at_half_of_delta_or_without_their_amplification():
    training = GaussianMechanism(1.0, 50, "fixed-size", 0.01, relation="replace")
    both = composed_epsilon([LAPLACE] * 2, training, DELTA, "replace")
    alone = guarantee(training, DELTA).epsilon
    assert alone < both <= 0.4 + alone + 1e-9  # pure releases add up beside the whole delta


def test_where_a_grid_cannot_hold_the_losses_pure_ones_are_added_up():
    strong = Release("discrete-laplace", 2**20, 95)
    assert composed_epsilon([strong], None, DELTA, "add-remove") == 2**20 / 95


def test_two_relations_are_not_composed():
    with pytest.raises(ValueError, match="use one"):
        composed_epsilon([LAPLACE], POISSON, DELTA, "replace")


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0])
def test_a_delta_outside_zero_to_one_is_refused(delta):
    with pytest.raises(ValueError, match="delta is"):
        composed_epsilon([LAPLACE], None, delta, "add-remove")


def test_a_mechanism_of_another_kind_is_refused_by_name():
    with pytest.raises(ValueError, match="'rounding'"):
        Release.of(Mechanism("rounding", {"statistic": "sum"}))


def test_words_name_the_message_the_noise_and_how_often():
    known = {"topic": "zscore.noised", "sensitivity": 512, "scale": 1024, "low": 0.0, "high": 1.0}
    noise = [Mechanism("discrete-laplace", {**known, "statistic": s, "feature": ""}) for s in ("count", "sum")]
    assert in_words(noise) == ["zscore.noised: 2 numbers, discrete laplace noise of 2 times what one record changes"]
