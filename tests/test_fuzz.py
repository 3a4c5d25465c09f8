"""Every parser of what others wrote raises its own errors, one line each, whatever it is given: the corpus that
fuzzing left, damaged copies of valid inputs, and inputs made to hurt.
"""

import random

import pytest

from tests.fuzz.targets import CORPUS, TARGETS

DEEP = 20_000
HURTFUL = {
    "nested lists": b"[" * DEEP,
    "nested lists that close": b"[" * DEEP + b"]" * DEEP,
    "nested lists of a key": b"a = " + b"[" * DEEP,
    "nested tables": b".".join([b"a"] * 2_000) + b" = 1",
    "nested maps": b'{"a":' * DEEP,
    "a long number": b"a = " + b"9" * 5_000,
    "a long number in JSON": b'{"a": ' + b"9" * 5_000 + b"}",
    "no number": b'{"target": NaN, "classes": [Infinity]}',
    "nothing": b"",
    "lines and escapes": b"\x1b[2J\r\n\x00\n\xc2\x85\xe2\x80\xa8" * 9,
    "half a character": b'target = "\xc3"',
    "quotes that do not close": b'"' * 9_999,
}
COPIES = 20
NEED_SEAL = "ciphertext", "exchange-key"


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_are_read(name):
    if name in NEED_SEAL:
        pytest.importorskip("tenseal")
    read = [TARGETS[name](seed) for seed in TARGETS[name].seeds()]
    assert read
    assert all(read)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("what", HURTFUL)
def test_inputs_made_to_hurt_are_named(name, what):
    TARGETS[name](HURTFUL[what])


@pytest.mark.parametrize("name", TARGETS)
def test_what_fuzzing_found_is_read_or_named(name):
    if name in NEED_SEAL:
        pytest.importorskip("tenseal")
    kept = sorted((CORPUS / name).glob("*"))
    assert kept, f"no corpus of {name}: python -m tests.fuzz {name} --minutes 5, then with --keep"
    for path in kept:
        TARGETS[name](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_copies_of_valid_inputs_are_read_or_named(name):
    if name in NEED_SEAL:
        pytest.importorskip("tenseal")
    for number, seed in enumerate(TARGETS[name].seeds()):
        coins = random.Random(number)
        for _ in range(COPIES):
            TARGETS[name](damaged(seed, coins))


def damaged(data, coins):
    """Some bytes changed, cut out, put in twice, or the end cut off."""
    copy = bytearray(data)
    for _ in range(coins.randint(1, 4)):
        begin = coins.randrange(len(copy) + 1)
        end = min(len(copy), begin + coins.choice([1, 1, 2, 8, 64]))
        match coins.randrange(4):
            case 0:
                copy[begin:end] = coins.randbytes(end - begin)
            case 1:
                del copy[begin:end]
            case 2:
                copy[end:end] = copy[begin:end]
            case _:
                copy = copy[: len(copy) - coins.randrange(len(copy) + 1) // 4]
    return bytes(copy)
