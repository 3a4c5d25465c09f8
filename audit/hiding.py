"""The named check of what claims to hide: two worlds, fresh coins, and nothing that tells the worlds apart.

Messages that disclose shares or ciphertexts, that steer the protocol, or that were sealed, are not for an attack to
read; that they say nothing is checked here. A method runs, with the options of the audited case, on two made-up
federations of the same shape, with other values of which parties share more (`control_federations`, draw 0 and its
twin), several times each with fresh coins. Message by message, what was sent must have the same size in both worlds;
must be the same in both where it does not depend on coins, as a whole or, where messages are small enough to play many
runs, byte by byte near its ends; and must have bytes of the same distribution. Steps of the protocol must be as much
alike where parties hold as many rows and values as others did. A kind that fails leaks, or does not hide what it says
it hides; it counts as not read.

An aggregation of updates is checked alike, on made-up updates of two worlds, and columns that are exchanged under
encryption on two made-up tables.

What it cannot see: a dependence on values that leaves sizes and the frequencies of bytes as they are, and no byte near
an end alone, as under a mask that follows from a nonce beside it or is used twice; what a method does on the audited
tables and not on made-up ones; how many rows or values a party holds, where the length of what is encrypted, shared or
sealed tells it. It is a smoke detector for a secret that is sent as it is, beside something fresh or not, or sized by
what it holds.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from leakledger.audit.control_features import engineered
from leakledger.audit.control_federations import TURNED, TWIN, ControlFederation, Options, frozen, run_methods
from leakledger.preprocess.aggregation import AGGREGATIONS, Aggregation
from leakledger.preprocess.messages import HIDING, ClientGradient, Disclosure, kind_of
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Message

RUNS = 3  # of each world
FAR = 20.0  # standard deviations of sizes that scatter by themselves
ALARM = 1e-9  # the chance that equal worlds differ as much, over all byte values of one kind
UPDATES, ENTRIES = 4, 2_000  # clients whose updates are aggregated, or as many as there must be; and entries of each
MANY, LIGHT = 10, 2**20  # of each world where one run has no more than so many bytes that are to hide
EDGE = 512  # bytes from each end that are compared one by one, where there are many runs
LEAST = 1_000  # bytes of one kind and run that a comparison of their frequencies takes
FIXED = "it depends on values and not on coins"
HIDDEN = HIDING | {Disclosure.CONTROL}


@cache
def hides(encoder: str, encoder_options: Options, scaler: str, scaler_options: Options) -> Mapping[str, str]:
    """Topic -> what tells the worlds apart ("" for nothing), of each kind that is to hide, and of what was sealed."""
    afresh = run_methods.__wrapped__  # not kept: there are methods whose messages are hundreds of megabytes
    return _compared(
        lambda draw, coins: _hidden(afresh(encoder, encoder_options, scaler, scaler_options, draw, coins)),
        (0, TWIN),
        TURNED,
    )


@cache
def hides_updates(aggregation: str, options: Options) -> Mapping[str, str]:
    """The same of an aggregation: worlds differ in what the clients add up, not in who takes part, nor in shapes."""
    method = AGGREGATIONS[aggregation](**dict(options))
    return _compared(lambda world, coins: _by_topic(_aggregated(method, options, world, coins)), (0, 1))


@cache
def hides_columns(exchange: str, transformations: tuple[str, ...]) -> Mapping[str, str]:
    """The same of columns that parties exchange to make features of them, where that is to hide them."""
    options = frozen({"exchange": exchange, "transformations": transformations})
    afresh = engineered.__wrapped__
    return _compared(lambda draw, coins: _hidden(afresh(options, draw, coins)), (0, TWIN))


def _compared(play: "Callable[[int, int], Run]", worlds: Sequence[int], turned: int | None = None) -> Mapping[str, str]:
    """What tells two worlds apart, by topic; `play` is given a world and the number of the coins. Where a run says
    little, there are `MANY` runs of each. In the world `turned` parties hold as many rows and values as others did.
    """
    runs = [[play(world, coins) for coins in range(RUNS)] for world in worlds]
    light = 0 < sum(t.size for traces in runs[0][0].values() for t in traces) <= LIGHT
    if light:
        for world, own in zip(worlds, runs, strict=True):
            own += [play(world, coins) for coins in range(RUNS, MANY)]
    topics = sorted({topic for own in runs for run in own for topic in run})
    found = {t: tells_apart([[run.get(t, []) for run in own] for own in runs]) for t in topics}
    if turned is None or not topics:
        return found
    beyond = [play(turned, coins) for coins in range(MANY if light else 1)]
    return {
        t: found[t] or _tells_sizes(t, [[run.get(t, []) for run in own] for own in (runs[0], beyond)]) for t in topics
    }


def _aggregated(method: Aggregation, options: Options, world: int, coins: int) -> Iterable[Message]:
    """The messages of a round among clients whose updates are zero, or large and of very unlike rows."""
    chosen = dict(options)
    clients = [f"P{i + 1}" for i in range(max(UPDATES, (chosen.get("threshold") or 0) + chosen.get("dropouts", 0)))]
    fed = Simulated(clients, secret=pinned("hiding", method.name, repr(options), world, coins))
    drawn = np.random.default_rng(world)
    zeros = {"w": np.zeros(ENTRIES, np.float32)}
    with fed.scope("train", 0):
        kept = method.begin(fed)
        offered = {
            c: fed.at(c, ClientGradient(1 + 9 * world * i, {"w": world * drawn.normal(1, 3, ENTRIES).astype("f4")}))
            for i, c in enumerate(clients)
        }
        offered = {c: method.offer(fed, c, update, ClientGradient) for c, update in offered.items()}
        holders = clients if method.at_clients else [fed.server]
        method.mean(fed, kept, offered, {p: fed.at(p, zeros) for p in holders})
    return fed.ledger


@dataclass(frozen=True)
class Trace:
    """What is kept of a message: its size, what tells it from others, how often it has each value of a byte, and its
    bytes near both ends.
    """

    size: int
    digest: bytes
    frequencies: NDArray[np.int64]
    edges: tuple[bytes, bytes] = (b"", b"")

    @classmethod
    def of(cls, body: bytes) -> Self:
        counts = np.bincount(np.frombuffer(body, np.uint8), minlength=256)
        return cls(len(body), sha256(body).digest(), counts, (bytes(body[:EDGE]), bytes(body[-EDGE:])))


Run = Mapping[str, Sequence[Trace]]  # topic -> its messages in order


def _hidden(federation: ControlFederation) -> dict[str, list[Trace]]:
    """Topic -> what others hold of the messages that are to hide, in order."""
    return _by_topic(federation.fed.ledger)


def _by_topic(messages: Iterable[Message]) -> dict[str, list[Trace]]:
    found: dict[str, list[Trace]] = defaultdict(list)
    traced: dict[int, Trace] = {}  # what is told to many is one object
    for m in messages:
        if is_hidden(m):
            found[m.topic].append(traced.get(id(m.body)) or traced.setdefault(id(m.body), Trace.of(m.body)))
    return found


def is_hidden(message: Message) -> bool:
    """Whether a message is to hide what it is about, from those who pass it on or from everyone."""
    return message.sealed or kind_of(message.topic).discloses in HIDDEN


def tells_apart(worlds: Sequence[Sequence[Sequence[Trace]]]) -> str:
    """What differs between two worlds, each some runs of the same messages in order; "" for nothing."""
    counts = {len(run) for world in worlds for run in world}
    if len(counts) > 1:
        return "how many messages there are depends on values"
    for place in range(counts.pop()):
        one, other = ([run[place] for run in world] for world in worlds)
        if _sizes_differ([t.size for t in one], [t.size for t in other]):
            return "its size depends on values"
        if len({t.digest for t in one}) == len({t.digest for t in other}) == 1 and one[0].digest != other[0].digest:
            return FIXED
        if len(one) >= MANY and any(
            _fixed_by_values([t.edges[e] for t in one], [t.edges[e] for t in other], e) for e in (0, 1)
        ):
            return "some of its bytes depend on values and not on coins"
    nothing = np.zeros(256, np.int64)
    return _bytes_differ([np.array([sum((t.frequencies for t in run), nothing) for run in world]) for world in worlds])


def _tells_sizes(topic: str, worlds: Sequence[Sequence[Sequence[Trace]]]) -> str:
    """What differs where parties hold as many rows and values as others did. A step of the protocol says nothing of
    that. What is encrypted, shared or sealed may be as long as what it holds, which is no number for everyone to read.
    """
    if kind_of(topic).discloses is Disclosure.CONTROL:
        return tells_apart(worlds)
    one, other = ({tuple(t.digest for t in run) for run in world} for world in worlds)
    return FIXED if len(one) == 1 < len(worlds[0]) and one != other else ""


def _fixed_by_values(one: Sequence[bytes], other: Sequence[bytes], end: int) -> bool:
    """Whether a byte is the same in all runs of each world and another in the other one, counted from the start or
    (`end` 1) from the end.
    """
    length = min(map(len, (*one, *other)))
    cut = slice(0, length) if end == 0 else slice(-length or None, None)
    worlds = [np.array([np.frombuffer(run[cut], np.uint8)[:length] for run in world]) for world in (one, other)]
    fixed = [(world == world[0]).all(0) for world in worlds]
    return bool((fixed[0] & fixed[1] & (worlds[0][0] != worlds[1][0])).any())


def _sizes_differ(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether sizes differ by more than they scatter where they are compressed, or at all where they do not scatter."""
    scatter = max(float(np.std(one)), float(np.std(other)))
    return abs(float(np.mean(one)) - float(np.mean(other))) > FAR * scatter


def _bytes_differ(frequencies: Sequence[NDArray[np.int64]]) -> str:
    """Whether the frequencies, (runs, 256) of each world, of byte values differ more between worlds than between runs.

    Runs of one world say how far chance alone goes: bytes may repeat (the same table for several recipients), so counts
    scatter more than independent ones. The ratio of the two chi-squares, each by its degrees of freedom, has an F
    distribution where the worlds are alike.
    """
    sums = np.array([world.sum(0) for world in frequencies], np.float64)  # (worlds, 256)
    if sums.sum() < LEAST * sum(len(world) for world in frequencies):
        return ""
    occur = sums.sum(0) > 0
    counts = [world[:, occur].astype(np.float64) for world in frequencies]
    within = sum(_chi_square(world) for world in counts)
    between, freedom = _chi_square(sums[:, occur]), int(occur.sum()) - 1
    spare = freedom * sum(len(world) - 1 for world in counts)
    if not freedom or not spare:
        return ""
    ratio = (between / freedom) / max(within / spare, 1e-12)
    return "the frequencies of its bytes depend on values" if fdtrc(freedom, spare, ratio) < ALARM else ""


def _chi_square(counts: NDArray[np.float64]) -> float:
    """The distance (r, c) of counts from what their margins alone would give."""
    expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / counts.sum()
    return float(((counts - expected) ** 2 / np.where(expected > 0, expected, 1)).sum())
