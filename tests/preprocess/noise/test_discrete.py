"""Exact discrete noise: the stated distributions, drawn from uniform whole numbers and nothing else."""

import numpy as np
import pytest
from scipy import stats

from leakledger.preprocess.noise.discrete import bernoulli_exp, discrete_gaussian, discrete_laplace
from leakledger.preprocess.noise.integers import from_generator, from_stream
from leakledger.preprocess.secret import KeyStream, pinned

DRAWS = 40_000
ALARM = 1e-7  # the chance that a right sampler fails one of these tests
SOURCES = {
    "generator": lambda: from_generator(np.random.default_rng(1)),
    "key stream": lambda: from_stream(KeyStream(pinned("noise"))),
}


def p_of(drawn, weight, reach):
    """The chi-square p-value of whole numbers against P(x) proportional to `weight`, tails beyond `reach` in one."""
    support = np.arange(-50 * reach, 50 * reach + 1)
    chance = weight(support)
    chance /= chance.sum()
    inside = np.abs(support) <= reach
    expected = np.append(chance[inside], chance[~inside].sum()) * len(drawn)
    counts = np.array([(drawn == x).sum() for x in support[inside]])
    return stats.chisquare(np.append(counts, len(drawn) - counts.sum()), expected).pvalue


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("scale", [1, 2, 5])
def test_laplace_noise_has_the_stated_distribution(source, scale):
    drawn = discrete_laplace(scale, DRAWS, SOURCES[source]())
    assert p_of(drawn, lambda x: np.exp(-np.abs(x) / scale), 6 * scale) > ALARM


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("scale", [1, 3, 7])
def test_gaussian_noise_has_the_stated_distribution(source, scale):
    drawn = discrete_gaussian(scale, DRAWS, SOURCES[source]())
    assert p_of(drawn, lambda x: np.exp(-(x**2) / (2 * scale**2)), 3 * scale) > ALARM


@pytest.mark.parametrize(("above", "under"), [(0, 3), (1, 2), (1, 1), (7, 3), (20, 7)])
def test_a_coin_falls_with_the_exponential_of_a_fraction(above, under):
    fell = bernoulli_exp(np.full(DRAWS, above), np.full(DRAWS, under), SOURCES["generator"]())
    assert stats.binomtest(int(fell.sum()), DRAWS, np.exp(-above / under)).pvalue > ALARM


@pytest.mark.parametrize("scale", [2049, 4096])
def test_wide_noise_is_as_wide_as_stated(scale):
    drawn = discrete_gaussian(scale, DRAWS, SOURCES["generator"]()) / scale
    assert stats.kstest(drawn, "norm").pvalue > ALARM


@pytest.mark.parametrize(
    ("sample", "scale"), [(discrete_laplace, 0), (discrete_gaussian, 0), (discrete_gaussian, 5000)]
)
def test_a_scale_that_cannot_be_drawn_is_refused_with_its_value(sample, scale):
    with pytest.raises(ValueError, match=str(scale)):
        sample(scale, 1, SOURCES["generator"]())


class Bytes:
    """A stream of given bytes."""

    def __init__(self, content):
        self.left = content

    def bytes(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return taken


def test_a_number_in_the_last_incomplete_range_is_drawn_again():
    # 2^64 - 1 = 3 (2^64 // 3): it is alone in an incomplete range of three, and would make 0 likelier
    stream = Bytes(b"\xff" * 8 + (7).to_bytes(8, "little"))
    assert from_stream(stream)(np.array([3])).tolist() == [1]
    assert stream.left == b""


def test_numbers_below_bounds_are_even_whatever_the_bound():
    drawn = SOURCES["key stream"]()(np.full(DRAWS, 7))
    assert stats.chisquare(np.bincount(drawn, minlength=7)).pvalue > ALARM
    assert len(np.bincount(drawn)) == 7


def test_the_same_key_stream_gives_the_same_noise_and_another_one_other_noise():
    one, same, other = (
        discrete_laplace(1000, 5, from_stream(KeyStream(pinned(name)))).tolist() for name in ("a", "a", "b")
    )
    assert one == same != other
