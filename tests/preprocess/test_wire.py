import json
import math
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from leakledger.preprocess.wire import (
    ARRAY,
    BIG_INTEGER,
    CONTAINER_BASE,
    DTYPES,
    MEMORY_BASE,
    MEMORY_FACTOR,
    WireError,
    decode,
    encode,
)
from tests.every import every
from tests.preprocess.hostile import array_extension, decoded, wide

dtypes = st.sampled_from(sorted(DTYPES)).map(np.dtype)
arrays = dtypes.flatmap(lambda d: npst.arrays(d, npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)))
scalars = (
    st.none() | st.booleans() | st.integers() | st.integers(-(2**200), 2**200) | st.floats() | st.text() | st.binary()
)
values = st.recursive(
    scalars | arrays, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


def same(one: Any, other: Any) -> bool:
    """Equal in type, shape and every bit; NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, float):
        return (one == other and math.copysign(1, one) == math.copysign(1, other)) or (one != one and other != other)
    return bool(one == other)


@pytest.mark.parametrize("value", [b"x" * 2**21, np.arange(2**18), np.ones((3, 2**17, 2), "<f4")[:, ::2]])
@pytest.mark.parametrize("around", [lambda v: v, lambda v: ["a", 1, v, [v]], lambda v: {"a": v, "b": {"c": [v]}}])
def test_what_is_large_has_the_bytes_that_the_packer_gives_all_of_it(value, around):
    def plain(v: Any) -> Any:
        if not isinstance(v, np.ndarray):
            return v
        return msgpack.ExtType(ARRAY, msgpack.packb([v.dtype.str, list(v.shape)]) + v.tobytes())

    data = encode(around(value))
    assert data == msgpack.packb(around(plain(value)))
    assert same(decode(data), around(value))


def test_keys_of_what_is_large_must_be_text():
    with pytest.raises(WireError, match="its keys must be text, not int"):
        encode({1: b"x" * 2**21})


@given(values)
@example([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, -1, 0])
@example({"": [], "nested": {"deeper": [{}]}})
@settings(deadline=None)
def test_what_is_decoded_is_what_was_encoded(value: Any) -> None:
    assert same(decode(encode(value)), value)


@every("dtype", sorted(DTYPES))
@every("shape", [(), (0,), (3, 0, 2), (1,), (2, 3)])
def test_every_numeric_dtype_and_shape_survives(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    assert same(decode(encode(array)), array)


def test_layout_and_byte_order_of_an_array_do_not_change_its_bytes() -> None:
    array = np.arange(6, dtype="<i4").reshape(2, 3)
    assert encode(np.asfortranarray(array)) == encode(array) == encode(array.astype(">i4")) == encode(array[::1])
    assert encode(array[:, ::2]) == encode(array[:, ::2].copy())


def test_tuples_arrive_as_lists_and_numpy_scalars_as_numbers() -> None:
    plain = decode(
        encode(OrderedDict(t=(1, (2.5,)), i=np.int8(-3), f=np.float32(0.5), b=np.bool_(True), s=np.str_("x")))
    )
    assert same(plain, {"t": [1, [2.5]], "i": -3, "f": 0.5, "b": True, "s": "x"})


def test_an_array_arrives_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        decode(encode(np.zeros(3)))[0] = 1


@every(
    ("value", "names"),
    [
        (object(), "object"),
        ([1, {"k": {1, 2}}], "set"),
        (1j, "complex"),
        (np.array(["text"]), "<U4"),
        (np.array([object()]), "object"),
        (np.zeros(1, "M8[s]"), "datetime64"),
        (np.longdouble(1), "longdouble"),
        ({1: "one"}, "int"),
        ({0: "zero"}, "int"),
        ({None: "nothing"}, "NoneType"),
        ({b"k": 1}, "bytes"),
        (np.ma.masked_array([1.0, 2.0], mask=[False, True]), "masked array"),
        ("\ud800", "surrogates"),
    ],
)
def test_a_value_without_encoding_is_refused_by_its_type(value: Any, names: str) -> None:
    with pytest.raises(WireError, match=names):
        encode(value)


def test_a_structure_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(WireError):
        encode(deep)
    with pytest.raises(WireError, match="nested too deeply"):
        decode(b"\x91" * 100_000 + b"\xc0")
    while deep:  # unwound by hand: the interpreter would recurse
        deep = deep[0]


@given(values, st.data())
@settings(deadline=None)
def test_a_truncated_or_extended_message_is_refused(value: Any, data: st.DataObject) -> None:
    encoded = encode(value)
    with pytest.raises(WireError):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(WireError):
        decode(encoded + data.draw(st.binary(min_size=1, max_size=3)))


@given(values, st.data())
@settings(deadline=None)
def test_a_flipped_bit_gives_plain_data_or_a_wire_error(value: Any, data: st.DataObject) -> None:
    damaged = bytearray(encode(value))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert_plain_or_refused(bytes(damaged))


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=500)
@example(bytes(msgpack.packb(msgpack.Timestamp(1))))
@example(bytes(msgpack.packb({b"k": 1})))
@example(bytes(msgpack.packb({"k": "v"})))
@example(b"\xdd\xff\xff\xff\xff")
def test_any_bytes_give_plain_data_or_a_wire_error(noise: bytes) -> None:
    assert_plain_or_refused(noise)


def assert_plain_or_refused(data: bytes) -> None:
    try:
        value = decode(data)
    except WireError:
        return
    assert same(decode(encode(value)), value)


@every(
    "malformed",
    [
        array_extension(["|O", [1]], bytes(8)),
        array_extension(["<f16", [1]], bytes(16)),
        array_extension(["V8", [1]], bytes(8)),
        array_extension([["<f8"], [1]], bytes(8)),
        array_extension(["<f8", [2]], bytes(8)),
        array_extension(["<f8", [-1, -1]], bytes(8)),
        array_extension(["<f8", [1.0]], bytes(8)),
        array_extension(["<f8", [0, 2**63, 2**63]], b""),
        array_extension(["<f8", [1] * 33], bytes(8)),
        array_extension(["<f8", 1], bytes(8)),
        array_extension(["<f8"], bytes(8)),
        array_extension("<f8", bytes(8)),
        array_extension(None, b""),
        bytes(msgpack.packb(msgpack.ExtType(ARRAY, b""))),
        bytes(msgpack.packb(msgpack.ExtType(BIG_INTEGER + 1, b"x"))),
        bytes(msgpack.packb("text")).replace(b"t", b"\xff"),
        b"",
    ],
)
def test_a_malformed_array_extension_or_text_is_refused(malformed: bytes) -> None:
    with pytest.raises(WireError):
        decode(malformed)


def test_an_array_whose_bytes_do_not_fit_its_shape_is_refused_by_both() -> None:
    with pytest.raises(WireError, match=r"an array of shape \(2, 3\) does not have 8 bytes"):
        decode(array_extension(["<f8", [2, 3]], bytes(8)))


def test_no_header_of_an_array_is_longer_than_what_is_read_of_it() -> None:
    widest = array_extension(["<f8", [0, *[2**32] * 31]], b"")
    with pytest.raises(WireError, match="ValueError"):  # numpy refuses the shape, after the header was read
        decode(widest)
    array = np.zeros((1,) * 32, np.float64)
    assert same(decode(encode(array)), array)


SIZES = [
    200_000,
    pytest.param(10**6, marks=pytest.mark.slow),
    *(pytest.param(n * 10**6, marks=pytest.mark.soak) for n in (5, 21)),
]


@pytest.mark.parametrize("size", SIZES)
def test_no_message_takes_more_memory_than_the_stated_multiple_of_its_size(size: int) -> None:
    command = [sys.executable, "-m", "tests.preprocess.hostile", str(size)]  # apart: the table of keys is the process's
    told = subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True).stdout
    for name, (length, peak, refusal) in json.loads(told).items():
        assert len(refusal) < 120, name
        assert "\n" not in refusal, name
        assert peak <= MEMORY_FACTOR * length + MEMORY_BASE, f"{name}: {peak / length:.0f} bytes for each byte"


def test_a_short_message_of_announced_lists_takes_no_more_than_the_base() -> None:
    data = b"\xdc\x17\x00" * 1000 + b"\xc0" * 6000  # each announces 5,888 items
    peak, refusal = decoded(data)
    assert refusal == "9000 bytes are not a message: OutOfData"
    assert peak < MEMORY_BASE


def test_too_many_containers_for_the_size_are_refused_by_name() -> None:
    with pytest.raises(WireError, match="1000005 bytes hold too many lists, maps and arrays"):
        decode(wide(b"\x90", 10**6))
    few = CONTAINER_BASE // 64 - 100  # what any message may have
    assert decode(wide(b"\x90", few)) == [[]] * few


@pytest.mark.parametrize(
    "value",
    [
        {f"value {i}": i for i in range(100_000)},
        {"feature": [f"value {i}" for i in range(100_000)]},
        [i.to_bytes(32, "big") for i in range(100_000)],
        [[i, i + 1] for i in range(100_000)],
        {f"column {i}": {"mean": 0.5, "std": 1.5} for i in range(20_000)},
        {f"weight {i}": np.zeros(2) for i in range(20_000)},
    ],
    ids=["counts by value", "a dictionary", "ciphertexts", "pairs", "statistics by column", "small arrays"],
)
def test_large_payloads_of_protocols_are_within_the_bounds(value: Any) -> None:
    assert same(decode(encode(value)), value)


def test_the_bytes_of_a_value_follow_the_messagepack_specification() -> None:
    value = {"n": [None, True, -1, 2**63, 2**64, 0.5, "\u00e9", b"\x00"], "a": np.array([[1, 2]], "<i2")}
    expected = [
        ("82 a16e 98", "map of 2, text n, list of 8"),
        ("c0 c3 ff cf8000000000000000", "nil, true, negative fixint, uint 64"),
        ("c7 09 02 010000000000000000", "ext 8 of 9 bytes, type 2: big-endian"),
        ("cb3fe0000000000000 a2c3a9 c40100", "float 64, text of 2 bytes in UTF-8, bin 8"),
        ("a161 c7 0c 01 92 a33c6932 920102 01000200", "text a, ext 8, type 1: dtype and shape, then raw bytes"),
    ]
    assert encode(value) == b"".join(bytes.fromhex(part) for part, _ in expected)
