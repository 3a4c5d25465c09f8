"""A whole execution in one process: all parties' secrets and keys, and what they do together."""

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.threshold_ckks import collective_keys as keys
from leakledger.preprocess.crypto.threshold_ckks import decryption, refresh
from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import encrypt
from leakledger.preprocess.crypto.threshold_ckks.evaluator import Evaluator
from leakledger.preprocess.crypto.threshold_ckks.parameters import parameters
from leakledger.preprocess.crypto.threshold_ckks.sampling import ternary
from leakledger.preprocess.secret import KeyStream, pinned

QUIET = 2  # bits of smudging where the arithmetic is what is tested
ROTATION = 3


@dataclass
class Execution:
    parameters: object
    seed: bytes
    sources: list
    secrets: list
    public: object
    evaluator: Evaluator
    refreshes: int = field(default=0)

    @property
    def context(self):
        return self.evaluator.context

    def encrypt(self, numbers, bound=1.0, party=0, scale=None):
        return encrypt(self.public, np.asarray(numbers, float), bound, self.sources[party], scale)

    def shares(self, ciphertext, bits=QUIET):
        pairs = zip(self.secrets, self.sources, strict=True)
        return [decryption.share(k, ciphertext, bits, s) for k, s in pairs]

    def decrypt(self, ciphertext, count=None, bits=QUIET):
        return decryption.combine(ciphertext, self.shares(ciphertext, bits), bits)[:count]

    def refresh(self, ciphertext, statistical_bits=refresh.STATISTICAL_BITS):
        bits = refresh.mask_bits(ciphertext, len(self.secrets), statistical_bits)
        common = refresh.reference(self.parameters, self.seed, self.refreshes)
        self.refreshes += 1
        pairs = zip(self.secrets, self.sources, strict=True)
        shares = [refresh.share(k, ciphertext, bits, common, s) for k, s in pairs]
        return refresh.combine(ciphertext, shares, common)


def relinearisation(of, context, seed, secrets, sources):
    reference = keys.switching_reference(of, seed, "relinearisation")
    ephemerals = [keys.Ephemeral(ternary(of.key_ring, s)) for s in sources]
    first = [keys.first_share(of, k, u, reference, s) for k, u, s in zip(secrets, ephemerals, sources, strict=True)]
    sums = tuple(of.key_ring.total(parts) for parts in zip(*first, strict=True))
    second = [keys.second_share(of, k, u, sums, s) for k, u, s in zip(secrets, ephemerals, sources, strict=True)]
    return keys.relinearisation_key(context, sums[1], of.key_ring.total(second))


def rotation(of, context, seed, secrets, sources):
    element = keys.galois_element(of, ROTATION)
    reference = keys.switching_reference(of, seed, f"rotation {element}")
    shares = [keys.rotation_share(of, k, element, reference, s) for k, s in zip(secrets, sources, strict=True)]
    return keys.rotation_key(context, element, reference, of.key_ring.total(shares))


@cache
def execution(log_degree=13, parties=3, coins=0, evaluation=True):
    of = parameters(log_degree)
    sources = [Randomness(KeyStream(pinned("threshold ckks", log_degree, coins, i))) for i in range(parties)]
    seed = keys.joint_seed([s.bytes(32) for s in sources])
    context, secrets = keys.context_of(of, seed), [keys.secret_key(of, s) for s in sources]
    reference = keys.public_reference(of, seed)
    shares = [keys.public_share(of.key_ring, k, reference, s) for k, s in zip(secrets, sources, strict=True)]
    evaluator = Evaluator(context)
    if evaluation:
        given = of, context, seed, secrets, sources
        evaluator = Evaluator(context, relinearisation(*given), (rotation(*given),))
    return Execution(of, seed, sources, secrets, keys.public_key(context, reference, shares), evaluator)
