"""The commands that show what a run left behind: `report` and `view`."""

from pathlib import Path
from typing import Any

import click

from leakledger.audit.command import check_output, notes, reports_problems, show_rows
from leakledger.audit.terminal import echo


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("-o", "--output", "path", type=click.Path(path_type=Path, dir_okay=False), help="File to write.")
@click.option("--reveal", is_flag=True, help="Show recovered values instead of masking them.")
@reports_problems
def report(folder: Path, path: Path | None, reveal: bool) -> None:
    """Write the HTML report of a run again.

    Unfinished runs have one too.

    \b
    Example:
      leakledger report runs/fair-1a2b3c4d --output report.html
    """
    from leakledger.audit.assemble import load_record

    record = load_record(folder)
    echo(write_run_report(folder, record, reveal, path))
    if record.other_code:
        notes.print(record.other_code, markup=False, highlight=False)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "-p", "--party", "party", default="server", show_default=True, help="A party, or a coalition like server+P2."
)
@click.option("-c", "--case", "case", help="Which case [default: the first by name].")
@click.option("--messages", is_flag=True, help="One row per message instead of one per topic and sender.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
@reports_problems
def view(folder: Path, party: str, case: str | None, messages: bool, as_json: bool) -> None:
    """Show what one party saw in a run.

    Topics, senders, forms, shapes and sizes, never values; of a coalition too. With --json, `to` is a list of
    recipients (null of an abort) and `rounds` a list of numbers.

    \b
    Example:
      leakledger view runs/fair-1a2b3c4d --party server
    """
    from leakledger.audit.stored_view import as_table, case_shown, view_rows

    rows = view_rows(folder, party, case, messages)
    show_rows(rows if as_json else as_table(rows), as_json, f"What {party} saw in {case_shown(folder, case)}")


def write_run_report(folder: Path, record: Any, reveal: bool, path: Path | None = None) -> Path:
    """Writes the report to `path`, or to the folder of the run, whose record then has it."""
    from leakledger.audit.run_files import keep_report
    from leakledger.reports.html import BEGINS, render, write_report

    if path is not None:
        check_output(path, BEGINS)
        write_report(record, path, reveal=reveal)
        return path
    return keep_report(folder, render(record, reveal=reveal).encode())
