import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from leakledger.audit.catalogue import TABLES
from leakledger.audit.cli import main
from leakledger.audit.command import append_file
from leakledger.audit.command_list import KINDS
from leakledger.audit.records import HELD_OUT, QUALITY
from leakledger.audit.stored_view import as_table
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.preprocess.transcript import FORMAT, SCHEMA, read_transcript, write_transcript
from leakledger.preprocess.views import Abort
from tests.audit.recorded import forge

QUICK = """
[data]
source = "fair"
rows = 300
[partition]
kind = "divergent"
parties = 3
[[preprocessing]]
encoder = "server-dictionary"
scaler = "federated-minmax"
[[preprocessing]]
encoder = "local"
scaler = "local"
[model]
hidden = [10]
[training]
rounds = 2
batch_size = 2
[attacks.tableak]
restarts = 2
iterations = 30
[attacks.posterior]
chains = 4
sweeps = 4
repairs = 1
[audit]
seeds = [0]
jobs = 1
baseline_draws = 2
"""


def call(*args, code=0):
    result = CliRunner().invoke(main, [str(a) for a in args])
    assert result.exit_code == code, result.output + result.stderr
    return result


def refused(*args):
    """The one line that a misuse prints; nothing else, and exit code 2."""
    result = call(*args, code=2)
    (line,) = result.stderr.strip().splitlines()
    assert result.stdout == ""
    return line


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    (folder / "audit.toml").write_text(QUICK)
    result = call("run", folder / "audit.toml", "-o", folder / "run")
    return folder / "run", result


def test_a_run_prints_the_verdict_and_leaves_record_results_transcripts_and_report(finished):
    folder, result = finished
    assert "UTILITY" in result.stdout
    assert "Report:" in result.stdout
    names = {p.name for p in folder.iterdir()} - {".lock"}
    assert {"record.sqlite", "results.json", "report.html", "transcripts"} <= names
    assert len(list((folder / "transcripts").iterdir())) == 2
    assert "[2/2]" in result.stderr


def test_results_have_the_documented_form(finished):
    folder, _ = finished
    results = json.loads((folder / "results.json").read_text())
    assert {"version", "run", "scores", "utility"} <= results.keys()
    fields = {
        "method",
        "scaler",
        "encoder",
        "defense",
        "attack",
        "observers",
        "asset",
        "metric",
        "value",
        "low",
        "high",
    }
    fields |= {"baseline", "advantage", "clusters", "status", "reason"}
    assert all(fields <= row.keys() for row in results["scores"])
    assert {row["status"] for row in results["scores"]} <= {"scored", "abstained", "not_applicable", "inconclusive"}
    assert results["run"]["seeds"] == [0]


def test_running_again_changes_nothing(finished):
    folder, _ = finished
    before = (folder / "results.json").read_bytes()
    again = call("run", folder.parent / "audit.toml", "-o", folder, "--json")
    assert (folder / "results.json").read_bytes() == before == again.stdout.encode()


def test_the_server_reads_dictionaries_and_extremes_and_from_local_only_sizes_and_nearly_what_is_trained_on(finished):
    folder, _ = finished
    rows = json.loads((folder / "results.json").read_text())["scores"]
    by_server = [r for r in rows if r["observers"] == ["server"] and r["status"] == "scored"]
    graded = {r["metric"] for r in by_server if r["metric"].endswith("_information")}
    plain = [r for r in by_server if r["attack"] == "plaintext" and r["metric"] not in QUALITY | graded | {*HELD_OUT}]
    read = {(r["encoder"], r["metric"]) for r in plain}
    assert {("server-dictionary", m) for m in ("f1", "minimum", "maximum")} <= read
    nearly = {"count", "target_rate"}  # by the number of held-out rows, of each class
    assert {m for e, m in read if e == "local"} == {"size", *nearly}
    assert all(r["value"] == 1 for r in plain if r["metric"] not in nearly)


def test_validate_refuses_an_output_that_run_would_refuse(finished):
    run, _ = finished
    given = ("validate", run.parent / "audit.toml", "--output")
    assert "holds a run with another training.0.rounds" in refused(*given, run, "--set", "training.rounds=9")
    assert "is a file" in refused(*given, run.parent / "audit.toml")
    assert call(*given, run).exit_code == 0


def test_validate_checks_every_configuration_and_says_of_each_why_it_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names that are short, so that no title is broken into lines
    north, south, east, west = (Path(name) / "audit.toml" for name in ("north", "south", "east", "west"))
    for path, text in ((north, QUICK), (south, "[dta]\n"), (east, QUICK.replace("fair", "none.csv")), (west, QUICK)):
        path.parent.mkdir()
        path.write_text(text)
    result = call("validate", north, south, east, west, code=2)
    of_south, of_east, altogether = result.stderr.splitlines()
    assert of_south.startswith(f"leakledger: {south}: dta: unknown key")
    assert of_east.startswith(f"leakledger: {east}: ")
    assert "none.csv: no such file" in of_east
    assert altogether == "leakledger: 2 of 4 configurations refused"
    assert [f"{path}: 2 cases" in result.stdout for path in (north, south, east, west)] == [True, False, False, True]
    listed = call("validate", north, south, west, "--json", code=2)
    assert [account["file"] for account in json.loads(listed.stdout)] == [str(north), str(west)]
    assert json.loads(call("validate", north, "--json").stdout) == json.loads(listed.stdout)[0]
    refused = call("validate", north, west, "--output", tmp_path / "run", code=2)
    assert refused.stderr.startswith("leakledger: --output: ")
    assert refused.stdout == ""
    assert call("validate", north, west).exit_code == 0


def test_no_output_replaces_what_a_run_keeps(finished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished[0], run)
    (tmp_path / "policy.toml").write_text('[findings]\nforbid = "any"\n')
    kept = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    for path in kept:
        assert f"the run in {run} keeps this file" in refused("report", run, "-o", path)
        assert "keeps this file" in refused("export", run, "dpia", "-o", path)
    for option in ("--sarif", "--junit", "--markdown"):
        line = refused("gate", run, "--policy", tmp_path / "policy.toml", option, run / "results.json")
        assert "keeps this file" in line
    (tmp_path / "by-another-way").symlink_to(run)
    assert "keeps this file" in refused("report", run, "-o", tmp_path / "by-another-way" / "record.sqlite")
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == kept
    for other in (run / "page.html", tmp_path / "report.html"):
        call("report", run, "-o", other)


@pytest.mark.parametrize("held", ["age,readmitted\n30,yes\n", "[data]\n", "<", "\n<!doctype html>\n<html lang='de'>"])
def test_a_report_or_an_export_replaces_none_but_one_of_its_kind(finished, tmp_path, held):
    path = tmp_path / "mine"
    path.write_text(held)
    for args in (("report", finished[0]), ("export", finished[0], "dpia"), ("export", finished[0], "cyclonedx")):
        assert refused(*args, "-o", path).endswith(
            f"{path}: is there already and holds something else; remove it, or choose another name"
        )
        assert path.read_text() == held
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_a_report_and_an_export_replace_an_older_one_an_empty_file_and_go_into_streams(finished, tmp_path):
    for args in (("report", finished[0]), ("export", finished[0], "dpia"), ("export", finished[0], "cyclonedx")):
        path = tmp_path / "-".join(map(str, args[::2]))
        path.touch()
        call(*args, "-o", path)
        made = path.read_bytes()
        path.write_bytes(made + b"older")
        call(*args, "-o", path)
        assert path.read_bytes() == made
        call(*args, "-o", "/dev/null")


def test_view_shows_what_a_party_saw_and_no_value(finished):
    folder, _ = finished
    results = json.loads((folder / "results.json").read_text())
    case = next(r["setting"] for r in results["scores"] if r["encoder"] == "server-dictionary") + "-seed0"
    rows = json.loads(call("view", folder, "--party", "server", "--case", case, "--json").stdout)
    assert "dictionary.local" in {r["topic"] for r in rows}
    text = call("view", folder, "--party", "server", "--case", case).stdout
    assert f"What server saw in {case} (one of 2 cases)" in " ".join(text.split())
    assert "dictionary.local" in text
    assert "farming" not in text
    messages = json.loads(call("view", folder, "--case", case, "--messages", "--json").stdout)
    assert sum(r["messages"] for r in rows) == len(messages)


def test_view_counts_the_hops_that_a_party_saw_and_describes_contents(finished):
    folder, _ = finished
    case = next(p.stem for p in (folder / "transcripts").iterdir() if "server-dictionary" in p.stem)
    rows = json.loads(call("view", folder, "--case", case, "--json").stdout)
    (gradients,) = (r for r in rows if r["topic"] == "train.gradient" and r["from"] == "P1")
    assert gradients["hops"] == gradients["messages"] == 2
    assert gradients["wire bytes"] > gradients["bytes"]
    assert "float32[" in gradients["content"]
    assert gradients["content"].startswith("rows: number, gradient: {")
    messages = json.loads(call("view", folder, "--case", case, "--messages", "--json").stdout)
    assert [m["message"] for m in messages] == sorted(m["message"] for m in messages)
    assert sum(m["wire bytes"] for m in messages) == sum(r["wire bytes"] for r in rows)


def test_view_gives_a_program_lists_of_recipients_and_of_rounds_and_prints_the_same_table(finished):
    folder, _ = finished
    case = next(p.stem for p in (folder / "transcripts").iterdir() if "server-dictionary" in p.stem)
    rows = json.loads(call("view", folder, "--case", case, "-p", "server+P1", "--json").stdout)
    by = {(r["topic"], r["from"], r["seen as"]): r for r in rows}
    assert by["train.gradient", "P2", "received plaintext"]["to"] == ["server"]
    assert by["train.gradient", "P2", "received plaintext"]["rounds"] == [0, 1]
    assert sorted(r["to"][0] for r in rows if r["topic"] == "train.model") == ["P1", "P2", "P3"]
    assert all(r["to"] and all(isinstance(n, int) for n in r["rounds"]) for r in rows)
    messages = json.loads(call("view", folder, "--case", case, "-p", "P2", "--messages", "--json").stdout)
    assert {tuple(m["to"]) for m in messages} == {("P2",), ("server",)}
    printed = as_table(rows)
    assert {r["rounds"] for r in printed if r["topic"] == "train.gradient"} == {"0 to 1"}
    assert [r["to"] for r in printed if r["from"] == "P2" and r["topic"] == "train.gradient"] == [""]
    assert {r["to"] for r in printed if r["topic"] == "train.model"} == {"P1", "P2", "P3"}


def copy_with(finished, folder, *, topic=None, version=FORMAT):
    """A copy of the run whose first transcript has another topic throughout, or another format, and is recorded so; its
    path.
    """
    path = changed_copy(finished, folder, topic, version)
    forge(folder)
    return path


def changed_copy(finished, folder, topic, version):
    shutil.copytree(finished[0], folder)
    path = sorted((folder / "transcripts").iterdir())[0]
    stored = read_transcript(path)
    if topic is not None:
        ledger = Ledger(replace(m, topic=topic) for m in stored.ledger)
        write_transcript(path, ledger, stored.public, stored.meta)
        return path
    facts = pq.read_metadata(path).metadata | {b"format": version}
    table = pq.read_table(path).replace_schema_metadata(None)
    with pq.ParquetWriter(path, SCHEMA) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({k: v for k, v in facts.items() if k != b"ARROW:schema"})
    return path


def test_a_transcript_of_the_older_format_is_one_line_and_the_report_needs_none(finished, tmp_path):
    path = copy_with(finished, tmp_path / "run", version=b"leakledger-transcript-1")
    told = refused("view", tmp_path / "run", "--case", path.stem)
    assert told.endswith(
        "has the older format leakledger-transcript-1, whose messages have no kinds; run the audit again to have it "
        "written anew"
    )
    rows = json.loads(call("verify", tmp_path / "run", "--json", code=1).stdout)
    assert [r["status"] for r in rows if not r["ok"]] == [f"damaged: {told.removeprefix('leakledger: ')}"]
    call("report", tmp_path / "run", "--output", tmp_path / "report.html")


def test_messages_whose_kind_is_not_installed_are_listed_as_such(finished, tmp_path):
    path = copy_with(finished, tmp_path / "run", topic="plugin.gone")
    for flag in ((), ("--messages",)):
        rows = json.loads(call("view", tmp_path / "run", "--case", path.stem, "--json", *flag).stdout)
        assert {(r["topic"], r["content"]) for r in rows} == {("plugin.gone", "its kind is not installed")}
    rows = json.loads(call("verify", tmp_path / "run", "--json", code=1).stdout)  # another run than the case's
    assert [r["file"] for r in rows if not r["ok"]] == [f"transcripts/{path.name}"]
    call("report", tmp_path / "run", "--output", tmp_path / "report.html")


def test_view_counts_a_message_that_a_party_relays_coming_and_going(finished, tmp_path):
    path = copy_with(finished, tmp_path / "run")
    stored = read_transcript(path)
    ledger = Ledger(replace(m, relay="P3") if m.sender == "P1" else m for m in stored.ledger)
    write_transcript(path, ledger, stored.public, stored.meta)
    forge(tmp_path / "run")
    for party, times in (("P3", 2), ("P1", 1), ("P1+P3", 2)):
        rows = json.loads(call("view", tmp_path / "run", "--case", path.stem, "--party", party, "--json").stdout)
        passed = [r for r in rows if r["from"] == "P1"]
        assert passed
        assert all(r["hops"] == times * r["messages"] for r in passed)


def test_view_ends_with_who_aborted_where_and_why(finished, tmp_path):
    path = copy_with(finished, tmp_path / "run")
    stored = read_transcript(path)
    stored.ledger.abort(Abort("P2", "train", 1, "MessageFormatError"))
    write_transcript(path, stored.ledger, stored.public, stored.meta)
    forge(tmp_path / "run")
    for flag in ((), ("--messages",)):
        last = json.loads(call("view", tmp_path / "run", "--case", path.stem, "--json", *flag).stdout)[-1]
        told = [last[k] for k in ("step", "topic", "from", "content", "messages", "wire bytes", "rounds")]
        assert told == ["train", "(abort)", "P2", "MessageFormatError", 0, 0, [1]]
        assert "(abort)" in call("view", tmp_path / "run", "--case", path.stem, *flag).stdout


def test_verify_accepts_what_was_written_and_fails_on_a_changed_byte(finished, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    call("verify", folder)
    path = next((folder / "transcripts").iterdir())
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    rows = json.loads(call("verify", folder, "--json", code=1).stdout)
    assert [r["file"] for r in rows if not r["ok"]] == [f"transcripts/{path.name}"]


def test_the_report_can_be_written_again_elsewhere(finished, tmp_path):
    call("report", finished[0], "--output", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == (finished[0] / "report.html").read_text()


def test_init_writes_a_file_that_validate_accepts_and_never_overwrites(tmp_path):
    path = tmp_path / "a.toml"
    call("init", path)
    assert "4 cases" in call("validate", path).stdout
    assert "exists already" in refused("init", path)


def test_init_leaves_nothing_behind_where_the_disk_is_full(tmp_path):
    call("init", tmp_path / "a.toml")  # whatever is loaded first may be written
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        line = refused("init", tmp_path / "b.toml")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "b.toml: file too large" in line
    assert [p.name for p in tmp_path.iterdir()] == ["a.toml"]


def test_what_is_appended_is_there_whole_or_not_at_all(tmp_path):
    kept, new = tmp_path / "kept.md", tmp_path / "new.md"
    kept.write_text("before\n" * 10)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        for path in (kept, new):
            with pytest.raises(OSError, match="too large") as raised:
                append_file(path, "after\n" * 100, "before")
            assert raised.value.filename == str(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert kept.read_text() == "before\n" * 10
    assert not new.exists()
    append_file(kept, "after\n", "before")
    assert kept.read_text().endswith("before\nafter\n")


def test_validate_says_what_parties_agree_on_by_messages(tmp_path):
    path, table = tmp_path / "a.toml", tmp_path / "t.csv"
    table.write_text("age,ill\n" + "30,no\n41.5,yes\n" * 30)
    path.write_text(f'[data]\nsource = "{table}"\ntarget = "ill"\n')
    said = " ".join(call("validate", path).stdout.split())
    assert "Not declared, so parties agree by messages: kinds, integer, task, classes." in said
    (tmp_path / "t.schema.toml").write_text(
        'categorical = []\nnumeric = ["age"]\ninteger = []\nclasses = ["no", "yes"]\n'
    )
    assert "Not declared" not in call("validate", path).stdout


def test_every_name_is_listed_and_described():
    listed = {r["name"] for r in json.loads(call("list", "--json").stdout)}
    for table in TABLES.values():
        for name in table:
            assert name in listed
            assert len(call("info", name).stdout) > 60


def test_everything_that_is_known_can_be_listed_by_kind():
    assert list(KINDS.values()) == list(TABLES)


QUESTIONS = {
    "version": (["--version"], {}, "leakledger, version"),
    "help": (["--help"], {}, "Commands:"),
    "the help of a command": (["run", "--help"], {}, "--reveal"),
    "the script of completion": ([], {"_LEAKLEDGER_COMPLETE": "bash_source"}, "_leakledger_completion"),
    "a command to complete": (
        [],
        {"_LEAKLEDGER_COMPLETE": "bash_complete", "COMP_WORDS": "leakledger ver", "COMP_CWORD": "1"},
        "verify",
    ),
    "a choice to complete": (
        [],
        {"_LEAKLEDGER_COMPLETE": "bash_complete", "COMP_WORDS": "leakledger list att", "COMP_CWORD": "2"},
        "attacks",
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_to_the_command_line_loads_no_slow_library(question):
    args, environment, answer = QUESTIONS[question]
    program = (
        "import sys; from leakledger.audit.cli import main\n"
        "try: main(prog_name='leakledger')\n"
        "finally: print('slow:', sorted({'torch', 'pandas', 'numpy', 'scipy', 'pydantic'} & set(sys.modules)))"
    )
    told = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", program, *args], env=told, capture_output=True, text=True, check=True)
    assert answer in done.stdout
    assert done.stdout.endswith("slow: []\n")


def test_every_command_explains_itself_with_an_example():
    for name, command in main.commands.items():
        text = call(name, "--help").stdout
        assert "Example" in text, name
        assert all(getattr(o, "help", None) for o in command.params if o.param_type_name == "option"), name


SCRIPT = "<script>alert(1)</script>"


def test_a_hostile_category_is_text_in_the_report_of_one_file_per_party(tmp_path):
    (tmp_path / "audit.toml").write_text(QUICK.replace("rows = 300\n", ""))
    for party in range(3):
        rows = [f"{SCRIPT if i % 10 else 'b'},{'xy'[i % 2]},{'uvw'[i % 3]}" for i in range(party, party + 60)]
        (tmp_path / f"site{party}.csv").write_text("\n".join(["ward,diet,kind", *rows]) + "\n")
    sites = json.dumps([str(tmp_path / f"site{party}.csv") for party in range(3)])
    settings = [f"data.source={sites}", "data.target=kind", "partition.kind=files"]
    flags = [part for s in settings for part in ("--set", s)]
    (tmp_path / "secrets").write_text(PUBLIC_MASTER.hex())
    call("run", tmp_path / "audit.toml", *flags, "-o", tmp_path / "run", "--reveal", "--secrets", tmp_path / "secrets")
    page = (tmp_path / "run" / "report.html").read_text()
    assert SCRIPT not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    call("report", tmp_path / "run")
    assert "alert(1)" not in (tmp_path / "run" / "report.html").read_text()  # masked again


GOOD = "age,ward,ill\n" + "".join(f"{20 + i},{'ab'[i % 2]},{'ny'[i // 3 % 2]}\n" for i in range(40))
BAD_FILES = {
    "empty": (b"", "empty"),
    "header only": (b"age,ward,ill\n", "row"),
    "ragged": (GOOD.replace("25,", "25,extra,").encode(), "row"),
    "wrong encoding": (GOOD.replace("b,", "\xe9,").encode("latin-1"), "utf-8"),
    "constant target": (("age,ward,ill\n" + "1,a,n\n2,b,n\n" * 10).encode(), "ill"),
    "infinite": (GOOD.replace("23,", "inf,").encode(), "age"),
    "missing value": (GOOD.replace("23,", ",").encode(), "age"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_table_is_one_line_that_names_the_file_and_nothing_is_written(tmp_path, kind):
    content, expected = BAD_FILES[kind]
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    line = refused("run", "--set", f"data.source={path}", "--set", "data.target=ill", "-o", tmp_path / "run")
    assert "people.csv" in line
    assert expected in line.lower()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["data.source=nowhere.csv"], "nowhere.csv"),
        (["data.target=il"], "did you mean 'ill'"),
        (["partition.parties=1"], "partition.parties"),
        (["partition.parties=41", "partition.minimum=1"], "41"),
        (["partition.kind=iidd"], "did you mean 'iid'"),
        (["preprocessing.encoder=onehot"], "preprocessing.encoder"),
        (["training.local_epochs=-1"], "training.local_epochs"),
        (["training.rounds=0"], "training.rounds"),
        (['attacks.use=["tablek"]'], "did you mean 'tableak'"),
        (['audit.observers=["P9"]'], "P9"),
        (["audit.device=warp"], "audit.device"),
        (["defense.name=client-clipping", "defense.clip_norm=0"], "defense.clip_norm"),
        (["defense.name=pruning", "defense.share=1"], "defense.share"),
        (["defense.name=quantisation", "defense.bits=0"], "defense.bits"),
        (["defense.name=example-clipping", "defense.clip_norm=1", "training.algorithm=fedavg"], "use fedsgd"),
        (["data.schema=none.toml"], "none.toml"),
        (["audit.seeds=" + "[" * 10_000], "audit.seeds"),
    ],
)
def test_a_bad_setting_is_one_line_with_what_to_do_and_nothing_is_written(tmp_path, settings, expected):
    path = tmp_path / "people.csv"
    path.write_text(GOOD)
    args = ["run", "--set", f"data.source={path}", "--set", "data.target=ill"]
    for s in settings:
        args += ["--set", s]
    assert expected in refused(*args, "-o", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_an_output_folder_that_cannot_be_written_is_one_line(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert "cannot be written" in refused("run", "-o", tmp_path / "run")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no file system that refuses everyone")
def test_an_output_folder_on_a_file_system_that_refuses_writing_is_one_line():
    assert "cannot be written" in refused("run", "-o", "/proc/leakledger-run", "--set", "data.rows=200")


def test_an_output_path_that_is_a_file_is_one_line(tmp_path):
    (tmp_path / "taken").write_text("")
    assert "cannot be written" in refused("run", "-o", tmp_path / "taken" / "run", "--set", "data.rows=200")


@pytest.mark.parametrize("command", ["report", "view", "verify"])
def test_a_folder_that_is_no_run_is_one_line(tmp_path, command):
    assert "holds no run" in refused(command, tmp_path)


def test_unknown_names_are_one_line_with_a_suggestion(finished):
    assert "did you mean 'tableak'" in refused("info", "tablek")
    assert "did you mean 'tableak'" in refused("benchmark", "tablek")
    assert "no such case" in refused("view", finished[0], "--case", "x")
    assert "took no part (did you mean 'server'?)" in refused("view", finished[0], "--party", "sever")
    assert "Did you mean 'run'?" in refused("rum")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["rum"], "rum"),
        (["run", "--sets"], "--sets"),
        (["gate"], "RUN"),
        (["run", "audit.toml", "--fail-on", "smoke"], "smoke"),
        (["attack", "nowhere"], "nowhere: no such file or directory"),
    ],
)
def test_wrong_use_is_one_line_that_names_what_is_wrong(command, said):
    line = refused(*command)
    assert line.startswith("leakledger: ")
    assert said in line


def test_an_empty_configuration_says_which_table_it_is_about(tmp_path):
    (tmp_path / "empty.toml").touch()
    assert "names no source: this is about the embedded table fair" in " ".join(
        call("validate", tmp_path / "empty.toml").stdout.split()
    )


def test_a_quiet_run_of_no_named_table_says_beside_its_output_which_one_it_audited(finished, tmp_path):
    (tmp_path / "audit.toml").write_text(QUICK.replace('source = "fair"\n', ""))
    only_prior = ("--set", 'attacks.use=["random_baseline"]')
    result = call("run", tmp_path / "audit.toml", "--quiet", "-o", tmp_path / "run", *only_prior)
    said = f"{tmp_path / 'audit.toml'}: [data] names no source: this is about the embedded table fair."
    assert result.stderr.splitlines() == [said]
    assert len(result.stdout.splitlines()) == 1
    assert "embedded table" not in finished[1].stderr


def test_a_table_with_two_columns_of_one_name_is_one_line(tmp_path):
    (tmp_path / "t.csv").write_text("age;age;sick\n1;2;yes\n3;4;no\n")
    line = refused("init", tmp_path / "a.toml", "--data", tmp_path / "t.csv", "--target", "sick")
    assert line == "leakledger: t.csv: two columns are called 'age'; rename or remove one"
    assert not (tmp_path / "a.toml").exists()


def test_a_configuration_of_an_audit_is_no_claim_of_differential_privacy(tmp_path):
    (tmp_path / "audit.toml").write_text('[data]\nsource = "fair"\n')
    assert "a section of an audit's configuration" in refused("check-dp", tmp_path / "audit.toml")
