"""Where text leaves for a terminal: the only module that prints, and while a command runs the only one on stdout. What
plugins and libraries print goes to stderr, where it cannot break what others read (`--json`).

Names of columns, files, parties and cases come from whoever wrote the data or the configuration, and errors quote them.
Printed raw, an escape sequence in one of them could clear the screen, set a title or hide a line, and a bidirectional
control could show a name as another (CVE-2021-42574, "Trojan Source"). So every character that steers a terminal or
cannot be seen is shown as its code.
"""

import faulthandler
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from types import TracebackType
from typing import IO, Any, TextIO
from unicodedata import category

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from leakledger.audit.termination import INTERRUPTED, Interrupted, terminated_as_interrupted
from leakledger.preprocess.invisible import invisible
from leakledger.preprocess.raised import functions_through
from leakledger.preprocess.told_failure import DEBUG, ON_REQUEST

STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, invisible formats, halves of surrogates, separators of lines
LINES = "\n\t"
STDOUT, UNWRITTEN = "stdout", 2  # what an error calls it; the exit code where it cannot be written
ITSELF = "the tool itself"
AGAIN = "interrupted; the same command begins anew, or goes on from what a run or --resume has kept"


def printable(text: str, kept: str = LINES) -> str:
    """`text` with every character that steers a terminal, or is not seen, as its code (`\\x1b`), but those in `kept`.

    What it returns stays as it is under a second call.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_code(c) if c not in kept and (category(c) in STEERING or invisible(c)) else c for c in text)


def one_line(text: str, most: int = 400) -> str:
    """Foreign text as one printable line of at most so many characters."""
    line = printable(" ".join(text.split()), kept="")
    return line if len(line) <= most else f"{line[: most - 4]} ..."


def _code(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


class Output:
    """The stdout of the command that runs, which nobody else prints to; none: that of the process."""

    own: TextIO | None = None

    @classmethod
    def stream(cls) -> TextIO:
        return cls.own or sys.stdout


@contextmanager
def ours_alone() -> Iterator[None]:
    """Inside, `echo` and consoles print to stdout, and other code that means to do so prints to stderr. It holds for
    what a command does; its help and version are printed before.
    """
    if sys.stdout is None or Output.own is not None:
        yield
        return
    Output.own = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        Output.own = None


@contextmanager
def foreign() -> Iterator[None]:
    """The same wherever code of others runs, and for what writes past Python: inside, nothing at all reaches stdout."""
    try:
        kept = os.dup(1)
    except OSError:  # there is none
        yield
        return
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Prints plain text, to stderr where `err` says so."""
    with _written(sys.stderr if err else Output.stream()):
        click.echo(printable(str(text)), file=None if err else Output.stream(), err=err, nl=nl)


@contextmanager
def _written(stream: TextIO) -> Iterator[None]:
    """What cannot be written for want of a reader is thrown away, and on stderr whatever else is wrong (a full disk, a
    terminal that has gone): no note is worth a run. Of stdout, whose content is the result, an error names it.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) or stream is sys.stderr:
            _nobody_reads(stream)
            return
        error.filename = error.filename or STDOUT
        raise


def _nobody_reads(stream: TextIO) -> None:
    """Throws away what is still printed: whoever read it has gone (`| head`). The command goes on, since what it does
    and its exit code do not depend on who reads: a gate that fails may not end with 0.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def tell_unforeseen(who: str, kind: type[BaseException], error: BaseException | None, at: TracebackType | None) -> None:
    """Prints an error that nobody foresaw as one line on stderr: its kind and where it was raised. Its text may quote a
    record, so it comes on request; of a failed import it names a module.
    """
    through = functions_through(at)
    where = f" in {'.'.join(through[-1])}" if through else ""
    said = f" ({error})" if isinstance(error, ImportError) else ""
    echo(f"leakledger: {one_line(f'{who} raised {kind.__name__}{where}{said}')}; {ON_REQUEST}", err=True)
    if DEBUG in os.environ:
        echo("".join(traceback.format_exception(kind, error, at)), err=True, nl=False)


def _hold_standard_streams() -> None:
    """Opens those of the three that are closed (`2>&-`) on nothing: the next file would have their number, be it the
    record of a run, and take what code of others writes to stderr.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


def crashes_told() -> None:
    """A process that a signal ends in native code, of a plugin, say, prints where that was, and no values: else it ends
    without a word.
    """
    if not faulthandler.is_enabled():
        faulthandler.enable(2, all_threads=False)


def _any_text(stream: TextIO | None) -> None:
    """Lets a stream print what its encoding lacks as codes (`\\u2022`), where it would end the command."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


class Terminal(Console):
    """A console of rich that prints nothing else, whatever it is given to render."""

    @property
    def file(self) -> IO[str]:
        """Where it prints: where `echo` does, unless it was given a file."""
        return super().file if self.stderr or self._file is not None or Output.own is None else Output.own

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def on_broken_pipe(self) -> None:
        """Goes on without who read it; rich would end with code 1."""
        _nobody_reads(sys.stderr if self.stderr else Output.stream())

    def _check_buffer(self) -> None:
        with _written(sys.stderr if self.stderr else Output.stream()):
            super()._check_buffer()

    def render_str(self, text: str, **options: Any) -> Text:
        """Text with its width as it will be printed."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is printed, piece by piece; the console's own controls stay as they are."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class Commands(click.Group):
    """A command line whose errors are printed here too: those of click, and what nobody foresaw, in one line.
    Whatever a command is at, and while it loads what it needs, an interrupt ends it in one line with its own exit code.
    """

    def main(self, *args: Any, **kwargs: Any) -> Any:
        _hold_standard_streams()
        crashes_told()
        _any_text(sys.stdout)
        try:
            with terminated_as_interrupted():
                return super().main(*args, **kwargs)
        except Exception as error:
            tell_unforeseen(ITSELF, type(error), error, error.__traceback__)
            raise SystemExit(1) from None

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _ends_shown():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _ends_shown():
            return super().invoke(ctx)


@contextmanager
def _ends_shown() -> Iterator[None]:
    """Prints errors of click and interrupts as this project does; click calls an interrupt a failure (1)."""
    try:
        yield
    except click.ClickException as error:
        raise _shown(error) from None
    except KeyboardInterrupt as interrupt:
        own = isinstance(interrupt, Interrupted)  # the text of another one may be a plugin's, and quote a record
        echo(f"leakledger: {interrupt if own else AGAIN}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except OSError as error:  # of help and version, which click prints; commands tell of their own
        if isinstance(error, BrokenPipeError) or error.strerror is None:
            raise
        echo(f"leakledger: {error.filename or STDOUT}: {error.strerror.lower()}", err=True)
        raise click.exceptions.Exit(UNWRITTEN) from None


def _shown(error: click.ClickException) -> click.ClickException:
    """The same in printable text; how a command is used wrongly in one line, where click has four."""
    text = printable(error.format_message())
    error.format_message = lambda: text  # type: ignore[method-assign]
    if isinstance(error, click.UsageError) and not isinstance(error, click.exceptions.NoArgsIsHelpError):
        more = f" (`{error.ctx.command_path} --help` says more)" if error.ctx is not None else ""
        line = f"leakledger: {' '.join(text.removesuffix('.').split())}{more}"
        error.show = lambda file=None: echo(line, err=True)  # type: ignore[method-assign]
    return error
