from hashlib import sha256
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from leakledger.preprocess.crypto import bfv, seal
from leakledger.preprocess.crypto.labelled_psi import LONGEST
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.secret import KeyStream, pinned
from tests.every import every

sealapi = pytest.importorskip("tenseal.sealapi")
T = bfv.PLAIN_MODULUS
PARTS = 49  # where bytes of a ciphertext say how many parts it has


def source(seed=0):
    return Randomness(KeyStream(pinned(seed)))


def numbers(seed):
    return np.random.default_rng(seed).integers(0, T, bfv.SLOTS)


@pytest.fixture(scope="module")
def key():
    return bfv.new_key(source())


def test_the_plain_modulus_is_the_largest_21_bit_prime_for_batching_and_the_security_seals_128_bits():
    assert sealapi.PlainModulus.Batching(bfv.SLOTS, 21).value() == T
    assert bfv.context().parameters_set()
    assert sum(bfv.PRIME_BITS) <= sealapi.CoeffModulus.MaxBitCount(bfv.SLOTS, sealapi.SEC_LEVEL_TYPE.TC128)


def test_the_longest_polynomial_leaves_noise_to_spare_and_decrypts_to_its_values(key):
    y = numbers(1)
    sent = bfv.to_ntt(bfv.load(bfv.encrypt(key, y, source(2)), fresh=True))
    coefficients = np.stack([numbers(10 + k) for k in range(LONGEST + 1)])
    answer = bfv.load(bfv.combine(coefficients, [sent] * LONGEST), fresh=False)
    assert bfv.noise_budget(key, answer) >= 3
    expected = (coefficients[0] + sum(c * y % T for c in coefficients[1:])) % T
    np.testing.assert_array_equal(bfv.decrypt(key, answer), expected)


def test_the_same_coins_give_the_same_bytes_and_further_ones_share_nothing(key):
    one, again = source(5), source(5)
    first = bfv.encrypt(key, numbers(1), one)
    assert first == bfv.encrypt(key, numbers(1), again)
    second = bfv.encrypt(key, numbers(1), one)
    difference = sealapi.Ciphertext(bfv.context())
    evaluator = sealapi.Evaluator(bfv.context())
    evaluator.sub(*(bfv.load(c, fresh=True) for c in (first, second)), difference)
    assert not difference.is_transparent()
    assert first[100:] != second[100:]


def test_the_same_numbers_never_have_the_same_bytes(key):
    system = source(0)
    assert bfv.encrypt(key, numbers(1), system) != bfv.encrypt(key, numbers(1), system)


def test_a_fresh_ciphertext_is_as_small_as_one_of_its_parts_and_an_answer_as_small_as_one_prime(key):
    """The random half of the one is stored as a seed, the other is at its last level; both take 32 bits a number."""
    fresh = bfv.encrypt(key, numbers(1), source(3))
    answer = bfv.combine(np.stack([numbers(1)] * 2), [bfv.to_ntt(bfv.load(fresh, fresh=True))])
    assert all(len(data) < 1.06 * 2 * bfv.SLOTS * 4 for data in (fresh, answer))


def rehashed(body):
    return sha256(body).digest() + body


def tampered(data):
    body = data[32:]
    return {
        "flipped": data[:5000] + bytes([data[5000] ^ 1]) + data[5001:],
        "no stream and hashed": rehashed(body[:17] + bytes([body[17] ^ 1]) + body[18:]),
        "a number above its prime and hashed": rehashed(body[:5000] + b"\xff" * 8 + body[5008:]),
        "cut": data[:-1],
        "cut and hashed": rehashed(body[:-1]),
        "longer": data + b"\0",
        "longer and hashed": rehashed(body + b"\0"),
        "empty": b"",
        "header only": rehashed(body[:16]),
        "another length": rehashed(body[:8] + bytes(8) + body[16:]),
        "another version": rehashed(body[:3] + b"\x09" + body[4:]),
        "no bytes": "text",
        "an enormous one": bytes(2**22 + 1),
    }


@every("how", tampered(bytes(6000)))
def test_a_tampered_ciphertext_is_refused(key, how):
    with pytest.raises(MessageError, match="ciphertext"):
        bfv.load(tampered(bfv.encrypt(key, numbers(1), source(3)))[how], fresh=True)


def test_a_ciphertext_of_another_level_or_number_of_parts_is_refused(key):
    data = bfv.encrypt(key, numbers(1), source(3))
    square = bfv.load(data, fresh=True)
    sealapi.Evaluator(bfv.context()).square_inplace(square)
    for other, fresh in ((data, False), (bfv.dump(square), True)):
        with pytest.raises(MessageError, match="other parts or another level"):
            bfv.load(other, fresh=fresh)


def test_other_objects_of_seal_are_refused_as_ciphertexts(key):
    plain = bfv.encode(numbers(1))
    for thing in (plain, key.key):
        with pytest.raises(MessageError):
            bfv.load(bfv.dump(thing), fresh=True)


def test_a_header_inside_a_ciphertext_that_is_not_seals_is_refused(key):
    """Compressed, with its digest right, it ended the whole process: one party could stop every other."""
    body = bfv.encrypt(key, numbers(2), source(6))[seal.DIGEST_BYTES :]
    plain = seal._inflated(body, "ciphertext")
    bfv.load(rehashed(plain), fresh=True)
    places = [at for at in range(seal.HEADER_BYTES, len(plain)) if plain[at : at + 3] == seal.HEADER]
    assert len(places) == 2  # of the polynomials and of the seed
    for at, (place, value) in product(places, ((3, 2), (5, 2), (5, 79), (8, 1), (15, 9))):
        changed = bytearray(plain)
        changed[at + place] = value
        for inside in (bytes(changed), compressed(bytes(changed))):
            with pytest.raises(MessageError, match="another header inside than SEAL's"):
                bfv.load(rehashed(inside), fresh=True)


@pytest.mark.parametrize("parts", [0, 1])
def test_a_ciphertext_that_states_too_few_parts_is_refused(key, parts):
    """Of none SEAL raised an IndexError, which was no refusal of the message but an error of the tool."""
    plain = bytearray(seal._inflated(bfv.encrypt(key, numbers(2), source(6))[seal.DIGEST_BYTES :], "ciphertext"))
    assert plain[PARTS] == 2
    plain[PARTS] = parts
    with pytest.raises(MessageError, match="SEAL finds a ciphertext invalid"):
        bfv.load(rehashed(bytes(plain)), fresh=True)


def compressed(plain):
    """SEAL's bytes of an object, compressed as it does it."""
    inside = pa.compress(plain[seal.HEADER_BYTES :], codec="zstd", asbytes=True)
    header = plain[: seal.COMPRESSION] + bytes([seal.ZSTANDARD]) + plain[seal.COMPRESSION + 1 : 8]
    return header + (seal.HEADER_BYTES + len(inside)).to_bytes(8, "little") + inside


def test_what_cannot_be_decompressed_is_refused(key):
    body = compressed(seal._inflated(bfv.encrypt(key, numbers(2), source(6))[seal.DIGEST_BYTES :], "ciphertext"))
    bfv.load(rehashed(body), fresh=True)
    for data in (body[:-9], body[:20] + b"\xff" + body[21:]):
        with pytest.raises(MessageError):
            bfv.load(rehashed(data[:8] + len(data).to_bytes(8, "little") + data[seal.HEADER_BYTES :]), fresh=True)


def test_what_is_compressed_in_another_way_or_grows_too_large_is_refused(key, monkeypatch):
    body = bytearray(bfv.encrypt(key, numbers(2), source(6))[seal.DIGEST_BYTES :])
    other = bytearray(body)
    other[seal.COMPRESSION] = 1
    with pytest.raises(MessageError, match="compressed in a way that is not read"):
        bfv.load(rehashed(bytes(other)), fresh=True)
    monkeypatch.setattr(seal, "MOST_INSIDE", 60_000)
    with pytest.raises(MessageError, match="larger than any that is sent"):
        bfv.load(rehashed(bytes(body)), fresh=True)


def test_a_ciphertext_that_hides_nothing_is_refused():
    bare = sealapi.Ciphertext(bfv.context())
    bare.resize(bfv.context(), bfv.context().first_parms_id(), 2)
    with pytest.raises(MessageError, match="a ciphertext hides nothing"):
        bfv.load(bfv.dump(bare), fresh=True)


def test_files_stand_in_where_the_system_has_none_in_memory(key, monkeypatch):
    data = bfv.encrypt(key, numbers(1), source(3))
    monkeypatch.delattr("os.memfd_create")
    assert bfv.encrypt(key, numbers(1), source(3)) == data
    np.testing.assert_array_equal(bfv.decrypt(key, bfv.load(data, fresh=True)), numbers(1))


def test_a_secret_key_is_not_shown(key):
    assert repr(key) == "SecretKey()"


def test_without_tenseal_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tenseal.sealapi", None)
    seal.sealapi.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=r"apsi needs tenseal; install leakledger\[psi\]"):
        seal.sealapi()
