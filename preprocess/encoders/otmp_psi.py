"""`otmp-psi`: unique identifiers around a ring, aligned by one over-threshold set intersection of all parties, t = 2.

Source: "Privacy-preserving tabular data transformation", section 7.1, with the intersection of `crypto.otmp` (Mahdavi
et al. 2020). The server makes the first party of the ring key holder and the last one reconstructor. Everyone but the
key holder obtains the pseudorandom values of its elements; everyone but the reconstructor hands over its shares; the
reconstructor tells each party which of its positions match which of another's; each party then asks those before it in
the ring for numbers by position, and never those after it.

Readings. A value becomes bytes as they are, with its feature: int(bytes(x)) would take "" and NUL for one value. An
element's bin follows from its keyed value, so two shares of one value lie in the same bin (the positions (2, 3) and
(1, 4) of the paper's example do not). A party asks for each element only the first holder in the ring, whose number is
the lowest; it sends each earlier party one request even if there is nothing to ask, so that messages do not tell who
shares nothing. Messages go from party to party (`psi_route`): relayed in the clear, the server could reconstruct too.

What is learnt: the reconstructor learns which parties share how many values, and that two positions hold the same one;
each party which of its values others hold, and who. The server learns the sum of all dictionaries (`ring_ids`), from
which it sizes the bins; the padded bins hide how many elements a party has from the reconstructor, the request shows it
to the key holder. Messages: 2n on the ring, n for the roles, 4(n - 1) for requests, answers, shares and matches, and
n(n - 1) to ask for numbers and to give them: n^2 + 6n - 4. The paper has 8n - 7 + n(n - 1) / 2: its sum counts one
message for each pair that may have to ask, but an answer must follow each; what its remaining 6(n - 1) are it does not
say, and this protocol needs but 5n - 4. Both give 31 for four parties, apart from the server's copy of the sizes and
the roles (36 here).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.crypto.oprf import Blinded, blind, evaluate, finish, values
from leakledger.preprocess.crypto.otmp import Bins, Placed, bins_for, check_shares, matches, place
from leakledger.preprocess.crypto.randomness import randomness
from leakledger.preprocess.crypto.refusal import MessageError, accept, accept_public
from leakledger.preprocess.crypto.ristretto import new_scalar
from leakledger.preprocess.encoders.ring_ids import RingIds, routed
from leakledger.preprocess.encoders.ring_psi import Elements, PsiEncoder
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import (
    Ciphertext,
    OtmpAnswer,
    OtmpMatches,
    OtmpNumbers,
    OtmpPositions,
    OtmpRequest,
    OtmpRoles,
    OtmpShares,
    Share,
)

THRESHOLD = 2

Matches = NDArray[np.int64]  # (found, 4): own bin, own slot, the other party's place in the ring, its slot


@dataclass(frozen=True)
class OtmpPsi(PsiEncoder):
    own_route = "direct"
    name = "otmp-psi"
    reference = "Privacy-preserving tabular data transformation, section 7.1; Mahdavi et al. 2020"
    said_to_share = "about the sum of dictionary sizes; of its values, those that others hold too (table 5)"

    def shared(self, fed: Federation, allotted: RingIds, sets: Mapping[str, At[Elements]]) -> dict[str, At[Elements]]:
        ring = allotted.ring
        roles = fed.local(fed.server, assign_roles, ring, allotted.sizes)
        bins = accept_public(fed, fed.server, read_roles, ring, allotted.sizes, fed.broadcast(roles))
        outputs = self._keyed_values(fed, ring, sets)
        placed = {
            p: fed.local(p, place, fed.local(p, list, sets[p]), outputs[p], i + 1, bins, THRESHOLD, randomness(fed, p))
            for i, p in enumerate(ring)
        }
        found = self._reconstruct(fed, ring, placed, bins)
        return self._ask_for_numbers(fed, ring, sets, placed, found)

    def _keyed_values(
        self, fed: Federation, ring: Sequence[str], sets: Mapping[str, At[Elements]]
    ) -> dict[str, At[list[bytes]]]:
        """Each party's pseudorandom values, with the help of the key holder."""
        holder = ring[0]
        key = fed.local(holder, new_scalar, randomness(fed, holder))
        outputs = {holder: fed.local(holder, lambda k, s: values(k, list(s)), key, sets[holder])}
        for p in ring[1:]:
            blinded = fed.local(p, lambda s, source: blind(list(s), source), sets[p], randomness(fed, p))
            asked = fed.send(fed.local(p, request_of, blinded), holder, **routed(fed, self.route))
            answer = accept(fed, holder, p, answer_request, key, asked)
            answered = fed.send(answer, p, **routed(fed, self.route))
            outputs[p] = accept(fed, p, holder, keyed_values, blinded, answered)
        return outputs

    def _reconstruct(
        self, fed: Federation, ring: Sequence[str], placed: Mapping[str, At[Placed]], bins: Public[Bins]
    ) -> dict[str, At[Matches]]:
        """At each party, the matches of its own positions."""
        reconstructor = ring[-1]
        shares = {p: fed.local(p, shares_of, placed[p]) for p in ring}
        arrived = fed.gather(shares, reconstructor, **routed(fed, self.route))
        checked = [accept(fed, reconstructor, p, read_shares, s, bins) for p, s in zip(ring, arrived, strict=True)]
        every = fed.local(reconstructor, all_matches, *checked)
        found: dict[str, At[Matches]] = {}
        for i, p in enumerate(ring):
            own = fed.local(reconstructor, matches_of, every, i)
            told = own if p == reconstructor else fed.send(own, p, **routed(fed, self.route))
            found[p] = accept(fed, p, reconstructor, check_matches, told, placed[p], i, len(ring))
        return found

    def _ask_for_numbers(
        self,
        fed: Federation,
        ring: Sequence[str],
        sets: Mapping[str, At[Elements]],
        placed: Mapping[str, At[Placed]],
        found: Mapping[str, At[Matches]],
    ) -> dict[str, At[Elements]]:
        """Each party asks each earlier one for the numbers of the elements that this one is the first to hold."""
        lowest: dict[str, At[Elements]] = {p: fed.local(p, dict) for p in ring}
        for i, p in enumerate(ring):
            for j, earlier in enumerate(ring[:i]):
                wanted = fed.local(p, first_held_by, found[p], i, j)
                asked = fed.send(fed.local(p, positions_of, wanted), earlier, **routed(fed, self.route))
                numbers = accept(fed, earlier, p, numbers_at, asked, i, found[earlier], placed[earlier], sets[earlier])
                told = fed.send(numbers, p, **routed(fed, self.route))
                lowest[p] = accept(fed, p, earlier, with_numbers, lowest[p], wanted, told, placed[p], sets[p])
        return lowest


def assign_roles(ring: Sequence[str], sizes: Mapping[str, int]) -> OtmpRoles:
    bins = bins_for(sum(sizes.values()), len(ring))
    return OtmpRoles(ring[0], ring[-1], bins.count, bins.capacity)


def read_roles(ring: Sequence[str], sizes: Mapping[str, int], roles: OtmpRoles) -> Bins:
    """The bins. Raises MessageError where the roles are not those that the ring and the public sizes give."""
    if roles != assign_roles(ring, sizes):
        raise MessageError("the server assigns roles or bins that do not follow from the ring and the sizes")
    return Bins(roles.bins, roles.capacity)


def request_of(blinded: Blinded) -> OtmpRequest:
    return OtmpRequest(Ciphertext(blinded.request))


def answer_request(key: bytes, request: OtmpRequest) -> OtmpAnswer:
    return OtmpAnswer(Ciphertext(evaluate(key, request.points.value)))


def keyed_values(blinded: Blinded, answer: OtmpAnswer) -> list[bytes]:
    return finish(blinded, answer.points.value)


def shares_of(placed: Placed) -> OtmpShares:
    return OtmpShares(Share(placed.shares))


def read_shares(told: OtmpShares, bins: Bins) -> NDArray[np.uint64]:
    return check_shares(told.shares.value, bins)


def all_matches(*shares: NDArray[np.uint64]) -> list[Matches]:
    """For each place in the ring, the matches of that party's positions, in random slots as they are."""
    found = matches(dict(enumerate(shares, 1)), THRESHOLD)
    own: list[list[Matches]] = [[np.empty((0, 4), np.int64)] for _ in shares]
    for (x, y), rows in found.items():
        own[x - 1].append(_match_rows(rows[:, 0], rows[:, 1], y - 1, rows[:, 2]))
        own[y - 1].append(_match_rows(rows[:, 0], rows[:, 2], x - 1, rows[:, 1]))
    return [np.vstack(parts) for parts in own]


def matches_of(every: Sequence[Matches], place: int) -> OtmpMatches:
    return OtmpMatches(every[place])


def _match_rows(home: Matches, slot: Matches, other: int, other_slot: Matches) -> Matches:
    return np.column_stack([home, slot, np.full(len(home), other, np.int64), other_slot])


def check_matches(told: OtmpMatches, placed: Placed, place: int, parties: int) -> Matches:
    """The matches as they arrived. Raises MessageError unless they are positions of own elements and of others."""
    found = told.positions
    if found.ndim != 2 or found.shape[1] != 4:
        raise MessageError("it is no list of matching positions")
    for home, slot, other, other_slot in found.tolist():
        known = (home, slot) in placed.positions and 0 <= other_slot < placed.shares.shape[1]
        if not known or not 0 <= other < parties or other == place:
            raise MessageError("a match is not at a position that holds an element")
    return found


def first_held_by(found: Matches, place: int, other: int) -> Matches:
    """(wanted, 3) own bin, own slot, the other's slot, of elements of which `other` is the first holder in the ring."""
    first: dict[tuple[int, int], tuple[int, int]] = {}
    for home, slot, holder, holder_slot in found.tolist():
        if holder < place:
            first[home, slot] = min(first.get((home, slot), (holder, holder_slot)), (holder, holder_slot))
    rows = [(*own, slot) for own, (holder, slot) in sorted(first.items()) if holder == other]
    return np.array(rows, np.int64).reshape(-1, 3)


def positions_of(wanted: Matches) -> OtmpPositions:
    """(wanted, 2) the other party's bins and slots."""
    return OtmpPositions(wanted[:, [0, 2]])


def numbers_at(request: OtmpPositions, asker: int, found: Matches, placed: Placed, own: Elements) -> OtmpNumbers:
    """The numbers at the positions asked for. Raises MessageError for a position that the asker does not share."""
    asked = request.positions
    if asked.ndim != 2 or asked.shape[1] != 2:
        raise MessageError("it is no list of positions")
    shared = {(home, slot) for home, slot, other, _ in found.tolist() if other == asker}
    positions = [(home, slot) for home, slot in asked.tolist()]
    if not shared.issuperset(positions):
        raise MessageError("it asks for a number at a position that does not match")
    return OtmpNumbers(np.array([own[placed.positions[position]] for position in positions], np.int64))


def with_numbers(lowest: Elements, wanted: Matches, answer: OtmpNumbers, placed: Placed, own: Elements) -> Elements:
    """`lowest` and the numbers of the wanted elements. Raises MessageError unless each is lower than the own number."""
    told = answer.numbers
    if told.shape != (len(wanted),):
        raise MessageError(f"it has no {len(wanted)} numbers")
    elements = [placed.positions[home, slot] for home, slot, _ in wanted.tolist()]
    if any(not 0 <= number < own[x] for x, number in zip(elements, told.tolist(), strict=True)):
        raise MessageError("a number is none that was allotted before")
    return {**lowest, **dict(zip(elements, told.tolist(), strict=True))}
