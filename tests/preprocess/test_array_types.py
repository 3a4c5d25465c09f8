"""What a field that is an array says of its elements, however the installed numpy writes it."""

from types import GenericAlias
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from leakledger.preprocess.messages import arrays
from leakledger.preprocess.messages.arrays import element_type
from tests.every import every


class Alias:
    """`NDArray` as numpy writes it from 2.5 on: an alias with the element type as its parameter."""

    def __class_getitem__(cls, element: Any) -> GenericAlias:
        return GenericAlias(cls, (element,))


@pytest.fixture
def newer(monkeypatch):
    monkeypatch.setattr(arrays, "NDArray", Alias)
    element_type.cache_clear()
    yield Alias
    element_type.cache_clear()


ELEMENTS = [(np.float64, np.float64), (np.integer[Any], np.integer), (np.floating[Any], np.floating), (Any, Any)]


@every(("written", "element"), ELEMENTS)
def test_the_element_type_of_an_array(written, element):
    assert element_type(NDArray[written]) is element


@every(("written", "element"), ELEMENTS)
def test_the_element_type_of_an_array_of_newer_numpy(newer, written, element):
    assert element_type(newer[written]) is element
    assert element_type(np.ndarray[tuple[int, ...], np.dtype[written]]) is element


@every("hint", [int, None, Any, list[float], dict[str, int], int | None, np.ndarray, np.float64])
def test_other_types_are_no_arrays(hint):
    assert element_type(hint) is None
