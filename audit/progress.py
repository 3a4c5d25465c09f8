"""Shows where a run is: a bar with an estimate on a terminal, plain lines elsewhere, more or less of it as asked."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from leakledger.audit.steps import Step
from leakledger.preprocess.repeating import repeating

Detail = Literal["quiet", "normal", "verbose"]
EARLY = 0.02  # of all work: before that, an estimate says nothing
SILENT = 60.0  # seconds without a line; then there is one, so that a log of a long case shows that it is alive
UNITS = ((86_400, "days"), (3_600, "h"), (60, "min"))


class Watch:
    """What is known of a run: finished cases, and of each running one the share that is done."""

    def __init__(self, total: int, clock: Callable[[], float] = monotonic) -> None:
        self._total, self._clock, self._begun = max(total, 1), clock, clock()
        self._finished, self._before = 0, 0
        self._running: dict[str, float] = {}
        self._last: Step | None = None

    def step(self, step: Step) -> None:
        self._running[step.case] = step.share
        self._last = step

    def finished(self, name: str, done: int) -> None:
        """`done` counts cases of earlier runs too, which took no time in this one."""
        if not self._finished:
            self._before = done - 1
        self._running.pop(name, None)
        self._finished = done

    @property
    def now(self) -> Step | None:
        """What was begun last, while its case runs."""
        return self._last if self._last is not None and self._last.case in self._running else None

    @property
    def share(self) -> float:
        """Of all cases, by steps."""
        return min(1.0, (self._finished + sum(self._running.values())) / self._total)

    def left(self) -> str:
        """In words, the time that the rest will take if it goes on like this; empty where nobody can say."""
        own = self.share - self._before / self._total
        if own < EARLY:
            return ""
        seconds = (self._clock() - self._begun) * (1 - self.share) / own
        for size, name in UNITS:
            if seconds >= size:
                return f"about {seconds / size:.0f} {name} left"
        return f"about {seconds:.0f} s left"


class Shown:
    """What a run is to call: `finished(case, done, of)` and `step(step)`."""

    def __init__(
        self,
        console: Console,
        total: int,
        detail: Detail,
        bar: Progress | None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._console, self._detail, self._bar, self._clock = console, detail, bar, clock
        self._watch, self._said = Watch(total, clock), clock()
        self._task = TaskID(0) if bar is None else bar.add_task("cases", total=1.0, left="", cases=f"0/{total}")

    def step(self, step: Step) -> None:
        self._watch.step(step)
        if self._detail == "verbose":
            self._line(_of_case(step))
        self.alive()
        self._update(description=escape(f"{step.case}: {step.what}"))

    def alive(self) -> None:
        """A line for what goes on, if there was none for long."""
        told = self._bar is None and self._detail != "quiet" and self._clock() - self._said >= SILENT
        if told and (step := self._watch.now) is not None:
            self._line(_of_case(step))

    def finished(self, name: str, done: int, of: int) -> None:
        self._watch.finished(name.partition(": ")[0], done)
        if self._bar is None and self._detail != "quiet":
            left = self._watch.left() if done < of else ""
            self._line(f"[{done}/{of}] {name}" + (f", {left}" if left else ""))
        self._update(description=escape(name), cases=f"{done}/{of}")

    def _update(self, **fields: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self._watch.share, left=self._watch.left(), **fields)  # type: ignore[arg-type]

    def _line(self, text: str) -> None:
        self._said = self._clock()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _of_case(step: Step) -> str:
    return f"{step.case}: {step.what} ({step.share:.0%} of the case done)"


@contextmanager
def shown(console: Console, total: int, detail: Detail = "normal") -> Iterator[Shown]:
    """Progress over cases and within them: a bar on a terminal; elsewhere a plain line per case, and one for what goes
    on after each minute without any; nothing if quiet.
    """
    if detail == "quiet" or not console.is_terminal:
        lines = Shown(console, total, detail, None)
        with repeating(SILENT / 6, lines.alive):
            yield lines
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[cases]}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield Shown(console, total, detail, bar)
