"""Asymmetric labelled set intersection of two parties: a receiver learns a sender's labels of what both hold.

Source: Cong et al., "Labeled PSI from homomorphic encryption with reduced computation and communication" (CCS 2021).
Four messages: `apsi.oprf-request` and `apsi.oprf-answer` turn the receiver's elements into values of a
pseudorandom function whose key only the sender has (`oprf`), which the sender applies to its own; `apsi.query` has the
receiver's bins encrypted, as powers; `apsi.answer` the sender's polynomials evaluated on them (`labelled_psi`, `bfv`).

The receiver learns nothing else but, where the two also run the other way round, how many elements the sender has. The
sender learns that of the receiver, from the first message; the query hides nothing more. Shapes of query and answer
follow from the receiver's number and the sender's, or, where no request of the sender's tells that, a public bound.
Honest-but-curious parties; a relay sees blinded points and ciphertexts. A party has one blinding and one key of the
function for all its executions, as in Cong et al., and one key for encryption: what several parties learn together is
what each learns alone. Queries and polynomials are drawn anew for each execution.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leakledger.preprocess.crypto import bfv
from leakledger.preprocess.crypto.labelled_psi import (
    Item,
    Plan,
    cuckoo,
    item_of,
    plan_for,
    polynomials,
    power,
    query_slots,
    read_labels,
)
from leakledger.preprocess.crypto.oprf import Blinded, blind, evaluate, finish, values
from leakledger.preprocess.crypto.randomness import Randomness, randomness
from leakledger.preprocess.crypto.refusal import MessageError, accept
from leakledger.preprocess.crypto.ristretto import POINT_BYTES, new_scalar, unpack
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import ApsiAnswer, ApsiEvaluation, ApsiQuery, ApsiRequest, Ciphertext

Labelled = dict[bytes, int]
Pair = tuple[str, str]


@dataclass(frozen=True)
class Party:
    """What a party keeps for all its executions: its request, and the function's values at its own elements."""

    labels: Labelled = field(repr=False)
    source: Randomness
    blinded: Blinded = field(repr=False)
    scalar: bytes = field(repr=False)
    outputs: tuple[bytes, ...] = field(repr=False)
    key: bfv.SecretKey


@dataclass(frozen=True)
class Query:
    """What a receiver keeps of its query: the plan, its items, which bin holds which, and the encrypted powers."""

    plan: Plan
    items: tuple[Item, ...] = field(repr=False)
    held: Mapping[int, int] = field(repr=False)
    message: list[list[bytes]] = field(repr=False)  # rows of bins, powers


def intersect(
    fed: Federation,
    sets: Mapping[str, At[Labelled]],
    pairs: Sequence[Pair],
    bound: Public[int],
    *,
    via: str | None,
    sealed: bool = False,
) -> dict[Pair, At[Labelled]]:
    """For each (receiver, sender): at the receiver, the sender's labels of the elements that both hold.

    No set may have more than `bound` elements. Labels are in [0, 2^64).
    """
    route: dict[str, Any] = {"via": via, "sealed": sealed}
    own = {p: fed.local(p, new_party, labels, randomness(fed, p)) for p, labels in sets.items()}
    requests = {p: fed.local(p, request_of, at) for p, at in own.items()}
    asked, evaluated = {}, {}
    for receiver, sender in pairs:
        arrived = fed.send(requests[receiver], sender, **route)
        asked[receiver, sender] = accept(fed, sender, receiver, check_request, arrived, bound)
        points = accept(fed, sender, receiver, evaluate_for, own[sender], asked[receiver, sender])
        evaluated[receiver, sender] = fed.send(points, receiver, **route)
    found = {}
    for receiver, sender in pairs:
        mutual = (sender, receiver) in asked
        planned = fed.local(receiver, plan, requests[receiver], asked[sender, receiver] if mutual else bound)
        query = accept(fed, receiver, sender, make_query, own[receiver], evaluated[receiver, sender], planned)
        sent = fed.send(fed.local(receiver, query_of, query), sender, **route)
        same = fed.local(sender, plan, asked[receiver, sender], requests[sender] if mutual else bound)
        answer = fed.send(accept(fed, sender, receiver, answer_query, own[sender], sent, same), receiver, **route)
        found[receiver, sender] = accept(fed, receiver, sender, read_answer, own[receiver], query, answer)
    return found


def new_party(labels: Labelled, source: Randomness) -> Party:
    """A party's secrets for one run."""
    elements, scalar = list(labels), new_scalar(source)
    blinded, outputs = blind(elements, source), tuple(values(scalar, elements))
    return Party(labels, source, blinded, scalar, outputs, bfv.new_key(source))


def request_of(own: Party) -> ApsiRequest:
    return ApsiRequest(Ciphertext(own.blinded.request))


def check_request(request: ApsiRequest, bound: int) -> ApsiRequest:
    """A request as it arrived. Raises MessageError for anything but the points of at most `bound` elements."""
    if (count := len(unpack(request.points.value))) > bound:
        raise MessageError(f"it has {count} elements, where {bound} are the most")
    return request


def evaluate_for(own: Party, request: ApsiRequest) -> ApsiEvaluation:
    """The sender's answer to a request."""
    return ApsiEvaluation(Ciphertext(evaluate(own.scalar, request.points.value)))


def plan(receivers: ApsiRequest, senders: ApsiRequest | int) -> Plan:
    """What both sides of an execution compute: from the receiver's request, and the sender's or a bound on its set."""
    return plan_for(_elements(receivers), senders if isinstance(senders, int) else _elements(senders))


def _elements(request: ApsiRequest) -> int:
    return len(request.points.value) // POINT_BYTES


def make_query(own: Party, answer: ApsiEvaluation, plan: Plan) -> Query:
    """Finishes the oblivious function, places the items in bins and encrypts their powers."""
    items = tuple(item_of(output, plan.bins) for output in finish(own.blinded, answer.points.value))
    held = cuckoo(items)
    rows = query_slots(items, held, plan, own.source)
    message = [[bfv.encrypt(own.key, power(row, e + 1), own.source) for e in range(plan.degree)] for row in rows]
    return Query(plan, items, held, message)


def query_of(query: Query) -> ApsiQuery:
    return ApsiQuery(Ciphertext(query.message))


def answer_query(own: Party, query: ApsiQuery, plan: Plan) -> ApsiAnswer:
    """[row of bins][bundle] the encryptions of r F(y) and G(y) + r' F(y)."""
    powers = [
        [bfv.to_ntt(bfv.load(c, fresh=True)) for c in row] for row in _grid(query.powers.value, plan.rows, plan.degree)
    ]
    items = {item_of(out, plan.bins): n for out, n in zip(own.outputs, own.labels.values(), strict=True)}
    roots, labels = polynomials(items, plan, own.source)
    evaluations = [
        [[bfv.combine(part[b, row], powers[row]) for part in (roots, labels)] for b in range(plan.bundles)]
        for row in range(plan.rows)
    ]
    return ApsiAnswer(Ciphertext(evaluations))


def read_answer(own: Party, query: Query, answer: ApsiAnswer) -> Labelled:
    """The labels of shared elements. Raises MessageError for anything but the ciphertexts of an answer."""
    rows = [
        [_grid_row(pair, 2) for pair in row]
        for row in _grid(answer.evaluations.value, query.plan.rows, query.plan.bundles)
    ]
    plain = np.array([[[bfv.decrypt(own.key, bfv.load(c, fresh=False)) for c in pair] for pair in row] for row in rows])
    roots, labels = plain[:, :, 0].swapaxes(0, 1), plain[:, :, 1].swapaxes(0, 1)
    found = read_labels(query.items, query.held, roots, labels)
    return {own.blinded.elements[item]: label for item, label in found.items()}


def _grid(message: Any, rows: int, columns: int) -> list[list[Any]]:
    return [_grid_row(row, columns) for row in _grid_row(message, rows)]


def _grid_row(message: Any, count: int) -> list[Any]:
    if not isinstance(message, list) or len(message) != count:
        raise MessageError(f"it has no {count} parts")
    return message
