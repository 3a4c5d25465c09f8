"""Numbers at a scale of several primes, whose quotients can be decrypted under smudging that hides all noise.

Smudging has to exceed the noise of what is decrypted by as many bits as it is to hide, and each of those is lost to the
numbers (`decryption`). At the scale of one prime a product leaves no room for both. So what is decrypted is computed at
a scale of three primes p (2^3p), from an inverse that is approximate: Newton's step y (2 - n y) squares the relative
error of y, and with it the noise that y brings along. What is left is the noise of the wide products (`quotient_bits`).

A product needs room for both scales and, so that what comes out can be refreshed, for masks; operands are refreshed
first where that is missing. Scales, levels and bounds are public: they follow from the operations.
"""

from dataclasses import dataclass
from math import ceil, log2

from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import Encrypted, LevelError
from leakledger.preprocess.crypto.threshold_ckks.decryption import noise_bits
from leakledger.preprocess.crypto.threshold_ckks.evaluator import Evaluator
from leakledger.preprocess.crypto.threshold_ckks.inverse import invert
from leakledger.preprocess.crypto.threshold_ckks.parameters import Parameters
from leakledger.preprocess.crypto.threshold_ckks.primes import Floats
from leakledger.preprocess.crypto.threshold_ckks.protocol import Collective, Remote
from leakledger.preprocess.federation import At

PRIMES = 3  # that a wide scale has
NEWTON_STEPS = 3  # from a relative error of 2^-13 or less to one of 2^-104
ABOVE_MASKS = 4  # bits between masks and the modulus


@dataclass(frozen=True)
class Wide:
    """A ciphertext at the server, its level, the binary logarithm of its scale, and a bound of its numbers."""

    at: At[Encrypted]
    level: int
    bits: float
    bound: float


def divisor_scale(parameters: Parameters, high_bits: int) -> float:
    """The scale at which divisors in [1, 2^high_bits] are encrypted: what it has less, their inverses have more."""
    return 2.0 ** (PRIMES * parameters.prime_bits - high_bits // 2)


def dividend_scale(parameters: Parameters) -> float:
    return 2.0 ** (PRIMES * parameters.prime_bits)


def quotient_bits(parameters: Parameters, parties: int, high_bits: int) -> int:
    """Noise of a quotient in [-1, 1] is below 2^-quotient_bits in each slot.

    That of a wide product is 2^noise_bits in each coefficient; in a slot sqrt(N) times as much, taken four times for
    the tail. It counts relative to an inverse as small as 2^-high_bits, at a scale that is half of that above three
    primes, and relative to a divisor of 1, at one that is half of that below.
    """
    slot = noise_bits(parameters, parties) + parameters.log_degree / 2 + 2
    return int(PRIMES * parameters.prime_bits - slot - high_bits / 2) - 2


def quotient_smudging(parameters: Parameters, parties: int, high_bits: int, bits: float, statistical_bits: int) -> int:
    """The bits of smudging that hide the noise of a quotient at a scale of 2^bits up to 2^-statistical_bits."""
    noise = ceil(bits) - quotient_bits(parameters, parties, high_bits) + 1
    return noise + parameters.log_degree + statistical_bits


def inverse(run: Collective, divisor: Wide, high_bits: int) -> Wide:
    """1 / n for n in [1, 2^high_bits] in every slot: `invert`, corrected."""
    fed, server, of = run.fed, run.fed.server, run.parameters
    low = fed.local(server, _at_level_scale, run.evaluator, divisor.at, high_bits // 2)
    rough = invert(run, Remote(low, of.top - PRIMES), high_bits)
    settled = fed.local(server, Evaluator.within, run.evaluator, rough.at, 2.0)
    known = Wide(settled, rough.level, log2(of.scale(rough.level)) + high_bits, 2.0)
    top, wanted = refreshed(run, known), PRIMES * of.prime_bits + high_bits // 2
    raised = fed.local(server, Evaluator.raised, run.evaluator, top.at, wanted - top.bits)
    found = Wide(raised, top.level, wanted, 2.0)
    for _ in range(NEWTON_STEPS):
        rest = product(run, divisor, found, 2.0)
        rest = Wide(fed.local(server, _two_less, run.evaluator, rest.at), rest.level, rest.bits, 2.0)
        found = product(run, rest, found, 2.0)
    return found


def _at_level_scale(evaluator: Evaluator, divisor: Encrypted, lacking: int) -> Encrypted:
    """A divisor at the scale of one prime, `PRIMES` levels down."""
    whole = evaluator.raised(divisor, lacking)
    for _ in range(PRIMES - 1):
        whole = evaluator.rescale(whole)
    return evaluator.to_level_scale(whole)


def _two_less(evaluator: Evaluator, value: Encrypted) -> Encrypted:
    return evaluator.within(evaluator.add_constant(evaluator.multiply_integer(value, -1), 2.0), 2.0)


def product(run: Collective, a: Wide, b: Wide, bound: float) -> Wide:
    """a b, rescaled by three primes; `bound` is one that the caller has a proof of.

    Raises LevelError where the parameters have no room for it.
    """
    of = run.parameters
    needed = a.bits + b.bits + log2(a.bound * b.bound) + _masks(run)
    if _room(of, min(a.level, b.level)) < needed:
        a, b = (v if v.level == of.top else refreshed(run, v) for v in (a, b))
    level = min(a.level, b.level)
    if _room(of, level) < needed:
        raise LevelError(f"{of.name} has no room for a product at 2^{a.bits + b.bits:.0f}; choose a larger ring")
    at = run.fed.local(run.fed.server, _multiplied, run.evaluator, a.at, b.at, level, bound)
    dropped = of.key_ring.primes[level : level - PRIMES : -1]
    return Wide(at, level - PRIMES, a.bits + b.bits - sum(log2(p) for p in dropped), bound)


def _multiplied(evaluator: Evaluator, a: Encrypted, b: Encrypted, level: int, bound: float) -> Encrypted:
    result = evaluator.multiply_unscaled(evaluator.drop(a, level), evaluator.drop(b, level))
    result = evaluator.within(result, bound)
    for _ in range(PRIMES):
        result = evaluator.rescale(result)
    return result


def refreshed(run: Collective, a: Wide) -> Wide:
    """The same at the top level, at the same scale. Raises LevelError where masks do not fit."""
    of, needed = run.parameters, a.bits + log2(a.bound) + _masks(run)
    level = next((k for k in range(a.level + 1) if _room(of, k) >= needed), None)
    if level is None:
        raise LevelError(f"masks of {needed:.0f} bits do not fit level {a.level} of {of.name}; choose a larger ring")
    low = run.fed.local(run.fed.server, Evaluator.drop, run.evaluator, a.at, level)
    return Wide(run.refreshed(low), of.top, a.bits, a.bound)


def _room(of: Parameters, level: int) -> float:
    return log2(of.ring(level).modulus)


def _masks(run: Collective) -> float:
    """How many bits above those of the numbers a refresh takes."""
    return run.statistical_bits + log2(len(run.clients) + 1) + ABOVE_MASKS


def decrypted(run: Collective, value: Wide, entries: int, smudging_bits: int) -> At[Floats]:
    """The first numbers, at the server."""
    return run.decrypted_at_server(Remote(value.at, value.level), entries, smudging_bits)
