"""Named arrays that code of others was given, and gives back: an update after a defense."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def alike(who: str, given: Mapping[str, NDArray[Any]], returned: Any) -> dict[str, NDArray[Any]]:
    """What `who` made of named arrays. Raises ValueError, naming it, unless that has the names, shapes and types of
    what it was given.
    """
    if not isinstance(returned, Mapping):
        raise ValueError(f"{who} returned a value of type {type(returned).__name__}, no update")
    for name in dict.fromkeys([*given, *returned]):
        was, now = (_described(arrays.get(name)) for arrays in (given, returned))
        if was != now:
            raise ValueError(f"{who} made {now} of {name}, which was {was}")
    return dict(returned)


def _described(array: Any) -> str:
    return f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else f"a {type(array).__name__}"
