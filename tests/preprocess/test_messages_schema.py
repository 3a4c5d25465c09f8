"""What a field of a message accepts: the declared type, and nothing that is merely like it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from leakledger.preprocess.messages.schema import SchemaError, check
from tests.every import every


@dataclass(frozen=True)
class Tally:
    total: float
    values: tuple[str, ...]


@every(
    ("hint", "plain", "expected"),
    [
        (Any, {"x": [1]}, {"x": [1]}),
        (int, 3, 3),
        (float, 3, 3.0),
        (float, 0.5, 0.5),
        (bool, True, True),
        (str, "x", "x"),
        (None, None, None),
        (int | None, None, None),
        (int | None, 3, 3),
        (int | str, "x", "x"),
        (list[int], [1, 2], [1, 2]),
        (list[float], [1, 0.5], [1.0, 0.5]),
        (list[Any], [1, "x"], [1, "x"]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
        (dict[str, float], {"a": 1}, {"a": 1.0}),
        (Tally, {"total": 2, "values": ["a"]}, Tally(2.0, ("a",))),
        (list[Tally], [{"total": 2, "values": []}], [Tally(2.0, ())]),
    ],
)
def test_what_is_of_the_declared_type_is_accepted_in_that_type(hint: Any, plain: Any, expected: Any) -> None:
    checked = check(hint, plain)
    assert checked == expected
    assert repr(checked) == repr(expected)  # 3 == 3.0 and True == 1


@every(
    ("hint", "plain", "problem"),
    [
        (int, True, "bool, not int"),
        (int, 1.0, "float, not int"),
        (float, True, "bool, not float"),
        (float, "1", "str, not float"),
        (bool, 1, "int, not bool"),
        (str, b"x", "bytes, not str"),
        (bytes, "x", "str, not bytes"),
        (None, 0, "int, not NoneType"),
        (int | None, "x", "str, not NoneType"),
        (list[int], (1, 2), "tuple, not a list"),
        (list[int], [1, "x"], "str, not int"),
        (list[int], [1, True], "bool, not int"),
        (list[bool], [True, 1], "int, not bool"),
        (list[Tally], [Tally(2.0, ())], "Tally, not the fields total, values"),
        (tuple[int, ...], {"a": 1}, "dict, not a list"),
        (dict[str, int], [1], "list, not a mapping"),
        (dict[str, int], {"a": "x"}, "str, not int"),
        (Tally, {"total": 2.0}, "dict, not the fields total, values"),
        (Tally, {"total": 2.0, "values": [], "more": 1}, "dict, not the fields total, values"),
        (Tally, {"total": 2.0, "values": [1]}, "int, not str"),
        (Tally, [2.0, []], "list, not the fields"),
        (NDArray[np.float64], [0.0], "list, not an array of float64"),
        (NDArray[np.float64], np.zeros(1, np.float32), "an array of float32, not an array of float64"),
        (NDArray[np.floating[Any]], np.zeros(1, np.int64), "an array of int64, not an array of floating"),
        (NDArray[Any], [0.0], "list, not an array of numbers"),
    ],
)
def test_what_is_only_like_the_declared_type_is_refused_by_types(hint: Any, plain: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        check(hint, plain)


def test_an_array_is_accepted_by_its_family_of_numbers() -> None:
    for hint, dtype in ((NDArray[np.floating[Any]], "f4"), (NDArray[np.integer[Any]], "u8"), (NDArray[Any], "i2")):
        array = np.zeros(2, dtype)
        assert check(hint, array) is array
