import pytest

from leakledger.defenses.accounting.chain import NoGuarantee, mechanism_of
from leakledger.defenses.accounting.mechanism import GaussianMechanism
from leakledger.defenses.gaussian_noise import GaussianNoise
from leakledger.preprocess.views import Mechanism
from tests.every import every

NOISE = Mechanism("gaussian-noise", {"sigma": 0.5})
CLIENT = Mechanism("client-clipping", {"clip_norm": 2.0})
EXAMPLE = Mechanism("example-clipping", {"clip_norm": 2.0})


def test_a_clipped_client_with_noise_is_a_mechanism_on_clients():
    assert mechanism_of([CLIENT, NOISE], rounds=3) == GaussianMechanism(0.25, 3, unit="client")


def test_clipped_examples_are_diluted_by_the_mean_over_the_batch():
    assert mechanism_of([EXAMPLE, NOISE], rounds=3, batch_size=8) == GaussianMechanism(2.0, 3, unit="record")


def test_the_last_bound_before_the_noise_counts_and_what_comes_after_it_costs_nothing():
    twice = [EXAMPLE, CLIENT, NOISE, Mechanism("client-clipping", {"clip_norm": 0.1})]
    assert mechanism_of(twice, rounds=1) == GaussianMechanism(0.25, 1, unit="client")


def test_noise_that_is_added_twice_adds_up_like_squares_but_not_across_a_later_clipping():
    noise = [Mechanism("gaussian-noise", {"sigma": s}) for s in (3.0, 4.0)]
    assert mechanism_of([CLIENT, *noise], rounds=1).noise_multiplier == pytest.approx(2.5)
    assert mechanism_of([CLIENT, noise[0], CLIENT, noise[1]], rounds=1).noise_multiplier == pytest.approx(1.5)


def test_the_noise_of_the_package_alone_has_no_epsilon():
    with pytest.raises(NoGuarantee, match="noise without clipping"):
        mechanism_of(GaussianNoise(0.1).mechanisms(), rounds=1)


@every(
    ("chain", "reason"),
    [
        ([], "nothing is done"),
        ([NOISE], "noise without clipping"),
        ([CLIENT], "client-clipping without noise"),
        ([EXAMPLE], "example-clipping without noise"),
        ([NOISE, CLIENT], "noise comes before clipping"),
        ([Mechanism("client-clipping", {"clip_norm": "median"}), NOISE], "'median', not a number fixed in advance"),
        ([Mechanism("client-clipping", {}), NOISE], "None, not a number fixed in advance"),
        ([Mechanism("client-clipping", {"clip_norm": float("inf")}), NOISE], "is inf"),
        ([CLIENT, Mechanism("gaussian-noise", {"sigma": 0.0})], "sigma of gaussian-noise is 0.0"),
        ([CLIENT, NOISE, Mechanism("rounding", {})], "'rounding' does"),
    ],
)
def test_a_chain_that_has_no_epsilon_is_refused_with_the_reason(chain, reason):
    with pytest.raises(NoGuarantee, match=reason):
        mechanism_of(chain, rounds=1, batch_size=8)


def test_examples_clipped_in_several_local_steps_have_no_bound():
    with pytest.raises(NoGuarantee, match="5 local steps"):
        mechanism_of([EXAMPLE, NOISE], rounds=1, batch_size=8, local_steps=5)
    assert mechanism_of([CLIENT, NOISE], rounds=1, local_steps=5).unit == "client"


def test_a_mean_over_an_unknown_batch_is_a_question_and_no_guess():
    with pytest.raises(ValueError, match="batch_size is None"):
        mechanism_of([EXAMPLE, NOISE], rounds=1)
