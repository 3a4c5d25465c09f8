"""Array types of fields, as the versions of numpy write them."""

from functools import lru_cache
from typing import Any, get_args, get_origin

import numpy as np
from numpy.typing import NDArray


@lru_cache(None)
def element_type(hint: Any) -> Any:
    """T of `NDArray[T]`, without parameters of its own; None for a type that is no array's.

    From numpy 2.5 on `NDArray[T]` is an alias with T as its parameter, before that `np.ndarray[..., np.dtype[T]]`.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is not np.ndarray and origin is not NDArray:
        return None
    element = parts[0] if origin is NDArray else get_args(parts[1])[0]
    return get_origin(element) or element
