"""Every way that somebody thought of to pass a value beside the ledger, and what catches it.

*Rules*: `protocol_rules` finds it in the source. *Simulated*: with all parties in one process it is refused, or brings
nothing. *Projected*: with a process for each party it fails, or brings nothing, so that the two runs differ.
"""

import ast
import inspect
import os
import tempfile
import uuid
from collections.abc import Iterator

import numpy as np
import pytest

from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.protocol_rules import violations
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.processes import PartyProcesses
from leakledger.preprocess.transport.simulated import run_simulated
from tests.preprocess import cheats
from tests.preprocess.notes import tell

SECRET = 2718
RULES, SIMULATED, PROJECTED = "rules", "simulated", "projected"
CAUGHT_BY = {
    cheats.pads_with_the_recipients_coins: {SIMULATED, PROJECTED},
    cheats.derives_the_pad_from_the_recipients_secret: {RULES, PROJECTED},
    cheats.writes_a_temporary_file: {RULES, PROJECTED},
    cheats.keeps_a_module_global: {RULES, PROJECTED},
    cheats.changes_a_public_value: {SIMULATED, PROJECTED},
    cheats.changes_a_public_array: {SIMULATED, PROJECTED},
    cheats.reads_the_private_value: {RULES, SIMULATED, PROJECTED},
    cheats.reads_the_federations_store: {RULES, PROJECTED},
    cheats.makes_it_public_itself: {RULES, SIMULATED, PROJECTED},
    cheats.asks_the_federation_for_it: {RULES, SIMULATED, PROJECTED},
    cheats.keeps_it_in_a_closure: {RULES, SIMULATED, PROJECTED},
    cheats.keeps_it_in_an_enclosing_variable: {RULES, PROJECTED},
    cheats.keeps_it_in_a_default_argument: {RULES, SIMULATED, PROJECTED},
    cheats.keeps_it_through_a_bound_method: {SIMULATED, PROJECTED},
    cheats.keeps_it_in_a_partial: {SIMULATED, PROJECTED},
    cheats.keeps_it_in_a_constant: {SIMULATED, PROJECTED},
    cheats.keeps_it_in_a_shared_generator: {SIMULATED, PROJECTED},
    cheats.keeps_it_in_the_federation: {RULES, PROJECTED},
    cheats.keeps_it_on_a_function: {RULES, PROJECTED},
    cheats.keeps_it_on_the_method: {RULES, PROJECTED},
    cheats.keeps_it_on_the_class: {RULES, PROJECTED},
    cheats.keeps_it_in_a_cache: {RULES, PROJECTED},
    cheats.moves_a_value: {RULES, SIMULATED, PROJECTED},
    cheats.changes_what_it_sent: {SIMULATED, PROJECTED},
    cheats.sets_an_environment_variable: {RULES, PROJECTED},
    cheats.writes_into_the_working_folder: {RULES, PROJECTED},
    cheats.writes_into_the_temporary_folder: {RULES, PROJECTED},
    cheats.lets_a_program_write: {RULES, PROJECTED},
    cheats.shares_memory: {RULES, PROJECTED},
    cheats.seeds_the_generator_of_numpy: {RULES, PROJECTED},
    cheats.sets_a_context_variable: {RULES, PROJECTED},
    cheats.sets_a_builtin: {RULES, PROJECTED},
    cheats.sets_the_level_of_a_log: {RULES, PROJECTED},
    cheats.raises_it: {PROJECTED},
    cheats.reads_the_ledger: {RULES, SIMULATED, PROJECTED},
}
SOURCE = inspect.getsource(cheats)
BESIDE = {  # what a cheat uses that stands elsewhere in the module: a class, a decorated function, an import
    cheats.keeps_it_on_a_function: ("_remember",),
    cheats.keeps_it_on_the_method: ("Method",),
    cheats.keeps_it_on_the_class: ("Method",),
    cheats.keeps_it_in_a_cache: ("remembered",),
}
IMPORTED = ("os", "Path", "subprocess", "SharedMemory", "VARIABLE", "contextvars", "builtins", "logging", "tempfile")

pytestmark = pytest.mark.filterwarnings("ignore:resource_tracker")


@pytest.fixture(scope="module")
def parties() -> Iterator[PartyProcesses]:
    with PartyProcesses(["a", "b"], timeout=5.0) as processes:
        yield processes


@pytest.fixture(autouse=True)
def _leave_nothing_behind(tmp_path, monkeypatch) -> Iterator[None]:
    state, variables = np.random.get_state(), dict(os.environ)  # noqa: NPY002
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    np.random.set_state(state)  # noqa: NPY002
    os.environ.clear()
    os.environ.update(variables)


def params(tmp_path):
    return {"key": f"leakledger_{uuid.uuid4().hex}", "folder": str(tmp_path)}


def brings(run):
    """Whether `b` ends with the value of `a`."""
    try:
        return run()["b"].value == SECRET
    except Exception:
        return False


def breaks_a_rule(cheat):
    """Whether the rules find something in what the cheat itself is made of."""
    used = {cheat.__name__, *BESIDE.get(cheat, ())}
    names = {n.id for n in ast.walk(ast.parse(inspect.getsource(cheat))) if isinstance(n, ast.Name)} & {*IMPORTED}
    lines = set()
    for node in ast.parse(SOURCE).body:
        imported = isinstance(node, ast.Import | ast.ImportFrom) and {a.name for a in node.names} & names
        made = isinstance(node, ast.Assign) and {t.id for t in node.targets if isinstance(t, ast.Name)} & names
        if getattr(node, "name", None) in used or imported or made:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            lines |= {*range(first, node.end_lineno + 1)}
    found = {int(v.split(":")[0].removeprefix("line ")) for v in violations(SOURCE)}
    return bool(lines & found)


@pytest.mark.parametrize("cheat", CAUGHT_BY, ids=lambda c: c.__name__)
def test_a_cheat_is_caught(cheat, parties, tmp_path):
    given, secret = params(tmp_path), pinned("cheats")
    brought = {
        SIMULATED: brings(lambda: run_simulated(cheat, ["a", "b"], {"a": SECRET}, given, secret=secret)),
        PROJECTED: brings(lambda: parties.run(cheat, {"a": SECRET}, params(tmp_path), secret=secret)),
        RULES: not breaks_a_rule(cheat),
    }
    assert {how for how, passed in brought.items() if not passed} == CAUGHT_BY[cheat]


def test_every_cheat_is_tried_and_no_projected_run_brings_anything():
    there = {f for n, f in vars(cheats).items() if inspect.isfunction(f) and f.__code__.co_varnames[:1] == ("fed",)}
    assert there - {cheats.got, cheats.spread, cheats.tell} == set(CAUGHT_BY)
    assert all(PROJECTED in caught for caught in CAUGHT_BY.values())


def test_an_honest_message_brings_the_value_both_ways(parties):
    for results in (
        run_simulated(honest, ["a", "b"], {"a": SECRET}, {}, secret=pinned(1)),
        parties.run(honest, {"a": SECRET}, {}, secret=pinned(1)),
    ):
        assert results["b"].value == SECRET


def honest(fed, inputs, params):
    return {"b": tell(fed, inputs["a"], "b")}


def test_a_refusal_names_what_to_do(tmp_path):
    for cheat, text in {
        cheats.keeps_it_in_a_closure: "carries a list in its closure .*; pass it as an argument",
        cheats.keeps_it_in_a_default_argument: "both at a carries a list in its defaults",
        cheats.keeps_it_through_a_bound_method: "append at a carries a list in its object",
        cheats.makes_it_public_itself: "only a federation makes values public: by `broadcast`",
        cheats.asks_the_federation_for_it: "a protocol cannot have a value outside its party",
        cheats.reads_the_ledger: "a protocol cannot have the ledger",
    }.items():
        with pytest.raises(FederationError, match=text):
            run_simulated(cheat, ["a", "b"], {"a": SECRET}, params(tmp_path), secret=pinned("cheats"))
