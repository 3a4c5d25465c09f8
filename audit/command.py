"""What commands of the command line share: exit codes, consoles, files, and how a problem becomes one line."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from leakledger.audit.terminal import Terminal, echo, ours_alone
from leakledger.audit.unraised import unraised_told
from leakledger.preprocess.atomic_file import atomic_file, is_stream
from leakledger.preprocess.told_failure import DEBUG, ToldFailure, exit_code

P = ParamSpec("P")
R = TypeVar("R")

PLUGINS = "leakledger.audit.plugins"
USAGE, FAILURE = 2, 1
TELLING = 32  # bytes by which files of one kind begin alike
console = Terminal(width=None if (sys.stdout and sys.stdout.isatty()) or "COLUMNS" in os.environ else 140)
notes = Terminal(stderr=True)


class OneLine(click.ClickException):
    """A problem that its user can solve: one line, exit code 2."""

    exit_code = USAGE

    def show(self, file: Any = None) -> None:
        echo(f"leakledger: {self.format_message()}", err=True)


class Failed(OneLine):
    """A failure of what was run, in one line: exit code 1."""

    exit_code = FAILURE


def reports_problems(command: Callable[P, R]) -> Callable[P, R]:
    """Bad input becomes one line and exit code 2; anything else is a failure of the tool, with exit code 1. What is
    printed by others meanwhile goes to stderr.
    """

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with ours_alone(), unraised_told(), _plugins_named():
                return command(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except SystemExit as error:  # of a plugin, say: nothing that is to end a command does it so
            raise Failed(f"something that was run called sys.exit({exit_code(error)})") from error
        except Exception as error:
            line = told_line(error)
            if line is None:
                raise
            if DEBUG in os.environ:
                echo("".join(traceback.format_exception(error)), err=True, nl=False)
            raise (Failed if isinstance(error, ToldFailure) else OneLine)(line) from None

    return wrapped


@contextmanager
def _plugins_named() -> Iterator[None]:
    """`naming_plugins`, once there are any: importing them takes seconds, which bad usage needs not."""
    try:
        yield
    except BaseException:
        if PLUGINS not in sys.modules:
            raise
        from leakledger.audit.plugin_errors import naming_plugins

        with naming_plugins():
            raise


def told_line(error: Exception) -> str | None:
    """What a user is told of an error that was foreseen; None for one that nobody foresaw, a defect."""
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        return None  # an import that fails here; one that a user can mend has a text and no name
    if not isinstance(error, ValueError | OSError | ModuleNotFoundError | ToldFailure):
        return None
    return " ".join(_said(error).split())


def _said(error: Exception) -> str:
    """Its text; of a file that cannot be opened the name first, and why, without the number of the error."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    if isinstance(error, OSError) and error.strerror:
        return f"the system says: {error.strerror.lower()}"
    return str(error)


def check_no_run_keeps(path: Path) -> None:
    """Raises OneLine where `path` is a file of a run's folder that its record answers for."""
    from leakledger.audit.store import holder_of

    if (folder := holder_of(path)) is not None:
        raise OneLine(f"{path}: the run in {folder} keeps this file, its record answers for it; choose another name")


def check_output(path: Path, begins: str | bytes = b"", others: Iterable[Path | None] = ()) -> None:
    """Raises OneLine where nothing may be written to `path`: a run keeps its own file there, it is one of the `others`
    that the same command reads or writes, or it holds something that begins otherwise.
    """
    check_no_run_keeps(path)
    if any(_same_file(path, other) for other in others if other is not None):
        raise OneLine(f"{path}: is read or written by this command for something else too; choose another name")
    start = (begins.encode() if isinstance(begins, str) else begins)[:TELLING]
    if not start or is_stream(path) or not path.is_file():
        return
    with path.open("rb") as file:
        there = file.read(len(start))
    if there not in (b"", start):
        raise OneLine(f"{path}: is there already and holds something else; remove it, or choose another name")


def _same_file(a: Path, b: Path) -> bool:
    """Whether two names are of one file, be it there or not; a stream is none."""
    return not is_stream(a) and (a.resolve() == b.resolve() or (a.exists() and b.exists() and a.samefile(b)))


def write_file(path: Path, content: str | bytes) -> None:
    """Writes what a user asked for to `path`, whole or not at all; OneLine as of `check_output`."""
    check_output(path, content)
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append_file(path: Path, content: str, begins: str) -> None:
    """Appends what a user asked for to `path`, whole or not at all; OneLine as of `check_output`."""
    check_output(path, begins)
    before = path.stat().st_size if path.exists() else None
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(content)
    except OSError as error:
        if before is None:
            path.unlink(missing_ok=True)
        elif path.is_file():
            os.truncate(path, before)
        error.filename = error.filename or os.fspath(path)
        raise


def show_rows(rows: list[dict[str, Any]], as_json: bool, title: str) -> None:
    """The rows as JSON or as a table."""
    if as_json:
        echo(json.dumps(rows, indent=1))
        return
    from leakledger.audit.tables import print_rows

    print_rows(console, rows, title)
