"""Multiparty CKKS among the clients of a federation, who hold the secret shares; the server computes on ciphertexts.

1. `set_up`: every client contributes to the joint seed; then shares of the public key, of the relinearisation key in
   two rounds, and of a key for each rotation asked for. The server adds shares up. Clients need the public key only.
2. `encrypted`: a client's numbers go to the server, as a ciphertext.
3. `Collective` is the `Machine` of `inverse` and `comparison`: the server computes; where levels run out, it sends the
   ciphertext to all clients, and each answers with its share of a refresh.
4. `decrypted_at_server`: likewise with shares of a decryption under smudging; `decrypted` tells everyone the numbers.

Levels are public: they follow from the operations, and decide when a refresh is due. What arrives is checked by
`packing` before anything is computed with it. Messages are direct; colluding clients and server: see the package.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count

from leakledger.preprocess.crypto.randomness import Randomness, randomness
from leakledger.preprocess.crypto.refusal import accept, accept_public
from leakledger.preprocess.crypto.threshold_ckks import collective_keys as keys
from leakledger.preprocess.crypto.threshold_ckks import party_steps as steps
from leakledger.preprocess.crypto.threshold_ckks import refresh
from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import Encrypted
from leakledger.preprocess.crypto.threshold_ckks.collective_keys import PublicKey, SecretShare
from leakledger.preprocess.crypto.threshold_ckks.evaluator import Evaluator
from leakledger.preprocess.crypto.threshold_ckks.machine import check_levels, refresh_level, shifted
from leakledger.preprocess.crypto.threshold_ckks.packing import Context
from leakledger.preprocess.crypto.threshold_ckks.parameters import Parameters, parameters
from leakledger.preprocess.crypto.threshold_ckks.primes import Floats
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import CkksDecrypted

Operation = Callable[..., Encrypted]


@dataclass(frozen=True)
class Remote:
    """A ciphertext at the server, and its level."""

    at: At[Encrypted]
    level: int


@dataclass(frozen=True)
class Collective:
    """An execution: who holds which share, and the server's evaluator. Operations are those of `Machine`."""

    fed: Federation
    parameters: Parameters
    seed: Public[bytes]
    context: Public[Context]
    secrets: dict[str, At[SecretShare]] = field(repr=False)
    sources: dict[str, At[Randomness]] = field(repr=False)
    public_key: Public[PublicKey] = field(repr=False)
    evaluator: At[Evaluator] = field(repr=False)
    statistical_bits: int = refresh.STATISTICAL_BITS
    numbers: Iterator[int] = field(default_factory=count, repr=False)  # of refreshes

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(self.secrets)

    # Numbers in, numbers out ------------------------------------------------------------------------------------

    def encrypted(
        self, client: str, numbers: At[Floats], bound: float, scale: float | None = None, *, whole: bool = False
    ) -> Remote:
        """The client's numbers at the server; `whole` ones so that a sum tells of nothing but the sum
        (`encoding.encode_whole`). Raises ValueError, at the client, for numbers beyond the bound.
        """
        fed, top = self.fed, self.parameters.top
        given = self.public_key, numbers, bound, self.sources[client], scale, whole
        told = fed.local(client, steps.encrypted_input, *given)
        expected = scale or self.parameters.scale(top)
        arrived = fed.send(told, to=fed.server)
        return Remote(accept(fed, fed.server, client, steps.opened, self.context, arrived, top, expected, bound), top)

    def total(self, values: Sequence[Remote]) -> Remote:
        """The sum of several."""
        return reduce(self.add, values)

    def decrypted(self, value: Remote, entries: int, smudging_bits: int) -> Public[CkksDecrypted]:
        """The first numbers of a ciphertext, public: everyone hears them."""
        numbers = self.decrypted_at_server(value, entries, smudging_bits)
        return self.fed.broadcast(self.fed.local(self.fed.server, CkksDecrypted, numbers))

    def decrypted_at_server(
        self, value: Remote, entries: int, smudging_bits: int, *, private: bool = False
    ) -> At[Floats]:
        """The first numbers of a ciphertext, which the server has from the shares of all clients; `private`: it keeps
        them, and what follows from them, to itself.
        """
        fed, server = self.fed, self.fed.server
        told = fed.local(server, steps.to_decrypt, value.at)
        step = steps.private_decryption_share if private else steps.decryption_share
        shares = []
        for c in self.clients:
            asked = accept(fed, c, server, steps.opened, self.context, fed.send(told, to=c), value.level)
            share = fed.local(c, step, self.secrets[c], asked, smudging_bits, self.sources[c])
            shares.append(accept(fed, server, c, steps.opened_decryption_share, value.at, fed.send(share, to=server)))
        return fed.local(server, steps.decrypted_numbers, value.at, smudging_bits, entries, *shares)

    # The machine ------------------------------------------------------------------------------------------------

    def add(self, a: Remote, b: Remote) -> Remote:
        return self._both(Evaluator.add, a, b, 0)

    def subtract(self, a: Remote, b: Remote) -> Remote:
        return self._both(Evaluator.subtract, a, b, 0)

    def multiply(self, a: Remote, b: Remote) -> Remote:
        return self._both(Evaluator.multiply, a, b, 1)

    def add_constant(self, a: Remote, constant: float) -> Remote:
        return self._one(Evaluator.add_constant, a, constant, 0)

    def multiply_constant(self, a: Remote, constant: float) -> Remote:
        return self._one(Evaluator.multiply_constant, a, constant, 1)

    def multiply_integer(self, a: Remote, factor: int) -> Remote:
        return self._one(Evaluator.multiply_integer, a, factor, 0)

    def within(self, a: Remote, bound: float) -> Remote:
        return self._one(Evaluator.within, a, bound, 0)

    def shift(self, a: Remote, bits: int) -> Remote:
        return Remote(self.fed.local(self.fed.server, shifted, a.at, bits), a.level)

    def ready(self, a: Remote, levels: int, bound: float) -> Remote:
        if a.level >= check_levels(self.parameters, len(self.clients), levels, bound, self.statistical_bits):
            return a
        return self.rotated(a, 0, bound)

    def rotated(self, a: Remote, rotation: int, bound: float) -> Remote:
        """A refresh of numbers up to the bound, with slot j + rotation at j, around."""
        fed, server = self.fed, self.fed.server
        level = refresh_level(self.parameters, len(self.clients), bound, self.statistical_bits)
        low = fed.local(server, Evaluator.drop, self.evaluator, a.at, level)
        fresh = fed.local(server, Evaluator.to_level_scale, self.evaluator, self.refreshed(low, rotation))
        return Remote(fresh, self.parameters.top - 1)

    def _both(self, operation: Operation, a: Remote, b: Remote, levels: int) -> Remote:
        at = self.fed.local(self.fed.server, operation, self.evaluator, a.at, b.at)
        return Remote(at, min(a.level, b.level) - levels)

    def _one(self, operation: Operation, a: Remote, argument: float, levels: int) -> Remote:
        at = self.fed.local(self.fed.server, operation, self.evaluator, a.at, argument)
        return Remote(at, a.level - levels)

    def refreshed(self, low: At[Encrypted], rotation: int = 0) -> At[Encrypted]:
        """The server's ciphertext at the top level and at the scale that it has, its slots rotated to the left.

        Clients refuse one at a level that the masks do not fit.
        """
        fed, server, bits, parties = self.fed, self.fed.server, self.statistical_bits, len(self.clients)
        reference = fed.public(refresh.reference, self.parameters, self.seed, next(self.numbers))
        told, shares = fed.local(server, steps.to_refresh, low), []
        for c in self.clients:
            asked = accept(fed, c, server, steps.opened, self.context, fed.send(told, to=c), None)
            given = self.secrets[c], asked, parties, bits, rotation, reference, self.sources[c]
            share = fed.local(c, steps.refresh_share, *given)
            shares.append(accept(fed, server, c, steps.opened_refresh_share, low, fed.send(share, to=server)))
        return fed.local(server, steps.refreshed, low, rotation, reference, *shares)


def set_up(
    fed: Federation,
    log_degree: int,
    *,
    products: bool = True,
    rotations: Iterable[int] = (),
    statistical_bits: int = refresh.STATISTICAL_BITS,
) -> Collective:
    """Collective keys among all clients. Raises ValueError for a ring without parameters."""
    of, server = parameters(log_degree), fed.server
    with fed.scope("threshold-ckks: keys"):
        sources = {c: randomness(fed, c) for c in fed.clients}
        told = [fed.broadcast(fed.local(c, steps.contribution, s)) for c, s in sources.items()]
        seed = accept_public(fed, "the clients", steps.joined, *told)
        context = fed.public(keys.context_of, of, seed)
        secrets = {c: fed.local(c, keys.secret_key, of, s) for c, s in sources.items()}

        reference = fed.public(keys.public_reference, of, seed)
        shares = []
        for c in fed.clients:
            share = fed.send(fed.local(c, steps.public_share, context, secrets[c], reference, sources[c]), to=server)
            shares.append(accept(fed, server, c, steps.opened_public_share, context, share))
        total = fed.broadcast(fed.local(server, steps.public_sum, context, *shares))
        public_key = accept_public(fed, server, steps.public_key_of, context, reference, total)
        made = Collective(fed, of, seed, context, secrets, sources, public_key, fed.local(server, Evaluator, context))
        relinearisation = _relinearisation_key(made) if products else None
        keys_of_rotations = [_rotation_key(made, distance) for distance in rotations]
        evaluator = fed.local(server, steps.with_keys, context, relinearisation, *keys_of_rotations)
    return Collective(fed, of, seed, context, secrets, sources, public_key, evaluator, statistical_bits)


def _relinearisation_key(made: Collective) -> At[keys.SwitchingKey]:
    fed, server, context = made.fed, made.fed.server, made.context
    reference = fed.public(keys.switching_reference, made.parameters, made.seed, "relinearisation")
    ephemerals = {c: fed.local(c, steps.ephemeral, context, s) for c, s in made.sources.items()}
    firsts = []
    for c in made.clients:
        share = fed.local(c, steps.first_share, context, made.secrets[c], ephemerals[c], reference, made.sources[c])
        firsts.append(accept(fed, server, c, steps.opened_first, context, fed.send(share, to=server)))
    told = fed.broadcast(fed.local(server, steps.first_sum, context, *firsts))
    sums = accept_public(fed, server, steps.opened_first, context, told)
    seconds = []
    for c in made.clients:
        second = fed.local(c, steps.second_share, context, made.secrets[c], ephemerals[c], sums, made.sources[c])
        seconds.append(accept(fed, server, c, steps.opened_second, context, fed.send(second, to=server)))
    return fed.local(server, steps.relinearisation_key, context, sums, *seconds)


def _rotation_key(made: Collective, distance: int) -> At[keys.SwitchingKey]:
    fed, server, context = made.fed, made.fed.server, made.context
    element = keys.galois_element(made.parameters, distance)
    reference = fed.public(keys.switching_reference, made.parameters, made.seed, f"rotation {element}")
    shares = []
    for c in made.clients:
        share = fed.local(c, steps.rotation_share, context, made.secrets[c], element, reference, made.sources[c])
        shares.append(accept(fed, server, c, steps.opened_rotation, context, fed.send(share, to=server)))
    return fed.local(server, steps.rotation_key, context, element, reference, *shares)
