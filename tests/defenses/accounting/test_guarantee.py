"""Guarantees of mechanisms, against what the literature and dp-accounting's other accountants say."""

import subprocess
import sys
from math import exp, log, sqrt

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from leakledger.defenses.accounting import subsampling
from leakledger.defenses.accounting.gaussian import delta_of, epsilon_of
from leakledger.defenses.accounting.guarantee import guarantee
from leakledger.defenses.accounting.mechanism import GaussianMechanism
from tests.every import every

SAMPLED = [
    GaussianMechanism(1.0, 1000, "poisson", 0.01),
    GaussianMechanism(2.0, 20, "poisson", 0.5),
    GaussianMechanism(0.6, 2000, "poisson", 0.001),
    GaussianMechanism(1.0, 100, "poisson", 0.1, relation="replace"),
]


def test_one_round_of_as_much_noise_as_clipping_is_4_3772_at_1e_5():
    found = guarantee(GaussianMechanism(1.0), 1e-5)
    assert found.epsilon == found.at_least == pytest.approx(4.3772, abs=5e-5)


def test_rounds_without_sampling_add_up_like_squares():
    assert guarantee(GaussianMechanism(3.0, 9), 1e-5).epsilon == pytest.approx(4.3772, abs=5e-5)


def test_replacing_is_removing_under_half_the_noise():
    replaced = guarantee(GaussianMechanism(2.0, relation="replace"), 1e-5)
    assert replaced.epsilon == pytest.approx(4.3772, abs=5e-5)


@pytest.mark.slow
@every("mechanism", SAMPLED)
def test_the_numeric_bounds_enclose_a_small_gap_and_beat_renyi(mechanism):
    found = guarantee(mechanism, 1e-5, sharp=True)
    assert found.at_least <= found.epsilon <= found.at_least + 0.1
    if mechanism.relation == "add-remove":
        sampled = PoissonSampledDpEvent(mechanism.sampling_rate, GaussianDpEvent(mechanism.noise_multiplier))
        renyi = RdpAccountant().compose(SelfComposedDpEvent(sampled, mechanism.rounds)).get_epsilon(1e-5)
        assert found.epsilon < renyi


def test_half_the_width_of_the_grid_moves_epsilon_by_less_than_a_thousandth(monkeypatch):
    coarse = subsampling.upper(SAMPLED[2], 1e-5)
    monkeypatch.setattr(subsampling, "FINEST", subsampling.FINEST / 2)
    subsampling.losses.cache_clear()
    fine = subsampling.upper(SAMPLED[2], 1e-5)
    subsampling.losses.cache_clear()
    assert fine <= coarse < fine + 1e-3


def test_one_sampled_round_has_its_closed_form_between_the_numeric_bounds():
    mechanism = GaussianMechanism(1.0, 1, "poisson", 0.05)
    exact = log(1 + 0.05 * (exp(epsilon_of(1e-5 / 0.05, 1)) - 1))
    found = guarantee(mechanism, 1e-5, sharp=True)
    assert subsampling.one_round(mechanism, 1e-5) == pytest.approx(exact, rel=1e-12)
    assert found.at_least == pytest.approx(exact, abs=1e-9)
    assert exact <= found.epsilon <= exact + 1e-3


@every("epsilon", [0.0, 0.1, 0.5])
def test_a_sampled_replacement_is_a_mixture_of_its_record_and_another_on_either_side_of_none(epsilon):
    rate, x = 0.1, np.linspace(-12, 12, 200_001)
    here, there = ((1 - rate) * norm.pdf(x) + rate * norm.pdf(x, side) for side in (1, -1))
    delta = np.trapezoid(np.maximum(here - np.exp(epsilon) * there, 0), x)
    loss = subsampling.losses(GaussianMechanism(1.0, 1, "poisson", rate, relation="replace"))
    assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(delta, abs=1e-6)


def test_numeric_accounting_of_a_mechanism_without_sampling_is_the_closed_form():
    for relation, mu in (("add-remove", 1), ("replace", 2)):
        loss = subsampling.losses(GaussianMechanism(1.0, 4, relation=relation))
        assert loss.get_epsilon_for_delta(1e-5) == pytest.approx(epsilon_of(1e-5, 2 * mu), abs=1e-3)


def test_batches_of_a_fixed_size_spend_more_than_poisson_sampling_and_less_than_none():
    fixed = guarantee(GaussianMechanism(2.0, 100, "fixed-size", 0.05, relation="replace"), 1e-5, sharp=True)
    poisson = guarantee(GaussianMechanism(2.0, 100, "poisson", 0.05, relation="replace"), 1e-5)
    assert poisson.epsilon < fixed.at_least < fixed.epsilon < epsilon_of(1e-5, 10.0)


def test_the_lower_bound_of_fixed_batches_is_met_where_all_others_have_the_opposite_vector():
    rate, x = 0.1, np.linspace(-12, 14, 200_001)  # one round: the rest of the sum is at 0, and the record adds 2C to it
    here, there = (1 - rate) * norm.pdf(x) + rate * norm.pdf(x, 2), norm.pdf(x)
    mechanism = GaussianMechanism(1.0, 1, "fixed-size", rate, relation="replace")
    epsilon = guarantee(mechanism, 1e-3, sharp=True).at_least
    assert np.trapezoid(np.maximum(here - np.exp(epsilon) * there, 0), x) == pytest.approx(1e-3, rel=1e-3)


def test_the_renyi_bound_of_fixed_batches_counts_both_clip_norms_of_a_replacement():
    whole = guarantee(GaussianMechanism(2.0, 100, "fixed-size", 0.999999, relation="replace"), 1e-5)
    assert whole.epsilon == pytest.approx(epsilon_of(1e-5, sqrt(100)), rel=0.01)


def test_fixed_batches_that_add_or_remove_are_refused():
    with pytest.raises(ValueError, match="relation = replace"):
        GaussianMechanism(2.0, 100, "fixed-size", 0.05)


def test_shuffled_batches_count_passes_and_no_luck():
    passes = guarantee(GaussianMechanism(2.0, 100, "shuffled", 0.01, relation="replace"), 1e-5)
    assert passes.epsilon == guarantee(GaussianMechanism(2.0, 1, relation="replace"), 1e-5).epsilon
    more = guarantee(GaussianMechanism(2.0, 101, "shuffled", 0.01, relation="replace"), 1e-5)
    assert more.epsilon > passes.epsilon


def test_a_pass_whose_last_batch_is_dropped_is_as_long_as_the_whole_batches():
    kept = GaussianMechanism(
        1.0, 30, "shuffled", 0.3, relation="replace"
    )  # three of ten records, 10 passes of 3 batches
    assert guarantee(kept, 1e-5).epsilon == epsilon_of(1e-5, 2 * 10**0.5)
    for batches in (2, 3, 7, 49, 1000):
        whole = GaussianMechanism(1.0, 6 * batches, "shuffled", 1 / batches, relation="replace")
        assert whole.participations == 6
    for rate in (1e-10, 1e-310):  # one batch of very many
        first = guarantee(GaussianMechanism(1.0, 1, "shuffled", rate, relation="replace"), 1e-5)
        assert first.epsilon == epsilon_of(1e-5, 2)


def test_one_record_less_shifts_others_into_its_batch_of_a_shuffled_pass():
    # Two batches of a pass, all others opposite to one record: with it, either sum is moved by 2C; without it, the last
    # batch is one short. At the epsilon that the clip norm alone would give, delta is a thousand times too large.
    x, y = np.meshgrid(np.linspace(-8, 12, 801), np.linspace(-8, 12, 801))
    with_it = (norm.pdf(x - 2) * norm.pdf(y) + norm.pdf(x) * norm.pdf(y - 2)) / 2
    without = norm.pdf(x) * norm.pdf(y - 1)
    apart = np.maximum(0, with_it - np.exp(epsilon_of(1e-5, 1)) * without).sum() * (20 / 800) ** 2
    assert apart > 0.03
    with pytest.raises(ValueError, match="relation = replace"):
        GaussianMechanism(1.0, 2, "shuffled", 0.5)


@every("noise", [0.7, 1.0, 3.0])
def test_what_is_shown_of_shuffled_batches_is_no_more_than_the_best_test_shows(noise):
    found = guarantee(GaussianMechanism(noise, 2, "shuffled", 0.5, relation="replace"), 1e-5)
    shift, step = 2 / noise, 0.02
    x, y = np.meshgrid(*[np.arange(-8, shift + 8, step)] * 2)
    moved = (norm.pdf(x - shift) * norm.pdf(y) + norm.pdf(x) * norm.pdf(y - shift)) / 2
    best = np.maximum(0, moved - np.exp(found.at_least) * norm.pdf(x) * norm.pdf(y)).sum() * step**2
    assert 0.999e-5 <= best <= 1e-3  # the grid is off by less than that
    assert found.at_least < found.epsilon


def test_hardly_any_noise_on_shuffled_batches_leaves_both_bounds_finite_and_apart():
    found = guarantee(GaussianMechanism(0.01, 20, "shuffled", 0.25, relation="replace"), 1e-5)
    assert epsilon_of(1e-5, 200 * sqrt(5 / 4)) <= found.at_least < found.epsilon == epsilon_of(1e-5, 200 * sqrt(5))


@every("noise", [0.03, 1e-5])
def test_hardly_any_noise_is_bounded_without_a_grid(noise):
    found = guarantee(GaussianMechanism(noise, 20, "poisson", 0.1), 1e-5, sharp=True)
    assert found.epsilon == epsilon_of(1e-5, sqrt(20) / noise)
    assert found.at_least == pytest.approx(epsilon_of(1e-4, 1 / noise) + log(0.1), rel=1e-9)


def test_rounds_beyond_counting_are_bounded_without_a_grid():
    found = guarantee(GaussianMechanism(100.0, 10**12, "poisson", 1e-3), 1e-5, sharp=True)
    assert found.epsilon == epsilon_of(1e-5, 10**6 / 100)
    assert found.at_least == subsampling.one_round(found.mechanism, 1e-5)


def test_sampling_never_spends_more_than_taking_part_always():
    assert guarantee(GaussianMechanism(50.0, 3, "poisson", 0.999), 1e-5).epsilon <= epsilon_of(1e-5, sqrt(3) / 50)


def test_a_guarantee_prints_all_that_its_epsilon_depends_on():
    text = str(guarantee(GaussianMechanism(1.0, 2, unit="client", relation="replace"), 1e-5))
    for part in ("epsilon 15.4562", "delta 1e-05", "2 rounds", "one client", "(replace)", "exact", "clip norm"):
        assert part in text
    sampled = str(guarantee(GaussianMechanism(1.0, 10, "poisson", 0.1), 1e-5))
    assert "at least" in sampled
    assert "coin" in sampled
    assert "(add-remove)" in sampled


@every(
    ("settings", "message"),
    [
        ({"noise_multiplier": 0.0}, "noise_multiplier is 0.0"),
        ({"noise_multiplier": float("inf")}, "noise_multiplier is inf"),
        ({"noise_multiplier": float("nan")}, "noise_multiplier is nan"),
        ({"rounds": 0}, "rounds is 0"),
        ({"sampling": "poisson", "sampling_rate": 1.2}, "sampling_rate is 1.2"),
        ({"sampling_rate": 0.1}, "say how it is sampled"),
        ({"sampling": "often"}, "sampling is 'often'"),
        ({"unit": "patient"}, "unit is 'patient'"),
        ({"relation": "swap"}, "relation is 'swap'"),
    ],
)
def test_settings_that_no_mechanism_has_are_refused_with_their_value(settings, message):
    with pytest.raises(ValueError, match=message):
        GaussianMechanism(**{"noise_multiplier": 1.0, **settings})


def test_what_needs_no_sampling_does_not_load_the_numeric_library():
    program = (
        "import sys; from leakledger.defenses.accounting.guarantee import guarantee;"
        "from leakledger.defenses.accounting.mechanism import GaussianMechanism;"
        "guarantee(GaussianMechanism(1.0, 100), 1e-5); assert 'dp_accounting' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_delta_of_an_epsilon_found_numerically_is_the_stated_one():
    loss = subsampling.losses(SAMPLED[1])
    assert loss.get_delta_for_epsilon(guarantee(SAMPLED[1], 1e-5).epsilon) == pytest.approx(1e-5, rel=1e-3)
    assert delta_of(0, 1e-9) < 1e-9


@every(("rounds", "rate"), [(10**8, 1e-9), (10**8, 1e-6), (10**8 - 1, 1e-4)])
def test_as_many_rounds_as_are_composed_at_all_take_seconds(rounds, rate):
    found = guarantee(GaussianMechanism(1.0, rounds, "poisson", rate), 1e-5, sharp=True)
    assert 0 <= found.at_least <= found.epsilon < 1e4


def test_of_so_many_rounds_no_delta_is_claimed_below_what_rounding_may_hide():
    mechanism = GaussianMechanism(1.0, 10**8, "poisson", 1e-9)
    assert subsampling.upper(mechanism, 1e-9) == epsilon_of(1e-9, 1e4)


def test_a_bound_beyond_all_grids_is_none_and_no_warning():
    mechanism = GaussianMechanism(1.0, 10**8, "poisson", 1e-3)
    assert subsampling.upper(mechanism, 1e-5) <= epsilon_of(1e-5, 1e4)


def test_composing_in_two_steps_changes_nothing(monkeypatch):
    mechanism = GaussianMechanism(1.0, 10_500, "poisson", 1e-3)
    once = subsampling.upper(mechanism, 1e-5), subsampling.lower(mechanism, 1e-5)
    monkeypatch.setattr(subsampling, "AT_ONCE", 1000)
    subsampling.losses.cache_clear()
    twice = subsampling.upper(mechanism, 1e-5), subsampling.lower(mechanism, 1e-5)
    subsampling.losses.cache_clear()
    assert twice == pytest.approx(once, rel=1e-6)


@every("multiplier", [0.01, 0.3, 1.0, 1.7, 40.0])
def test_a_guarantee_in_words_is_not_below_its_epsilon_nor_above_what_it_is_at_least(multiplier):
    found = guarantee(GaussianMechanism(multiplier, 10, "poisson", 0.1), 1e-5)
    said = str(found).split(" at delta")[0].replace(")", "").split()
    assert float(said[1]) >= found.epsilon
    assert float(said[-1]) <= found.at_least or found.at_least == found.epsilon
