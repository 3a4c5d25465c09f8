"""Single steps of multiparty CKKS, next to table IV of the paper on federated normalization."""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from leakledger.audit.benchmarks.base import Row
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.threshold_ckks import ciphertexts, decryption, refresh
from leakledger.preprocess.crypto.threshold_ckks import collective_keys as keys
from leakledger.preprocess.crypto.threshold_ckks.comparison import maximum, minimum
from leakledger.preprocess.crypto.threshold_ckks.evaluator import Evaluator
from leakledger.preprocess.crypto.threshold_ckks.inverse import invert
from leakledger.preprocess.crypto.threshold_ckks.machine import Alone, refresh_level
from leakledger.preprocess.crypto.threshold_ckks.parameters import parameters
from leakledger.preprocess.crypto.threshold_ckks.sampling import ternary
from leakledger.preprocess.secret import KeyStream, pinned

R = TypeVar("R")
REPEATS = 3
SMUDGING = 20  # bits; time does not depend on it
PUBLISHED = {  # milliseconds with 10 clients
    "secret key": 9.67,
    "public key": 138.71,
    "relinearisation key": 5507.03,
    "rotation key": 1908.93,
    "encryption": 59.28,
    "decryption": 536.63,
    "sum": 1.73,
    "product": 173.77,
    "refresh": 825.34,
    "inverse": 30135.78,
    "minimum": 12255.31,
    "maximum": 12790.85,
}


def steps(parties: int, log_degree: int, inverse_range: int) -> Iterator[Row]:
    """Milliseconds of each step, by all clients one after another; the least of three for those that are short."""
    of = parameters(log_degree)
    sources = [Randomness(KeyStream(pinned("normalization steps", log_degree, i))) for i in range(parties)]
    seed = keys.joint_seed([s.bytes(keys.SEED_BYTES) for s in sources])
    context = keys.context_of(of, seed)

    def row(step: str, seconds: float) -> Row:
        setting = {"step": step, "parties": parties, "log_degree": log_degree, "inverse_range": inverse_range}
        return Row("normalization", "made up", setting, "time", 1e3 * seconds, None, None, PUBLISHED[step], "ms", 1)

    seconds, _ = _least(lambda: keys.secret_key(of, sources[0]))
    yield row("secret key", seconds)
    secrets = [keys.secret_key(of, s) for s in sources]
    both = list(zip(secrets, sources, strict=True))

    def public_key() -> keys.PublicKey:
        reference = keys.public_reference(of, seed)
        return keys.public_key(context, reference, [keys.public_share(of.key_ring, k, reference, s) for k, s in both])

    seconds, public = _least(public_key)
    yield row("public key", seconds)
    seconds, relinearisation = timed(lambda: _relinearisation(of, context, seed, both))
    yield row("relinearisation key", seconds)
    seconds, rotation = timed(lambda: _rotation(of, context, seed, both))
    yield row("rotation key", seconds)

    run = Evaluator(context, relinearisation, (rotation,))
    coins, high = np.random.default_rng(0), 2.0**inverse_range
    numbers = coins.uniform(1, high, of.slots)
    seconds, a = _least(lambda: ciphertexts.encrypt(public, numbers, high, sources[0]))
    yield row("encryption", seconds)
    yield row("sum", _least(lambda: run.add(a, a))[0])
    run.multiply(a, a)  # the key is loaded once
    yield row("product", _least(lambda: run.multiply(a, a))[0])

    def decrypted(value: ciphertexts.Encrypted) -> Any:
        return decryption.combine(value, [decryption.share(k, value, SMUDGING, s) for k, s in both], SMUDGING)

    yield row("decryption", _least(lambda: decrypted(a))[0])

    def refreshed(value: ciphertexts.Encrypted) -> ciphertexts.Encrypted:
        bits, common = refresh.mask_bits(value, parties), refresh.reference(of, seed, 0)
        return refresh.combine(value, [refresh.share(k, value, bits, common, s) for k, s in both], common)

    low = run.drop(a, refresh_level(of, parties, high))
    yield row("refresh", _least(lambda: refreshed(low))[0])
    alone = Alone(run, parties, refreshed)
    yield row("inverse", timed(lambda: invert(alone, a, inverse_range))[0])
    b, c = (ciphertexts.encrypt(public, coins.uniform(-1, 1, of.slots), 1.0, sources[0]) for _ in range(2))
    yield row("minimum", timed(lambda: minimum(alone, b, c))[0])
    yield row("maximum", timed(lambda: maximum(alone, b, c))[0])


def _relinearisation(of: Any, context: Any, seed: bytes, both: list[Any]) -> keys.SwitchingKey:
    reference = keys.switching_reference(of, seed, "relinearisation")
    own = [keys.Ephemeral(ternary(of.key_ring, s)) for _, s in both]
    first = [keys.first_share(of, k, u, reference, s) for (k, s), u in zip(both, own, strict=True)]
    sums = of.key_ring.total([zero for zero, _ in first]), of.key_ring.total([one for _, one in first])
    second = [keys.second_share(of, k, u, sums, s) for (k, s), u in zip(both, own, strict=True)]
    return keys.relinearisation_key(context, sums[1], of.key_ring.total(second))


def _rotation(of: Any, context: Any, seed: bytes, both: list[Any]) -> keys.SwitchingKey:
    element = keys.galois_element(of, 1)
    reference = keys.switching_reference(of, seed, f"rotation {element}")
    shares = [keys.rotation_share(of, k, element, reference, s) for k, s in both]
    return keys.rotation_key(context, element, reference, of.key_ring.total(shares))


def timed(fn: Callable[[], R]) -> tuple[float, R]:
    """Seconds by the clock, and what came of it."""
    began = perf_counter()
    result = fn()
    return perf_counter() - began, result


def _least(fn: Callable[[], R]) -> tuple[float, R]:
    found = [timed(fn) for _ in range(REPEATS)]
    return min(seconds for seconds, _ in found), found[-1][1]
