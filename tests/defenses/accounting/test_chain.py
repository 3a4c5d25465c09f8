import numpy as np
import pytest

from leakledger.defenses import chain
from leakledger.defenses.accounting.chain import NoGuarantee, mechanism_of
from leakledger.defenses.accounting.mechanism import GaussianMechanism
from leakledger.defenses.client_clipping import ClientClipping
from leakledger.defenses.example_clipping import ExampleClipping
from leakledger.defenses.gaussian_noise import GaussianNoise
from leakledger.preprocess.views import Mechanism
from tests.every import every

NOISE = Mechanism("gaussian-noise", {"sigma": 0.5})
CLIENT = Mechanism("client-clipping", {"clip_norm": 2.0})
EXAMPLE = Mechanism("example-clipping", {"clip_norm": 2.0})


def test_a_clipped_client_with_noise_is_a_mechanism_on_clients():
    assert mechanism_of([CLIENT, NOISE], unit="client", rounds=3) == GaussianMechanism(0.25, 3, unit="client")


def test_clipped_examples_are_diluted_by_the_mean_over_the_batch():
    found = mechanism_of([EXAMPLE, NOISE], unit="record", rounds=3, batch_size=8)
    assert found == GaussianMechanism(2.0, 3, unit="record")


def test_each_unit_has_a_bound_of_its_own_and_what_comes_after_the_noise_costs_nothing():
    twice = [EXAMPLE, CLIENT, NOISE, Mechanism("client-clipping", {"clip_norm": 0.1})]
    assert mechanism_of(twice, unit="client", rounds=1) == GaussianMechanism(0.25, 1, unit="client")
    assert mechanism_of(twice, unit="record", rounds=1, batch_size=8) == GaussianMechanism(2.0, 1, unit="record")


@pytest.mark.parametrize(("relation", "most"), [("add-remove", 4.0), ("replace", 2.0)])
def test_a_record_moves_a_clipped_update_from_one_end_to_the_other_at_most(relation, most):
    wide = Mechanism("example-clipping", {"clip_norm": 100.0})
    found = mechanism_of([wide, CLIENT, NOISE], unit="record", rounds=1, batch_size=1, relation=relation)
    assert found.noise_multiplier == 0.5 / most
    assert found.mu == 4.0 / 0.5
    drawn = {"rounds": 1, "batch_size": 1, "sampling": "poisson", "sampling_rate": 0.1}
    coins = mechanism_of([wide, CLIENT, NOISE], unit="record", relation=relation, **drawn)
    assert coins.noise_multiplier == 0.5 / 4.0  # without the record it may be at the other end, whatever the relation


def test_two_updates_that_differ_in_one_record_are_no_further_apart_than_is_accounted_for():
    """A batch whose sum of clipped gradients one record turns round: +0.25 without it, -0.25 with it, both clipped."""
    rng = np.random.default_rng(0)
    clipped = chain(ExampleClipping(10.0), ClientClipping(0.5))
    worst = dict.fromkeys(("add-remove", "replace"), 0.0)
    for _ in range(300):
        rows = rng.normal(size=(8, 3)) * rng.choice([0.1, 1.0, 10.0])
        rows *= np.minimum(1, 10 / np.linalg.norm(rows, axis=1, keepdims=True))
        other = -10 * rows[:7].sum(0) / np.linalg.norm(rows[:7].sum(0))
        mean, without, turned = (x / 8 for x in (rows.sum(0), rows[:7].sum(0), rows[:7].sum(0) + other))
        sent = [clipped.protect({"w": m.astype(np.float32)}, rng)["w"] for m in (mean, without, turned)]
        worst["add-remove"] = max(worst["add-remove"], np.linalg.norm(sent[2] - sent[1]))
        worst["replace"] = max(worst["replace"], np.linalg.norm(sent[2] - sent[0]))
    for relation, distance in worst.items():
        stated = mechanism_of([*clipped.mechanisms(), NOISE], unit="record", rounds=1, batch_size=8, relation=relation)
        assert 0.9 < distance <= 0.5 * stated.mu * 1.00001


def test_sampling_of_records_amplifies_nothing_for_a_client_and_nothing_where_no_record_is_clipped():
    drawn = {"rounds": 1, "batch_size": 8, "sampling": "poisson", "sampling_rate": 0.01}
    assert mechanism_of([EXAMPLE, NOISE], unit="record", **drawn).sampling == "poisson"
    whole = GaussianMechanism(0.25, 1, unit="client", relation="replace")
    assert mechanism_of([CLIENT, NOISE], unit="record", **drawn) == whole


def test_noise_that_is_added_twice_adds_up_like_squares_but_not_across_a_later_clipping():
    noise = [Mechanism("gaussian-noise", {"sigma": s}) for s in (3.0, 4.0)]
    one = {"unit": "client", "rounds": 1}
    assert mechanism_of([CLIENT, *noise], **one).noise_multiplier == pytest.approx(2.5)
    assert mechanism_of([CLIENT, noise[0], CLIENT, noise[1]], **one).noise_multiplier == pytest.approx(1.5)


def test_the_noise_of_the_package_alone_has_no_epsilon():
    with pytest.raises(NoGuarantee, match="noise without clipping"):
        mechanism_of(GaussianNoise(0.1).mechanisms(), unit="record", rounds=1)


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
        mechanism_of(chain, unit="record", rounds=1, batch_size=8)


def test_examples_clipped_in_several_local_steps_have_no_bound():
    with pytest.raises(NoGuarantee, match="5 local steps"):
        mechanism_of([EXAMPLE, NOISE], unit="record", rounds=1, batch_size=8, local_steps=5)
    assert mechanism_of([CLIENT, NOISE], unit="record", rounds=1, local_steps=5).unit == "client"


def test_a_mean_over_an_unknown_batch_is_a_question_and_no_guess():
    with pytest.raises(ValueError, match="batch_size is None"):
        mechanism_of([EXAMPLE, NOISE], unit="record", rounds=1)
