"""What an attack returns is checked before it is scored: a plugin's mistake is one line that names it."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from leakledger.attacks.base import (
    Abstained,
    AuxiliaryKnowledge,
    ColumnClaim,
    FindingClaim,
    KnownRows,
    MembershipClaim,
    RecordsClaim,
    StatisticClaim,
    VocabularyClaim,
    check_seed,
)
from leakledger.attacks.texts import TextRecords
from leakledger.audit.command import reports_problems
from leakledger.audit.outcomes import outcome_of
from leakledger.audit.own_update import layout_of
from leakledger.audit.terminal import Commands
from leakledger.preprocess.told_failure import ToldFailure
from leakledger.preprocess.views import PublicFacts, View

LAYOUT = layout_of({"age": None, "ward": ["a", "b"]})
VIEW = View(frozenset(["server"]), (), PublicFacts(("P1", "P2"), "server", layout=LAYOUT))
COLUMN = np.zeros((3, 1))
GOOD = RecordsClaim("P1+P2", 0, COLUMN.astype(int), COLUMN, COLUMN, COLUMN)
MEAN = StatisticClaim("P1", "age", "mean", 1.0, 0.0, 2.0)


def told(outcome):
    attack = SimpleNamespace(technique="strange", run=lambda view, knowledge: outcome)
    return outcome_of(attack, VIEW, AuxiliaryKnowledge())


@pytest.mark.parametrize(
    "outcome",
    [
        [],
        [GOOD],
        Abstained("nothing"),
        (replace(GOOD, categories=GOOD.categories - 1),),
        [StatisticClaim("P1", "age", "maximum", 1.0, np.float64(0.0), float("inf"))],
        [VocabularyClaim("P1", "ward", ("a", np.str_("b")), (), (1, np.float64(0.5)))],
        [VocabularyClaim("P1", "ward", ()), ColumnClaim("P2", "age", np.array([1.0, np.nan]))],
        [MembershipClaim("P1", "ward", ("a", "b"), (float("-inf"), 0.0)), FindingClaim("P1", "check", "it fired")],
    ],
)
def test_an_outcome_is_handed_on_as_it_is(outcome):
    assert told(outcome) is outcome


def test_what_an_attack_changes_of_its_view_and_its_knowledge_is_its_own():
    def wreck(view, knowledge):
        view.inputs["P1"]["columns"]["ward"]["values"].clear()
        view.inputs["P1"]["columns"]["age"][:] = 0
        view.public.schema["classes"].clear()
        knowledge.labels["P2", 0][:] = 0
        knowledge.rows.columns["age"][:] = 0
        knowledge.texts["P2"].values.clear()
        return []

    def given():
        inputs = {"P1": {"columns": {"ward": {"values": ["a"]}, "age": np.ones(3)}}}
        view = replace(VIEW, inputs=inputs, public=replace(VIEW.public, schema={"classes": ["no", "yes"]}))
        rows, texts = KnownRows({"age": np.ones(3)}), {"P2": TextRecords(len, {"ward": ("a",)}, {"ward": ("w",)})}
        return view, AuxiliaryKnowledge(labels={("P2", 0): np.ones(3)}, rows=rows, texts=texts)

    view, knowledge = given()
    outcome_of(SimpleNamespace(technique="strange", run=wreck), view, knowledge)
    untouched, known = given()
    assert repr(view.inputs) == repr(untouched.inputs)
    assert view.public.schema == untouched.public.schema
    assert repr(knowledge.labels) == repr(known.labels)
    assert repr(knowledge.rows.columns) == repr(known.rows.columns)
    assert knowledge.texts == known.texts


@pytest.mark.parametrize("ends", ["returns", "raises"])
def test_settings_of_the_process_that_an_attack_changes_are_as_before_after_it(ends, tmp_path):
    def careless(view, knowledge):
        os.chdir(tmp_path)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        np.seterr(all="raise")
        return [] if ends == "returns" else view.missing

    def settings():
        kept = os.getcwd(), torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_default_device(), np.geterr()
        torch.set_default_device(None)
        return kept

    before = settings()
    with pytest.raises(ToldFailure) if ends == "raises" else nullcontext():
        outcome_of(SimpleNamespace(technique="strange", run=careless), VIEW, AuxiliaryKnowledge())
    assert settings() == before


def test_an_error_without_a_text_ends_in_no_colon():
    def full(view, knowledge):
        raise MemoryError

    with pytest.raises(ToldFailure, match=rf"^the attack strange raised MemoryError in {__name__}\..*full; LEAKLEDGER"):
        outcome_of(SimpleNamespace(technique="strange", run=full), VIEW, AuxiliaryKnowledge())


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        (None, "it returns a value of type NoneType"),
        (GOOD, "it returns a value of type RecordsClaim"),
        (Abstained(None), "the reason of its silence is no text"),
        (["text"], "among its claims is a value of type str"),
        ([replace(GOOD, victim="P1+P9")], "it claims rows of a party that is none of P1, "),
        ([replace(GOOD, numbers=np.zeros((3, 2)))], r"numbers of a claim have shape \(3, 2\), not \(3, 1\)"),
        ([replace(GOOD, number_entropy=None)], r"number_entropy of a claim have shape \(\), not \(3, 1\)"),
        ([replace(GOOD, verified=np.ones(2, bool))], r"verified of a claim have shape \(2,\), not \(3,\)"),
        ([replace(GOOD, categories=GOOD.categories + 2)], "a category of a claim is none of the layout's"),
        ([replace(GOOD, numbers=COLUMN * np.nan)], "a number of a claim is not finite"),
        ([replace(GOOD, categories=None)], r"categories of a claim have shape \(\), not \(0, 1\)"),
        ([replace(GOOD, categories=COLUMN)], "categories of a claim are no array of the type .*, but of float64"),
        (
            [replace(GOOD, numbers=np.full((3, 1), None))],
            "numbers of a claim are no array of the type .*, but of object",
        ),
        (
            [replace(GOOD, number_entropy=((0,),) * 3)],
            "number_entropy of a claim are no array of the type .*, but tuple",
        ),
        (
            [replace(GOOD, verified=np.full(3, np.nan))],
            "verified of a claim are no array of the type .*, but of float64",
        ),
        ([replace(GOOD, probability=np.ones(3))], r"probability of a claim have shape \(3,\), not \(3, 2\)"),
        ([replace(GOOD, probability=np.full((3, 2), 2.0))], "a probability of a claim is not from 0 to 1"),
        ([replace(GOOD, probability=np.full((3, 2), np.nan))], "a probability of a claim is not from 0 to 1"),
        ([replace(GOOD, round="0")], "the round of a claim is no whole number"),
        ([replace(GOOD, layout="age")], "it claims rows where no layout says what their columns are"),
        ([VocabularyClaim("P1", "ward", ("a",), certain=None)], "whether a claim is certain is no bool"),
        ([replace(MEAN, estimate=10**400)], "estimate of a claim is not a number"),
        ([replace(MEAN, party="P9")], "it claims something of a party that is none of P1, "),
        ([replace(MEAN, party=1)], "it claims something of a party that is of type int"),
        ([replace(MEAN, estimate="1")], "estimate of a claim is not a number"),
        ([replace(MEAN, high=float("nan"))], "high of a claim is not a number"),
        ([replace(MEAN, low=(0.0, 1.0))], "low of a claim is not a number"),
        ([replace(MEAN, statistic="middle")], "statistic of a claim is none of count, mean"),
        ([replace(MEAN, feature=0)], "feature of a claim is of type int, not a text"),
        ([replace(MEAN, evidence=(7,))], "the evidence of a claim is no tuple of the numbers of messages"),
        ([replace(MEAN, evidence=([],))], "the evidence of a claim is no tuple of the numbers of messages"),
        ([replace(GOOD, evidence=None)], "the evidence of a claim is no tuple of the numbers of messages"),
        ([VocabularyClaim("P9", "ward", ("a",))], "it claims something of a party that is none of P1, "),
        ([VocabularyClaim("P1", "ward", (1, 2))], "the values of a claim are no tuple of texts"),
        ([VocabularyClaim("P1", "ward", ("a", "b"), (), (1.0,))], "counts of a claim is not a number for each of its"),
        (
            [MembershipClaim("P1", "ward", ("a", "b"), (1.0, float("nan")))],
            "scores of a claim is not a number for each",
        ),
        ([MembershipClaim("P1", "ward", ("a", "b"), ())], "scores of a claim is not a number for each of its values"),
        ([MembershipClaim("P1", "ward", ("a",), (1.0,), (), ("a",))], "what a claim says is proven is no frozenset"),
        ([VocabularyClaim("P1", "ward", ("a",), proven=frozenset("b"))], "what a claim says is proven is no frozenset"),
        ([ColumnClaim("P1", "age", [1.0])], "the values of a claimed column are no array"),
        ([ColumnClaim("P1", "age", np.array([1.0, np.inf]))], "the values of a claimed column are no array"),
        ([ColumnClaim("P1", "age", np.ones(3), (), "near")], "relation of a claim is none of exact"),
        ([FindingClaim("P1", "check", None)], "text of a claim is of type NoneType, not a text"),
    ],
)
def test_what_is_no_outcome_is_one_line_that_names_the_attack(outcome, problem):
    with pytest.raises(ValueError, match=f"^strange is no attack that can be scored: {problem}"):
        told(outcome)


def exits(*_):
    raise SystemExit(0)


def test_what_ends_the_process_is_a_failure_and_not_the_end_of_a_command():
    with pytest.raises(ToldFailure, match=r"strange called sys.exit\(0\)"):
        outcome_of(SimpleNamespace(technique="strange", run=exits), VIEW, AuxiliaryKnowledge())
    group = Commands()
    group.command("exits")(reports_problems(exits))
    done = CliRunner().invoke(group, ["exits"])
    assert done.exit_code == 1
    assert "something that was run called sys.exit(0)" in done.stderr


ENDS = """
import os
import sys
from types import SimpleNamespace
from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.audit.outcomes import outcome_of
from tests.audit.test_outcomes import VIEW
def run(view, knowledge):
    if sys.argv[1] == "fork":
        os.fork() and os.wait()
    else:
        os._exit(0)
    return []
try:
    outcome_of(SimpleNamespace(technique="strange", run=run), VIEW, AuxiliaryKnowledge())
finally:
    print("goes on", flush=True)
"""


@pytest.mark.parametrize("how", ["exit", "fork"])
def test_an_attack_neither_ends_the_process_with_0_nor_goes_on_with_the_run_in_a_fork(how):
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", ENDS, how], env=told, capture_output=True, text=True)
    assert done.stdout == "goes on\n"
    assert done.returncode == (1 if how == "exit" else 0)
    assert ("strange called sys.exit(0)" in done.stderr) == (how == "exit")


class Gone:
    def __del__(self):
        raise ValueError("age=42")


def in_a_thread():
    def ends():
        raise ValueError("age=42")

    thread = Thread(target=ends)
    thread.start()
    thread.join()


@pytest.mark.parametrize("fails", [in_a_thread, Gone])
@pytest.mark.parametrize("debug", [False, True])
def test_an_error_that_nobody_can_catch_is_one_line_without_its_text_but_on_request(fails, debug, monkeypatch, capsys):
    monkeypatch.setenv("LEAKLEDGER_DEBUG", "1") if debug else monkeypatch.delenv("LEAKLEDGER_DEBUG", raising=False)
    hooks = threading.excepthook, sys.unraisablehook
    attack = SimpleNamespace(technique="strange", run=lambda view, knowledge: [fails()][:0])
    assert outcome_of(attack, VIEW, AuxiliaryKnowledge()) == []
    said = capsys.readouterr().err
    assert "raised ValueError in " in said
    assert ("age=42" in said) == debug
    assert debug or said.count("\n") == 1
    assert (threading.excepthook, sys.unraisablehook) == hooks


def test_the_error_of_a_thread_that_outlives_its_attack_is_one_line_and_threads_of_others_are_told_of_as_before(
    monkeypatch, capsys
):
    monkeypatch.delenv("LEAKLEDGER_DEBUG", raising=False)
    own, go = [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda args: own.append(args.exc_type))
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)

    def late(error):
        go.wait()
        raise error

    before, inside = (Thread(target=late, args=(kind("age=42"),)) for kind in (KeyError, ValueError))
    before.start()
    attack = SimpleNamespace(technique="strange", run=lambda view, knowledge: [inside.start()][:0])
    outcome_of(attack, VIEW, AuxiliaryKnowledge())
    go.set()
    before.join(), inside.join()
    said = capsys.readouterr().err
    assert own == [KeyError]
    assert said.startswith("leakledger: a thread raised ValueError in ")
    assert "age=42" not in said


def raising(error):
    def run(view, knowledge):
        raise error

    return SimpleNamespace(technique="strange", run=run)


HOSTILE = "\x1b]0;title\x07no\n leak \u202efound" + 10_000 * "x"


@pytest.mark.parametrize(
    ("error", "code"), [(ValueError, 2), (OSError, 2), (KeyError, 1), (RuntimeError, 1), (MemoryError, 1)]
)
def test_an_attack_that_raises_is_one_printable_line_with_its_name_and_the_kind_of_error(error, code, monkeypatch):
    monkeypatch.delenv("LEAKLEDGER_DEBUG", raising=False)
    group = Commands()
    attack = raising(error(HOSTILE))
    group.command("plays")(reports_problems(lambda: outcome_of(attack, VIEW, AuxiliaryKnowledge())))
    done = CliRunner().invoke(group, ["plays"])
    assert done.exit_code == code
    assert done.stderr.startswith(f"leakledger: the attack strange raised {error.__name__} in {__name__}.raising.")
    assert done.stderr.count("\n") == 1
    assert done.stderr.strip().isprintable()
    assert len(done.stderr) < 500


@pytest.mark.parametrize("error", [ValueError, OSError, KeyError, ModuleNotFoundError, SystemExit, UnicodeError])
def test_what_is_told_of_an_attack_of_others_quotes_no_record(error):
    """A plugin's ValueError came with its text, 'row 7: age=42', and sys.exit with what it was called with."""
    with pytest.raises((ToldFailure, ValueError)) as told:
        outcome_of(raising(error("row 7: age=42")), VIEW, AuxiliaryKnowledge())
    assert "42" not in str(told.value)
    for claim in (replace(MEAN, party="age=42"), replace(MEAN, statistic="age=42")):
        with pytest.raises(ValueError, match="strange is no attack that can be scored") as told:
            outcome_of(SimpleNamespace(technique="strange", run=lambda *_, c=claim: [c]), VIEW, AuxiliaryKnowledge())
        assert "42" not in str(told.value)


def test_an_interruption_is_one_only_where_somebody_interrupts():
    """A run whose plugin raises KeyboardInterrupt ended with 130 and 'the same command does the rest', each time."""
    with pytest.raises(ToldFailure, match=r"^the attack strange raised KeyboardInterrupt, and nobody interrupted$"):
        outcome_of(raising(KeyboardInterrupt("age=42")), VIEW, AuxiliaryKnowledge())

    def interrupted(view, knowledge):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        outcome_of(SimpleNamespace(technique="strange", run=interrupted), VIEW, AuxiliaryKnowledge())


def test_what_an_attack_of_this_package_says_of_its_input_is_told():
    def refuses(view, knowledge):
        check_seed(-1)

    with pytest.raises(ValueError, match=r"^the attack strange raised ValueError: seed is -1; it must be at least 0$"):
        outcome_of(SimpleNamespace(technique="strange", run=refuses), VIEW, AuxiliaryKnowledge())


def test_on_request_the_traceback_is_printed_and_steers_no_terminal(monkeypatch):
    monkeypatch.setenv("LEAKLEDGER_DEBUG", "1")
    group = Commands()
    group.command("plays")(reports_problems(lambda: outcome_of(raising(KeyError(HOSTILE)), VIEW, AuxiliaryKnowledge())))
    done = CliRunner().invoke(group, ["plays"])
    assert "Traceback" in done.stderr
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr


def test_an_import_that_says_what_to_install_is_for_its_user_and_one_that_fails_is_a_failure():
    for error, kind in ((ModuleNotFoundError("install it"), ValueError), (ModuleNotFoundError(name="x"), ToldFailure)):
        with pytest.raises(kind, match=r"^the attack strange raised ModuleNotFoundError"):
            outcome_of(raising(error), VIEW, AuxiliaryKnowledge())
