"""The command that runs an audit."""

from dataclasses import replace
from pathlib import Path

import click

from leakledger.audit.command import OneLine, console, notes, reports_problems
from leakledger.audit.command_gate import fail_on_verdict
from leakledger.audit.command_report import write_run_report
from leakledger.audit.terminal import echo
from leakledger.audit.termination import Interrupted


@click.command()
@click.argument("config", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Folder of the run [default: runs/<name>-<hash>]."
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one value, like audit.seeds=[0,1,2]."
)
@click.option(
    "--secrets",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="LEAKLEDGER_SECRETS",
    help="Replay a run with its file of secrets [default: new ones, kept in the folder].",
)
@click.option(
    "--sign",
    "key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Sign the finished record with the key in this file, of `leakledger keygen`.",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Run cases on the Dask cluster with this scheduler, like tls://host:8786, instead of this machine's cores. "
    "Results are the same. The run's secrets go to the scheduler and its workers, in the clear under tcp:// and "
    "encrypted under tls:// (certificates: Dask's configuration). Workers read the data under the same path.",
)
@click.option("--reveal", is_flag=True, help="Show recovered values in the report instead of masking them.")
@click.option(
    "-q", "--quiet", is_flag=True, help="No progress, no tables: the verdict, the report's path, what was aborted."
)
@click.option("-v", "--verbose", is_flag=True, help="A line for every step of every case.")
@click.option(
    "--no-transcripts",
    is_flag=True,
    help="Throw messages away once they are attacked: `view` has nothing to show then.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["leak", "inconclusive"]),
    help="End with 10 where the verdict is that it leaks; with `inconclusive` also with 11 where nobody can say.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the content of results.json instead of tables.")
@reports_problems
def run(
    config: Path | None,
    output: Path | None,
    overrides: tuple[str, ...],
    secrets: Path | None,
    key: Path | None,
    cluster: str | None,
    reveal: bool,
    quiet: bool,
    verbose: bool,
    no_transcripts: bool,
    fail_on: str | None,
    as_json: bool,
) -> None:
    """Run the audit that CONFIG describes.

    Without CONFIG: the defaults, on the embedded `fair` survey. A run that was interrupted continues where it stopped
    when the same command is given again. Of one that has finished, the report is written again, and a signature where
    --sign asks for one.

    \b
    Examples:
      leakledger run
      leakledger run audit.toml --set attacks.tableak.restarts=10
      leakledger run --set data.source=patients.csv --set data.target=readmitted
      leakledger run audit.toml --secrets runs/NAME/secrets --output runs/again
      leakledger run audit.toml --sign audit.key
      leakledger run audit.toml --cluster tls://scheduler:8786
    """
    from leakledger.audit import tables
    from leakledger.audit.case import cases
    from leakledger.audit.config_file import load_config
    from leakledger.audit.progress import Detail, shown
    from leakledger.audit.run import run_audit
    from leakledger.audit.run_secret import read_secret
    from leakledger.audit.signature import read_signer, sign_run

    if quiet and verbose:
        raise OneLine("--quiet and --verbose say opposite things; give one of them")
    signer = None if key is None else read_signer(key)
    settings = load_config(config, overrides)
    folder = output or Path("runs") / tables.run_name(settings, config)
    master = None if secrets is None else read_secret(secrets)
    command = tables.run_command(config, overrides)
    detail: Detail = "quiet" if quiet else "verbose" if verbose else "normal"
    with shown(notes, len(cases(settings)), detail) as progress:
        record = run_audit(
            settings,
            folder,
            master=master,
            command=command,
            progress=progress.finished,
            on_step=progress.step,
            cluster=cluster,
            transcripts=not no_transcripts,
        )
    if signer is not None:
        record = replace(record, signer=signer.public)
    try:
        report_path = write_run_report(folder, record, reveal)
        if signer is not None:
            sign_run(folder, signer)
    except KeyboardInterrupt:
        kept = f"the audit is finished and kept in {folder}"
        raise Interrupted(f"interrupted: {kept}; the same command writes the report") from None
    for line in tables.unnamed_source(settings, config):
        echo(line, err=True)
    if as_json or quiet:
        for line in tables.abort_lines(record):
            echo(line, err=True)
    if as_json:
        echo((folder / "results.json").read_text(encoding="utf-8"), nl=False)
    elif quiet:
        echo(f"{record.verdict.status}: {report_path}")
    else:
        tables.print_verdict(console, record, report_path)
        signed = f", signed by {record.signer}" if record.signer else ""
        console.print(f"Record: head {record.head}{signed}", markup=False, soft_wrap=True, highlight=False)
    fail_on_verdict(record.verdict.status, fail_on)
