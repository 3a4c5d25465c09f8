"""Wrong claims are refuted, right ones hold, and what nobody can say is not said."""

import numpy as np
import pytest

from leakledger.audit.dp_claims.check import EXIT_CODES, check
from leakledger.audit.dp_claims.readers.flower_central_dp import FlowerCentralDp
from leakledger.audit.dp_claims.readers.flower_local_dp import FlowerLocalDp
from leakledger.audit.dp_claims.readers.nvflare_gaussian import NvflareGaussian
from leakledger.audit.dp_claims.readers.nvflare_min_max_noise import NvflareMinMaxNoise
from leakledger.audit.dp_claims.readers.nvflare_percentile import NvflarePercentile
from leakledger.audit.dp_claims.readers.nvflare_svt import NvflareSvt
from leakledger.audit.dp_claims.readers.opacus import Opacus
from leakledger.audit.dp_claims.readers.plain import Plain
from leakledger.audit.dp_claims.words import in_words
from leakledger.defenses.accounting.gaussian import epsilon_of
from tests.every import every


def test_a_right_claim_holds_and_one_that_is_a_little_too_good_is_refuted_with_the_gap():
    right = check(Plain(delta=1e-5, epsilon=4.3772, noise_multiplier=1.0))
    assert (right.verdict, right.gap) == ("holds", 0)
    wrong = check(Plain(delta=1e-5, epsilon=4.0, noise_multiplier=1.0))
    assert wrong.verdict == "refuted"
    assert wrong.gap == pytest.approx(0.3772, abs=1e-4)
    assert wrong.noise_needed == pytest.approx(1.08, abs=0.01)
    assert check(Plain(delta=1e-5, epsilon=4.0, noise_multiplier=wrong.noise_needed * 1.0001)).verdict == "holds"


def test_noise_in_the_units_of_the_clip_norm_is_the_multiplier_times_the_norm():
    one = check(Plain(delta=1e-5, clip_norm=2.0, noise=3.0))
    assert one.epsilon == check(Plain(delta=1e-5, noise_multiplier=1.5)).epsilon
    mean = check(Plain(delta=1e-5, clip_norm=2.0, noise=3.0, mean_of=10))
    assert mean.epsilon == check(Plain(delta=1e-5, noise_multiplier=15.0)).epsilon


def test_the_textbooks_noise_for_ten_is_ten_point_three_nine():
    found = check(FlowerLocalDp(clipping_norm=1.0, sensitivity=1.0, epsilon=10.0, delta=1e-5, relation="add-remove"))
    assert found.verdict == "refuted"
    assert found.epsilon == pytest.approx(10.39, abs=0.005)


def test_a_sensitivity_apart_from_the_clip_norm_is_held_against_the_clip_norm():
    platform = {"clipping_norm": 1.0, "sensitivity": 1e-4, "epsilon": 10.0, "delta": 1e-5}
    absent = check(FlowerLocalDp(**platform, relation="add-remove"))
    assert absent.mu_per_round == pytest.approx(20_640, rel=1e-4)
    assert absent.epsilon == pytest.approx(epsilon_of(1e-5, 1 / 4.844805e-5), rel=1e-5)
    local = check(FlowerLocalDp(**platform))
    assert local.mu_per_round == pytest.approx(2 * 20_640, rel=1e-4)
    assert local.other_relation == pytest.approx(absent.epsilon)
    assert (local.verdict, absent.verdict) == ("refuted", "refuted")
    said = " ".join(local.explained)
    assert "20,000 times what the noise is made for" in said
    assert "Nothing compares the two parameters" in said
    assert "One" not in check(FlowerLocalDp(**platform, rounds=5)).explained[2]


def test_local_noise_that_is_made_for_twice_the_clip_norm_holds_below_one():
    honest = {"clipping_norm": 1.0, "sensitivity": 2.0, "epsilon": 0.9, "delta": 1e-5}
    found = check(FlowerLocalDp(**honest))
    assert found.verdict == "holds"
    assert "covers" in found.explained[1]
    assert check(FlowerLocalDp(**honest, rounds=2)).verdict == "refuted"
    assert check(NvflareGaussian(**honest)).epsilon == found.epsilon


def test_no_sensitivity_is_no_noise_and_no_epsilon():
    found = check(FlowerLocalDp(clipping_norm=1.0, sensitivity=0.0, epsilon=1.0, delta=1e-5))
    assert (found.verdict, found.epsilon, found.at_least) == ("refuted", None, None)


def test_a_heavy_client_moves_a_weighted_mean_further_than_its_noise_is_made_for():
    settings = {"noise_multiplier": 1.0, "clipping_norm": 3.0, "num_sampled_clients": 10, "delta": 1e-5, "epsilon": 10}
    plain = check(FlowerCentralDp(**settings))
    assert plain.verdict == "holds"
    assert any("largest_weight" in question for question in plain.unknown)
    heavy = check(FlowerCentralDp(**settings, largest_weight=0.5))
    assert heavy.mu_per_round == pytest.approx(10)
    assert heavy.verdict == "refuted"
    light = check(FlowerCentralDp(**settings, largest_weight=0.01))  # a mean of ten has one of a tenth at least
    assert light.epsilon == plain.epsilon


def test_a_mean_that_is_divided_by_the_clients_that_are_there_is_moved_by_twice_the_norm_when_one_is_gone():
    others = -np.ones(9)  # clipped to 1, against the tenth
    moved = np.mean([*others, 1.0]) - np.mean(others)
    noise = 1.0 / 10  # noise_multiplier clipping_norm / num_sampled_clients
    settings = {"noise_multiplier": 1.0, "clipping_norm": 1.0, "num_sampled_clients": 10, "delta": 1e-5}
    found = check(FlowerCentralDp(**settings, epsilon=4.4))
    assert found.mu_per_round >= moved / noise - 1e-12
    assert found.other_relation is None
    assert found.verdict == "refuted"
    for told in ({"relation": "add-remove"}, {"sampling": "poisson", "population": 100}):
        with pytest.raises(ValueError, match="divide"):
            check(FlowerCentralDp(**settings, **told))


def test_of_a_mean_it_is_asked_whether_its_divisor_is_fixed_where_neighbours_differ_by_a_unit():
    mean = {"delta": 1e-5, "noise": 0.01, "clip_norm": 1.0, "mean_of": 100}
    assert any("fixed in advance" in q and "divided by" in q for q in check(Plain(**mean)).unknown)
    assert check(Plain(**mean, relation="replace")).other_relation is None
    for settings in ({**mean, "relation": "replace"}, {**mean, "mean_of": 1}):
        assert not any("divided by" in question for question in check(Plain(**settings)).unknown)


def test_coins_that_nobody_stated_are_said_to_be_assumed():
    rate = {"delta": 1e-5, "noise_multiplier": 1.0, "batch": 10, "population": 1000}
    assumed, stated = check(Plain(**rate)), check(Plain(**rate, sampling="poisson"))
    assert assumed.epsilon == stated.epsilon
    assert any("sampling is not stated" in said for said in assumed.explained)
    assert not any("not stated" in said for said in stated.explained)
    for found in (assumed, stated):
        assert any("whether batches are drawn as stated" in question for question in found.unknown)
    everyone = check(Plain(delta=1e-5, noise_multiplier=1.0))
    assert not any("drawn as stated" in question for question in everyone.unknown)


def test_no_claim_holds_by_coins_that_nobody_stated():
    """Shuffled, the same settings have an epsilon of 6.4 (`test_batches_that_are_shuffled_have_no_luck`)."""
    settings = {"delta": 1e-5, "noise_multiplier": 1.0, "sampling_rate": 0.01, "rounds": 1000}
    assert check(Plain(**settings, epsilon=1.83, sampling="poisson")).verdict == "holds"
    assumed = check(Plain(**settings, epsilon=1.83))
    assert assumed.verdict == "undecided"
    assert "the settings say too little for it to hold" in in_words(assumed)
    assert check(Plain(**settings, epsilon=1.5)).verdict == "refuted"
    assert check(Plain(delta=1e-5, noise_multiplier=1.0, epsilon=4.4)).verdict == "holds"  # everyone, every round


def test_whose_records_are_several_is_asked_where_records_are_protected():
    for unit, asked in (("record", True), ("client", False)):
        found = check(Plain(delta=1e-5, noise_multiplier=1.0, unit=unit))
        assert any("whether a person has several records" in question for question in found.unknown) == asked


def test_clients_drawn_in_a_fixed_number_are_accounted_for_as_such():
    drawn = FlowerCentralDp(
        noise_multiplier=4.0, clipping_norm=1.0, num_sampled_clients=10, population=1000, rounds=20, delta=1e-5
    )
    found = check(drawn)
    assert "(replace)" in found.mechanism
    assert 0 < found.at_least < found.epsilon < epsilon_of(1e-5, 0.5 * 20**0.5)


def test_batches_that_are_shuffled_have_no_luck():
    settings = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "sample_rate": 0.01, "delta": 1e-5, "epsilon": 1.83}
    coins = check(Opacus(**settings, epochs=10))
    assert coins.verdict == "holds"
    assert check(Opacus(**settings, steps=1000)).epsilon == coins.epsilon
    shuffled = check(Opacus(**settings, epochs=10, poisson_sampling=False))
    assert shuffled.verdict == "refuted"
    assert shuffled.epsilon == epsilon_of(1e-5, 2 * 10**0.5)
    assert check(Opacus(**settings | {"epsilon": 10.0}, epochs=10, poisson_sampling=False)).verdict == "undecided"


def test_epochs_of_no_whole_number_of_batches_refute_by_the_fewest_steps_and_hold_by_the_most():
    settings = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "sample_rate": 0.3, "delta": 1e-5}
    of_steps = {steps: check(Opacus(**settings, steps=steps)) for steps in (6, 8)}
    epochs = check(Opacus(**settings, epochs=2))
    assert (epochs.at_least, epochs.epsilon) == (of_steps[6].at_least, of_steps[8].epsilon)
    assert "6 to 8 steps" in epochs.explained[1]
    as_opacus = check(Opacus(**settings, epochs=2, epsilon=of_steps[6].epsilon))  # which runs three batches of an epoch
    assert as_opacus.verdict == "undecided"
    assert check(Opacus(**settings, epochs=2, epsilon=of_steps[8].epsilon)).verdict == "holds"
    assert check(Opacus(**settings, epochs=2, epsilon=of_steps[6].at_least * 0.99)).verdict == "refuted"
    shuffled = check(Opacus(**settings, epochs=1, poisson_sampling=False))
    assert shuffled.at_least == check(Opacus(**settings, steps=3, poisson_sampling=False)).at_least


def test_epochs_are_said_to_be_those_of_an_even_sampler():
    settings = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "sample_rate": 0.1, "delta": 1e-5}
    assert "weighted sampler" in " ".join(check(Opacus(**settings, epochs=1)).explained)
    assert "weighted sampler" not in " ".join(check(Opacus(**settings, steps=10)).explained)


def test_a_claim_between_the_numeric_bounds_is_undecided_and_says_so():
    settings = {"noise_multiplier": 1.0, "sampling_rate": 0.01, "rounds": 1000, "delta": 1e-5}
    whole = check(Plain(**settings))
    assert whole.verdict == "no claim"
    between = check(Plain(**settings, epsilon=(whole.at_least + whole.epsilon) / 2))
    assert between.verdict == "undecided"
    assert EXIT_CODES["undecided"] not in (EXIT_CODES["holds"], EXIT_CODES["refuted"], 2)


def test_the_sparse_vector_filter_costs_what_it_releases_and_has_no_upper_bound():
    found = check(NvflareSvt(parameters=7_033_291))
    assert found.at_least == pytest.approx(70_333, abs=0.5)  # users measured 70,333 on a model of this size
    assert (found.verdict, found.epsilon, found.delta) == ("refuted", None, 0)
    assert check(NvflareSvt(parameters=7_033_291, rounds=3)).at_least == pytest.approx(3 * found.at_least)
    small = NvflareSvt(parameters=1000, epsilon_release=0.5, epsilon=0.5, claimed_epsilon=1.0)
    assert check(small).verdict == "undecided"  # the filter's own account would say that it holds


def test_a_filter_that_releases_no_weight_is_not_refuted_and_does_not_hold():
    found = check(NvflareSvt(parameters=10, fraction=0.0))
    assert (found.verdict, found.at_least, found.epsilon) == ("undecided", 0, None)
    assert "no weight is released" in found.method


@every(
    ("settings", "parts"),
    [
        (Plain(noise_multiplier=2.0, delta=1e-5), ("of 2 times", "sum of the records'", "by 1 times", "1 round")),
        (
            Plain(noise=3.0, clip_norm=2.0, delta=1e-5, rounds=4, unit="client", relation="replace"),
            ("of 1.5 times", "one client", "by 2 times", "(replace)", "everyone in every round, 4 rounds"),
        ),
        (
            Opacus(noise_multiplier=1.0, max_grad_norm=1.0, sample_rate=0.1, steps=5, delta=1e-5),
            ("of 1 times", "by a coin of their own with probability 0.1 in each of 5 rounds"),
        ),
    ],
)
def test_it_is_said_how_the_numbers_were_read_noise_on_what_sensitivity_sampling_and_rounds(settings, parts):
    said = check(settings).explained[0]
    assert "standard deviation" in said
    for part in parts:
        assert part in said


def test_a_multiplier_on_a_mean_is_said_to_count_more_than_that_of_dp_sgd():
    found = check(Plain(delta=1e-5, noise_multiplier=1.0, mean_of=100))
    assert "noise_multiplier = 1 is read as noise on a mean" in found.explained[1]
    assert "100 times on their sum: 100 times the clip norm" in found.explained[1]
    assert "DP-SGD" in found.explained[1]
    assert not any("mean_of" in said for said in check(Plain(delta=1e-5, noise_multiplier=1.0)).explained)


def test_a_delta_that_allows_to_publish_everything_is_said_to_whoever_is_protected():
    large, small = (check(Plain(delta=d, noise_multiplier=1.0)).explained for d in (0.5, 1e-5))
    assert any("Delta 0.5 is large: publishing all data with that probability" in said for said in large)
    assert not any("publishing" in said for said in small)
    first = [in_words(check(Plain(epsilon=9.0, delta=d, noise_multiplier=1.0))).splitlines()[0] for d in (0.5, 1e-5)]
    assert ["says little at so large a delta" in line for line in first] == [True, False]


@every(("sampling", "relation"), [("poisson", "add-remove"), ("poisson", "replace"), ("fixed-size", "replace")])
def test_noise_beyond_what_accountants_can_count_leaves_next_to_nothing(sampling, relation):
    settings = {"delta": 1e-5, "sampling_rate": 0.01, "rounds": 300, "sampling": sampling, "relation": relation}
    for multiplier in (1e9, 1e154, 1e300):
        found = check(Plain(noise_multiplier=multiplier, **settings))
        assert 0 <= found.at_least <= found.epsilon < 1e-5


@every(
    ("settings", "reason"),
    [
        (Plain(delta=1e-5, epsilon=1.0, noise=0.1), "noise without clipping"),
        (Plain(delta=1e-5, epsilon=1.0, noise=0.0, clip_norm=1.0), "no noise is stated"),
        (NvflarePercentile(epsilon=1.0), "no noise is added"),
        (NvflareMinMaxNoise(min_noise_level=0.1, max_noise_level=0.3, epsilon=1.0), "between M/1.3 and M/1.1"),
        (
            Opacus(noise_multiplier=0.0, max_grad_norm=1.0, sample_rate=0.1, steps=1, delta=1e-5, epsilon=9.0),
            "no noise",
        ),
    ],
)
def test_settings_without_an_epsilon_refute_every_claim_with_the_reason(settings, reason):
    found = check(settings)
    assert (found.verdict, found.epsilon, found.at_least, found.gap) == ("refuted", None, None, None)
    assert reason in found.method


@every(
    ("settings", "message"),
    [
        (Plain(delta=1e-5), "neither noise nor noise_multiplier is stated"),
        (Plain(delta=1e-5, noise=1.0, noise_multiplier=1.0), "noise and noise_multiplier are stated"),
        (Plain(delta=1e-5, noise_multiplier=1.0, batch=10), "population is missing"),
        (
            Plain(delta=1e-5, noise_multiplier=1.0, batch=10, population=5),
            "batch is 10; it must be at most population, 5",
        ),
        (Plain(delta=1e-5, noise_multiplier=1.0, batch=1, population=5, sampling_rate=0.2), "leave one of them out"),
        (Plain(delta=1e-5, noise_multiplier=1.0, sampling_rate=0.2, sampling="fixed-size"), "relation = replace"),
        (Opacus(noise_multiplier=1.0, max_grad_norm=1.0, sample_rate=0.1, delta=1e-5), "neither steps nor epochs"),
        (
            FlowerCentralDp(noise_multiplier=1.0, clipping_norm=1.0, num_sampled_clients=9, population=3, delta=1e-5),
            "population is 3",
        ),
        (NvflareMinMaxNoise(min_noise_level=0.3, max_noise_level=0.1), "min_noise_level is 0.3"),
        (
            Opacus(noise_multiplier=1.0, max_grad_norm=1.0, sample_rate=1e-320, epochs=5, delta=1e-5),
            "which are inf steps; 1e\\+15 are accounted for at most",
        ),
    ],
)
def test_settings_that_say_too_little_or_contradict_themselves_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        check(settings)
