"""The command line. Exit codes: 0 pass, 1 the tool failed, 2 it was used wrongly or the input is bad, 130 interrupted.
`verify` and `check-dp` end with 1 where what they check does not hold, `check-dp` with 11 where nobody can say.

Commands import what they use when they run: torch and pandas take seconds to load, which neither `--help` nor the
completion of a word on a terminal should.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from leakledger.audit.terminal import Commands, Terminal, echo

KINDS = {  # what `list` lists, and which of `catalogue.TABLES` that is
    "data": "data",
    "partitions": "partition",
    "encoders": "encoder",
    "scalers": "scaler",
    "algorithms": "algorithm",
    "defenses": "defense",
    "attacks": "attack",
}
P = ParamSpec("P")
R = TypeVar("R")

USAGE, FAILURE, INTERRUPTED = 2, 1, 130
console = Terminal(width=None if sys.stdout.isatty() else 140)
notes = Terminal(stderr=True)


class OneLine(click.ClickException):
    """A problem that its user can solve: one line, exit code 2."""

    exit_code = USAGE

    def show(self, file: Any = None) -> None:
        echo(f"leakledger: {self.format_message()}", err=True)


def reports_problems(command: Callable[P, R]) -> Callable[P, R]:
    """Bad input becomes one line and exit code 2; anything else is a failure of the tool, with exit code 1."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            sys.exit(0)
        except (ValueError, OSError) as error:
            if "LEAKLEDGER_DEBUG" in os.environ:
                traceback.print_exc()
            raise OneLine(" ".join(str(error).split())) from None

    return wrapped


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="leakledger", prog_name="leakledger")
def main() -> None:
    """A privacy audit for federated learning on tabular data.

    LeakLedger runs a federated preprocessing and training protocol, records exactly what every party observes, attacks
    those views, and sets leakage against model utility.

    \b
    Examples:
      leakledger init audit.toml        write a configuration to start from
      leakledger run audit.toml         run it: a record, results.json and report.html
      leakledger view runs/NAME -p P1   what party P1 saw
    """


@main.command()
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
    from leakledger.audit.run import Interrupted, run_audit
    from leakledger.audit.run_secret import read_secret
    from leakledger.audit.signature import read_signer, sign_run

    signer = None if key is None else read_signer(key)
    settings = load_config(config, overrides)
    folder = output or Path("runs") / tables.run_name(settings, config)
    master = None if secrets is None else read_secret(secrets)
    command = tables.run_command(config, overrides)
    try:
        with tables.progress_bar(notes, len(cases(settings))) as progress:
            record = run_audit(settings, folder, master=master, command=command, progress=progress, cluster=cluster)
    except Interrupted as interrupted:
        echo(f"leakledger: {interrupted}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if signer is not None:
        record = replace(record, signer=signer.public)
    report_path = _write_report(folder, record, reveal)
    if signer is not None:
        sign_run(folder, signer)
    if as_json:
        echo((folder / "results.json").read_text(encoding="utf-8"), nl=False)
    else:
        tables.print_verdict(console, record, report_path)
        signed = f", signed by {record.signer}" if record.signer else ""
        console.print(f"Record: head {record.head}{signed}", markup=False, soft_wrap=True, highlight=False)


@main.command()
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
    from leakledger.audit.run import load_record

    echo(_write_report(folder, load_record(folder), reveal, path))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "-p", "--party", "party", default="server", show_default=True, help="A party, or a coalition like server+P2."
)
@click.option("-c", "--case", "case", help="Which case [default: the first].")
@click.option("--messages", is_flag=True, help="One row per message instead of one per topic and sender.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
@reports_problems
def view(folder: Path, party: str, case: str | None, messages: bool, as_json: bool) -> None:
    """Show what one party saw in a run.

    Topics, senders, forms, shapes and sizes, never values; of a coalition too.

    \b
    Example:
      leakledger view runs/fair-1a2b3c4d --party server
    """
    from leakledger.audit.stored_view import view_rows

    _print(view_rows(folder, party, case, messages), as_json, f"What {party} saw")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
@click.option("--verify-key", "key", metavar="KEY", help="Who must have signed: a public key, or the file that has it.")
@reports_problems
def verify(folder: Path, key: str | None, as_json: bool) -> None:
    """Check every file of a run against its record.

    The record is a hash chain over the facts of the run, the document and the transcript of every case, the secrets,
    results.json and report.html; transcripts are hash chains of messages. Exit code 1 if a file is damaged, missing or
    not signed as asked, 2 if the record itself is damaged.

    What a hash chain proves: no file was changed, moved or lost since the record was written, by accident or by someone
    who left the record alone. What it does not: whoever can write the record can compute all of it anew, consistently,
    or leave its last entries out. Compare the head that is printed with one that was noted elsewhere, such as in a
    report that was sent.

    What a signature adds: with --verify-key, the record is the one that the holder of that key signed, to the last
    entry, wherever it has been since. It says who vouches for the record, not that the audit was run well, and is worth
    as much as the way by which you got the public key.

    \b
    Examples:
      leakledger verify runs/fair-1a2b3c4d
      leakledger verify runs/fair-1a2b3c4d --verify-key audit.key.pub
    """
    from leakledger.audit.signature import public_key
    from leakledger.audit.verify import verify_run

    rows = verify_run(folder, None if key is None else public_key(key))
    _print([asdict(row) for row in rows], as_json, "Files of the run")
    if not all(row.ok for row in rows):
        raise click.exceptions.Exit(FAILURE)


@main.command()
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@reports_problems
def keygen(path: Path) -> None:
    """Make a key to sign records with.

    PATH gets the secret key, for its owner alone (mode 0600), PATH.pub the public key, which is also printed: give it
    to those who are to check your records, by a way that they trust.

    \b
    Examples:
      leakledger keygen audit.key
      leakledger run audit.toml --sign audit.key
    """
    from leakledger.audit.signature import new_key

    echo(new_key(path).public)


@main.command(name="list")
@click.argument("what", type=click.Choice([*KINDS, "runs"]), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
@reports_problems
def list_(what: str | None, as_json: bool) -> None:
    """List known names, or the runs in ./runs.

    \b
    Examples:
      leakledger list
      leakledger list attacks --json
    """
    from leakledger.audit.catalogue import known

    wanted = [kind for plural, kind in KINDS.items() if what in (None, plural)]
    rows = _runs() if what == "runs" else [row for kind in wanted for row in known(kind)]
    _print(rows, as_json, what or "Known names")


@main.command()
@click.argument("name")
@reports_problems
def info(name: str) -> None:
    """Describe what is called NAME.

    An encoder, scaler, attack, defense, partition or embedded table.

    \b
    Example:
      leakledger info server-dictionary
    """
    from leakledger.audit.catalogue import describe

    echo(describe(name))


@main.command()
@click.argument("config", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one value.")
@click.option("--json", "as_json", is_flag=True, help="Print the values in force and the cases as JSON.")
@reports_problems
def validate(config: Path, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check CONFIG and its data.

    Nothing is run; the cases that it asks for are listed, with what they will take, roughly (time, memory and disk),
    and what their verdicts can and cannot say.

    \b
    Example:
      leakledger validate audit.toml
    """
    from leakledger.audit import tables
    from leakledger.audit.case import cases
    from leakledger.audit.config_file import load_config
    from leakledger.audit.estimate import estimate, many_values
    from leakledger.audit.provenance import partitioned, run_facts
    from leakledger.audit.verdicts.plan import verdicts_need

    settings = load_config(config, overrides)
    todo = cases(settings)
    read = partitioned(settings, todo)
    name, command = tables.run_name(settings, config), tables.run_command(config, overrides)
    facts = run_facts(settings, todo, name, command, read)
    parties = next(iter(read.values()))
    takes, warnings = estimate(settings, todo, parties), many_values(todo, parties)
    rows = [
        {"case": c.id, "method": c.setting.method, "defense": c.setting.defense, "training": c.setting.training}
        for c in todo
    ]
    expected = list(verdicts_need(settings, todo))
    if as_json:
        told = {"config": settings.in_force(), "data": asdict(facts.data), "cases": rows, "verdicts": expected}
        echo(json.dumps({**told, "estimate": asdict(takes), "warnings": warnings}, indent=1))
        return
    tables.print_rows(console, rows, f"{config}: {len(rows)} cases on {facts.data.rows} rows of {facts.data.name}")
    for sentence in expected:
        console.print(sentence, markup=False)
    if facts.data.negotiated:
        console.print(
            f"Not declared, so parties agree by messages: {', '.join(facts.data.negotiated)}. A schema that lists "
            "categorical, numeric, integer and classes (or task = regression) spares them.",
            markup=False,
        )
    console.print(takes.in_words(), markup=False, highlight=False)
    for line in warnings:
        console.print(f"Warning: {line}.", markup=False, highlight=False)


@main.command()
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False), default=Path("audit.toml"))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Choose a method, or set another value.")
@reports_problems
def init(path: Path, overrides: tuple[str, ...]) -> None:
    """Write a configuration to start from.

    It goes to PATH, with every option of the chosen methods explained; an existing file is left alone.

    \b
    Examples:
      leakledger init audit.toml
      leakledger init audit.toml --set preprocessing.encoder=rolling-hash --set attacks.use='["tableak"]'
    """
    from leakledger.audit.config_template import starter

    text = starter(overrides)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OneLine(f"{path}: exists already; choose another name") from None
    echo(f"{path} written; `leakledger validate {path}` checks it, `leakledger run {path}` runs it")


@main.command()
@click.argument("name")
@click.option("--data", multiple=True, help="A table to measure on (repeatable) [default: the benchmark's own].")
@click.option("--schema", help="Schema of the table, where it does not lie beside the file.")
@click.option("--quick", is_flag=True, help="Fewer settings: done within a minute or two.")
@click.option("--seeds", type=click.IntRange(min=1), help="How many seeds; clusters are seeds x clients.")
@click.option("--jobs", type=click.IntRange(min=1), help="Federations at a time [default: one per core].")
@click.option("--device", default="cpu", show_default=True, help="Where tensors live.")
@click.option("--save", "path", type=click.Path(path_type=Path, dir_okay=False), help="Keep the rows in a JSON file.")
@click.option("--kept", type=click.Path(path_type=Path, dir_okay=False), help="Print rows that --save kept instead.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print rows as Markdown.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw growth in this SVG file.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
@reports_problems
def benchmark(
    name: str,
    data: tuple[str, ...],
    schema: str | None,
    quick: bool,
    seeds: int | None,
    jobs: int | None,
    device: str,
    path: Path | None,
    kept: Path | None,
    as_markdown: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure beside published figures.

    \b
    Examples:
      leakledger benchmark tableak --quick
      leakledger benchmark tableak --data adult.csv.gz --seeds 13 --json
      leakledger benchmark transcripts --kept benchmarks/results/transcripts-fair.json --markdown
      leakledger benchmark growth --save growth.json --plot growth.svg
    """
    from leakledger.audit import tables
    from leakledger.audit.benchmarks import base
    from leakledger.audit.benchmarks.base import Options, as_plain, find, save

    measure = find(name)
    if plot is not None and name != "growth":
        raise OneLine(f"--plot draws the benchmark growth, not {name}; leave --plot out")
    rows = base.kept(kept) if kept else []
    for row in () if kept else measure(Options(data, schema, quick, device, seeds, jobs)):
        rows.append(row)
        echo(f"{row.dataset} {row.setting} {row.metric}: {row.measured:.2f} {row.unit}", err=True)
        if path is not None:  # whole after every row: an interrupted run keeps what it has measured
            save(path, tables.benchmark_command(name, data, quick, seeds), rows)
    if plot is not None:
        from leakledger.reports.html import growth

        plot.write_text(growth([as_plain(r) for r in rows], base.made(kept)), encoding="utf-8")
    if as_json:
        echo(json.dumps([as_plain(r) for r in rows], indent=1))
    elif as_markdown:
        echo(base.markdown(name, rows))
    else:
        tables.print_rows(console, tables.benchmark_rows(rows), f"{name}: measured beside published")


@main.command(name="check-dp")
@click.argument("settings", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option(
    "--format", "form", metavar="NAME", help="Whose settings these are [default: what the file says, or plain]."
)
@click.option("--epsilon", type=float, help="The claim: epsilon over all rounds.")
@click.option("--delta", type=float, help="The claim: delta.")
@click.option("--clip-norm", type=float, help="L2 norm that each vector is clipped to.")
@click.option("--noise", type=float, help="Standard deviation of the noise, in the units of the clip norm.")
@click.option("--noise-multiplier", type=float, help="The same, divided by the clip norm.")
@click.option("--sampling-rate", type=float, help="Chance of one unit to take part in a round.")
@click.option("--batch", type=int, help="Units in a round, with --population in place of --sampling-rate.")
@click.option("--population", type=int, help="Units in all.")
@click.option("--sampling", help="How units are chosen: none, poisson, fixed-size or shuffled.")
@click.option("--rounds", type=int, help="Releases, steps or rounds.")
@click.option("--unit", help="Who is protected: record or client.")
@click.option("--relation", help="What neighbours are: add-remove (a unit more) or replace (a unit with other data).")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Another key of the settings (repeatable)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@reports_problems
def check_dp(
    settings: Path | None, form: str | None, overrides: tuple[str, ...], as_json: bool, **stated: float | str | None
) -> None:
    """Check a claim of differential privacy against its settings.

    SETTINGS is a file (TOML or JSON) with the settings of Flower, Opacus or NVFlare, or plain ones; options are set
    over it. Nothing is run. The answer is the epsilon that the settings have, exactly where a closed form exists, and
    whether the claim holds. It says nothing about whether these settings are what runs.

    Formats: plain, flower-local-dp, flower-central-dp, opacus, nvflare-svt, nvflare-gaussian, nvflare-percentile,
    nvflare-min-max-noise. docs/differential-privacy.md lists their keys and how each is read.

    Exit codes: 0 the claim holds, or there is none; 1 it is refuted, or there is no epsilon at all; 2 bad input; 11
    undecided: the claim lies between what can be proven.

    \b
    Examples:
      leakledger check-dp --noise-multiplier 1 --rounds 1 --epsilon 4.38 --delta 1e-5
      leakledger check-dp --noise-multiplier 1 --sampling-rate 0.01 --rounds 1000 --epsilon 2 --delta 1e-5
      leakledger check-dp --clip-norm 1 --noise 4.845e-5 --unit client --epsilon 10 --delta 1e-5
      leakledger check-dp examples/dp/sensitivity-apart-from-clipping.toml
      leakledger check-dp client.json --format nvflare-svt --set parameters=7033291 --rounds 10 --json
    """
    from leakledger.audit.dp_claims.check import EXIT_CODES, check
    from leakledger.audit.dp_claims.settings_file import assigned, read_settings
    from leakledger.audit.dp_claims.words import in_words

    given = {name: value for name, value in stated.items() if value is not None}
    checked = check(read_settings(settings, {**given, **assigned(overrides)}, form))
    echo(json.dumps(checked.to_plain(), indent=1) if as_json else in_words(checked))
    if code := EXIT_CODES[checked.verdict]:
        raise click.exceptions.Exit(code)


def _write_report(folder: Path, record: Any, reveal: bool, path: Path | None = None) -> Path:
    """Writes the report to `path`, or to the folder of the run, whose record then has it."""
    from leakledger.audit.run_files import keep_report
    from leakledger.reports.html import render, write_report

    if path is not None:
        write_report(record, path, reveal=reveal)
        return path
    return keep_report(folder, render(record, reveal=reveal).encode())


def _print(rows: list[dict[str, Any]], as_json: bool, title: str) -> None:
    """The rows as JSON or as a table."""
    if as_json:
        echo(json.dumps(rows, indent=1))
        return
    from leakledger.audit.tables import print_rows

    print_rows(console, rows, title)


def _runs() -> list[dict[str, Any]]:
    from leakledger.audit.case import cases
    from leakledger.audit.config import Config
    from leakledger.audit.store import FILE, Store

    rows = []
    for path in sorted(Path("runs").glob(f"*/{FILE}")):
        try:
            with closing(Store.read(path.parent)) as store:
                facts, config = store.facts(), Config.model_validate(dict(store.facts().config))
                finished = f"{len(store.finished())} of {len(cases(config))}"
                rows.append({"run": facts.id, "started": store.created(), "data": facts.data.name, "cases": finished})
        except ValueError as error:  # the others are listed all the same
            rows.append({"run": path.parent.name, "started": "", "data": "", "cases": " ".join(str(error).split())})
    return rows
