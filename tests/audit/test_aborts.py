"""A case that a party ends: its transcript is kept, the record says who, where and why, and the others go on."""

import json
import re
from contextlib import closing
from dataclasses import dataclass, replace

import pytest
from click.testing import CliRunner

from leakledger.audit.aborts import unsettled, with_aborts
from leakledger.audit.assemble import load_record
from leakledger.audit.case import cases
from leakledger.audit.chain import digest_of
from leakledger.audit.cli import main
from leakledger.audit.federate import federate
from leakledger.audit.observe import observations
from leakledger.audit.records import Aborted, Ruling, Verdict, results
from leakledger.audit.run import play_case, run_audit
from leakledger.audit.store import FILE, Store, StoreError
from leakledger.audit.stored_view import view_rows
from leakledger.audit.tables import abort_lines
from leakledger.audit.terminal import ITSELF
from leakledger.audit.verify import verify_run
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.encoders.server_dictionary import ServerDictionary
from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.secret import PUBLIC_MASTER, derive, pinned
from leakledger.preprocess.told_failure import ToldFailure
from leakledger.preprocess.transcript import read_transcript, write_transcript
from leakledger.preprocess.transport.protocol import perform
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Abort, PublicFacts
from tests.audit.example import config
from tests.preprocess import protocols

SEEDS = {"audit": {"seeds": [0], "jobs": 1, "baseline_draws": 2}}
STRICT = {
    "encoder": "server-dictionary",
    "scaler": "federated-minmax",
    "unseen": "error",
}  # of held-out values: all here
LENIENT = {"encoder": "local", "scaler": "local"}
SECRET = "ward-"  # what every value begins with: in no record, and in no error that a record keeps


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Two parties' files. Each row of the first has a value of its own, so that a held-out one is in no dictionary."""
    folder = tmp_path_factory.mktemp("tables")
    for name, wards in (("first", range(30)), ("second", [99] * 30)):
        rows = [f"{SECRET}{ward},{20 + i % 7},{'yes' if i % 3 else 'no'}" for i, ward in enumerate(wards)]
        (folder / f"{name}.csv").write_text("\n".join(["ward,age,ill", *rows]) + "\n")
    return [str(folder / "first.csv"), str(folder / "second.csv")]


def settings_of(tables, *methods, **audit):
    return config(
        data={"source": tables, "target": "ill", "rows": None},
        partition={"kind": "files", "parties": 2},
        preprocessing=list(methods),
        training={"rounds": 1, "batch_size": 4},
        attacks={"use": ["plaintext", "vocabulary"]},
        audit={**SEEDS["audit"], **audit},
    )


@pytest.fixture(scope="module")
def mixed(tables, tmp_path_factory):
    """An audit of two methods, one of which a party refuses: its folder and what was reported of its progress."""
    folder, told = tmp_path_factory.mktemp("mixed"), []
    run_audit(settings_of(tables, STRICT, LENIENT), folder, master=PUBLIC_MASTER, progress=lambda *n: told.append(n))
    return folder, told


def test_the_other_cases_go_on_and_the_aborted_one_says_who_where_and_why(mixed):
    folder, told = mixed
    record = load_record(folder)
    (aborted,), (finished,) = record.aborted, record.cases
    assert finished.setting.encoder == "local"
    assert aborted.setting.encoder.startswith("server-dictionary")
    (why,) = aborted.aborts
    assert (why.party, why.reason) == ("first", "ValueError")
    assert why.step
    assert why.text == f"first could not go on in step {why.step}, round 0: ValueError"
    assert (aborted.trials, aborted.controls, aborted.utility) == ((), (), ())
    assert record.missing == 0
    assert told == [(f"{aborted.id}: aborted", 1, 2), (finished.id, 2, 2)]


def test_its_transcript_has_what_was_sent_until_then_and_is_verified_like_others(mixed):
    folder, _ = mixed
    (aborted,) = load_record(folder).aborted
    stored = read_transcript(folder / "transcripts" / f"{aborted.id}.parquet")
    assert {m.topic for m in stored.ledger} >= {"dictionary.local", "dictionary.global"}
    assert not any(m.topic.startswith("train.") for m in stored.ledger)
    assert [a.to_plain() for a in stored.ledger.aborts] == [vars(a) for a in aborted.aborts]
    assert stored.ledger.head.hex() == aborted.transcript_head
    assert {(r.file, r.status) for r in verify_run(folder)} >= {(f"transcripts/{aborted.id}.parquet", "intact")}
    assert aborted.observations == observations(stored.ledger, stored.public)


def test_the_console_says_how_many_cases_are_not_in_the_verdict_and_when_the_exit_code_tells(mixed):
    folder, _ = mixed
    lines = list(abort_lines(load_record(folder)))
    assert lines[0].startswith("Aborted and not attacked: ")
    assert lines[1].startswith("INCOMPLETE: 1 of 2 cases was aborted, and nothing is known of what leaks there;")
    assert "--fail-on inconclusive" in lines[1]


def test_an_observer_of_it_has_a_view_that_ends_with_the_abort(mixed):
    folder, _ = mixed
    (aborted,) = load_record(folder).aborted
    rows = view_rows(folder, "server", aborted.id, messages=True)
    assert (rows[-1]["topic"], rows[-1]["from"], rows[-1]["content"]) == ("(abort)", "first", "ValueError")
    assert {r["from"] for r in rows} >= {"first", "second", "server"}


def test_no_value_is_in_the_record_the_results_or_the_report(mixed):
    folder, _ = mixed
    result = CliRunner().invoke(main, ["report", str(folder)])
    assert result.exit_code == 0, result.output
    for name in (FILE, "results.json", "report.html"):
        assert SECRET.encode() not in (folder / name).read_bytes(), name
    (row,) = json.loads((folder / "results.json").read_text())["aborted"]
    assert (row["party"], row["reason"]) == ("first", "ValueError")
    assert "was aborted and not attacked: first could not go on in step" in (folder / "report.html").read_text()


def test_the_console_lists_it(mixed, tables):
    folder, _ = mixed
    path = folder.parent / "aborted.toml"
    path.write_text(
        f'[data]\nsource = {tables}\ntarget = "ill"\n[partition]\nkind = "files"\n[model]\nhidden = [20, 20]\n'
        '[[preprocessing]]\nencoder = "server-dictionary"\nscaler = "federated-minmax"\nunseen = "error"\n'
        '[[preprocessing]]\nencoder = "local"\nscaler = "local"\n[training]\nrounds = 1\nbatch_size = 4\n'
        '[attacks]\nuse = ["plaintext", "vocabulary"]\n[audit]\nseeds = [0]\njobs = 1\nbaseline_draws = 2\n'
    )
    result = CliRunner().invoke(main, ["run", str(path), "-o", str(folder.parent / "console")])
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert "Aborted and not attacked: files-server-dictionary-federated-minmax-fedsgd-" in words
    assert "first could not go on in step" in words
    assert SECRET not in result.output
    for form in ("--quiet", "--json"):
        again = CliRunner().invoke(main, ["run", str(path), "-o", str(folder.parent / "console"), form])
        assert "Aborted and not attacked: files-server-dictionary-federated-minmax-fedsgd-" in again.stderr
        assert "Aborted and not attacked" not in again.stdout


def test_an_aborted_case_is_played_again_until_it_finishes(tables, tmp_path, monkeypatch):
    settings = settings_of(tables, STRICT, LENIENT)
    first = run_audit(settings, tmp_path, master=PUBLIC_MASTER)
    assert run_audit(settings, tmp_path).aborted == first.aborted  # again, to the same end
    name = first.aborted[0].id
    real = play_case
    forgiving = settings_of(tables, {**STRICT, "unseen": "ignore"}, LENIENT)

    def mended(config, case, folder, master):
        mild = replace(case, preprocessing=cases(forgiving)[0].preprocessing)
        return real(config, mild if case.id == name else case, folder, master)

    monkeypatch.setattr("leakledger.audit.run.play_case", mended)
    told = []
    again = run_audit(settings, tmp_path, progress=lambda *n: told.append(n))
    assert told == [(name, 2, 2)]
    assert ([c.id for c in again.aborted], len(again.cases), again.missing) == ([], 2, 0)
    assert results(load_record(tmp_path)) == results(again)
    assert all(r.ok for r in verify_run(tmp_path))
    assert sum(r.file.startswith("transcripts/") for r in verify_run(tmp_path)) == 2


def test_where_every_case_is_aborted_the_command_ends_as_it_did_and_the_transcripts_stay(tables, tmp_path):
    settings = settings_of(tables, STRICT, seeds=[0, 1])
    with pytest.raises(ValueError, match="hold a value that is not in the dictionary") as direct:
        federate(settings, cases(settings)[0], PUBLIC_MASTER)
    with pytest.raises(ValueError, match="hold a value that is not in the dictionary") as raised:
        run_audit(settings, tmp_path, master=derive(PUBLIC_MASTER, "other"))
    assert str(raised.value) == f"case {cases(settings)[0].id}: {direct.value} ({direct.value.__notes__[0]})"
    record = load_record(tmp_path)
    assert (len(record.aborted), record.cases, record.missing) == (2, (), 0)
    assert record.verdict.status == "inconclusive"
    assert len(list((tmp_path / "transcripts").iterdir())) == 2
    assert json.loads((tmp_path / "results.json").read_text())["verdict"]["status"] == "inconclusive"
    rendered = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert rendered.exit_code == 0, rendered.output


def test_an_error_that_is_no_partys_stops_the_audit(tables, tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("no party is to blame")

    monkeypatch.setattr("leakledger.audit.run.granted_knowledge", broken)
    with pytest.raises(ValueError, match="no party is to blame"):
        run_audit(settings_of(tables, LENIENT, STRICT), tmp_path, master=PUBLIC_MASTER)
    store = Store.read(tmp_path)
    assert (store.finished(), store.aborted()) == (set(), [])
    store.close()


def test_a_defect_shows_where_it_is_although_the_audit_goes_on(tables, tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise TypeError("a defect")

    monkeypatch.setattr("leakledger.audit.case_protocol._table", broken)
    settings = settings_of(tables, LENIENT)
    with pytest.raises(TypeError, match="a defect"):
        run_audit(settings, tmp_path, master=PUBLIC_MASTER)
    (line,) = [text for text in capsys.readouterr().err.splitlines() if ITSELF in text]
    assert re.search(r"raised TypeError in [\w.]+<locals>\.broken; LEAKLEDGER_DEBUG=1 shows its text", line)
    (aborted,) = load_record(tmp_path).aborted
    assert aborted.aborts == (Aborted("first", "start", 0, "TypeError"),)


@dataclass(frozen=True)
class Quoting(ServerDictionary):
    """An encoder whose error quotes a row of the party that it is at."""

    name = "quoting"

    def fit(self, fed, schema, tables):
        return [fed.local(c, quote, t) for c, t in tables.items()]


def quote(table):
    raise KeyError(table.frame.iloc[0].to_dict())


def test_an_error_of_a_foreign_encoder_is_one_line_without_what_it_quotes(tables, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(ENCODERS, Quoting.name, Quoting)
    settings = settings_of(tables, {**LENIENT, "encoder": Quoting.name})
    with pytest.raises(ToldFailure, match=r"^the encoder quoting raised KeyError; LEAKLEDGER_DEBUG=1") as caught:
        run_audit(settings, tmp_path, master=PUBLIC_MASTER)
    assert SECRET not in f"{caught.value}{capsys.readouterr()}"
    (aborted,) = load_record(tmp_path).aborted
    assert aborted.aborts == (Aborted("first", "encode", 0, "KeyError"),)


@pytest.mark.slow
def test_projected_parties_hand_in_what_they_held_when_one_of_them_could_not_go_on(tables, tmp_path):
    ways = [settings_of(tables, STRICT, mode=mode, times=True) for mode in ("simulated", "projected")]
    played = [play_case(s, cases(s)[0], tmp_path / s.audit.mode, PUBLIC_MASTER) for s in ways]
    assert all(isinstance(p.error, ValueError) for p in played)
    assert isinstance(played[1].error.__cause__, FederationError)
    assert played[1].error.__cause__.ledger is None  # the error goes from process to process
    assert played[0].record.aborts == played[1].record.aborts
    paths = [tmp_path / s.audit.mode / "transcripts" / f"{played[0].record.id}.parquet" for s in ways]
    simulated, projected = (read_transcript(path) for path in paths)
    assert simulated.public == projected.public
    for stored in (simulated, projected):
        assert all(set(stored.ledger.times[m.sequence]) == set(m.ends) for m in stored.ledger if m.sequence < 3)
    assert {len(set(t.values())) for t in simulated.ledger.times.values()} == {1}
    # Each process has its clock; a message under way when the run ended was noted by its sender alone.
    assert any(len(set(t.values())) > 1 for t in projected.ledger.times.values())
    # The others may have gone on until they needed the one that could not.
    assert {m.sequence: m for m in projected.ledger}.items() >= {m.sequence: m for m in simulated.ledger}.items()


def test_a_message_that_its_recipient_refused_can_be_looked_at(tmp_path):
    fed = Simulated(["a", "b"], secret=pinned(1))
    with pytest.raises(FederationError):
        perform(fed, protocols.one_field_too_many, {}, {})
    public = PublicFacts(("a", "b"), "server")
    write_transcript(tmp_path / "run.parquet", fed.ledger, public)
    stored = read_transcript(tmp_path / "run.parquet")
    assert stored.ledger.aborts == (Abort("b", "means", 2, "MessageFormatError"),)
    assert {o.content for o in observations(stored.ledger, stored.public)} == {"no message of its kind"}


CLEAN = Verdict("no leak", "No declared attack is distinguishable from the prior.", "F1 0.8.")
LEAKY = Verdict("leaks", "Leaks in 1 of 2 settings.", "F1 0.8.")


def test_an_aborted_case_forbids_that_no_leak_was_found_and_hides_none(mixed):
    record = load_record(mixed[0])
    (one,) = record.aborted
    assert with_aborts(CLEAN, ()) is CLEAN
    doubted = with_aborts(CLEAN, [one])
    assert doubted.status == "inconclusive"
    assert (
        doubted.leakage == f"Inconclusive: 1 case was aborted and not attacked, first {one.id} ({one.aborts[0].text})."
    )
    found = with_aborts(LEAKY, [one, one])
    assert found.status == "leaks"
    assert found.leakage.startswith(f"{LEAKY.leakage} 2 cases were aborted and not attacked, first {one.id} (")
    assert (doubted.utility, found.utility) == (CLEAN.utility, LEAKY.utility)
    assert "aborted" in record.verdict.leakage


def test_nothing_is_ruled_out_of_a_setting_some_of_whose_cases_were_aborted(mixed):
    record = load_record(mixed[0])
    (one,), elsewhere = record.aborted, record.cases[0].setting.id
    here, there = (Ruling(s, "server", "records", "no leak", 0.1) for s in (one.setting.id, elsewhere))
    leak = replace(here, asset="size", verdict="leaks", reasons=("a fact",))
    left = unsettled((here, leak, there), [one])
    opened = replace(here, verdict="inconclusive", missing=("1 case was aborted and not attacked",))
    assert left == (opened, leak, there)
    assert unsettled((here,), [one, one])[0].missing == ("2 cases were aborted and not attacked",)


def test_a_verdict_counts_the_settings_that_were_judged_and_says_how_many_were_not(mixed):
    """A setting all of whose cases were aborted stood as one of two, as if the other had been found not to leak."""
    start = "Leaks in 1 of 1 setting that was judged (1 more could not be: all cases were aborted): "
    assert load_record(mixed[0]).verdict.leakage.startswith(start)


def test_a_party_that_is_gone_was_in_a_step_that_nobody_knows():
    assert Aborted("P2", "", 0, "PartyLost").text == "P2 could not go on in a step that nobody knows: PartyLost"


def test_the_last_word_on_an_aborted_case_counts_until_it_finishes(mixed, tmp_path):
    record = load_record(mixed[0])
    (one,) = record.aborted
    store = Store.create(tmp_path, record.run, "now")
    later = replace(one, aborts=(Aborted("P2", "train", 7, "PartyLost"),))
    for case in (one, later):
        store.add_aborted(case)
    assert (store.aborted(), store.finished()) == ([later], set())
    store.add(replace(one, aborts=()))
    assert (store.aborted(), store.finished()) == ([], {one.id})
    with pytest.raises(StoreError, match="has another"):
        store.add(replace(one, aborts=()))
    store.close()
    again = Store.read(tmp_path)
    assert (again.aborted(), again.finished()) == ([], {one.id})
    again.close()


def test_a_document_of_an_aborted_case_that_is_none_is_named(mixed, tmp_path):
    record = load_record(mixed[0])
    store = Store.create(tmp_path, record.run, "now")
    store._append([("aborted/x", digest_of(b"{}"), "{}")])
    store.close()
    with closing(Store.read(tmp_path)) as damaged, pytest.raises(StoreError, match="aborted case x is damaged"):
        damaged.aborted()
