"""The Yeo-Johnson transformation: an increasing curve with one parameter that bends a column towards a normal one.

Source: Yeo and Johnson, "A new family of power transformations to improve normality or symmetry", Biometrika 87
(2000), eq. 2.1; as printed in "Bridging Local and Federated Data Normalization in Federated Learning", section III-A.
With power p, and q = 2 - p,

    y = ((1 + x)^p - 1) / p           x >= 0, log(1 + x) where p = 0
    y = -((1 - x)^q - 1) / q          x < 0, -log(1 - x) where q = 0

so both sides are one curve of |x|, of power p or q. Where that power is negative, the image is bounded: beyond it no
number has that image, and the inverse gives the farthest number that it gives at all.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FARTHEST = 35.0  # of log(1 + |x|): the inverse gives no number beyond 1.6e15, where float64 has no fractions left
EDGE = float(np.exp(-200.0))  # how near to the end of a bounded image the inverse comes


def yeo_johnson(raw: Any, power: Any) -> Floats:
    """The image of `raw` under `power`; both may be arrays, which broadcast."""
    logs, own = _sides(raw, power)
    safe = np.where(own == 0, 1.0, own)
    return np.asarray(np.sign(raw) * np.where(own == 0, logs, np.expm1(safe * logs) / safe))


def inverse(image: Any, power: Any) -> Floats:
    """The number with that image; beyond a bounded image, and beyond 1.6e15, the farthest number that there is."""
    image = np.asarray(image, np.float64)
    own = np.where(image >= 0, power, 2.0 - np.asarray(power, np.float64))
    safe = np.where(own == 0, 1.0, own)
    logs = np.where(own == 0, np.abs(image), np.log(np.maximum(1 + safe * np.abs(image), EDGE)) / safe)
    accurate = np.abs(safe * image) < 0.5
    logs = np.where(accurate & (own != 0), np.log1p(np.where(accurate, safe * np.abs(image), 0.0)) / safe, logs)
    return np.asarray(np.sign(image) * np.expm1(np.minimum(logs, FARTHEST)))


def slope(raw: Any, power: Any) -> Floats:
    """The derivative of the image at `raw`: positive everywhere."""
    logs, own = _sides(raw, power)
    return np.asarray(np.exp((own - 1) * logs))


def _sides(raw: Any, power: Any) -> tuple[Floats, Floats]:
    """log(1 + |x|), and the power of the side that x is on."""
    raw = np.asarray(raw, np.float64)
    return np.log1p(np.abs(raw)), np.where(raw >= 0, power, 2.0 - np.asarray(power, np.float64))
