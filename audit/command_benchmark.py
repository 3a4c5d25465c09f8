"""The command that measures beside published figures."""

import json
from pathlib import Path

import click

from leakledger.audit.command import OneLine, check_output, console, reports_problems, write_file
from leakledger.audit.records import plural
from leakledger.audit.terminal import echo

PLOTS = {"growth": "growth", "dp_sgd": "sandwich"}  # benchmarks with a picture, and who draws it (`reports.html`)
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg"'  # how each begins


@click.command()
@click.argument("name")
@click.option("--data", multiple=True, help="A table to measure on (repeatable) [default: the benchmark's own].")
@click.option("--schema", help="Schema of the table, where it does not lie beside the file.")
@click.option("--quick", is_flag=True, help="Fewer settings: done within a minute or two.")
@click.option("--seeds", type=click.IntRange(min=1), help="How many seeds; clusters are seeds x clients.")
@click.option("--only", multiple=True, metavar="NAME=VALUE", help="Settings to keep to, as B=32 (repeatable).")
@click.option("--jobs", type=click.IntRange(min=1), help="Federations at a time [default: one per core].")
@click.option("--device", default="cpu", show_default=True, help="Where tensors live.")
@click.option(
    "--resume",
    type=click.Path(dir_okay=False),
    help="Keep finished batches in this file, and go on from those that it has (defended, mixing, transcripts).",
)
@click.option("--save", "path", type=click.Path(path_type=Path, dir_okay=False), help="Keep the rows in a JSON file.")
@click.option("--kept", type=click.Path(path_type=Path, dir_okay=False), help="Print rows that --save kept instead.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print rows as Markdown.")
@click.option("--corpus", type=click.Path(file_okay=False, exists=True), help="flfe: tables on which judges learn.")
@click.option("--cache", type=click.Path(file_okay=False), help="flfe: where trained judges are kept.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw growth or dp_sgd in this SVG file.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
@reports_problems
def benchmark(
    name: str,
    data: tuple[str, ...],
    schema: str | None,
    quick: bool,
    seeds: int | None,
    only: tuple[str, ...],
    jobs: int | None,
    device: str,
    resume: str | None,
    path: Path | None,
    kept: Path | None,
    as_markdown: bool,
    corpus: str | None,
    cache: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure beside published figures.

    \b
    Examples:
      leakledger benchmark tableak --quick
      leakledger benchmark tableak --data adult.csv.gz --seeds 13 --json
      leakledger benchmark transcripts --kept benchmarks/results/transcripts-fair.json --markdown
      leakledger benchmark defended --data adult.csv.gz --seeds 5 --only B=32 --only sigma=0.003
      leakledger benchmark mixing --data adult.csv.gz --only burnt=160 --resume mixing.jsonl
      leakledger benchmark growth --save growth.json --plot growth.svg
    """
    from leakledger.audit import tables
    from leakledger.audit.benchmarks import base
    from leakledger.audit.benchmarks.base import Options, as_plain, find, save
    from leakledger.audit.provenance import device_name

    measure = find(name)
    base.check_only(name, only)
    if resume is not None:
        base.check_resume(name)
    if plot is not None and name not in PLOTS:
        raise OneLine(f"--plot draws the benchmarks {' and '.join(PLOTS)}, not {name}; leave --plot out")
    if kept is not None and path is not None:
        raise OneLine("--save keeps what is measured, and with --kept nothing is; leave one of them out")
    given = [*map(Path, data), None if schema is None else Path(schema), kept]
    if resume is not None:
        check_output(Path(resume), others=given)
        given.append(Path(resume))
    if path is not None:
        check_output(path, base.BEGINS, given)
    if plot is not None:
        check_output(plot, PICTURE, [*given, path])
    rows = base.kept(kept, name) if kept else []
    jobs = jobs if device == "cpu" else jobs or 1  # an accelerator is not shared unless it is said
    device_name(device, "--device")  # it is there, or a message
    options = Options(data, schema, quick, device, seeds, jobs, corpus, cache, only, resume, _tell)
    for row in () if kept else measure(options):
        rows.append(row)
        echo(f"{row.dataset} {row.setting} {row.metric}: {row.measured:.2f} {row.unit}", err=True)
        if path is not None:  # whole after every row: an interrupted run keeps what it has measured
            save(path, tables.benchmark_command(name, data, quick, seeds, device, only), rows)
    if plot is not None:
        from leakledger.reports import html

        picture = getattr(html, PLOTS[name])
        write_file(plot, picture([as_plain(r) for r in rows], base.made(kept)))
    if as_json:
        echo(json.dumps([as_plain(r) for r in rows], indent=1))
    elif as_markdown:
        echo(base.markdown(name, rows))
    else:
        tables.print_rows(console, tables.benchmark_rows(rows), f"{name}: measured beside published")


def _tell(done: int, of: int) -> None:
    echo(f"{done} of {plural(of, 'batch', 'batches')} finished", err=True)
