"""What a party or the server computes in `protocol`: functions from what it has and hears to what it tells."""

import numpy as np

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.threshold_ckks import ciphertexts, decryption, refresh
from leakledger.preprocess.crypto.threshold_ckks import collective_keys as keys
from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import Encrypted
from leakledger.preprocess.crypto.threshold_ckks.collective_keys import Ephemeral, PublicKey, SecretShare
from leakledger.preprocess.crypto.threshold_ckks.encoding import encode, encode_whole
from leakledger.preprocess.crypto.threshold_ckks.evaluator import Evaluator
from leakledger.preprocess.crypto.threshold_ckks.packing import Context, pack, unpacked
from leakledger.preprocess.crypto.threshold_ckks.primes import Floats, Residues
from leakledger.preprocess.crypto.threshold_ckks.sampling import ternary
from leakledger.preprocess.messages import (
    Ciphertext,
    CkksContribution,
    CkksDecryptionShare,
    CkksFirstShare,
    CkksFirstSum,
    CkksInput,
    CkksPrivateDecryptionShare,
    CkksPublicKey,
    CkksPublicShare,
    CkksRefreshShare,
    CkksRotationShare,
    CkksSecondShare,
    CkksToDecrypt,
    CkksToRefresh,
    Share,
)

PUBLIC, ZERO, ONE = "public key share", "first share, zero", "first share, one"
SECOND, ROTATION = "second share", "rotation key share"


def contribution(source: Randomness) -> CkksContribution:
    return CkksContribution(source.bytes(keys.SEED_BYTES))


def joined(*told: CkksContribution) -> bytes:
    return keys.joint_seed([t.contribution for t in told])


def public_share(context: Context, secret: SecretShare, reference: Residues, source: Randomness) -> CkksPublicShare:
    share = keys.public_share(context.parameters.key_ring, secret, reference, source)
    return CkksPublicShare(pack(PUBLIC, context, share))


def opened_public_share(context: Context, told: CkksPublicShare) -> Residues:
    return unpacked(PUBLIC, context, context.parameters.key_ring, told.share)


def public_sum(context: Context, *shares: Residues) -> CkksPublicKey:
    return CkksPublicKey(pack(PUBLIC, context, context.parameters.key_ring.total(shares)))


def public_key_of(context: Context, reference: Residues, told: CkksPublicKey) -> PublicKey:
    total = unpacked(PUBLIC, context, context.parameters.key_ring, told.total)
    return keys.public_key(context, reference, [total])


def ephemeral(context: Context, source: Randomness) -> Ephemeral:
    return Ephemeral(ternary(context.parameters.key_ring, source))


def first_share(
    context: Context, secret: SecretShare, own: Ephemeral, reference: Residues, source: Randomness
) -> CkksFirstShare:
    zero, one = keys.first_share(context.parameters, secret, own, reference, source)
    return CkksFirstShare(pack(ZERO, context, zero), pack(ONE, context, one))


def opened_first(context: Context, told: CkksFirstShare | CkksFirstSum) -> tuple[Residues, Residues]:
    ring, digits = context.parameters.key_ring, context.parameters.data_primes
    return unpacked(ZERO, context, ring, told.zero, digits), unpacked(ONE, context, ring, told.one, digits)


def first_sum(context: Context, *shares: tuple[Residues, Residues]) -> CkksFirstSum:
    zero, one = (context.parameters.key_ring.total(parts) for parts in zip(*shares, strict=True))
    return CkksFirstSum(pack(ZERO, context, zero), pack(ONE, context, one))


def second_share(
    context: Context, secret: SecretShare, own: Ephemeral, sums: tuple[Residues, Residues], source: Randomness
) -> CkksSecondShare:
    return CkksSecondShare(pack(SECOND, context, keys.second_share(context.parameters, secret, own, sums, source)))


def opened_second(context: Context, told: CkksSecondShare) -> Residues:
    return unpacked(SECOND, context, context.parameters.key_ring, told.share, context.parameters.data_primes)


def relinearisation_key(context: Context, sums: tuple[Residues, Residues], *shares: Residues) -> keys.SwitchingKey:
    return keys.relinearisation_key(context, sums[1], context.parameters.key_ring.total(shares))


def rotation_share(
    context: Context, secret: SecretShare, element: int, reference: Residues, source: Randomness
) -> CkksRotationShare:
    share = keys.rotation_share(context.parameters, secret, element, reference, source)
    return CkksRotationShare(pack(ROTATION, context, share))


def opened_rotation(context: Context, told: CkksRotationShare) -> Residues:
    of = context.parameters
    return unpacked(ROTATION, context, of.key_ring, told.share, of.data_primes)


def rotation_key(context: Context, element: int, reference: Residues, *shares: Residues) -> keys.SwitchingKey:
    return keys.rotation_key(context, element, reference, context.parameters.key_ring.total(shares))


def with_keys(context: Context, relinearisation: keys.SwitchingKey | None, *rotations: keys.SwitchingKey) -> Evaluator:
    return Evaluator(context, relinearisation, rotations)


def encrypted_input(
    key: PublicKey, numbers: Floats, bound: float, source: Randomness, scale: float | None, whole: bool = False
) -> CkksInput:
    encrypted = ciphertexts.encrypt(key, numbers, bound, source, scale, encode_whole if whole else encode)
    return CkksInput(Ciphertext(ciphertexts.to_bytes(encrypted)))


def opened(
    context: Context,
    told: CkksInput | CkksToRefresh | CkksToDecrypt,
    level: int | None,
    scale: float | None = None,
    bound: float | None = None,
) -> Encrypted:
    return ciphertexts.from_bytes(context, told.ciphertext.value, level=level, scale=scale, bound=bound)


def to_decrypt(value: Encrypted) -> CkksToDecrypt:
    return CkksToDecrypt(Ciphertext(ciphertexts.to_bytes(value)))


def decryption_share(
    secret: SecretShare, asked: Encrypted, smudging_bits: int, source: Randomness
) -> CkksDecryptionShare:
    share = decryption.share(secret, asked, smudging_bits, source)
    return CkksDecryptionShare(Share(pack(decryption.KIND, asked.context, share)))


def private_decryption_share(
    secret: SecretShare, asked: Encrypted, smudging_bits: int, source: Randomness
) -> CkksPrivateDecryptionShare:
    return CkksPrivateDecryptionShare(decryption_share(secret, asked, smudging_bits, source).share)


def opened_decryption_share(value: Encrypted, told: CkksDecryptionShare) -> Residues:
    return unpacked(decryption.KIND, value.context, value.ring, told.share.value)


def decrypted_numbers(value: Encrypted, smudging_bits: int, entries: int, *shares: Residues) -> Floats:
    return np.array(decryption.combine(value, shares, smudging_bits)[:entries])


def to_refresh(value: Encrypted) -> CkksToRefresh:
    return CkksToRefresh(Ciphertext(ciphertexts.to_bytes(value)))


def refresh_share(
    secret: SecretShare,
    asked: Encrypted,
    parties: int,
    bits: int,
    rotation: int,
    reference: Residues,
    source: Randomness,
) -> CkksRefreshShare:
    made = refresh.share(secret, asked, refresh.mask_bits(asked, parties, bits), reference, source, rotation)
    down, up = pack(refresh.KIND_DOWN, asked.context, made.down), pack(refresh.KIND_UP, asked.context, made.up)
    return CkksRefreshShare(Share(down), Share(up))


def opened_refresh_share(value: Encrypted, told: CkksRefreshShare) -> refresh.RefreshShare:
    of = value.context.parameters
    down = unpacked(refresh.KIND_DOWN, value.context, value.ring, told.down.value)
    return refresh.RefreshShare(down, unpacked(refresh.KIND_UP, value.context, of.ring(of.top), told.up.value))


def refreshed(value: Encrypted, rotation: int, reference: Residues, *shares: refresh.RefreshShare) -> Encrypted:
    return refresh.combine(value, shares, reference, rotation)
