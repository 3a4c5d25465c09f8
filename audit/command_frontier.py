"""The command that sets leakage against utility over the strength of defenses."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from leakledger.audit.command import console, notes, reports_problems
from leakledger.audit.command_report import write_run_report
from leakledger.audit.records import plural
from leakledger.audit.terminal import echo


@click.command()
@click.argument("source", metavar="[CONFIG_OR_RUN]", type=click.Path(path_type=Path), required=False)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Folder of the run [default: runs/<name>-<hash>]."
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one value.")
@click.option("--multiplier", type=float, multiple=True, help="Noise of DP-SGD, in multiples of the clip norm.")
@click.option(
    "--epsilon",
    type=float,
    multiple=True,
    help="DP-SGD with the noise that reaches this over all rounds; of batches of a fixed size as if every row were in "
    "each of them, so the account may show less.",
)
@click.option("--delta", type=float, help="Of --epsilon, and of the account of the run [default: audit.delta].")
@click.option("--clip-norm", type=float, default=1.0, show_default=True, help="Of DP-SGD.")
@click.option("--noise", type=float, multiple=True, help="Deviation of noise without clipping.")
@click.option("--clip", type=float, multiple=True, help="Norm of clipping without noise.")
@click.option("--pruned", type=float, multiple=True, help="Share of entries set to zero.")
@click.option("--bits", type=int, multiple=True, help="Bits of quantised entries.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
@reports_problems
def frontier(
    source: Path | None, output: Path | None, overrides: tuple[str, ...], as_json: bool, **strengths: Any
) -> None:
    """Set leakage against utility over the strength of every defense.

    Runs the audit of CONFIG_OR_RUN (a configuration, or the folder of a run, whose configuration is taken) under each
    defense and strength that the options name, on the same seeds, and prints for each method and asset: what leaks
    with its interval, what no adversary can exceed where the defense has a guarantee, utility, and which defenses no
    other one beats. It is an ordinary run, with a record and a report, and continues where it was interrupted. Each
    option can be given several times; without any the configuration's own defenses are compared, or, where it has one
    only, a choice of all kinds. The frontier of a run that compares several defenses already is printed as it is.

    \b
    Examples:
      leakledger frontier audit.toml
      leakledger frontier audit.toml --epsilon 1 --epsilon 10 --epsilon 100 --pruned 0.9
      leakledger frontier audit.toml --multiplier 0.1 --multiplier 1 --set training.batch_size=8 --json
      leakledger frontier runs/NAME
    """
    from leakledger.audit import tables
    from leakledger.audit.frontier import absent
    from leakledger.audit.sweep import Strengths

    named = Strengths(**strengths)
    named.check()
    record = _frontier_record(source, output, overrides, named)
    if as_json:
        echo(json.dumps([asdict(p) for p in record.frontier], indent=1))
    else:
        tables.print_frontier(console, record.frontier)
    for line in absent(record):
        echo(line, err=as_json)


def _frontier_record(source: Path | None, output: Path | None, overrides: tuple[str, ...], named: Any) -> Any:
    """The record of the run that a frontier is drawn from: one that is there, or one that is run now."""
    from leakledger.audit import tables
    from leakledger.audit.account import account_of
    from leakledger.audit.assemble import load_record
    from leakledger.audit.case import cases
    from leakledger.audit.config_file import config_of, load_config
    from leakledger.audit.progress import shown
    from leakledger.audit.run import run_audit
    from leakledger.audit.store import RESULTS
    from leakledger.audit.sweep import DEFAULT, swept

    old = load_record(source) if source is not None and source.is_dir() else None
    settings = config_of(dict(old.run.config), overrides) if old else load_config(source, overrides)
    if old is not None and not named and not overrides and len(settings.defense) > 1:
        return old
    if named or len(settings.defense) == 1:
        settings = swept(settings, named or DEFAULT)
    folder = output or Path("runs") / f"frontier-{tables.run_name(settings, source)}"
    command = tables.frontier_command(source, overrides, named)
    if not (folder / RESULTS).is_file():
        takes = account_of(settings, folder.name, command, folder).estimate.in_words()
        echo(
            f"To run: {plural(len(cases(settings)), 'case')} under {plural(len(settings.defense), 'defense')}. {takes}",
            err=True,
        )
    with shown(notes, len(cases(settings)), "normal") as progress:
        record = run_audit(settings, folder, command=command, progress=progress.finished, on_step=progress.step)
    echo(f"Report: {write_run_report(folder, record, False)}", err=True)
    return record
