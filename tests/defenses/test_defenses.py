"""What all defenses share, and what each does to the numbers of an update."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leakledger.defenses import DEFENSES, Defense, chain, defense_of
from leakledger.defenses.client_clipping import ClientClipping
from leakledger.defenses.example_clipping import ExampleClipping
from leakledger.defenses.gaussian_noise import GaussianNoise
from leakledger.defenses.pruning import Pruning
from leakledger.defenses.quantisation import Quantisation
from leakledger.preprocess.views import Mechanism
from tests.defenses.kinds import ONE_EACH, named

numbers = st.floats(-1e3, 1e3, width=32)
updates = st.fixed_dictionaries(
    {"0.weight": arrays(np.float32, (4, 3), elements=numbers), "0.bias": arrays(np.float32, 4, elements=numbers)}
)


def coins(seed=0):
    return np.random.default_rng(seed)


def norm(update):
    return float(np.sqrt(sum(np.square(a, dtype=np.float64).sum() for a in update.values())))


def test_a_defense_of_every_kind_is_tried_here():
    assert {m.kind for d in ONE_EACH for m in d.mechanisms()} == set(DEFENSES)


@named()
@given(update=updates)
def test_names_shapes_and_types_stay_and_the_input_is_untouched(defense, update):
    before = {name: a.copy() for name, a in update.items()}
    sent = defense.protect(update, coins())
    assert {n: (a.shape, a.dtype) for n, a in sent.items()} == {n: (a.shape, a.dtype) for n, a in update.items()}
    for name, a in update.items():
        np.testing.assert_array_equal(a, before[name])


@named()
def test_what_is_public_about_a_defense_makes_the_same_one_again(defense):
    plain = json.loads(json.dumps([m.to_plain() for m in defense.mechanisms()]))
    again = defense_of(Mechanism(**m) for m in plain)
    assert again.mechanisms() == defense.mechanisms()
    assert again.row_clip_norm == defense.row_clip_norm
    update = {"0.bias": np.linspace(-2, 3, 9, dtype=np.float32)}
    np.testing.assert_array_equal(
        again.protect(update, coins(3))["0.bias"], defense.protect(update, coins(3))["0.bias"]
    )


def returning(returned):
    """A defense of another package."""
    return type("Theirs", (Defense,), {"name": "theirs", "reference": "", "protect": lambda _, u, coins: returned(u)})()


def spoilt(update):
    for array in update.values():
        array[...] = np.nan
    return update


STRANGE = {
    "no numbers": (spoilt, "numbers of 0.bias that are not finite, of finite ones"),
    "nothing": (lambda update: None, "returned a value of type NoneType, no update"),
    "less": (lambda update: {n: a[:1] for n, a in update.items()}, r"made float32 \(1,\) of 0.bias, which was"),
}


@pytest.mark.parametrize("what", STRANGE)
def test_a_defense_that_returns_what_is_no_update_is_named(what):
    returned, told = STRANGE[what]
    update = {"0.bias": np.ones(4, np.float32)}
    guard = chain(GaussianNoise(0.1), chain(returning(returned)), Pruning(0.5))
    with pytest.raises(ValueError, match=f"^the defense theirs (made )?{told}"):
        guard.protect(update, coins())
    assert (update["0.bias"] == 1).all()


def test_an_update_that_was_not_finite_before_is_no_matter_of_the_defense():
    assert np.isnan(chain(Pruning(0.5)).protect({"0.bias": np.full(4, np.nan, np.float32)}, coins())["0.bias"]).any()


def test_a_mechanism_that_no_defense_has_is_refused_by_name():
    with pytest.raises(ValueError, match="no defense is called 'homomorphic'; known are gaussian-noise"):
        defense_of([Mechanism("gaussian-noise", {"sigma": 0.1}), Mechanism("homomorphic")])
    with pytest.raises(ValueError, match=r"gaussian-noise has no parameter 'sgima'; it has sigma"):
        defense_of([Mechanism("gaussian-noise", {"sgima": 0.1})])
    with pytest.raises(ValueError, match="gaussian-noise needs sigma"):
        defense_of([Mechanism("gaussian-noise")])


@given(updates, st.floats(0.01, 1e4))
def test_a_clipped_update_is_no_longer_than_the_norm_and_keeps_its_direction(update, clip_norm):
    sent = ClientClipping(clip_norm).protect(update, coins())
    assert norm(sent) <= clip_norm * (1 + 1e-6)
    factor = min(1.0, clip_norm / max(norm(update), 1e-300))
    for name, a in update.items():
        np.testing.assert_allclose(sent[name], a * factor, rtol=1e-6, atol=1e-30)


def test_an_update_within_the_norm_is_sent_unchanged():
    update = {"0.weight": np.array([[3.0, 4.0]], np.float32)}
    np.testing.assert_array_equal(ClientClipping(5.0).protect(update, coins())["0.weight"], update["0.weight"])


@given(updates, st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_pruning_sets_the_stated_share_of_each_tensor_to_zero_and_keeps_the_largest_as_they_are(update, share):
    sent = Pruning(share).protect(update, coins())
    for name, a in update.items():
        pruned = sent[name] != a
        count = int(share * a.size)
        assert (sent[name][pruned] == 0).all()
        assert (sent[name] == 0).sum() >= count >= pruned.sum()
        kept = np.sort(np.abs(a).ravel())[count:]
        np.testing.assert_array_equal(np.sort(np.abs(sent[name]).ravel())[count:], kept)


@given(updates, st.integers(2, 24), st.sampled_from(["nearest", "stochastic"]))
def test_quantised_tensors_hold_evenly_spaced_levels_with_zero_and_both_ends_among_them(update, bits, rounding):
    sent = Quantisation(bits, rounding).protect(update, coins())
    for name, a in update.items():
        largest = float(np.abs(a).max())
        step = largest / (2 ** (bits - 1) - 1)
        if largest == 0:
            np.testing.assert_array_equal(sent[name], 0)
            continue
        place = sent[name].astype(np.float64) / step
        np.testing.assert_allclose(place, np.rint(place), atol=1e-6 * 2**bits)
        assert np.abs(sent[name]).max() <= largest * (1 + 1e-6)
        off = np.abs(sent[name].astype(np.float64) - a) / step
        assert off.max() <= (0.5 if rounding == "nearest" else 1) + 1e-6 * 2**bits
        np.testing.assert_array_equal(sent[name][a == 0], 0)


def test_two_bits_leave_three_levels():
    update = {"0.bias": np.array([-2.0, -1.2, -0.9, 0.0, 0.4, 1.01, 2.0], np.float32)}
    sent = Quantisation(2).protect(update, coins())["0.bias"]
    np.testing.assert_array_equal(sent, [-2, -2, 0, 0, 0, 2, 2])


def test_stochastic_rounding_is_right_in_the_mean_and_nearest_is_not():
    """The mean of n draws is within 6 standard errors; a draw varies by half a step at most."""
    update, draws, stream = {"0.bias": np.linspace(-1, 1, 41, dtype=np.float32)}, 4000, coins(1)
    stochastic = Quantisation(3, "stochastic")
    mean = np.mean([stochastic.protect(update, stream)["0.bias"] for _ in range(draws)], axis=0, dtype=np.float64)
    tolerance = 6 * (1 / 3) / 2 / np.sqrt(draws)
    assert np.abs(mean - update["0.bias"]).max() < tolerance
    assert np.abs(Quantisation(3).protect(update, coins())["0.bias"] - update["0.bias"]).max() > tolerance


def test_rows_are_clipped_first_or_not_at_all():
    noise, rows = GaussianNoise(0.1), ExampleClipping(2.0)
    assert chain(rows, noise).row_clip_norm == chain(chain(rows), noise).row_clip_norm == 2.0
    assert chain(noise).row_clip_norm is chain().row_clip_norm is None
    for parts in ((noise, rows), (chain(noise), rows), (noise, chain(rows)), (rows, ExampleClipping(1.0))):
        with pytest.raises(ValueError, match=r"example-clipping must come first, not after [a-z-]+: it clips") as error:
            chain(*parts)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ExampleClipping(0.0), "clip_norm is 0.0; it must be above 0"),
        (lambda: ExampleClipping(float("inf")), "clip_norm is inf; it must be finite"),
        (lambda: ClientClipping(-1.0), "clip_norm is -1.0; it must be above 0"),
        (lambda: Pruning(1.0), "share is 1.0; it must be below 1"),
        (lambda: Pruning(0.0), "share is 0.0; it must be above 0"),
        (lambda: Pruning(-0.1), "share is -0.1; it must be above 0"),
        (lambda: Quantisation(0), "bits is 0; it must be at least 2"),
        (lambda: Quantisation(1), "bits is 1; it must be at least 2"),
        (lambda: Quantisation(25), "bits is 25; it must be at most 24"),
        (lambda: Quantisation(4, "up"), "rounding 'up' is unknown; choose one of nearest, stochastic"),
    ],
)
def test_a_parameter_out_of_range_is_refused_with_its_value(make, problem):
    with pytest.raises(ValueError, match=problem):
        make()
