"""The scheme does arithmetic within its stated precision, and nobody short of everyone decrypts."""

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sealapi = pytest.importorskip("tenseal.sealapi")
from leakledger.preprocess.crypto.refusal import MessageError  # noqa: E402
from leakledger.preprocess.crypto.threshold_ckks import decryption, refresh  # noqa: E402
from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import LevelError, from_bytes, to_bytes  # noqa: E402
from leakledger.preprocess.crypto.threshold_ckks.collective_keys import (  # noqa: E402
    context_of,
    galois_element,
    joint_seed,
)
from leakledger.preprocess.crypto.threshold_ckks.encoding import decode, encode, encode_whole  # noqa: E402
from leakledger.preprocess.crypto.threshold_ckks.evaluator import Evaluator  # noqa: E402
from leakledger.preprocess.crypto.threshold_ckks.packing import pack, unpack, unpacked  # noqa: E402
from leakledger.preprocess.crypto.threshold_ckks.parameters import (  # noqa: E402
    FOR_DECRYPTION,
    PARAMETERS,
    parameters,
)
from leakledger.preprocess.crypto.threshold_ckks.seal_objects import from_seal, seal_context, to_seal  # noqa: E402
from leakledger.preprocess.wire import encode as encode_plain  # noqa: E402
from tests.every import every  # noqa: E402
from tests.preprocess.threshold_ckks.execution import QUIET, ROTATION, execution  # noqa: E402

FINE = 2.0**-18  # at 2^13: noise of 2^-25 a slot, one standard deviation, and products of a few
seeds = st.integers(0, 2**32)


def uniform(seed, slots, count=2):
    return np.random.default_rng(seed).uniform(-1, 1, (count, slots))


@pytest.mark.parametrize("log_degree", PARAMETERS)
def test_each_set_is_within_the_standards_table_and_seal_agrees(log_degree):
    of = parameters(log_degree)
    assert of.modulus_bits <= sealapi.CoeffModulus.MaxBitCount(of.degree, sealapi.SEC_LEVEL_TYPE.TC128)
    assert seal_context(of).parameters_set()
    assert of.depth == of.data_primes - FOR_DECRYPTION >= 0
    assert all(abs(of.scale(level) / 2**of.prime_bits - 1) < 0.05 for level in range(of.top + 1))


def test_a_degree_without_a_set_is_an_error():
    with pytest.raises(ValueError, match=r"ring of 2\^16; choose one of 12, 13, 14, 15"):
        parameters(16)


@given(seeds, st.sampled_from([2.0**40, 2.0**90]))
@settings(max_examples=8, deadline=None)
def test_encoding_is_undone_by_decoding_and_is_seals(seed, scale):
    of = parameters(13)
    ring = of.ring(of.top)
    numbers = uniform(seed, of.slots, 1)[0]
    values = encode(numbers, scale, ring)
    np.testing.assert_allclose(decode(values, scale, ring), numbers, atol=2e-10)
    plain, encoder = sealapi.Plaintext(), sealapi.CKKSEncoder(seal_context(of))
    evaluator, zero = sealapi.Evaluator(seal_context(of)), to_seal(of, of.top, np.stack([values, values]), scale)
    encoder.encode(numbers.tolist(), scale, plain)
    evaluator.sub_plain_inplace(zero, plain)
    np.testing.assert_allclose(decode(from_seal(zero)[0], scale, ring), 0, atol=2e-10)


@given(seeds, st.integers(1, 4096))
@settings(max_examples=3, deadline=None)
def test_sums_and_products_are_those_of_the_numbers(seed, count):
    run = execution()
    ev, (x, y) = run.evaluator, uniform(seed, count)
    a, b = run.encrypt(x, party=0), run.encrypt(y, party=1)
    for made, expected in (
        (a, x),
        (ev.add(a, b), x + y),
        (ev.subtract(a, b), x - y),
        (ev.multiply(a, b), x * y),
        (ev.square(a), x * x),
        (ev.multiply(ev.multiply(a, b), b), x * y * y),
        (ev.multiply_constant(a, -0.3), -0.3 * x),
        (ev.multiply_constant(a, y), x * y),
        (ev.add_constant(a, 0.25), x + 0.25),
        (ev.multiply_integer(a, -3), -3 * x),
        (ev.add(ev.multiply(a, b), b), x * y + y),
        (ev.lower(a, 1), x),
        (ev.total([a, b, a]), 2 * x + y),
    ):
        assert (abs(expected) <= made.bound).all()
        np.testing.assert_allclose(run.decrypt(made, count), expected, atol=FINE)


def test_a_rotation_moves_the_slots_and_needs_its_key():
    run = execution()
    x = uniform(0, run.parameters.slots, 1)[0]
    rotated = run.evaluator.rotate(run.encrypt(x), ROTATION)
    np.testing.assert_allclose(run.decrypt(rotated), np.roll(x, -ROTATION), atol=FINE)
    with pytest.raises(LevelError, match="no key for a rotation by 1;"):
        run.evaluator.rotate(run.encrypt(x), 1)
    with pytest.raises(ValueError, match="a rotation by 0 is none of 4096 slots"):
        galois_element(run.parameters, 0)


@given(seeds, st.sampled_from([20, 40]))
@settings(max_examples=4, deadline=None)
def test_a_refresh_keeps_the_numbers_and_gives_back_the_levels(seed, statistical_bits):
    run = execution()
    ev, (x, y) = run.evaluator, uniform(seed, run.parameters.slots)
    low = ev.lower(run.encrypt(x), 2)
    fresh = run.refresh(low, statistical_bits)
    assert (fresh.level, fresh.scale) == (run.parameters.top, low.scale)
    np.testing.assert_allclose(run.decrypt(fresh), x, atol=FINE)
    product = ev.multiply(ev.to_level_scale(fresh), run.encrypt(y))
    np.testing.assert_allclose(run.decrypt(product), x * y, atol=FINE)


def test_a_refresh_without_room_for_its_masks_is_an_error():
    run = execution()
    with pytest.raises(LevelError, match=r"masks of 105 bits of 3 parties do not fit level 1: refresh at a higher"):
        run.refresh(run.evaluator.lower(run.encrypt([0.5]), 1), 64)


def test_the_first_refresh_shares_of_any_message_look_alike():
    """What the shares and the ciphertext add up to is the message less all masks: hidden, however large it is."""
    run = execution()
    spread = []
    for number in (0.0, 1.0):
        low = run.evaluator.lower(run.encrypt(np.full(run.parameters.slots, number)), 2)
        bits = refresh.mask_bits(low, 3, 40)
        common = refresh.reference(run.parameters, run.seed, 10**6)
        pairs = zip(run.secrets, run.sources, strict=True)
        shares = [refresh.share(k, low, bits, common, s) for k, s in pairs]
        masked = low.ring.total([low.residues[0], *(s.down for s in shares)])
        spread.append(low.ring.to_floats(low.ring.coefficients(masked)) / 2.0**bits)
    assert all(0.9 < s.std() < 1.1 for s in spread)  # three uniform masks: a deviation of 2^bits
    assert abs(spread[1].mean()) < 0.1
    assert abs(spread[1][0]) < 3.1


@pytest.mark.parametrize("missing", [{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}])
def test_nobody_short_of_everyone_decrypts(missing):
    """However few are missing, what comes out is as good as random: as large as the modulus allows."""
    run = execution()
    ciphertext = run.encrypt(np.linspace(-1, 1, 100))
    shares = [s for i, s in enumerate(run.shares(ciphertext)) if i not in missing]
    with pytest.raises(ValueError, match="a decryption is beyond its bound of 1: a share is missing"):
        decryption.combine(ciphertext, shares, QUIET)
    ring = ciphertext.ring
    shown = ring.to_floats(ring.coefficients(ring.total([ciphertext.residues[0], *shares]))) / ring.modulus
    assert abs(shown).max() > 0.49
    assert 0.27 < shown.std() < 0.31  # uniform in [-1/2, 1/2): 0.289
    np.testing.assert_allclose(run.decrypt(ciphertext, 100), np.linspace(-1, 1, 100), atol=FINE)


def test_a_share_of_another_ciphertext_is_an_error_and_no_number():
    run = execution()
    a, b = run.encrypt([0.5]), run.encrypt([0.5])
    with pytest.raises(ValueError, match="of another ciphertext"):
        decryption.combine(a, [*run.shares(a)[:2], run.shares(b)[2]], QUIET)


@pytest.mark.parametrize("bits", [10, 20, 30])
def test_smudging_has_the_stated_size_in_the_numbers(bits):
    run = execution()
    ciphertext = run.encrypt(np.zeros(run.parameters.slots), bound=100.0)
    measured = run.decrypt(ciphertext, bits=bits).std()
    stated = decryption.deviation(ciphertext, 3, bits)
    if bits >= 20:  # below, encryption's own noise is as large
        assert 0.94 < measured / stated < 1.06
    assert measured > 0.94 * stated


def test_the_noise_of_each_operation_is_below_what_smudging_is_measured_by():
    run = execution()
    ev, (x, y) = run.evaluator, uniform(7, run.parameters.slots)
    a, b = run.encrypt(x), run.encrypt(y)
    limit = 2.0 ** decryption.noise_bits(run.parameters, 3)
    for made in (
        run.encrypt(np.zeros(5)),
        ev.lower(run.encrypt(np.zeros(5)), 1),
        ev.rotate(run.encrypt([0.0]), ROTATION),
    ):
        ring = made.ring
        noise = ring.to_floats(ring.coefficients(ring.total([made.residues[0], *run.shares(made, 0)])))
        assert limit / 2**9 < abs(noise).max() < limit
    error = run.decrypt(ev.multiply(a, b), bits=0) - x * y  # in slots, sqrt(N) times as much
    assert abs(error).max() * a.scale / np.sqrt(run.parameters.degree) < limit


def test_smudging_and_numbers_that_do_not_fit_are_refused_before_decoding():
    run = execution()
    low = run.evaluator.drop(run.encrypt([0.5], bound=0.2 * 2.0**40, scale=2.0**40), 1)
    with pytest.raises(LevelError, match="62 bits of smudging of 1048576 parties do not fit level 1"):
        decryption.check_smudging(low, 2**20, 62)


def test_a_wrong_level_scale_or_range_is_an_error_before_decoding():
    run = execution()
    ev, a = run.evaluator, run.encrypt([0.5])
    with pytest.raises(LevelError, match="cannot go up to 3; refresh it"):
        ev.drop(ev.lower(a, 1), 3)
    with pytest.raises(LevelError, match=r"scales 2\^40.0000 and 2\^50.0000 differ"):
        ev.add(a, run.encrypt([0.5], scale=2.0**50))
    with pytest.raises(LevelError, match="do not fit the modulus of level 1"):
        ev.lower(run.encrypt([0.5], bound=4.0), 0)
    with pytest.raises(LevelError, match="do not fit the modulus of level 3"):
        run.encrypt([0.5], bound=2.0**120)
    with pytest.raises(LevelError, match="no level is left for a product; refresh"):
        ev.rescale(ev.drop(run.encrypt([0.1], scale=2.0**20), 0))
    with pytest.raises(ValueError, match=r"is not within \[-1, 1\]"):
        run.encrypt([1.5])
    with pytest.raises(ValueError, match=r"is not within"):
        run.encrypt([float("nan")])
    with pytest.raises(LevelError, match="needs the relinearisation key"):
        Evaluator(run.context).multiply(a, a)


def test_another_context_is_an_error():
    run, other = execution(), execution(coins=1, evaluation=False)
    ciphertext = other.encrypt([0.5])
    with pytest.raises(LevelError, match="does not go with the keys of"):
        run.evaluator.add(run.encrypt([0.5]), ciphertext)
    with pytest.raises(MessageError, match=f"of another collective key than {run.context.name.hex()[:8]}"):
        from_bytes(run.context, to_bytes(ciphertext))
    small = execution(12, 2, evaluation=False)
    with pytest.raises(MessageError, match=r"a ciphertext has other parameters than ckks-2\^13"):
        from_bytes(run.context, to_bytes(small.encrypt([0.5])))


def test_bytes_are_those_of_the_same_ciphertext_and_expectations_are_checked():
    run = execution()
    a = run.evaluator.lower(run.encrypt([0.5]), 2)
    again = from_bytes(run.context, to_bytes(a), level=2, scale=a.scale, bound=1.0)
    assert (again.level, again.scale, again.bound) == (a.level, a.scale, a.bound)
    np.testing.assert_array_equal(again.residues, a.residues)
    for name, value in (("level", 1), ("scale", 2.0**40), ("bound", 2.0)):
        with pytest.raises(MessageError, match=f"a ciphertext has {name} .*, not the protocol's"):
            from_bytes(run.context, to_bytes(a), **{name: value})


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_bytes_that_were_changed_or_cut_are_refused(data):
    run = execution()
    whole = to_bytes(run.evaluator.drop(run.encrypt([0.5]), 1))
    place = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[place] ^= data.draw(st.integers(1, 255))
    for wrong in (bytes(flipped), whole[:place], whole + b"x"):
        with pytest.raises(MessageError, match=r"changed or cut short|it is no ciphertext"):
            from_bytes(run.context, wrong)


def test_objects_that_are_well_formed_but_wrong_are_refused():
    run = execution()
    ring = run.parameters.ring(1)
    good = ring.zeros(2)
    beyond = good.copy()
    beyond[0, 1, 7] = ring.primes[1]
    public = {"level": 1, "scale": 2.0**40, "bound": 1.0}
    for residues, changed, wrong in (
        (beyond, {}, "a coefficient beyond its prime"),
        (good[:1], {}, "other sizes"),
        (good.astype(np.int64), {}, "other sizes"),
        (good, {"level": 2}, "other sizes"),
        (good, {"level": 9}, "no valid level"),
        (good, {"level": True}, "no valid level"),
        (good, {"scale": float("inf")}, "no valid level"),
        (good, {"scale": 2.0**79}, "no valid level"),
        (good, {"bound": 0.0}, "no valid level"),
        (good, {"more": 1}, "no valid level"),
        (good, {}, "hides nothing"),
    ):
        with pytest.raises(MessageError, match=wrong):
            from_bytes(run.context, pack("ciphertext", run.context, residues, **{**public, **changed}))
    with pytest.raises(MessageError, match="it is no ciphertext, but another object"):
        from_bytes(run.context, pack("decryption share", run.context, good))
    with pytest.raises(MessageError, match="says more than it has to"):
        unpacked("decryption share", run.context, ring, pack("decryption share", run.context, good[0], level=1))
    with pytest.raises(MessageError, match="it is no ciphertext of at most"):
        from_bytes(run.context, None)


@every(
    ("place", "value", "reason"),
    [
        *((place, np.zeros(2), "but another object") for place in range(6)),
        (5, [-1], "other sizes than it says"),
        (5, [2**62, 0], "other sizes than it says"),
        (5, [0, 2**63, 2**63], "other sizes than it says"),
    ],
)
def test_a_header_of_other_types_or_impossible_sizes_is_refused(place, value, reason):
    context = execution().context
    plain = ["share", context.parameters.name, context.name, {}, "<u8", [0]]
    header = encode_plain([*plain[:place], value, *plain[place + 1 :]])
    body = len(header).to_bytes(2, "little") + header
    body += bytes(-(32 + len(body)) % 64)
    with pytest.raises(MessageError, match=reason):
        unpack("share", context, sha256(body).digest() + body)


def test_a_contribution_to_the_seed_has_its_length_and_each_seed_a_context_of_its_own():
    with pytest.raises(ValueError, match="is 32 bytes, not 3"):
        joint_seed([bytes(32), b"abc"])
    of = parameters(13)
    names = {context_of(of, joint_seed(c)).name for c in ([bytes(32)] * 2, [bytes(32)] * 3)}
    assert len(names) == 2


def test_secrets_are_not_shown():
    run = execution()
    assert "array" not in repr(run.secrets) + repr(run.public) + repr(run.encrypt([0.5]))


@given(st.integers(0, 2**32 - 1), st.integers(1, 200))
@settings(max_examples=15, deadline=None)
def test_what_parties_encode_of_whole_numbers_adds_up_to_what_their_sum_encodes(seed, count):
    """Exactly, so that the server reads no more than the sum off it; rounding to doubles adds up to something else."""
    of, coins = parameters(13), np.random.default_rng(seed)
    ring, scale = of.ring(of.top), 2.0**90
    parts = coins.integers(-(2**20), 2**22, (3, count)).astype(np.float64)
    told = ring.total([encode_whole(p, scale, ring) for p in parts])
    assert np.array_equal(told, encode_whole(parts.sum(0), scale, ring))
    assert np.allclose(decode(told, scale, ring)[:count], parts.sum(0), rtol=0, atol=1e-6)
    assert np.abs(decode(told, scale, ring)[count:]).max() < 1e-6
    assert not np.array_equal(ring.total([encode(p, scale, ring) for p in parts]), encode(parts.sum(0), scale, ring))


@pytest.mark.parametrize(
    ("numbers", "scale", "reason"),
    [
        ([0.5], 2.0**90, "not whole"),
        ([2.0**25], 2.0**90, "not below 2"),
        ([np.nan], 2.0**90, "not whole"),
        ([1.0], 3.0**50, "no power of two"),
        ([1.0], 2.0, "no power of two"),
        (np.zeros(4097), 2.0**90, "at most 4096"),
    ],
)
def test_what_is_not_whole_is_refused(numbers, scale, reason):
    of = parameters(13)
    with pytest.raises(ValueError, match=reason):
        encode_whole(np.asarray(numbers), scale, of.ring(of.top))
