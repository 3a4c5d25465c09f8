"""Labelled set intersection under homomorphic encryption: hashing to bins, polynomials, powers. No messages, no keys.

Source: Cong et al., "Labeled PSI from homomorphic encryption with reduced computation and communication" (CCS 2021),
on Chen, Huang, Laine, Rindal (CCS 2018). Both parties hold pseudorandom items (values of an oblivious function). The
receiver puts each item into one of its three bins (cuckoo hashing); the sender puts each of its items into all three.
An item is four numbers of 20 bits in four neighbouring slots. For each slot the sender has polynomials over its bin:
F is 0 at its items, G gives their labels. The receiver sends its slots encrypted, in every power up to the degree D;
the sender answers r F(y) and G(y) + r' F(y) with fresh random r and r' per slot. Where all four slots of a bin are 0
the item is shared, and the second ciphertext has its label; elsewhere both are random.

Choices. Cong et al. send few powers and let the sender multiply the others out of them, which pays for sets of
millions. For hundreds it does not: a product takes noise that needs degree 8192 and primes half as long again, and
makes answers of three parts. All powers are sent, and D is what makes query and answer shortest together. A bin of more
items than D is split over several bundles, whose number follows from a bound on the sender's set (overflow has a chance
below 2^-40); the number of bins follows from the size of the receiver's. Free places hold random roots, free bins
random coefficients, and each bin's bundles are in random order, so that neither the size and shape of an answer nor the
bundle that a label is found in tells what else the bins hold. The labels are encrypted under
a pad from the item's own function value, as in Cong et al., which is why no noise needs to be flooded: what the noise
could tell of coefficients are pseudorandom numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from leakledger.preprocess.crypto.bfv import PLAIN_MODULUS, SLOTS
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError

Numbers = NDArray[np.int64]
Placed = tuple[tuple[int, ...], tuple[int, ...]]  # numbers of an item, numbers of its label

HASHES, FELTS, FELT_BITS = 3, 4, 20
ITEM_BYTES = LABEL_BYTES = FELTS * FELT_BITS // 8
NUMBER_BYTES = 8  # the rest of a label is zero, and tells a label from noise
BINS_PER_ROW = SLOTS // FELTS
FILLING = 0.6  # share of the receiver's bins that are in use, at most
FAILURE = 2.0**-40
LONGEST = 40  # terms of a polynomial: what the noise has room for


@dataclass(frozen=True)
class Plan:
    """What both parties compute from sizes: rows of bins, the polynomials' degree, and bundles per row."""

    rows: int
    degree: int
    bundles: int

    @property
    def bins(self) -> int:
        return self.rows * BINS_PER_ROW

    @property
    def ciphertexts(self) -> int:
        """Of query and answer, which are equally long: a row's powers, and two for each bundle."""
        return self.rows * (self.degree + 2 * self.bundles)


@dataclass(frozen=True)
class Item:
    """What a pseudorandom value makes of an element: (FELTS,) numbers, its bins, and the pad of its label."""

    felts: tuple[int, ...] = field(repr=False)
    bins: tuple[int, ...] = field(repr=False)
    pad: bytes = field(repr=False)


def plan_for(asked: int, bound: int) -> Plan:
    """The shortest plan for a receiver of `asked` elements and a sender of at most `bound`."""
    rows = max(1, -(-asked // int(FILLING * BINS_PER_ROW)))
    load = _fullest(bound, rows * BINS_PER_ROW)
    plans = [Plan(rows, degree, -(-load // degree)) for degree in range(1, LONGEST + 1)]
    return min(plans, key=lambda p: p.ciphertexts)


def _fullest(bound: int, bins: int) -> int:
    """Items in the sender's fullest bin. (That two of its items have a number in common as well is rarer by far.)"""
    load = 1
    while bins * bdtrc(load, max(HASHES * bound, 1), 1 / bins) > FAILURE:
        load += 1
    return load


def item_of(output: bytes, bins: int) -> Item:
    """The item of a pseudorandom value of 64 bytes."""
    whole = int.from_bytes(output[:ITEM_BYTES], "big")
    felts = tuple(whole >> FELT_BITS * k & 2**FELT_BITS - 1 for k in range(FELTS))
    places = (int.from_bytes(output[ITEM_BYTES + 8 * h : ITEM_BYTES + 8 * h + 8], "big") % bins for h in range(HASHES))
    end = ITEM_BYTES + 8 * HASHES
    return Item(felts, tuple(dict.fromkeys(places)), output[end : end + LABEL_BYTES])


# The receiver --------------------------------------------------------------------------------------------------------


def cuckoo(items: Sequence[Item]) -> dict[int, int]:
    """{bin: item} with each item in one of its bins. Raises ValueError where there is no such way.

    Evicts along alternating paths, breadth first, so it finds a way whenever there is one.
    """
    held: dict[int, int] = {}
    for start in range(len(items)):
        _augment(items, held, start)
    return held


def _augment(items: Sequence[Item], held: dict[int, int], start: int) -> None:
    came_from: dict[int, int] = {}  # bin -> the item that wants to move there
    queue = [start]
    for item in queue:
        for place in items[item].bins:
            if place in came_from:
                continue
            came_from[place] = item
            if place in held:
                queue.append(held[place])
                continue
            _shift(held, came_from, place, start)
            return
    raise ValueError(f"{len(items)} items do not fit their bins; run again with other keys")


def _shift(held: dict[int, int], came_from: Mapping[int, int], free: int, start: int) -> None:
    """Moves each item of the path to the bin that it wants, from the free end on."""
    home = {item: place for place, item in held.items()}
    place = free
    while True:
        item = came_from[place]
        held[place] = item
        if item == start:
            return
        place = home[item]


def query_slots(items: Sequence[Item], held: Mapping[int, int], plan: Plan, source: Randomness) -> Numbers:
    """(rows, SLOTS) the receiver's numbers; random ones in bins that are free."""
    slots = source.below(2**FELT_BITS, plan.bins * FELTS).astype(np.int64).reshape(plan.bins, FELTS)
    for place, item in held.items():
        slots[place] = items[item].felts
    return slots.reshape(plan.rows, SLOTS)


def power(numbers: Numbers, exponent: int) -> Numbers:
    """Each number to a power modulo the plain modulus."""
    result, square = np.ones_like(numbers), numbers
    while exponent:
        if exponent & 1:
            result = result * square % PLAIN_MODULUS
        square, exponent = square * square % PLAIN_MODULUS, exponent >> 1
    return result


def read_labels(items: Sequence[Item], held: Mapping[int, int], roots: Numbers, labels: Numbers) -> dict[int, int]:
    """{item: number} of shared items. `roots`, `labels`: (bundles, rows, SLOTS) what the two ciphertexts decrypt to.

    Raises MessageError where a shared item has no label.
    """
    found: dict[int, int] = {}
    shape = len(roots), -1, FELTS
    shared, numbers = (roots.reshape(shape) == 0).all(2), labels.reshape(shape)
    for place, item in held.items():
        for bundle in np.flatnonzero(shared[:, place]):
            found[item] = _opened(numbers[bundle, place].tolist(), items[item].pad)
    return found


def _opened(felts: Sequence[int], pad: bytes) -> int:
    whole = sum(felt << FELT_BITS * k for k, felt in enumerate(felts))
    if max(felts) >= 2**FELT_BITS:
        raise MessageError("a label is no number that a sender can have")
    plain = _xor(whole.to_bytes(LABEL_BYTES, "big"), pad)
    if any(plain[NUMBER_BYTES:]):
        raise MessageError("a label is not the sender's for this element")
    return int.from_bytes(plain[:NUMBER_BYTES], "big")


# The sender ----------------------------------------------------------------------------------------------------------


def polynomials(items: Mapping[Item, int], plan: Plan, source: Randomness) -> tuple[Numbers, Numbers]:
    """The coefficients of r F and of G + r' F, each (bundles, rows, degree + 1, SLOTS), lowest first.

    `items` maps each item to its number. A bin without items has random coefficients. Raises ValueError where a bin
    overflows its bundles.
    """
    shape = plan.bundles, plan.degree + 1, plan.bins, FELTS
    parts = source.below(PLAIN_MODULUS, 2 * int(np.prod(shape))).astype(np.int64).reshape(2, *shape)
    bundled = _simple_hashing(items, plan)
    if bundled:
        filled, bins = (np.array(index) for index in zip(*bundled, strict=True))
        bundles = np.argsort(source.words(plan.bundles * plan.bins).reshape(plan.bundles, plan.bins), 0)[filled, bins]
        for part, found in zip(parts, _interpolated(list(bundled.values()), plan.degree, source), strict=True):
            part[bundles, :, bins] = found.reshape(plan.degree + 1, -1, FELTS).swapaxes(0, 1)
    roots, labels = (p.reshape(*shape[:2], plan.rows, SLOTS).swapaxes(1, 2) for p in parts)
    return roots, labels


def _interpolated(bins: Sequence[Sequence[Placed]], degree: int, source: Randomness) -> tuple[Numbers, Numbers]:
    """(degree + 1, slots of these bins) coefficients of r F and of G + r' F, for bins of 1 to `degree` items."""
    shape = degree, len(bins), FELTS
    xs = source.below(2**FELT_BITS, int(np.prod(shape))).astype(np.int64).reshape(shape)
    labels, used = np.zeros(shape, np.int64), np.zeros(shape, bool)
    for k, placed in enumerate(bins):
        for d, (felts, label) in enumerate(placed):
            xs[d, k], labels[d, k], used[d, k] = felts, label, True
    nodal = np.zeros((degree + 1, len(bins) * FELTS), np.int64)
    interpolant = np.zeros_like(nodal)
    nodal[0] = 1
    # Newton's way: each item adds a multiple of the product of the roots before it.
    for d in range(degree):
        x, wanted, here = xs[d].ravel(), labels[d].ravel(), used[d].ravel()
        missing = (wanted - _at(interpolant, x)) * power(_at(nodal, x), PLAIN_MODULUS - 2) % PLAIN_MODULUS
        interpolant = (interpolant + here * missing * nodal) % PLAIN_MODULUS
        nodal = _times_root(nodal, x)
    r, other = (1 + source.below(PLAIN_MODULUS - 1, 2 * nodal.shape[1])).astype(np.int64).reshape(2, -1)
    return r * nodal % PLAIN_MODULUS, (interpolant + other * nodal) % PLAIN_MODULUS


def _simple_hashing(items: Mapping[Item, int], plan: Plan) -> dict[tuple[int, int], list[Placed]]:
    """{(bundle, bin): items with their labels}, each item in all its bins, in an order that depends on items alone."""
    bundled: dict[tuple[int, int], list[Placed]] = {}
    for item in sorted(items, key=lambda i: i.felts):
        label = _felts(_xor(items[item].to_bytes(NUMBER_BYTES, "big") + bytes(LABEL_BYTES - NUMBER_BYTES), item.pad))
        for place in item.bins:
            choices = [bundled.setdefault((bundle, place), []) for bundle in range(plan.bundles)]
            _first_with_room(choices, item, plan.degree).append((item.felts, label))
    return {where: placed for where, placed in bundled.items() if placed}


def _first_with_room(choices: Sequence[list[Placed]], item: Item, degree: int) -> list[Placed]:
    """The first bundle's bin with a free place, and no item that has a number in common: a slot's roots must differ."""
    for placed in choices:
        taken = {(k, felt) for felts, _ in placed for k, felt in enumerate(felts)}
        if len(placed) < degree and taken.isdisjoint(enumerate(item.felts)):
            return placed
    raise ValueError(f"a bin overflows its {len(choices)} bundles; run again with other keys")


def _at(coefficients: Numbers, x: Numbers) -> Numbers:
    """(slots,) polynomials (degree + 1, slots) at x, by Horner's rule."""
    value = np.zeros_like(x)
    for row in coefficients[::-1]:
        value = (value * x + row) % PLAIN_MODULUS
    return value


def _times_root(coefficients: Numbers, x: Numbers) -> Numbers:
    """The polynomials times (y - x); their highest coefficient is still zero."""
    product = -x * coefficients
    product[1:] += coefficients[:-1]
    rest: Numbers = product % PLAIN_MODULUS
    return rest


def _felts(data: bytes) -> tuple[int, ...]:
    whole = int.from_bytes(data, "big")
    return tuple(whole >> FELT_BITS * k & 2**FELT_BITS - 1 for k in range(FELTS))


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))
