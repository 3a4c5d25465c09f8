"""Secure aggregation: the server learns the sum of the updates of a round, and of no client its own.

Source: Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017, figure 4, for
honest-but-curious parties: round 3, ConsistencyCheck, and the signatures of the active version are left out. Each round
of training runs it anew, with keys of its own:

0. *AdvertiseKeys*: each client tells the server a public key for masks, the server tells everybody all of them.
1. *ShareKeys*: each client shares its secret key and the seed of a mask of its own among all, t of n. Shares travel
   through the server, sealed for their recipient (`sealing`; those keys are exchanged once, not anew each round).
2. *MaskedInputCollection*: each client sends its vector plus its own mask (double masking) plus or minus a mask with
   each other client that has shared. Masks of pairs cancel in the sum.
4. *Unmasking*: the server says whose vectors have arrived. Each client reveals its share of the own seed of each of
   them, or, of a client that has shared and sent no vector, its share of the secret key: never both of one client. With
   t answers the server takes off the own masks, and those with clients that dropped.

A client may drop at any step. Fewer than t at any step end the run: the server raises `TooFewClients` (`secure_steps`)
before it has a sum. Beyond the paper, a client commits to the seed of its own mask (SHA-256), and the server checks
what it puts together from shares against that and against the public key: a wrong share is an error, no wrong model.

Who learns what. The server alone: the sum of rows, the sum of rows times update, who dropped when. The server and t
clients together: every single update, from the shares that these clients hold (`attacks.observed.aggregation`). All
survivors but one with the server: the last one's, by subtraction, whatever t is. A server that lies about who survived
is not covered: told two stories, two groups of t clients reveal both secrets of one client; above n / 2 there are no
two.

Precision: each entry of rows times update is rounded to 2^-fraction_bits once, so an entry of the mean is off by at
most n / rows 2^-(fraction_bits + 1), before it is rounded to float32.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from leakledger.preprocess.aggregation.base import Aggregation, Located, mean_of_sum
from leakledger.preprocess.aggregation.secure_steps import (
    advertised,
    all_keys,
    check_keys,
    check_masked,
    check_shares,
    collected,
    enough,
    fixed_point,
    masked_update,
    new_secrets,
    revealed_shares,
    share_of,
    split_secrets,
    unmasked,
)
from leakledger.preprocess.crypto.masking import Ring
from leakledger.preprocess.crypto.randomness import randomness
from leakledger.preprocess.crypto.refusal import accept
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import Sharers, Survivors
from leakledger.preprocess.options import option

Step = Literal["advertise-keys", "share-keys", "masked-input", "unmasking"]
STEPS: tuple[Step, ...] = ("advertise-keys", "share-keys", "masked-input", "unmasking")
FEWEST = 2  # a sum of one is an update
MOST_BITS = 48  # binary places: doubles have 53, of which some stand before the point


@dataclass(frozen=True)
class SecureAggregation(Aggregation):
    """Masks that cancel, and shares of what does not when clients drop."""

    threshold: int | None = option(
        None, at_least=FEWEST, help="clients that must stay to the end of a round; unset: more than two thirds of them"
    )
    fraction_bits: int = option(32, at_least=1, at_most=MOST_BITS, help="binary places of rows times an entry")
    ring_bits: int = option(64, choices=(32, 64), help="bits of a masked number: half as many are half the bytes")
    dropouts: int = option(0, at_least=0, help="clients, the last of each round, that drop out on purpose")
    dropout_step: Step = option("masked-input", help="the step from which on they say nothing, if there are any")

    name = "secure-aggregation"
    reference = "Bonawitz et al., CCS 2017, figure 4 (honest but curious)"

    @property
    def ring(self) -> Ring:
        return Ring(self.ring_bits, self.fraction_bits)

    def check(self, participants: int) -> None:
        """Raises ValueError for too few clients, a threshold above their number, and no room for whole numbers."""
        if participants < FEWEST:
            raise ValueError(f"secure aggregation needs at least {FEWEST} clients a round, got {participants}")
        if self.needed(participants) > participants:
            raise ValueError(f"threshold {self.threshold} is above the {participants} clients of a round")
        if self.ring.limit(participants) < 1:
            raise ValueError(
                f"ring_bits {self.ring_bits} with fraction_bits {self.fraction_bits} leave {participants} clients no "
                "room for a whole number; lower fraction_bits"
            )

    def needed(self, participants: int) -> int:
        """The threshold t of a round."""
        return max(FEWEST, 2 * participants // 3 + 1) if self.threshold is None else self.threshold

    def answering(self, clients: Sequence[str], step: Step) -> list[str]:
        """The clients of a round that still speak in `step`."""
        stay = len(clients) - self.dropouts if STEPS.index(self.dropout_step) <= STEPS.index(step) else len(clients)
        return list(clients[: max(0, stay)])

    def mean(self, fed: Federation, kept: Located, offered: Located, weights: Located) -> Located:
        """Figure 4 from top to bottom. Raises TooFewClients where a step has fewer answers than the threshold."""
        clients, server, t = list(offered), fed.server, self.needed(len(offered))
        number = {c: fed.clients.index(c) for c in clients}
        speaking, sharing, sending, revealing = (self.answering(clients, step) for step in STEPS)

        with fed.scope("advertise-keys"):
            secrets = {c: fed.local(c, new_secrets, randomness(fed, c)) for c in speaking}
            told = [fed.send(fed.local(c, advertised, secrets[c]), to=server) for c in speaking]
            fed.local(server, enough, fed.step, len(told), len(clients), t)
            everyone = fed.local(server, all_keys, [number[c] for c in speaking], *told)
            keys = {
                c: accept(fed, c, server, check_keys, fed.send(everyone, to=c), secrets[c], number[c], t)
                for c in speaking
            }

        with fed.scope("share-keys"):
            held = exchange_shares(fed, speaking, sharing, secrets, keys, t)
            fed.local(server, enough, fed.step, len(sharing), len(clients), t)
            sharers = fed.local(server, Sharers, [number[c] for c in sharing])
            shared = {c: fed.send(sharers, to=c) for c in sharing}

        with fed.scope("masked-input"):
            masked = []
            for c in sending:
                fixed = fed.local(c, fixed_point, self.ring, c, len(clients), offered[c])
                own = accept(
                    fed, c, server, masked_update, self.ring, number[c], fed.round, t, fixed, secrets[c], keys[c],
                    shared[c],
                )  # fmt: skip
                arrived = fed.send(own, to=server)
                masked.append(accept(fed, server, c, check_masked, self.ring, weights[server], arrived))
            fed.local(server, enough, fed.step, len(sending), len(clients), t)

        with fed.scope("unmasking"):
            survivors = fed.local(server, Survivors, [number[c] for c in sending])
            ending = {c: fed.send(survivors, to=c) for c in sending}
            revealed = []
            for c in revealing:
                parts = [held[c][u] for u in sharing]
                revealed.append(
                    fed.send(accept(fed, c, server, revealed_shares, t, shared[c], ending[c], *parts), to=server)
                )
            fed.local(server, enough, fed.step, len(revealed), len(clients), t)
            lists = [fed.local(server, collected, *values) for values in (told, revealed[:t], masked)]
            points = [number[c] + 1 for c in revealing[:t]]
            total = accept(
                fed, server, "the clients", unmasked, self.ring, fed.clients, fed.round, points, everyone, sharers,
                survivors, *lists,
            )  # fmt: skip
            return {server: fed.local(server, mean_of_sum, total, weights[server])}


def exchange_shares(
    fed: Federation,
    speaking: Sequence[str],
    sharing: Sequence[str],
    secrets: Mapping[str, At[Any]],
    keys: Mapping[str, At[Any]],
    threshold: int,
) -> dict[str, dict[str, At[Any]]]:
    """Recipient -> sender -> shares: of each client that shares at each that still listens, its own at itself."""
    held: dict[str, dict[str, At[Any]]] = {c: {} for c in sharing}
    for u in sharing:
        parts = fed.local(u, split_secrets, secrets[u], keys[u], threshold, randomness(fed, u))
        for place, v in enumerate(speaking):
            share = fed.local(u, share_of, parts, place)
            if v != u:
                share = fed.send(share, to=v, via=fed.server, sealed=True)
            if v in held:
                held[v][u] = accept(fed, v, u, check_shares, share)
    return held
