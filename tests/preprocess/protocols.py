"""Small protocols that tests run simulated and projected; at module level, so that a party's process finds them."""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import KINDS, LocalMeans
from tests.preprocess.notes import collect, noted, spread, tell

Inputs = dict[str, At[Any]]
Params = dict[str, Any]
MODULUS = 2**61


def split(value: int, parts: int, coins: np.random.Generator) -> list[int]:
    shares = [int(s) for s in coins.integers(0, MODULUS, parts - 1)]
    return [*shares, (value - sum(shares)) % MODULUS]


def add(*shares: int) -> int:
    return sum(shares) % MODULUS


def secure_sum(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """Additive sharing modulo 2^61: every client ends with the sum. `via` and `sealed` of the shares as in params."""
    with fed.scope("share"):
        shares = {c: fed.local(c, split, v, len(inputs), fed.coins(c)) for c, v in inputs.items()}
        held = {
            to: collect(
                fed,
                {c: fed.local(c, lambda s, i=i: s[i], s) for c, s in shares.items()},
                to,
                "sum.share",
                via=params["via"],
                sealed=params["sealed"],
            )
            for i, to in enumerate(inputs)
        }
    partial = {c: fed.local(c, add, *s) for c, s in held.items()}
    with fed.scope("total", round=1):
        total = fed.local(fed.server, add, *collect(fed, partial, fed.server, "sum.partial"))
        everywhere = spread(fed, total, "sum.total")
    return {p: fed.local(p, lambda t: {"total": t}, everywhere) for p in fed.everyone}


def mean_model(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """Arrays in both directions, drawn from the parties' coins."""

    def draw(coins: np.random.Generator) -> dict[str, NDArray[np.float32]]:
        return {"weight": coins.standard_normal((3, 2), np.float32), "none": np.zeros((0, 2), np.float32)}

    updates = {c: fed.local(c, draw, fed.coins(c)) for c in fed.clients}
    arrived = collect(fed, updates, fed.server, "model.update", via=None, sealed=True)
    mean = fed.local(fed.server, lambda *u: np.mean([x["weight"] for x in u], axis=0), *arrived)
    return dict.fromkeys(fed.clients[:1], tell(fed, mean, fed.clients[0], "model.mean"))


def own_process(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """Which process a party runs in. Differs between runs by intent."""
    return {p: fed.local(p, os.getpid) for p in fed.everyone}


def coins_of_the_system(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    return {p: fed.local(p, lambda coins: coins.bytes(16), fed.coins(p)) for p in fed.everyone}


def prints(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """Writes to stdout in all the ways that could garble a report, and reads stdin."""

    def noise() -> str:
        print("printed", flush=True)
        os.write(1, b"written")
        return sys.stdin.read()

    return {p: fed.local(p, noise) for p in fed.everyone}


def touches_another(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """Client `a` reads the value of `b` through a closure."""
    return {"a": fed.local("a", lambda v: v + fed.own(inputs["b"]), inputs["a"])}


def sends_an_object(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    thing = fed.local("a", lambda v: fed, inputs["a"])
    return {"b": tell(fed, thing, "b", "object")}


def returns_an_object(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    return {"b": fed.local("b", lambda: fed)}


def returns_what_lives_elsewhere(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    return {"a": inputs["b"]}


def raises(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    def divide(value: int) -> float:
        return value / 0

    with fed.scope("scale", round=2):
        quotient = fed.local("b", divide, inputs["b"])
        return {"a": tell(fed, quotient, "a", "quotient")}


def ring(fed: Federation, inputs: Inputs, disturb: Callable[[], Any]) -> Inputs:
    """a -> server -> b -> a, where `b` is disturbed before it answers."""
    with fed.scope("ring", round=3):
        at_server = tell(fed, inputs["a"], fed.server, "ring.first")
        at_b = tell(fed, at_server, "b", "ring.second")
        answer = fed.local("b", lambda v: (disturb(), v)[1], at_b)
        return {"a": tell(fed, answer, "a", "ring.third", via=fed.server)}


def sleeps(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """`a` begins late, so that the others notice that they wait; then `b` takes its time."""

    def begin(value: int) -> int:
        time.sleep(params["late"])
        return value

    def sleep() -> None:
        time.sleep(params["seconds"])

    return ring(fed, inputs | {"a": fed.local("a", begin, inputs["a"])}, sleep)


def dies(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    def die() -> None:
        time.sleep(0.2)  # others notice that they wait
        os.kill(os.getpid(), signal.SIGKILL)

    return ring(fed, inputs, die)


def exits(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    return ring(fed, inputs, lambda: sys.exit(3))


def another_topic(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """The topic depends on a private value."""
    topic = "even" if fed.holds("a") else "odd"
    return {"b": tell(fed, inputs["a"], "b", topic)}


def one_more_message(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """Only `a` believes that it sends a second message; nobody waits for it."""
    sent = tell(fed, inputs["a"], "b", "first")
    if fed.holds("a"):
        tell(fed, inputs["a"], "b", "second")
    return {"b": sent}


def skips_a_message(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """`a` leaves out the first of two messages."""
    if not fed.holds("a"):
        tell(fed, inputs["a"], "b", "first")
    return {"b": tell(fed, inputs["a"], "b", "second")}


def wait_for_each_other(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """`a` and `b` disagree on who speaks first."""
    first, second = ("a", "b") if fed.holds("b") else ("b", "a")
    tell(fed, inputs[first], second, "first")
    return {first: tell(fed, inputs[second], first, "second")}


def ends_early(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """`b` waits for a message that `a` does not know of."""
    return {"b": tell(fed, inputs["a"], "b", "only")} if fed.holds("b") else {}


class Overfull(LocalMeans):
    """Travels as a LocalMeans, with a field that none has."""

    def to_plain(self) -> Any:
        return {**super().to_plain(), "secret": "confidential"}


def one_field_too_many(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    with fed.scope("means", round=2):
        fed.send(fed.local("a", Overfull, 3, np.zeros(2)), to="b")
    return {}


def kind_that_is_not_installed(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    kind = noted("gone")
    KINDS.pop("gone", None)
    with fed.scope("means", round=2):
        fed.send(fed.local("a", kind, "confidential"), to="b")
    return {}


def nested_lists(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """200,000 empty lists, which no recipient takes apart."""
    with fed.scope("means", round=2):
        tell(fed, fed.local("a", lambda: [[] for _ in range(200_000)]), "b", "note")
    return {}


def stops(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """Those named in params stop, as by SIGSTOP, after all messages: nobody waits for them but the driver."""

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    with fed.scope("before"):
        tell(fed, inputs["a"], "b", "first")
    return {p: fed.local(p, stop) for p in params["stopped"]}


def never_ends(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """`b` computes on and on in its last step."""

    def compute() -> None:
        while True:
            time.sleep(0.01)

    tell(fed, inputs["a"], "b", "first")
    return {"b": fed.local("b", compute)}


def floods(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """`a` waits for `b`, which is silent, while the server sends it more and more that is not due."""

    def flood(channels: Any, seconds: float, size: int) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            channels.send("a", b"", bytes(size))

    def silent(seconds: float) -> int:
        time.sleep(seconds)
        return 0

    if fed.holds(fed.server):
        flood(fed._channels, params["seconds"], params["size"])  # type: ignore[attr-defined]
    return {"a": tell(fed, fed.local("b", silent, params["seconds"]), "a", "first")}


def sends_twice(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """The transport of `a` delivers its message as often as params say."""
    if fed.holds("a"):
        channels = fed._channels  # type: ignore[attr-defined]
        send = channels.send

        def repeated(*message: Any) -> None:
            for _ in range(params["times"]):
                send(*message)

        channels.send = repeated
        try:
            tell(fed, inputs["a"], "b", "first")
        finally:
            channels.send = send
        return {}
    return {"b": tell(fed, inputs["a"], "b", "first")}


def slow_at_the_end(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """`b` takes its time after its last message."""

    def late(value: int, seconds: float) -> int:
        time.sleep(seconds)
        return value

    return {"b": fed.local("b", late, tell(fed, inputs["a"], "b", "first"), params["seconds"])}


def reports_nonsense(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """`b` writes what is no report to every pipe that it finds, and goes on."""

    def nonsense() -> None:
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            with suppress(OSError):
                if "pipe:" in os.readlink(f"/proc/self/fd/{descriptor}"):
                    os.write(descriptor, (1).to_bytes(8, "big") + b"\xc1")
        time.sleep(600)

    return {"b": fed.local("b", nonsense)}
