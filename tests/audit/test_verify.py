"""What `verify` says of a run: damage is named, a careful forgery needs a signature to be seen, nothing is written."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from leakledger.audit.assemble import load_record
from leakledger.audit.chain import digest_of
from leakledger.audit.records import VERSION
from leakledger.audit.store import _CASE, FILE, Store
from tests.audit.recorded import call, checked, forge, made
from tests.audit.test_cli import refused


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    return made(tmp_path_factory.mktemp("verify"))


@pytest.fixture
def run(made_once, tmp_path):
    """A copy of the finished run, to be damaged."""
    for path in made_once.parent.iterdir():
        (shutil.copytree if path.is_dir() else shutil.copy2)(path, tmp_path / path.name)
    return tmp_path / "run"


def key(run):
    return run.parent / "key.pub"


def again(run, *args):
    """The same command on the finished run."""
    return call("run", run.parent / "audit.toml", "-o", run, *args)


def transcripts(run):
    return sorted(p.relative_to(run).as_posix() for p in (run / "transcripts").iterdir())


def test_a_finished_run_is_intact_and_signed_and_nothing_is_written(run):
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in run.rglob("*") if p.is_file()}
    assert checked(run, "--verify-key", key(run)) == (0, {})
    rows = json.loads(call("verify", run, "--json").stdout)
    files = {"record.sqlite", "signature.json", "secrets", "results.json", "report.html", *transcripts(run)}
    assert {r["file"] for r in rows} == files
    assert before == {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in run.rglob("*") if p.is_file()}


def test_everything_that_a_run_leaves_is_for_its_owner_alone(run):
    modes = {stat.S_IMODE(p.stat().st_mode) for p in run.rglob("*") if p.is_file()}
    folders = {stat.S_IMODE(p.stat().st_mode) for p in (run, run / "transcripts")}
    assert (modes, folders) == ({0o600}, {0o700})


def test_the_report_and_the_command_line_state_the_head_and_who_signed(run):
    record = load_record(run)
    page, printed = (run / "report.html").read_text(), again(run).stdout
    assert record.signer == key(run).read_text().strip()
    for said in (page, printed, call("verify", run, "--json").stdout):
        assert record.head in said
        assert record.signer in said


def test_results_name_each_case_by_what_it_left_and_the_head_of_its_transcript(run):
    results = json.loads((run / "results.json").read_text())
    assert results["version"] == VERSION
    heads = {c.id: c.transcript_head for c in load_record(run).cases}
    assert {r["case"]: r["transcript_head"] for r in results["cases"]} == heads
    assert len({r["digest"] for r in results["cases"]}) == 2


def change_score(name, document):
    return document.replace('"value":1.0', '"value":0.0') if name.startswith("case/") else document


def test_a_forger_who_computes_the_chain_anew_is_seen_only_by_the_signature_or_by_the_head(run):
    head = load_record(run).head
    forge(run, change_score)
    code, wrong = checked(run, "--verify-key", key(run))
    assert (code, wrong["signature.json"].split(": ", 1)[0]) == (1, "damaged")
    assert "signs another record than this one" in wrong["signature.json"]
    (run / "signature.json").unlink()
    assert checked(run) == (0, {})  # what a hash chain cannot show
    assert load_record(run).head != head
    missing = {"signature.json": "missing: not signed by the given key"}
    assert checked(run, "--verify-key", key(run)) == (1, missing)


@pytest.mark.parametrize("with_public_half", [True, False])
def test_a_key_to_sign_with_that_is_given_to_verify_is_not_shown(run, with_public_half):
    (run / "signature.json").unlink()
    secret = key(run).with_suffix("")
    if not with_public_half:
        key(run).unlink()
    found = call("verify", run, "--verify-key", secret)
    assert secret.read_text().split()[-1] not in found.stdout + found.stderr
    assert found.exit_code == 2
    assert "holds the key to sign with; give the public one" in " ".join(found.stderr.split())


def test_a_forger_who_signs_with_a_key_of_his_own_is_not_the_signer(run):
    forge(run, change_score)
    (run / "signature.json").unlink()
    call("keygen", run.parent / "other")
    assert again(run, "--sign", run.parent / "other").exit_code == 0
    assert checked(run)[0] == 0
    code, wrong = checked(run, "--verify-key", key(run))
    assert code == 1
    assert wrong["signature.json"].startswith("signed by another key, ")


def test_a_forged_transcript_is_not_the_one_of_its_case(run):
    one, other = transcripts(run)
    shutil.copy(run / one, run / other)
    forge(run)
    (run / "signature.json").unlink()
    code, wrong = checked(run)
    assert (code, list(wrong)) == (1, [other])
    assert "is another run: its head is" in wrong[other]


def test_what_was_written_after_the_signature_is_not_signed(run):
    assert call("report", run, "--reveal").exit_code == 0
    code, wrong = checked(run, "--verify-key", key(run))
    assert (code, list(wrong)) == (1, ["report.html"])
    assert wrong["report.html"].startswith("not signed")
    assert call("report", run).exit_code == 0  # the page that was signed
    assert checked(run, "--verify-key", key(run)) == (0, {})


@pytest.mark.parametrize("other", [None, "another"])
def test_a_document_that_was_added_after_the_signature_is_not_signed(run, other):
    with closing(Store.read(run)) as record:
        case = replace(next(iter(record.cases())), **({"id": other} if other else {}))
        document = _CASE.dump_json(case).decode()
        record._append([(f"aborted/{case.id}", digest_of(document.encode()), document)])
    code, wrong = checked(run, "--verify-key", key(run))
    assert code == 1
    assert "not signed" in wrong[f"aborted/{case.id}"]
    if other:
        assert "a case that its configuration does not ask for: another" in refused("report", run)


def test_signing_again_writes_nothing_and_with_another_key_replaces_the_signature(run):
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*") if p.is_file()}
    assert again(run, "--sign", run.parent / "key").exit_code == 0
    assert before == {p: p.stat().st_mtime_ns for p in run.rglob("*") if p.is_file()}
    call("keygen", run.parent / "other")
    assert again(run, "--sign", run.parent / "other").exit_code == 0
    assert checked(run, "--verify-key", run.parent / "other.pub") == (0, {})


def test_a_copy_without_secrets_is_intact_and_says_so(run):
    (run / "secrets").unlink()
    assert checked(run, "--verify-key", key(run)) == (0, {})
    assert "absent: only a replay needs it" in " ".join(call("verify", run, "--json").stdout.split())
    assert again(run).exit_code == 0


@pytest.mark.parametrize("name", ["results.json", "report.html", "transcript"])
def test_a_missing_file_is_named_and_what_follows_from_the_record_is_written_again(run, name):
    name = transcripts(run)[0] if name == "transcript" else name
    whole = (run / name).read_bytes()
    (run / name).unlink()
    code, wrong = checked(run)
    assert (code, list(wrong)) == (1, [name])
    assert wrong[name].startswith("missing: ")
    assert again(run).exit_code == 0
    if name in ("results.json", "report.html"):
        assert (run / name).read_bytes() == whole
        assert checked(run, "--verify-key", key(run)) == (0, {})


def test_files_that_the_record_does_not_have_are_listed_and_those_that_look_like_its_own_are_refused(run):
    (run / "notes.txt").write_text("")
    (run / ".report.html.0.partial").write_text("")
    assert checked(run) == (0, {})
    (run / "transcripts" / "more.parquet").write_text("")
    assert checked(run) == (1, {"transcripts/more.parquet": "not in the record"})
    assert again(run).exit_code == 0
    assert not (run / ".report.html.0.partial").exists()
    assert (run / "notes.txt").exists()


def test_a_changed_transcript_is_not_shown(run):
    name = transcripts(run)[0]
    (run / name).write_bytes((run / transcripts(run)[1]).read_bytes())
    result = call("view", run, "--case", Path(name).stem)
    assert result.exit_code == 2
    assert "is not the file that the record has" in " ".join(result.stderr.split())


def test_a_run_whose_results_no_longer_follow_is_not_written_over(run):
    forge(run, change_score)
    (run / "signature.json").unlink()
    (run / "results.json").write_text("{}")
    result = again(run)
    assert result.exit_code == 2
    assert "the cases give others now than the record has" in " ".join(result.stderr.split())
    assert (run / "results.json").read_text() == "{}"


def test_an_unfinished_run_is_intact_as_far_as_it_came_and_is_not_signed(run):
    with_entries = Store.read(run)
    count = len(with_entries.entries)
    with_entries.close()
    unfinished(run, count - 3)
    assert checked(run) == (0, {})
    statuses = {r["file"]: r["status"] for r in json.loads(call("verify", run, "--json").stdout)}
    assert statuses["results.json"] == "absent: the run is not finished"
    assert call("report", run).exit_code == 0


def unfinished(run, entries):
    """Takes back the last entries of a record, and what they stand for."""
    db = sqlite3.connect(run / FILE, isolation_level=None)
    (guard,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'entries_remain'").fetchone()
    db.execute("DROP TRIGGER entries_remain")
    db.execute("DELETE FROM entries WHERE position > ?", (entries,))
    db.execute(guard)
    db.close()
    for name in ("results.json", "report.html", "signature.json"):
        (run / name).unlink()


def test_a_damaged_run_is_listed_beside_the_others(run, monkeypatch):
    monkeypatch.chdir(run.parent)
    shutil.copytree(run, run.parent / "runs" / "good")
    shutil.copytree(run, run.parent / "runs" / "bad")
    (run.parent / "runs" / "bad" / FILE).write_bytes(b"no database" * 100)
    rows = {r["run"]: r["cases"] for r in json.loads(call("list", "runs", "--json").stdout)}
    assert rows["run"] == "2 of 2"
    assert "cannot be used as a record" in rows["bad"]


def test_the_help_says_what_a_chain_proves_and_what_a_signature_adds():
    text = call("verify", "--help").stdout
    assert "What a hash chain proves" in text
    assert "What a signature adds" in text


PROGRAM = """
import sys
from leakledger.audit.cli import main
for args in (["verify", "run"], ["view", "run"], ["report", "run"], ["run", "audit.toml", "-o", "run"],
             ["report", "run", "--reveal"]):
    try:
        main(args, prog_name="leakledger")
    except SystemExit as end:
        print("exit", args[0], end.code or 0)
"""
POWERLESS = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]  # a superuser whom permissions bind


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="the superuser may write anywhere")
def test_a_finished_run_is_read_from_where_nothing_can_be_written(run):
    owned = [run, *run.rglob("*")]
    for path in owned:
        path.chmod(0o500 if path.is_dir() else 0o400)
    command = [*(POWERLESS if os.geteuid() == 0 else []), sys.executable, "-c", PROGRAM]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=run.parent, env=told, capture_output=True, text=True)
    for path in owned:
        path.chmod(0o700 if path.is_dir() else 0o600)
    codes = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("exit ")]
    expected = [["verify", "0"], ["view", "0"], ["report", "0"], ["run", "0"], ["report", "2"]]
    assert codes == expected, done.stdout + done.stderr
    assert "cannot be written, and its report is another" in " ".join(done.stderr.split())


def test_a_new_key_is_printed_alone_and_its_files_are_named_beside_it(tmp_path):
    result = call("keygen", tmp_path / "key")
    assert result.stdout.strip() == (tmp_path / "key.pub").read_text().strip()
    assert f"{tmp_path / 'key'} has the secret key, {tmp_path / 'key.pub'} the public one" in result.stderr
    assert (tmp_path / "key").read_text().strip() not in result.output
