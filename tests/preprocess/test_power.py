import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import PowerTransformer

from leakledger.preprocess.power import inverse, slope, yeo_johnson
from leakledger.preprocess.views import FeatureLayout, NumericBlock

powers = st.floats(-2, 4)
numbers = st.floats(-1e5, 1e5)


@given(numbers, powers)
def test_the_inverse_undoes_the_curve_as_far_as_float64_holds_the_image(x, power):
    image = yeo_johnson(x, power)
    lost = 4 * np.spacing(np.abs(image)) / slope(x, power)  # of the image's last places
    assert abs(float(inverse(image, power)) - x) <= 1e-9 * (1 + abs(x)) + lost * (1 + abs(x))


@given(st.lists(numbers, min_size=2, max_size=5, unique=True), powers)
def test_the_curve_rises(xs, power):
    image = yeo_johnson(np.sort(xs), power)
    assert (np.diff(image) >= 0).all()


@given(st.floats(-50, 50), powers)
def test_the_slope_is_the_derivative(x, power):
    step = 1e-6 * (1 + abs(x))
    measured = (yeo_johnson(x + step, power) - yeo_johnson(x - step, power)) / (2 * step)
    assert float(slope(x, power)) == pytest.approx(float(measured), rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("power", [-1.3, 0.0, 0.5, 1.0, 2.0, 3.1])
def test_it_is_the_curve_of_a_known_library(power):
    column = np.array([[-3.0], [-0.5], [0.0], [0.2], [4.0]])
    fitted = PowerTransformer(standardize=False).fit(column)
    fitted.lambdas_ = np.array([power])
    np.testing.assert_allclose(yeo_johnson(column, power), fitted.transform(column), rtol=1e-12)


def test_beyond_a_bounded_image_stands_the_farthest_number_and_none_that_is_not_finite():
    for power in (-2.0, -0.01, 0.0, 1.0, 2.01, 4.0):
        far = inverse(np.array([-1e9, -1e3, 1e3, 1e9]), power)
        assert np.isfinite(far).all()
        assert (np.diff(far) >= 0).all()


@given(st.floats(-100, 100), powers, st.floats(-5, 5), st.floats(0.1, 9))
def test_a_block_reads_its_own_encoding_back(x, power, shift, scale):
    block = NumericBlock("f", 0, shift, scale, power=power)
    encoded = block.encoded(x)
    lost = 1e-13 * (1 + np.abs(encoded)) * block.slope(encoded) * (1 + abs(shift) / scale)
    assert abs(float(block.raw(encoded)) - x) <= 1e-8 * (1 + abs(x)) + lost


def test_a_block_keeps_its_curve_in_plain_data_and_others_have_none():
    bent, straight = NumericBlock("f", 0, 1.0, 2.0, power=0.3), NumericBlock("g", 1, 1.0, 2.0)
    layout = FeatureLayout((bent, straight))
    assert FeatureLayout.from_plain(layout.to_plain()) == layout
    assert "power" not in straight.to_plain()
    assert not bent.affine
    assert straight.affine
    assert NumericBlock("h", 2, power=0.3).affine  # nothing can be read back: its own units
