"""Protocols that pass a value of `a` to `b` beside the ledger, or try to. Each ends with what `b` has got.

`params["key"]` is fresh for each run, so that what one leaves behind cannot serve another.
"""

import builtins
import contextvars
import functools
import logging
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np

from leakledger.preprocess.federation import Public
from tests.preprocess.notes import spread, tell

STASH = {}
VARIABLE = contextvars.ContextVar("value", default=None)


def same(value):
    return value


def hold(shared, value):
    shared["value"] = value


def got(fed, read, *values):
    return {"b": fed.local("b", read, *values)}


# The cheats of the list -----------------------------------------------------------------------------------


def pads_with_the_recipients_coins(fed, inputs, params):
    """The recipient takes the pad off: the ledger holds what looks like noise."""
    padded = fed.local("a", lambda v, coins: v ^ int(coins.integers(2**32)), inputs["a"], fed.coins("b"))
    return got(fed, lambda v, coins: v ^ int(coins.integers(2**32)), tell(fed, padded, "b"), fed.coins("b"))


def derives_the_pad_from_the_recipients_secret(fed, inputs, params):
    padded = fed.local("a", lambda v: v ^ int.from_bytes(fed._secrets["b"][:4], "big"), inputs["a"])
    told = tell(fed, padded, "b")
    return got(fed, lambda v: v ^ int.from_bytes(fed._secrets["b"][:4], "big"), told)


def writes_a_temporary_file(fed, inputs, params):
    path = Path(params["folder"], params["key"])
    fed.local("a", lambda v: path.write_text(str(v)), inputs["a"])
    return got(fed, lambda: int(path.read_text()))


def keeps_a_module_global(fed, inputs, params):
    fed.local("a", lambda v: STASH.update(value=v), inputs["a"])
    return got(fed, lambda: STASH.pop("value"))


def changes_a_public_value(fed, inputs, params):
    board = spread(fed, fed.local(fed.server, lambda: {"value": None}), "note")
    fed.local("a", hold, board, inputs["a"])
    return got(fed, lambda board: board["value"], board)


def changes_a_public_array(fed, inputs, params):
    board = fed.public(lambda: np.zeros(1, np.int64))
    fed.local("a", lambda board, v: board.fill(v), board, inputs["a"])
    return got(fed, lambda board: int(board[0]), board)


def reads_the_private_value(fed, inputs, params):
    return got(fed, same, inputs["a"]._value)


def reads_the_federations_store(fed, inputs, params):
    value = inputs["a"]
    return got(fed, lambda: fed._values[value])


def makes_it_public_itself(fed, inputs, params):
    return got(fed, same, Public(inputs["a"]))


def asks_the_federation_for_it(fed, inputs, params):
    return got(fed, same, fed.own(inputs["a"]))


# Objects that two parties share -----------------------------------------------------------------------------------


def keeps_it_in_a_closure(fed, inputs, params):
    stash = []
    fed.local("a", lambda v: stash.append(v), inputs["a"])
    return got(fed, lambda: stash[0])


def keeps_it_in_an_enclosing_variable(fed, inputs, params):
    seen = None

    def keep(value):
        nonlocal seen
        seen = value

    fed.local("a", keep, inputs["a"])
    return got(fed, lambda: seen)


def keeps_it_in_a_default_argument(fed, inputs, params):
    def both(value=None, stash=[]):  # noqa: B006
        stash.append(value)
        return stash[0]

    fed.local("a", both, inputs["a"])
    return got(fed, both)


def keeps_it_through_a_bound_method(fed, inputs, params):
    stash = []
    fed.local("a", stash.append, inputs["a"])
    return got(fed, stash.pop)


def keeps_it_in_a_partial(fed, inputs, params):
    stash = {}
    fed.local("a", functools.partial(hold, stash), inputs["a"])
    return got(fed, functools.partial(stash.get, "value"))


def keeps_it_in_a_constant(fed, inputs, params):
    stash = {}
    fed.local("a", hold, stash, inputs["a"])
    return got(fed, lambda stash: stash["value"], stash)


def keeps_it_in_a_shared_generator(fed, inputs, params):
    coins = np.random.default_rng(0)
    fed.local("a", lambda v, coins: coins.bytes(4 * v), inputs["a"], coins)
    return got(fed, lambda coins: _steps(coins), coins)


def _steps(coins):
    """How far a generator that began at 0 has come, in words of four bytes."""
    fresh = np.random.default_rng(0).bytes(4 * 3000)
    return fresh.find(coins.bytes(16)) // 4


def keeps_it_in_the_federation(fed, inputs, params):
    fed.local("a", lambda v: setattr(fed, "note", v), inputs["a"])
    return got(fed, lambda: fed.note)


def keeps_it_on_a_function(fed, inputs, params):
    fed.local("a", _remember, inputs["a"])
    return got(fed, lambda: _remember.value)


def _remember(value):
    _remember.value = value


@dataclass(frozen=True)
class Method:
    """An encoder, say: one object that every party is given."""

    def fit(self, value):
        object.__setattr__(self, "learned", value)

    def fit_class(self, value):
        type(self).learned_by_all = value


def keeps_it_on_the_method(fed, inputs, params):
    method = Method()
    fed.local("a", method.fit, inputs["a"])
    return got(fed, lambda m: m.learned, method)


def keeps_it_on_the_class(fed, inputs, params):
    fed.local("a", Method().fit_class, inputs["a"])
    return got(fed, lambda: Method().learned_by_all)


@functools.cache
def remembered():
    return []


def keeps_it_in_a_cache(fed, inputs, params):
    fed.local("a", lambda v: remembered().append(v), inputs["a"])
    return got(fed, lambda: remembered().pop())


def moves_a_value(fed, inputs, params):
    inputs["a"].party = "b"
    return got(fed, same, inputs["a"])


def changes_what_it_sent(fed, inputs, params):
    """The recipient has what was encoded, not the sender's list."""
    sent = fed.local("a", lambda v: [0], inputs["a"])
    arrived = tell(fed, sent, "b")
    fed.local("a", lambda s, v: s.append(v), sent, inputs["a"])
    return got(fed, lambda s: s[-1], arrived)


# The interpreter, the process, the machine ------------------------------------------------------------------------


def sets_an_environment_variable(fed, inputs, params):
    fed.local("a", lambda v: os.environ.update({params["key"]: str(v)}), inputs["a"])
    return got(fed, lambda: int(os.environ.pop(params["key"])))


def writes_into_the_working_folder(fed, inputs, params):
    fed.local("a", lambda v: Path(params["key"]).write_text(str(v)), inputs["a"])
    return got(fed, lambda: int(Path(params["key"]).read_text()))


def writes_into_the_temporary_folder(fed, inputs, params):
    fed.local("a", lambda v: Path(tempfile.gettempdir(), params["key"]).write_text(str(v)), inputs["a"])
    return got(fed, lambda: int(Path(tempfile.gettempdir(), params["key"]).read_text()))


def lets_a_program_write(fed, inputs, params):
    path = Path(params["folder"], params["key"])
    code = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
    fed.local("a", lambda v: subprocess.run([sys.executable, "-c", code, str(path), str(v)]), inputs["a"])
    return got(fed, lambda: int(path.read_text()))


def shares_memory(fed, inputs, params):
    def write(value):
        memory = SharedMemory(params["key"], create=True, size=8)
        memory.buf[:8] = value.to_bytes(8, "big")
        memory.close()

    def read():
        memory = SharedMemory(params["key"])
        value = int.from_bytes(memory.buf[:8], "big")
        memory.close()
        memory.unlink()
        return value

    fed.local("a", write, inputs["a"])
    return got(fed, read)


def seeds_the_generator_of_numpy(fed, inputs, params):
    fed.local("a", np.random.seed, inputs["a"])
    return got(fed, lambda: int(np.random.get_state()[1][0]))  # noqa: NPY002


def sets_a_context_variable(fed, inputs, params):
    fed.local("a", lambda v: VARIABLE.set(v) and None, inputs["a"])
    return got(fed, VARIABLE.get)


def sets_a_builtin(fed, inputs, params):
    fed.local("a", lambda v: setattr(builtins, params["key"], v), inputs["a"])
    return got(fed, lambda: builtins.__dict__.pop(params["key"]))


def sets_the_level_of_a_log(fed, inputs, params):
    fed.local("a", lambda v: logging.getLogger(params["key"]).setLevel(v), inputs["a"])
    return got(fed, lambda: logging.getLogger(params["key"]).level)


def raises_it(fed, inputs, params):
    """An error carries the value out of the function that met it."""

    def fail(value):
        raise KeyError(value)

    try:
        fed.local("a", fail, inputs["a"])
        caught = None
    except KeyError as error:
        caught = error.args[0]
    return got(fed, same, caught)


def reads_the_ledger(fed, inputs, params):
    """What `a` tells the server is not for `b`."""
    tell(fed, inputs["a"], fed.server)
    return got(fed, lambda: next(iter(fed.ledger)).payload)
