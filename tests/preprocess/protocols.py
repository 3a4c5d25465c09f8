"""Small protocols that tests run simulated and projected; at module level, so that a party's process finds them."""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from preprocess.federation import At, Federation

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
            to: fed.gather(
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
        total = fed.local(fed.server, add, *fed.gather(partial, fed.server, "sum.partial"))
        everywhere = fed.broadcast(total, "sum.total")
    return {p: fed.local(p, lambda t: {"total": t}, everywhere) for p in fed.everyone}


def mean_model(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """Arrays in both directions, drawn from the parties' coins."""

    def draw(coins: np.random.Generator) -> dict[str, NDArray[np.float32]]:
        return {"weight": coins.standard_normal((3, 2), np.float32), "none": np.zeros((0, 2), np.float32)}

    updates = {c: fed.local(c, draw, fed.coins(c)) for c in fed.clients}
    arrived = fed.gather(updates, fed.server, "model.update", via=None, sealed=True)
    mean = fed.local(fed.server, lambda *u: np.mean([x["weight"] for x in u], axis=0), *arrived)
    return dict.fromkeys(fed.clients[:1], fed.send(mean, fed.clients[0], "model.mean"))


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
    return {"b": fed.send(thing, "b", "object")}


def returns_an_object(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    return {"b": fed.local("b", lambda: fed)}


def returns_what_lives_elsewhere(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    return {"a": inputs["b"]}


def raises(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    def divide(value: int) -> float:
        return value / 0

    with fed.scope("scale", round=2):
        quotient = fed.local("b", divide, inputs["b"])
        return {"a": fed.send(quotient, "a", "quotient")}


def ring(fed: Federation, inputs: Inputs, disturb: Callable[[], Any]) -> Inputs:
    """a -> server -> b -> a, where `b` is disturbed before it answers."""
    with fed.scope("ring", round=3):
        at_server = fed.send(inputs["a"], fed.server, "ring.first")
        at_b = fed.send(at_server, "b", "ring.second")
        answer = fed.local("b", lambda v: (disturb(), v)[1], at_b)
        return {"a": fed.send(answer, "a", "ring.third", via=fed.server)}


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
    return {"b": fed.send(inputs["a"], "b", topic)}


def one_more_message(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """Only `a` believes that it sends a second message; nobody waits for it."""
    sent = fed.send(inputs["a"], "b", "first")
    if fed.holds("a"):
        fed.send(inputs["a"], "b", "second")
    return {"b": sent}


def skips_a_message(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """`a` leaves out the first of two messages."""
    if not fed.holds("a"):
        fed.send(inputs["a"], "b", "first")
    return {"b": fed.send(inputs["a"], "b", "second")}


def wait_for_each_other(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """`a` and `b` disagree on who speaks first."""
    first, second = ("a", "b") if fed.holds("b") else ("b", "a")
    fed.send(inputs[first], second, "first")
    return {first: fed.send(inputs[second], first, "second")}


def ends_early(fed: Federation, inputs: Inputs, params: Params) -> Inputs:
    """`b` waits for a message that `a` does not know of."""
    return {"b": fed.send(inputs["a"], "b", "only")} if fed.holds("b") else {}
