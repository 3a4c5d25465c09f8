"""The temperature of the softmax prior over the iterations: its logits are divided by it.

*constant*: 1 throughout, as in all of the paper's experiments. *cool* and *heat* are the schedules of the published
implementation: from 1,000 down by 2 % and from 0.1 up by 1 % per iteration. A pair (first, factor) is a schedule too.
The distributions that an attack ends with are read at temperature 1, as there.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np

TEMPERATURES: dict[str, tuple[float, float]] = {"constant": (1.0, 1.0), "cool": (1000.0, 0.98), "heat": (0.1, 1.01)}
COLDEST, HOTTEST = 1e-6, 1e6  # beyond, a softmax in single precision is a maximum or even, and stays so


def schedule(temperature: str | tuple[float, float]) -> Iterator[float]:
    """The temperature of each iteration. Raises ValueError unless it is a known name or two positive numbers."""
    if isinstance(temperature, str):
        if temperature not in TEMPERATURES:
            raise ValueError(f"temperature {temperature!r} is not one of {sorted(TEMPERATURES)}")
        temperature = TEMPERATURES[temperature]
    first, factor = temperature
    if not (0 < first < np.inf and 0 < factor < np.inf):
        raise ValueError(f"temperature {temperature} must be a first value and a factor, both positive")
    return repeat(first) if factor == 1 else _geometric(first, factor)


def read_temperature(value: Any) -> str | tuple[float, float]:
    """What a configuration says: the name of a schedule, or its first value and its factor. Raises ValueError."""
    if not isinstance(value, str) and not (
        isinstance(value, list | tuple) and len(value) == 2 and all(type(v) in (int, float) for v in value)
    ):
        raise ValueError('write "constant", "cool", "heat" or [first, factor]')
    temperature = value if isinstance(value, str) else (float(value[0]), float(value[1]))
    schedule(temperature)
    return temperature


def _geometric(value: float, factor: float) -> Iterator[float]:
    while True:
        yield min(max(value, COLDEST), HOTTEST)
        value *= factor
