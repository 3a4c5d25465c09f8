from itertools import islice

import pytest

from leakledger.attacks.gradient.tableak.temperature import COLDEST, HOTTEST, TEMPERATURES, schedule


@pytest.mark.parametrize(
    ("temperature", "first"),
    [
        ("constant", [1.0, 1.0, 1.0]),
        ("cool", [1000.0, 980.0, 960.4]),
        ("heat", [0.1, 0.101, 0.10201]),
        ((8.0, 0.5), [8.0, 4.0, 2.0]),
        ((8.0, 1), [8.0, 8.0, 8.0]),
    ],
)
def test_a_schedule_starts_at_its_first_value_and_multiplies_by_its_factor(temperature, first):
    assert list(islice(schedule(temperature), 3)) == pytest.approx(first)


@pytest.mark.parametrize("temperature", [*TEMPERATURES, (1e300, 10.0), (1e-300, 0.1)])
def test_no_iteration_divides_by_what_single_precision_cannot_hold(temperature):
    values = list(islice(schedule(temperature), 5_000))
    assert min(values) >= COLDEST
    assert max(values) <= HOTTEST


@pytest.mark.parametrize("temperature", ["warm", (0.0, 1.0), (1.0, -1.0), (float("nan"), 1.0), (1.0, float("inf"))])
def test_a_schedule_that_is_none_is_refused_with_its_value(temperature):
    with pytest.raises(ValueError, match="temperature") as error:
        schedule(temperature)
    assert str(temperature) in str(error.value)
