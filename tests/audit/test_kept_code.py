"""What a method of others replaces is put back, named, and nothing that was computed meanwhile is kept."""

import builtins
import sys
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import leakledger
from leakledger.attacks import ATTACKS
from leakledger.attacks.base import Abstained
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.audit import plugins, record_controls, run
from leakledger.audit.config_file import config_of
from leakledger.audit.kept_code import code_kept
from leakledger.audit.kept_settings import settings_kept
from leakledger.audit.outcomes import outcome_of
from leakledger.preprocess.told_failure import ToldFailure

PLACES = {
    "torch.randn": torch,
    "torch.nn.functional.linear": torch.nn.functional,
    "torch.Tensor.sum": torch.Tensor,
    "numpy.linalg.svd": np.linalg,
    "leakledger.audit.record_controls.AT_BASELINE": record_controls,
    "leakledger.attacks.transcript.plaintext.Plaintext.run": Plaintext,
}


@pytest.mark.parametrize("where", PLACES)
def test_what_is_replaced_is_named_and_put_back_however_it_ends(where):
    place, name = PLACES[where], where.rpartition(".")[2]
    before, held = getattr(place, name), name in vars(place)

    def replaces_and_raises(error):
        setattr(place, name, None)
        if error is not None:
            raise error

    for error in (None, KeyError("Smith")):
        with pytest.raises(ToldFailure, match=rf"code of a plugin replaced \S*{name}") as told, code_kept():
            replaces_and_raises(error)
        assert getattr(place, name) is before
        assert (name in vars(place)) is held
        assert told.value.__context__ is error
        assert "Smith" not in str(told.value)


def test_a_method_in_a_table_and_who_replaced_it_are_named():
    before = ATTACKS["plaintext"]
    with pytest.raises(ToldFailure, match="'plaintext' in a table of leakledger"), code_kept():
        ATTACKS["plaintext"] = int
    assert ATTACKS["plaintext"] is before

    def mine():
        raise AssertionError

    with pytest.raises(ToldFailure, match=rf"replaced torch\.randn by {__name__}.*mine \(and 1 more\)"), code_kept():
        torch.randn, torch.zeros = mine, mine


def test_what_is_added_or_nobodys_is_left_and_an_interruption_stays_one():
    def interrupted():
        torch.randn = None
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), code_kept():
        interrupted()
    assert torch.randn is not None
    with code_kept():
        ATTACKS["added"] = Plaintext
        builtins.added = 1
    assert ATTACKS.pop("added") is Plaintext
    del builtins.added


def replaces(*_):
    torch.nn.functional.linear = lambda x, w, b=None: 0 * x


def test_no_case_and_no_attack_of_others_leaves_what_it_replaced(monkeypatch, tmp_path):
    linear = torch.nn.functional.linear
    monkeypatch.setattr(run, "run_case", replaces)
    with pytest.raises(ToldFailure, match=r"code of a plugin replaced torch\.nn\.functional\.linear by tests\."):
        run.play_case(None, None, tmp_path, b"")
    assert torch.nn.functional.linear is linear

    class Theirs:
        technique = "theirs"

        def run(self, view, knowledge):
            replaces()
            return Abstained("nothing")

    with pytest.raises(ToldFailure, match=r"^the attack theirs replaced torch\.nn\.functional\.linear"):
        outcome_of(Theirs(), None, None)
    assert torch.nn.functional.linear is linear


def test_a_plugin_that_replaces_something_when_it_is_imported_is_left_out(monkeypatch):
    monkeypatch.setattr(plugins, "FAILED", {})
    linear = torch.nn.functional.linear
    plugins.register([("leakledger.scalers", SimpleNamespace(name="patches", value="patches:All", load=replaces))])
    assert "code of a plugin replaced torch.nn.functional.linear" in plugins.FAILED["patches"]
    assert torch.nn.functional.linear is linear


def test_one_that_replaces_something_is_in_no_table_though_all_else_about_it_is_right(monkeypatch):
    """It was played, and the line that left it out was told to nobody."""
    monkeypatch.setattr(plugins, "FAILED", {})
    point = SimpleNamespace(name="patches", value="x:Patches", dist=None, load=lambda: replaces() or Patches)
    plugins.register([("leakledger.attacks", point)])
    assert "patches" in plugins.FAILED
    assert "patches" not in ATTACKS


class Patches(Plaintext):
    technique = "patches"


LATE = {
    "late_one": "LIMIT, TABLE = 0.5, {'score': len}\ndef score(): return 1\nclass Kind:\n    def run(self): return 1\n",
    "late_two": "from leakledger.late_one import LIMIT, score\n",
}


def test_what_is_replaced_in_a_module_that_such_code_is_the_first_to_load_is_put_back_too(tmp_path, monkeypatch):
    """None but those loaded before were looked at: a plugin is imported before most of this package is."""
    for name, source in LATE.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.setattr(leakledger, "__path__", [*leakledger.__path__, str(tmp_path)])

    def replaces_late():
        one = import_module("leakledger.late_one")
        one.score, one.LIMIT, one.Kind.run, one.TABLE["score"] = lambda: 2, 0.9, lambda self: 2, int
        import_module("leakledger.late_two")

    finders = list(sys.meta_path)
    try:
        with (
            pytest.raises(ToldFailure, match=r"leakledger\.late_one\.LIMIT.* \(and 3 more\)"),
            code_kept(),
            code_kept(),
        ):
            replaces_late()
        one, two = (sys.modules[f"leakledger.{name}"] for name in LATE)
        assert (one.score(), one.LIMIT, one.Kind().run(), one.TABLE["score"]) == (1, 0.5, 1, len)
        assert (two.score, two.LIMIT) == (one.score, one.LIMIT)
        assert type(one.__spec__.loader) is type(one.__loader__) is type(plugins.__loader__)
        assert sys.meta_path == finders
    finally:
        for name in LATE:
            sys.modules.pop(f"leakledger.{name}", None)
            vars(leakledger).pop(name, None)


def test_what_is_replaced_while_a_configuration_is_read_or_a_run_is_prepared_begins_none(tmp_path, monkeypatch):
    """Options are tried by making the method: what it replaced then was in force for all cases, and all controls."""
    linear = torch.nn.functional.linear

    @dataclass(frozen=True)
    class Making(Plaintext):
        def __post_init__(self):
            replaces()

    monkeypatch.setitem(ATTACKS, "plaintext", Making)
    with pytest.raises(ToldFailure, match=r"replaced torch\.nn\.functional\.linear"):
        config_of({"attacks": {"use": ["plaintext"]}}, [])
    assert torch.nn.functional.linear is linear
    monkeypatch.setitem(ATTACKS, "plaintext", Plaintext)
    monkeypatch.setattr(run, "estimate", replaces)
    config = config_of({"data": {"source": "fair", "rows": 60}, "attacks": {"use": ["plaintext"]}}, [])
    with pytest.raises(ToldFailure, match=r"replaced torch\.nn\.functional\.linear"):
        run.run_audit(config, tmp_path / "run")
    assert torch.nn.functional.linear is linear
    assert not (tmp_path / "run").exists()


def test_how_exactly_matrices_are_multiplied_is_kept_too():
    before = torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    with settings_kept():
        torch.set_float32_matmul_precision("medium")
        torch.use_deterministic_algorithms(True)
    assert before == (torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled())
