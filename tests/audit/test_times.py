"""An audit that notes times has the messages, heads and claims of one that does not."""

import json
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

from leakledger.attacks import ATTACKS
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.audit.case import cases
from leakledger.audit.cli import main
from leakledger.audit.controls import control_attack
from leakledger.audit.federate import federate
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.play import Play, view_of
from leakledger.audit.provenance import run_facts
from leakledger.audit.records import UNTIMED
from leakledger.audit.run import run_audit, run_case
from leakledger.audit.stored_view import stored_view
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.preprocess.transcript import read_transcript
from tests.audit.example import config

SETTINGS = {
    "data": {"source": "fair", "rows": 120},
    "partition": {"kind": "iid", "parties": 3},
    "preprocessing": [{"encoder": "server-dictionary", "scaler": "zscore-sac", "route": "sealed"}],
    "training": {"rounds": 1, "batch_size": 4},
    "attacks": {"use": ["plaintext", "vocabulary"]},
}
PLAYED = []  # the views that attacks were handed


def noting(monkeypatch, name, reads_times):
    """Makes an attack remember the views that it is handed."""
    kind = ATTACKS[name]
    ran = kind.run
    monkeypatch.setattr(kind, "reads_times", reads_times)
    monkeypatch.setattr(kind, "run", lambda self, view, known: (PLAYED.append(view), ran(self, view, known))[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that notes times."""
    folder = tmp_path_factory.mktemp("timed")
    run_audit(config(**SETTINGS, audit={"times": True}), folder, master=PUBLIC_MASTER)
    return folder


def test_noting_times_changes_no_message_no_head_and_no_claim(tmp_path):
    ways = {times: config(**SETTINGS, audit={"times": times}) for times in (False, True)}
    records = [run_case(s, cases(s)[0], tmp_path / str(t), PUBLIC_MASTER) for t, s in ways.items()]
    without, noted = (replace(r, seconds={}) for r in records)
    assert without == noted
    assert len(without.trials) > 0
    one, other = (read_transcript(tmp_path / str(t) / f"transcripts/{without.id}.parquet") for t in ways)
    assert tuple(one.ledger) == tuple(other.ledger)
    assert one.ledger.head == other.ledger.head
    assert (one.public, one.meta) == (other.public, other.meta)
    assert one.ledger.times == {}
    assert other.ledger.times.keys() == {m.sequence for m in other.ledger}
    assert all(set(other.ledger.times[m.sequence]) == set(m.ends) for m in other.ledger)


def test_a_stored_view_has_the_times_of_its_observers(folder):
    view = stored_view(folder, "server", None)
    assert list(view.times) == [m.sequence for m in view.messages]
    assert sorted(view.times.values()) == list(view.times.values())  # the observer's own clock, in order


def test_the_command_view_shows_times_where_there_are_any_and_else_not_even_the_column(folder, tmp_path):
    def rows(run, *options):
        result = CliRunner().invoke(main, ["view", str(run), "--json", *options])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    single = rows(folder, "--messages")
    view = stored_view(folder, "server", None)
    assert [float(r["seconds"]) for r in single] == pytest.approx(list(view.times.values()), abs=1e-6)
    for row in rows(folder):
        first, _, last = row["seconds"].partition(" to ")
        assert bool(last) == (row["messages"] > 1)
        assert float(first) <= float(last or first)
    plain = config(**SETTINGS)
    run_audit(plain, tmp_path, master=PUBLIC_MASTER)
    assert all("seconds" not in r for r in [*rows(tmp_path), *rows(tmp_path, "--messages")])


@pytest.mark.parametrize("reads_times", [True, False])
def test_only_an_attack_that_declares_it_is_handed_times(monkeypatch, tmp_path, reads_times):
    PLAYED.clear()
    noting(monkeypatch, "plaintext", reads_times)
    settings = config(**SETTINGS, audit={"times": True})
    run_case(settings, cases(settings)[0], tmp_path, PUBLIC_MASTER)
    full = [v for v in PLAYED if v.messages and v.observers == {"server"}]
    assert full
    assert any(v.times for v in PLAYED) == reads_times


class Timely(Plaintext):
    """Reads times too, and remembers which it was shown."""

    technique, reads_times = "timely", True
    shown: ClassVar[list] = []

    def run(self, view, knowledge):
        self.shown.append((view.topics, len(view.times)))
        return super().run(view, knowledge)

    def __repr__(self):
        return f"Timely({len(self.shown)})"  # a new one every time: controls that were played are kept


@pytest.mark.parametrize("times", [True, False])
def test_made_up_federations_have_times_for_an_attack_that_reads_them_where_the_audited_view_has_some(times):
    settings = config(**SETTINGS, audit={"times": times})
    held = Truth(federate(settings, cases(settings)[0], PUBLIC_MASTER))
    play = Play(Timely(), view_of(("server",), held), granted_knowledge(settings, held), held)
    Timely.shown.clear()
    found = control_attack(play, [], np.random.default_rng(0))
    federations = [n for topics, n in Timely.shown if "evaluate.counts" in topics and "dictionary.local" not in topics]
    assert len(federations) > 10
    assert any(n > 0 for n in federations) == times
    planted = [c for c in found if c.expected == UNTIMED]
    assert [(c.kind, c.passed) for c in planted] == [("power", False)] * times
    assert all(c.passed for c in found if c not in planted)


def test_that_nobody_reads_the_times_is_said(monkeypatch):
    def said(**audit):
        settings = config(**SETTINGS, audit=audit)
        return [t for t in run_facts(settings, cases(settings), "r", "").not_tested if "times" in t]

    assert said() == []
    assert said(times=True) == ["the times of messages: they are in the transcripts, and no attack in use reads them"]
    monkeypatch.setattr(ATTACKS["vocabulary"], "reads_times", True)
    assert said(times=True) == []


def test_no_attack_here_reads_times():
    assert not any(kind.reads_times for kind in ATTACKS.values())
