"""The arithmetic of masks: pairs cancel, the own one stays; secrets come back from t shares and no fewer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.public import PrivateKey

from leakledger.preprocess.aggregation.secure_steps import (
    Secrets,
    advertised,
    all_keys,
    fixed_point,
    masked_update,
    split_secrets,
)
from leakledger.preprocess.crypto.masking import (
    Ring,
    apply_masks,
    commitment,
    from_parts,
    pair_seed,
    public_key,
    restore,
    to_parts,
)
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.shamir import share, shares
from leakledger.preprocess.messages import ClientGradient, Sharers
from leakledger.preprocess.secret import KeyStream, pinned
from tests.every import every
from tests.preprocess.low_order import NO_KEYS

secrets = st.binary(min_size=32, max_size=32)
rings = st.sampled_from([Ring(64, 32), Ring(64, 1), Ring(32, 12)])


@given(secrets)
def test_parts_of_a_secret_are_below_2_to_the_52_and_give_it_again(secret):
    parts = to_parts(secret)
    assert (parts < 2**52).all()
    assert from_parts(parts) == secret


@pytest.mark.parametrize("parts", [[2**52, 0, 0, 0, 0], [0, 0, 0, 0, 2**48]])
def test_parts_of_no_secret_are_refused(parts):
    with pytest.raises(ValueError, match="do not fit together"):
        from_parts(np.array(parts, np.uint64))


@given(secrets, secrets, st.integers(2, 6), st.integers(0, 3), st.integers(0, 2**32))
def test_any_t_shares_give_both_secrets_and_one_less_gives_neither(key, seed, t, more, coins):
    own = Secrets(key, seed)
    numbers = list(range(0, 3 * (t + more), 3))
    everyone = all_keys(numbers, *(advertised(Secrets(bytes([i]) * 32, seed)) for i in numbers))
    parts = split_secrets(own, everyone, t, Randomness(KeyStream(pinned("shares", coins))))
    chosen = np.random.default_rng(coins).permutation(len(numbers))
    points = [numbers[i] + 1 for i in chosen]
    found = [restore(points[:t], [parts[i][k][None] for i in chosen[:t]])[0] for k in range(2)]
    assert found == [key, seed]
    try:
        fewer = restore(points[: t - 1], [parts[i] for i in chosen[: t - 1]])
    except ValueError:
        return
    assert key not in fewer
    assert seed not in fewer


def test_shares_at_many_points_are_those_at_each():
    coins = np.random.default_rng(0)
    secret, coefficients = (coins.integers(0, 2**60, shape).astype(np.uint64) for shape in ((2, 5), (3, 2, 5)))
    points = [1, 2, 9, 2**40]
    found = shares(secret, coefficients, np.array(points, np.uint64))
    for x, held in zip(points, found, strict=True):
        assert (held == share(secret, list(coefficients), x)).all()
    with pytest.raises(ValueError, match="no shares at"):
        shares(secret, coefficients, np.array([0], np.uint64))


@given(secrets, secrets, st.integers(0, 2**40))
def test_both_of_a_pair_agree_on_a_seed_that_is_another_one_in_another_round(one, other, round):
    seed = pair_seed(one, public_key(other), round)
    assert seed == pair_seed(other, public_key(one), round)
    assert seed != pair_seed(one, public_key(other), round + 1)
    assert public_key(one) == bytes(PrivateKey(one).public_key)
    assert commitment(seed) != commitment(one)


@every("key", [b"", b"short", bytes(range(31)), bytes(range(33)), *NO_KEYS])
def test_no_seed_is_agreed_with_a_key_of_another_length_or_of_low_order(key):
    with pytest.raises(ValueError, match="no point of X25519 that a secret can be agreed with"):
        pair_seed(bytes(range(32)), key, 0)


@given(rings, st.integers(2, 6), st.integers(1, 40), st.integers(0, 2**32))
def test_masks_of_pairs_cancel_in_the_sum_of_all(ring, n, count, seed):
    coins = np.random.default_rng(seed)
    seeds = {frozenset(p): coins.bytes(32) for p in [(i, j) for i in range(n) for j in range(i)]}
    words = [ring.mask(coins.bytes(32), count) for _ in range(n)]
    masked = [
        apply_masks(w, ring, i, [(j, seeds[frozenset((i, j))]) for j in range(n) if j != i])
        for i, w in enumerate(words)
    ]
    assert (np.sum(masked, axis=0, dtype=ring.dtype) == np.sum(words, axis=0, dtype=ring.dtype)).all()
    assert all((m != w).any() for m, w in zip(masked, words, strict=True))


def test_a_vector_without_its_pair_masks_is_still_under_its_own():
    """So a client whose vector comes late, after its key was revealed, has shown nothing."""
    ring, update = Ring(64, 32), ClientGradient(3, {"w": np.ones(10, np.float32)})
    own = [Secrets(bytes([i]) * 32, bytes([9 + i]) * 32) for i in range(3)]
    keys = all_keys([0, 1, 2], *map(advertised, own))
    fixed = fixed_point(ring, "P1", 3, update)
    sent = masked_update(ring, 0, 7, 2, fixed, own[0], keys, Sharers([0, 1, 2])).masked.value
    bare = sent - (apply_masks(fixed, ring, 0, [(v, pair_seed(own[0].key, keys.keys[v], 7)) for v in (1, 2)]) - fixed)
    assert (bare - fixed == ring.mask(own[0].seed, 11)).all()
    assert (bare != fixed).all()


@given(rings, st.lists(st.floats(-100, 100), min_size=1), st.integers(1, 50))
def test_numbers_come_back_but_for_rounding_once(ring, numbers, parties):
    x = np.array(numbers)
    assert np.abs(ring.decode(ring.encode(x, parties)) - x).max() <= 2.0 ** -(ring.fraction_bits + 1)
