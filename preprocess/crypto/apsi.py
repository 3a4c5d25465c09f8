"""Asymmetric labelled set intersection of two parties: a receiver learns a sender's labels of what both hold.

Source: Cong et al., "Labeled PSI from homomorphic encryption with reduced computation and communication" (CCS 2021).
Four messages: `apsi.oprf-request` and `apsi.oprf-answer` turn the receiver's elements into values of a
pseudorandom function whose key only the sender has (`oprf`), which the sender applies to its own; `apsi.query` has the
receiver's bins encrypted, as powers; `apsi.answer` the sender's polynomials evaluated on them (`labelled_psi`, `bfv`).

The receiver learns nothing else: the answer's shape follows from public numbers. The sender learns how many elements
the receiver has, from the first message; the query hides it. Honest-but-curious parties; a relay sees blinded points
and ciphertexts. Each execution has a key of its own for the function, each receiver one for encryption.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from preprocess.crypto import bfv
from preprocess.crypto.labelled_psi import (
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
from preprocess.crypto.oprf import Blinded, blind, evaluate, finish, values
from preprocess.crypto.randomness import Randomness, randomness
from preprocess.crypto.refusal import MessageError, accept
from preprocess.crypto.ristretto import new_scalar
from preprocess.federation import At, Federation, Public

Labelled = dict[bytes, int]
Pair = tuple[str, str]


@dataclass(frozen=True)
class Query:
    """What a receiver keeps of its query: elements, their items, which bin holds which, and the encrypted powers."""

    elements: tuple[bytes, ...] = field(repr=False)
    items: tuple[Item, ...] = field(repr=False)
    held: Mapping[int, int] = field(repr=False)
    message: list[list[bytes]] = field(repr=False)  # rows of bins, powers


def intersect(
    fed: Federation,
    sets: Mapping[str, At[Labelled]],
    pairs: Iterable[Pair],
    bound: Public[int],
    *,
    via: str | None,
    sealed: bool = False,
) -> dict[Pair, At[Labelled]]:
    """For each (receiver, sender): at the receiver, the sender's labels of the elements that both hold.

    No set may have more than `bound` elements. Labels are in [0, 2^64).
    """
    plan = fed.public(plan_for, bound)
    keys = {p: fed.local(p, bfv.new_key, randomness(fed, p)) for p in sets}
    return {
        (receiver, sender): _execute(fed, receiver, sender, sets, keys[receiver], plan, {"via": via, "sealed": sealed})
        for receiver, sender in pairs
    }


def _execute(
    fed: Federation,
    receiver: str,
    sender: str,
    sets: Mapping[str, At[Labelled]],
    key: At[bfv.SecretKey],
    plan: Public[Plan],
    route: dict[str, Any],
) -> At[Labelled]:
    blinded = fed.local(receiver, lambda s, source: blind(list(s), source), sets[receiver], randomness(fed, receiver))
    request = fed.local(receiver, lambda b: b.request, blinded)
    asked = fed.send(request, sender, "apsi.oprf-request", **route)
    scalar = fed.local(sender, new_scalar, randomness(fed, sender))
    evaluated = accept(fed, sender, receiver, evaluate, scalar, asked)
    answered = fed.send(evaluated, receiver, "apsi.oprf-answer", **route)

    query = accept(fed, receiver, sender, make_query, blinded, answered, key, plan, randomness(fed, receiver))
    sent = fed.send(fed.local(receiver, lambda q: q.message, query), sender, "apsi.query", **route)
    own = fed.local(sender, own_items, scalar, sets[sender], plan)
    answer = accept(fed, sender, receiver, answer_query, own, sent, plan, randomness(fed, sender))
    returned = fed.send(answer, receiver, "apsi.answer", **route)
    return accept(fed, receiver, sender, read_answer, query, returned, key, plan)


def make_query(blinded: Blinded, answer: Any, key: bfv.SecretKey, plan: Plan, source: Randomness) -> Query:
    """Finishes the oblivious function, places the items in bins and encrypts their powers."""
    items = tuple(item_of(output, plan.bins) for output in finish(blinded, answer))
    held = cuckoo(items)
    rows = query_slots(items, held, plan, source)
    message = [[bfv.encrypt(key, power(row, e), source) for e in plan.powers] for row in rows]
    return Query(blinded.elements, items, held, message)


def own_items(scalar: bytes, own: Labelled, plan: Plan) -> dict[Item, int]:
    """The sender's items under its own key, with their labels."""
    outputs = values(scalar, list(own))
    return {item_of(out, plan.bins): label for out, label in zip(outputs, own.values(), strict=True)}


def answer_query(own: Mapping[Item, int], query: Any, plan: Plan, source: Randomness) -> list[list[list[bytes]]]:
    """[row of bins][bundle] the encryptions of r F(y) and G(y) + r' F(y)."""
    powers = [all_powers(row, plan) for row in _grid(query, plan.rows, len(plan.powers))]
    roots, labels = polynomials(own, plan, source)
    return [
        [[bfv.combine(part[b, row], powers[row]) for part in (roots, labels)] for b in range(plan.bundles)]
        for row in range(plan.rows)
    ]


def all_powers(sent: list[bytes], plan: Plan) -> list[Any]:
    """y^1 ... y^degree from the powers that were sent: those, and products of two."""
    base = {e: bfv.load(data, parts=(2,), fresh=True) for e, data in zip(plan.powers, sent, strict=True)}
    return [bfv.to_ntt(_power(base, e)) for e in range(1, plan.degree + 1)]


def _power(base: Mapping[int, Any], exponent: int) -> Any:
    """A power that was sent, or the product of two."""
    if exponent in base:
        return base[exponent]
    first = next(e for e in base if exponent - e in base)
    return bfv.multiply(base[first], base[exponent - first])


def read_answer(query: Query, answer: Any, key: bfv.SecretKey, plan: Plan) -> Labelled:
    """The labels of shared elements. Raises MessageError for anything but the ciphertexts of an answer."""
    rows = [[_grid_row(pair, 2) for pair in _grid_row(row, plan.bundles)] for row in _grid_row(answer, plan.rows)]
    plain = np.array([[[_decrypted(key, data) for data in pair] for pair in row] for row in rows])
    roots, labels = plain[:, :, 0].swapaxes(0, 1), plain[:, :, 1].swapaxes(0, 1)
    found = read_labels(query.items, query.held, roots, labels)
    return {query.elements[item]: label for item, label in found.items()}


def _decrypted(key: bfv.SecretKey, data: Any) -> Any:
    return bfv.decrypt(key, bfv.load(data, parts=(2, 3), fresh=False))


def _grid(message: Any, rows: int, columns: int) -> list[list[Any]]:
    return [_grid_row(row, columns) for row in _grid_row(message, rows)]


def _grid_row(message: Any, count: int) -> list[Any]:
    if not isinstance(message, list) or len(message) != count:
        raise MessageError(f"it has no {count} parts")
    return message
