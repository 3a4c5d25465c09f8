import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.secret import (
    BLOCK,
    PUBLIC_MASTER,
    KeyStream,
    checked,
    derive,
    generator,
    hkdf,
    new_secret,
    pinned,
)

# RFC 5869, appendix A, test cases 1 to 3: secret, salt, info, output.
VECTORS = [
    (
        "0b" * 22,
        "000102030405060708090a0b0c",
        "f0f1f2f3f4f5f6f7f8f9",
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
    ),
    (
        bytes(range(0x50)).hex(),
        bytes(range(0x60, 0xB0)).hex(),
        bytes(range(0xB0, 0x100)).hex(),
        "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
        "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
    ),
    (
        "0b" * 22,
        "",
        "",
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
    ),
]

labels = st.lists(st.one_of(st.text(), st.integers(-(2**70), 2**70), st.binary(), st.none()), max_size=4)


@pytest.mark.parametrize(("secret", "salt", "info", "output"), VECTORS)
def test_the_vectors_of_rfc_5869_come_out(secret: str, salt: str, info: str, output: str) -> None:
    given_salt, expected = bytes.fromhex(salt), bytes.fromhex(output)
    assert hkdf(bytes.fromhex(secret), bytes.fromhex(info), len(expected), given_salt) == expected


def test_more_than_255_blocks_are_refused() -> None:
    assert len(hkdf(b"secret", b"", 255 * 32)) == 255 * 32
    with pytest.raises(ValueError, match="at most 8160 bytes, not 8161"):
        hkdf(b"secret", b"", 255 * 32 + 1)


@given(labels, labels)
def test_other_labels_have_other_secrets(one: list[str], other: list[str]) -> None:
    assert (derive(PUBLIC_MASTER, *one) == derive(PUBLIC_MASTER, *other)) == (one == other)
    assert derive(PUBLIC_MASTER, *one) != derive(pinned("another master"), *one)
    assert len(derive(PUBLIC_MASTER, *one)) == 32


@pytest.mark.parametrize(
    "pair", [(("ab", "c"), ("a", "bc")), ((["a"], "b"), (["a", "b"],)), ((1,), ("1",)), ((), ("",))]
)
def test_labels_are_told_apart_by_their_ends_and_kinds(pair: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    assert derive(PUBLIC_MASTER, *pair[0]) != derive(PUBLIC_MASTER, *pair[1])


def test_secrets_of_the_operating_system_are_32_bytes_and_differ() -> None:
    assert len({new_secret() for _ in range(100)}) == 100
    assert len(checked(new_secret())) == 32


def test_a_generator_repeats_and_is_not_the_key_stream() -> None:
    assert (generator(pinned(1)).random(5) == generator(pinned(1)).random(5)).all()
    assert generator(pinned(1)).bytes(32) != KeyStream(pinned(1)).bytes(32)


@given(st.lists(st.integers(0, 3 * BLOCK), max_size=6))
def test_a_key_stream_is_one_sequence_however_it_is_read(counts: list[int]) -> None:
    stream = KeyStream(pinned("stream"))
    assert b"".join(stream.bytes(n) for n in counts) == KeyStream(pinned("stream")).bytes(sum(counts))


def test_the_bytes_of_a_key_stream_are_uniform_and_no_block_repeats() -> None:
    drawn = KeyStream(pinned("uniform")).bytes(256 * BLOCK)
    assert len({drawn[i : i + 32] for i in range(0, len(drawn), 32)}) == len(drawn) // 32
    counts = np.bincount(np.frombuffer(drawn, np.uint8), minlength=256)
    assert abs(counts - len(drawn) / 256).max() < 6 * np.sqrt(len(drawn) / 256)
