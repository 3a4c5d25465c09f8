import ast
import json
import os
import re
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from leakledger.audit.cli import main
from leakledger.audit.command import OneLine, reports_problems
from leakledger.audit.progress import shown
from leakledger.audit.records import invisible
from leakledger.audit.steps import Step
from leakledger.audit.tables import print_rows
from leakledger.audit.terminal import AGAIN, STEERING, Commands, Terminal, echo, printable

ROOT = Path(__file__).parents[2]
HOSTILE = "\x1b[2Jage\x1b]0;t\x07\u202egnp\u2066\x9b31m\u200b"
SHOWN = r"\x1b[2Jage\x1b]0;t\x07\u202egnp\u2066\x9b31m\u200b"
OWN = re.compile("\x1b\\[[0-9;?]*[A-Za-z]|\r")  # what rich itself writes: styles, and the place of a bar


def raw(text: str) -> set[str]:
    """The characters of `text` that steer a terminal and were not written by rich itself."""
    return {c for c in OWN.sub("", text) if printable(c) != c}


@given(st.text(st.characters()))
def test_what_is_printable_steers_no_terminal_and_stays_as_it_is(text: str) -> None:
    shown = printable(text)
    assert all(unicodedata.category(c) not in STEERING or c in "\n\t" for c in shown)
    assert printable(shown) == shown
    assert printable(text, kept="").splitlines() in ([printable(text, kept="")], [])


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]).filter(lambda c: not invisible(c))))
def test_text_that_can_be_seen_is_printed_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HOSTILE, SHOWN),
        ("a\nb\tc", "a\nb\tc"),
        ("a\rb\x00\x7f", r"a\x0db\x00\x7f"),
        ("\u2028\u2029\ufeff\U000e0041\ud800", r"\u2028\u2029\ufeff\U000e0041\ud800"),
        ("\u034f\u3164\uffa0\ufe0f\U000e0100", r"\u034f\u3164\uffa0\ufe0f\U000e0100"),
        ("naïve – 東京 (π²)", "naïve – 東京 (π²)"),
    ],
)
def test_known_characters(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_console_prints_nothing_raw_however_it_is_given() -> None:
    file = StringIO()
    console = Terminal(file=file, force_terminal=True, width=100)
    table = Table(title=HOSTILE, caption=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(Text(HOSTILE, style="bold"))
    for renderable in (HOSTILE, Text(HOSTILE), table, f"[bold]{HOSTILE}[/bold]", Text.from_markup(HOSTILE)):
        console.print(renderable)
    print_rows(console, [{HOSTILE: f"{HOSTILE}\nNO LEAK"}], HOSTILE)
    with Progress(TextColumn("{task.description}"), console=console) as bar:
        bar.update(bar.add_task(HOSTILE, total=1), completed=1, refresh=True)
    with shown(console, 1, "verbose") as report:
        report.step(Step(HOSTILE, HOSTILE, 0.5))
        report.finished(HOSTILE, 1, 1)
    assert raw(file.getvalue()) == set()
    assert r"\u202e" in file.getvalue()


def test_a_cell_has_one_line_and_tables_stay_aligned() -> None:
    file = StringIO()
    print_rows(Terminal(file=file, width=100), [{"name": "a\nb"}, {"name": "\x1b\x1b"}, {"name": "c"}], "rows")
    rows = [line for line in file.getvalue().splitlines() if "│" in line]
    assert [r.strip("│ ") for r in rows] == [r"a\nb".replace(r"\n", r"\x0a"), r"\x1b\x1b", "c"]
    assert len({len(r) for r in rows}) == 1
    table = Table("name")
    for name in ("\x1b\x1b", "c"):
        table.add_row(name)
    (console := Terminal(file=StringIO(), width=100)).print(table)
    assert r"│ \x1b\x1b │" in console.file.getvalue()  # type: ignore[attr-defined]


def test_errors_are_printed_as_codes() -> None:
    @click.group(cls=Commands)
    def tool() -> None: ...

    @tool.command()
    @click.argument("how")
    def fail(how: str) -> None:
        kinds = {"line": OneLine, "usage": click.UsageError}
        raise kinds[how](HOSTILE)

    @tool.command()
    @click.argument("text")
    def say(text: str) -> None:
        echo(text)

    for arguments, code in [
        (["fail", "line"], 2),
        (["fail", "usage"], 2),
        (["say", HOSTILE], 0),
        ([HOSTILE], 2),
        ([f"--{HOSTILE}"], 2),
        (["say", f"--{HOSTILE}"], 2),
    ]:
        result = CliRunner().invoke(tool, arguments, color=True)
        assert result.exit_code == code, result.output
        assert raw(result.output) == set(), arguments
        assert r"\x1b" in result.output, arguments


def doing(work: Callable[[], None]) -> click.Group:
    """A tool whose one command does this."""
    tool = Commands()
    tool.command("do")(reports_problems(work))
    return tool


@pytest.mark.parametrize("debug", [False, True])
def test_what_nobody_foresaw_is_one_line_without_its_text_and_a_traceback_on_request(
    debug: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise KeyError(HOSTILE)

    if debug:
        monkeypatch.setenv("LEAKLEDGER_DEBUG", "1")
    else:
        monkeypatch.delenv("LEAKLEDGER_DEBUG", raising=False)
    result = CliRunner().invoke(doing(fail), ["do"], color=True)
    first, *more = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (1, "")
    assert re.search(
        r"^leakledger: the tool itself raised KeyError in [\w.]+<locals>\.fail; LEAKLEDGER_DEBUG=1 ", first
    )
    assert raw(result.stderr) == set()
    assert ("Traceback" in more[0] and r"\x1b" in result.stderr) if debug else not more


def test_a_library_that_is_missing_is_named() -> None:
    def fail() -> None:
        import no_such_library  # noqa: F401

    result = CliRunner().invoke(doing(fail), ["do"])
    assert result.exit_code == 1
    assert "raised ModuleNotFoundError" in result.stderr
    assert "(No module named 'no_such_library')" in result.stderr


TABLE = f'age,"{HOSTILE}",label\n' + "".join(f"{i},{'ab'[i % 2]},{'yn'[i % 3 == 0]}\n" for i in range(60))
NAME = f"{HOSTILE}.csv"
AUDIT = """
[data]
source = SOURCE
target = "label"
[partition]
parties = 2
[model]
hidden = [4]
[training]
rounds = 1
batch_size = 2
[attacks]
use = ["plaintext"]
[audit]
seeds = [0]
jobs = 1
baseline_draws = 2
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_whatever_a_command_is_at_in_one_line_with_a_code_of_its_own(sent: signal.Signals) -> None:
    def works() -> None:
        signal.raise_signal(sent)

    before = signal.getsignal(signal.SIGTERM)
    result = CliRunner().invoke(doing(works), ["do"])
    assert result.exit_code == 130
    assert result.output == f"leakledger: {AGAIN}\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_text_of_an_interrupt_that_is_not_ours_is_not_printed() -> None:
    def works() -> None:
        raise KeyboardInterrupt("age=42")

    assert CliRunner().invoke(doing(works), ["do"]).output == f"leakledger: {AGAIN}\n"


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).write_text(TABLE, encoding="utf-8")
    (tmp_path / "audit.toml").write_text(AUDIT.replace("SOURCE", json.dumps(NAME)), encoding="utf-8")
    return tmp_path


def printed(*arguments: str, code: int) -> str:
    result = CliRunner().invoke(main, arguments, color=True)
    assert result.exit_code == code, result.output
    assert raw(result.output) == set(), arguments
    return result.output


def test_no_name_of_a_table_reaches_the_terminal_raw(hostile: Path) -> None:
    run = printed("run", "audit.toml", "-o", "run", code=0)
    view = printed("view", "run", "--messages", code=0)
    assert "\\x1b[2Jage" in re.sub(r"[^!-~]", "", view + run)
    printed("validate", "audit.toml", code=0)
    printed("validate", "audit.toml", "--set", f"data.source=other{HOSTILE}.csv", code=2)
    printed("validate", "audit.toml", "--set", f"{HOSTILE}=1", code=2)
    assert r"\x1b[2J" in printed("view", "run", "-p", HOSTILE, code=2)


def test_missing_values_name_their_column_as_codes(hostile: Path) -> None:
    (hostile / NAME).write_text(TABLE.replace(",a,", ",,"), encoding="utf-8")
    assert r"\x1b[2Jage" in printed("validate", "audit.toml", "--set", "data.missing=error", code=2)


PRINTS = {"print", "click.echo", "click.secho", "Console", "sys.stdout.write", "sys.stderr.write"}


def test_nothing_else_prints() -> None:
    """Neither another console nor another way to write to the terminal, in any package."""
    found = set()
    for package in ("audit", "attacks", "defenses", "preprocess", "reports"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    called = ast.unparse(node.func)
                    if called in PRINTS:
                        found.add(path.relative_to(ROOT).as_posix())
    assert found == {"audit/terminal.py"}


FAILING = """
import click
from leakledger.audit.command import console, reports_problems
from leakledger.audit.terminal import Commands, echo

@click.group(cls=Commands)
def main(): pass

@main.command()
@reports_problems
def told():
    for _ in range(3):
        echo("\u2022" * 50_000)
        console.print("\u2022" * 50_000)
    raise click.exceptions.Exit(10)

main(["told"])
"""


@pytest.mark.parametrize("reader", ["cat", "head -c 1", "true"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_command_ends_with_its_own_code_whoever_reads_it_and_in_whatever_encoding(reader, encoding):
    piped = f'{{ "$0" -c "$1"; echo $? >&2; }} | {reader}'
    words = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(["sh", "-c", piped, sys.executable, FAILING], capture_output=True, env=words, cwd=ROOT)
    assert done.stderr == b"10\n"
    if reader == "cat":
        assert "\u2022".encode(encoding, "backslashreplace") in done.stdout


def test_a_command_without_any_output_ends_with_its_own_code():
    done = subprocess.run(["sh", "-c", '"$0" -c "$1" >&-', sys.executable, FAILING], capture_output=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (10, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a file that is always full")
def test_a_command_whose_notes_cannot_be_written_ends_with_its_own_code():
    noted = FAILING.replace("console,", "notes,").replace("console.", "notes.").replace("_000)", "_000, err=True)", 1)
    done = subprocess.run(["sh", "-c", '"$0" -c "$1" 2>/dev/full', sys.executable, noted], cwd=ROOT)
    assert done.returncode == 10


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a file that is always full")
@pytest.mark.parametrize("printed", ["echo(", "console.print(", "--help"])
def test_results_that_cannot_be_written_are_one_line_that_names_stdout(printed):
    if printed == "--help":
        command = FAILING.replace('["told"]', '["--help"]')
    else:
        command = "".join(line for line in FAILING.splitlines(True) if "50_000" not in line or printed in line)
    full = '"$0" -c "$1" >/dev/full'
    done = subprocess.run(["sh", "-c", full, sys.executable, command], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (2, "leakledger: stdout: no space left on device\n")


CRASHING = """
import ctypes
import click
from leakledger.audit.command import reports_problems
from leakledger.audit.terminal import Commands

@click.group(cls=Commands)
def main(): pass

@main.command()
@reports_problems
def told():
    native_code_of_a_plugin("age=42")

def native_code_of_a_plugin(record):
    ctypes.string_at(0)

main(["told"])
"""


def test_a_crash_in_native_code_says_where_it_was_and_no_value():
    done = subprocess.run([sys.executable, "-c", CRASHING], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in done.stderr
    assert "in native_code_of_a_plugin" in done.stderr
    assert "42" not in done.stderr


WRITING = """
import os, sys
import click
from leakledger.audit.terminal import Commands

group = Commands()

@group.command()
def writes():
    with open(sys.argv[1], "wb") as file:
        file.write(b"record")
        os.write(1, b"noise")
        os.write(2, b"noise")

group(["writes"])
"""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_others_write_to_a_closed_stream_gets_into_no_file(closed, tmp_path):
    file = tmp_path / "file"
    done = subprocess.run(["sh", "-c", f'"$0" -c "$1" "$2" {closed}', sys.executable, WRITING, file], cwd=ROOT)
    assert done.returncode == 0
    assert file.read_bytes() == b"record"


def test_the_module_is_the_command_and_not_a_command_that_does_nothing():
    command = [sys.executable, "-m", "leakledger.audit.cli", "gate", "nowhere", "--policy", "none.toml"]
    done = subprocess.run(command, capture_output=True, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr.startswith(b"leakledger: none.toml: no such file")


def test_others_print_to_stderr_while_a_command_runs_and_help_stays_on_stdout() -> None:
    @reports_problems
    def works() -> None:
        print("noise")
        echo("said")
        Terminal(width=20).print("shown")

    group = Commands()
    group.command("works", help="Helps.")(works)
    done = CliRunner().invoke(group, ["works"])
    assert (done.stdout.split(), done.stderr) == (["said", "shown"], "noise\n")
    assert "Helps." in CliRunner().invoke(group, ["works", "--help"]).stdout


def test_a_table_has_all_of_its_words_and_no_line_beyond_the_terminal_at_any_width():
    checks = [
        {
            "": "inconclusive",
            "check": "regression: deviations by one client",
            "of": "uhe (pad to 16) + zscore-sac (ring, route sealed), fedsgd B=8, 5 rounds",
            "bounds": "0.989 to 1.005",
            "nothing": "",
            "why": f"statistics gets 1.00 of what the prior leaves, 0.00 before [LL-{k:016x}, 1.000 at most]",
        }
        for k in range(2)
    ]
    ruled = 0
    for width in range(70, 240, 3):
        narrow = Terminal(width=width, file=StringIO(), record=True)
        print_rows(narrow, checks, "Checks")
        lines = narrow.export_text().splitlines()
        if any(line.startswith("•") for line in lines):  # one below the other
            continue
        ruled += 1
        assert max(map(len, lines)) <= width
        assert {word for row in checks for text in row.values() for word in text.split()} <= set(
            " ".join(lines).split()
        )
    assert ruled > 30


def test_a_title_longer_than_its_table_stays_on_one_line():
    title = "Leakage against utility: records, from updates, by the server"
    console = Terminal(width=100, file=StringIO(), record=True)
    print_rows(console, [{"defense": "none", "leaks": "0.31"}], title)
    assert console.export_text().splitlines()[0] == title


def test_rows_one_below_the_other_share_lines_and_lose_nothing():
    rows = [
        {"name": "x" * 60 + str(k), "kind": "numeric", "levels": "12", "missing": "", "": "y" * 50} for k in range(3)
    ]
    narrow = Terminal(width=70, file=StringIO(), record=True)
    print_rows(narrow, rows, "Columns")
    assert [line.rstrip() for line in narrow.export_text().splitlines()[1:4]] == [
        f"• {'x' * 60}0",
        "    kind: numeric; levels: 12",
        f"    {'y' * 50}",
    ]
