"""The commands that decide: `gate`, `baseline`, `compare`, `export`.

Exit codes of `gate`: 0 every check passed, 1 the tool failed, 2 wrong use or bad input, 10 a violation, 11 nobody can
say, 12 a waiver is invalid or expired. `--exit-zero` turns 10, 11 and 12 into 0, and nothing else.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from leakledger.audit.command import (
    OneLine,
    append_file,
    check_output,
    console,
    notes,
    reports_problems,
    show_rows,
    write_file,
)
from leakledger.audit.records import plural
from leakledger.audit.terminal import echo
from leakledger.preprocess.atomic_file import is_stream

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
STEP = "GITHUB_STEP_SUMMARY"  # names a file that is for what any program of a step has to say
FAILING = {"leaks": 10, "inconclusive": 11}


@click.command()
@click.argument("run", type=FOLDER)
@click.option("--policy", "policy_path", type=FILE, required=True, help="What is asked for, and how much is too much.")
@click.option("--baseline", "baseline_path", type=FILE, help="What to compare with, of `leakledger baseline save`.")
@click.option("--waivers", "waivers_path", type=FILE, help="Failures that somebody answers for.")
@click.option(
    "--config",
    type=FILE,
    default=Path("audit.toml"),
    show_default=True,
    help="Where exports point to; if given, where it differs from what the run was configured with is said.",
)
@click.option("--sarif", type=FILE, help="Write SARIF 2.1.0 with every check.")
@click.option("--sarif-github", type=FILE, help="Write SARIF as GitHub reads it: without waived and passed checks.")
@click.option("--junit", type=FILE, help="Write JUnit XML.")
@click.option("--markdown", type=FILE, help="Append a summary for a pull request.")
@click.option("--annotations", is_flag=True, help="Print workflow commands of GitHub instead of tables.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON instead of tables.")
@click.option("--exit-zero", is_flag=True, help="End with 0 whatever the checks say (not where the tool fails).")
@reports_problems
def gate(
    run: Path,
    policy_path: Path,
    baseline_path: Path | None,
    waivers_path: Path | None,
    config: Path,
    annotations: bool,
    as_json: bool,
    exit_zero: bool,
    **exports: Path | None,
) -> None:
    """Decide whether a run may pass.

    RUN is held against the ceilings of a policy and, with --baseline, against what leaked before and what the model was
    worth. docs/gate.md says what is tested, and has a policy to start from.

    Exit codes: 0 every check passed; 1 the tool failed; 2 wrong use or bad input; 10 a violation; 11 inconclusive: too
    few clusters, a control that failed, a stale baseline; 12 a waiver is invalid or expired.

    \b
    Examples:
      leakledger gate runs/NAME --policy policy.toml --baseline baseline.json
      leakledger gate runs/NAME --policy policy.toml --baseline baseline.json --junit gate.xml --sarif gate.sarif
    """
    from leakledger.audit.assemble import load_record
    from leakledger.audit.gate.baseline import read_baseline
    from leakledger.audit.gate.decide import gate as decide
    from leakledger.audit.gate.policy import read_policy
    from leakledger.audit.gate.policy_change import policy_notes
    from leakledger.audit.gate.waivers import read_waivers
    from leakledger.reports.pull_request import annotations as commands
    from leakledger.reports.sarif import Source

    policy = read_policy(policy_path)
    waivers = read_waivers(waivers_path, datetime.now(UTC).date()) if waivers_path else ()
    baseline = (str(baseline_path), read_baseline(baseline_path)) if baseline_path else None
    record = load_record(run)
    outcome = decide(record, policy, baseline, waivers)
    if baseline is not None:
        outcome = replace(outcome, notes=(*outcome.notes, *policy_notes(policy, baseline[1])))
    if click.get_current_context().get_parameter_source("config") is ParameterSource.COMMANDLINE:
        outcome = replace(outcome, notes=(*outcome.notes, *_other_configuration(record.run.config, config)))
    text = config.read_text(encoding="utf-8", errors="replace") if config.is_file() else ""
    source = Source(str(config), text)
    _write_exports(outcome, record, source, exports, [policy_path, baseline_path, waivers_path, config])
    if as_json:
        echo(json.dumps(outcome.to_plain(), indent=1))
    elif annotations:
        for line in commands(outcome, source):
            echo(line)
        echo(outcome.sentence)
    else:
        _print_outcome(outcome)
    if outcome.exit_code and not exit_zero:
        raise click.exceptions.Exit(outcome.exit_code)


def _other_configuration(run: Mapping[str, Any], config: Path) -> Iterator[str]:
    """A sentence where a file says otherwise than what a run was configured with: who changes the file and gates a run
    from before is told nothing of the change.
    """
    from leakledger.audit.config_file import ConfigError, load_config
    from leakledger.audit.store import configured_otherwise

    try:
        asked = load_config(config).in_force()
    except ConfigError as error:
        yield f"{error}; the configuration that the run was played with is judged"
        return
    if where := configured_otherwise(run, asked):
        yield f"This run was played with another {where} than {config} has: it is judged as it was played"


def _write_exports(
    outcome: Any, record: Any, source: Any, exports: dict[str, Path | None], read: Sequence[Path | None]
) -> None:
    """All of them, or none where one would replace what is not its own, or a file that the command has `read`."""
    from leakledger.reports.junit import junit
    from leakledger.reports.pull_request import BEGINS, summary
    from leakledger.reports.sarif import sarif

    made: dict[str, Callable[[], str | bytes]] = {
        "sarif": lambda: json.dumps(sarif(outcome, record, source), indent=1),
        "sarif_github": lambda: json.dumps(sarif(outcome, record, source, github=True), indent=1),
        "junit": lambda: junit(outcome, record),
    }
    contents = [(path, make()) for name, make in made.items() if (path := exports[name])]
    markdown, others = exports["markdown"], list(read)
    begins = "" if os.environ.get(STEP) == str(markdown) else BEGINS
    for path, content in contents:
        check_output(path, content, others)
        others.append(path)
    if markdown:
        check_output(markdown, begins, others)
    for path, content in contents:
        write_file(path, content)
    if markdown:
        append_file(markdown, summary(outcome), begins)


def _print_outcome(outcome: Any) -> None:
    from leakledger.audit.gate.console import lines, rows
    from leakledger.audit.tables import print_rows

    print_rows(console, rows(outcome), "Checks, gravest first")
    for line in lines(outcome):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(outcome.sentence, markup=False, highlight=False)


@click.group()
def baseline() -> None:
    """Keep what a run measured, to compare others with it.

    \b
    Examples:
      leakledger baseline save runs/NAME -o baseline.json --policy policy.toml --author "A. Person" --reason "release"
      leakledger baseline show baseline.json
    """


@baseline.command(name="save")
@click.argument("run", type=FOLDER)
@click.option("-o", "--output", type=FILE, default=Path("baseline.json"), show_default=True, help="File to write.")
@click.option("--author", required=True, help="Who answers for it.")
@click.option("--reason", required=True, help="Why it may move.")
@click.option(
    "--policy",
    "policy_path",
    type=FILE,
    help="The policy that it is accepted under: `gate` names what another one asks otherwise [default: the last one].",
)
@reports_problems
def save(run: Path, output: Path, author: str, reason: str, policy_path: Path | None) -> None:
    """Make a finished run the baseline.

    An existing baseline moves: its history stays in the file, with author and reason of each time.

    \b
    Example:
      leakledger baseline save runs/NAME -o baseline.json --policy policy.toml --author "A. Person" --reason "release"
    """
    from leakledger.audit.assemble import load_record
    from leakledger.audit.gate.baseline import moved, read_baseline, write_baseline
    from leakledger.audit.gate.policy import read_policy
    from leakledger.audit.gate.snapshot import snapshot

    check_output(output, others=[policy_path])
    policy = None if policy_path is None else read_policy(policy_path)
    history = read_baseline(output).history if output.is_file() and not is_stream(output) else ()
    kept = moved(snapshot(load_record(run)), author, reason, history, policy=policy)
    write_baseline(output, kept)
    echo(f"{output}: run {kept.snapshot.run}, entry {len(kept.history)} of its history, head {kept.last.head}")


@baseline.command(name="show")
@click.argument("path", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print its history as JSON.")
@reports_problems
def show(path: Path, as_json: bool) -> None:
    """Show what a baseline holds and who moved it.

    \b
    Example:
      leakledger baseline show baseline.json
    """
    from dataclasses import asdict

    from leakledger.audit.gate.baseline import read_baseline
    from leakledger.audit.gate.console import about

    kept = read_baseline(path)
    echo(json.dumps([asdict(m) for m in kept.history], indent=1) if as_json else "\n".join(about(kept)))


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print rows and what stands below them as JSON.")
@reports_problems
def compare(before: Path, after: Path, as_json: bool) -> None:
    """Show what changed from one run to another.

    BEFORE is the folder of a run or a baseline, AFTER a folder. Every series of leakage and every metric of utility
    that either has is compared with a floor of 0.01 and a margin of 0.05. Nothing fails: for that there is `leakledger
    gate`.

    \b
    Example:
      leakledger compare runs/BEFORE runs/AFTER
    """
    from leakledger.audit.assemble import load_record
    from leakledger.audit.gate.baseline import BaselineError, moved, read_baseline
    from leakledger.audit.gate.console import lines, rows
    from leakledger.audit.gate.decide import gate as decide
    from leakledger.audit.gate.policy import UTILITIES, policy_of
    from leakledger.audit.gate.snapshot import snapshot

    record = load_record(after)
    of_baseline = before.is_file()
    if of_baseline:
        try:
            kept = read_baseline(before)
        except BaselineError as error:
            raise OneLine(f"{error}; BEFORE is the folder of a run, or such a file") from None
    else:
        kept = moved(snapshot(load_record(before)), "compare", "a comparison of two runs")
    measured = {row.metric for row in record.utility}.union(*kept.snapshot.utility.values())
    policy = policy_of({"utility": [{"metric": m} for m in UTILITIES if m in measured]})
    outcome = decide(record, policy, (str(before), kept), of_run=not of_baseline)
    words = {"fail": "worse", "pass": "no worse", "inconclusive": "open"}
    table = [{**row, "": words[row[""]]} for row in rows(outcome, every=True)]
    below = list(lines(outcome))
    if as_json:
        echo(json.dumps({"rows": table, "notes": below}, indent=1))
        return
    shown = len(rows(outcome))
    show_rows(table[:shown], as_json, f"{after} against {before}")
    for line in [
        *([f"{plural(len(table) - shown, 'more is', 'more are')} no worse."] if table[shown:] else []),
        *below,
    ]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@click.command()
@click.argument("run", type=FOLDER)
@click.argument("form", type=click.Choice(["dpia", "cyclonedx"]))
@click.option("-o", "--output", type=FILE, help="File to write [default: print it].")
@reports_problems
def export(run: Path, form: str, output: Path | None) -> None:
    """Write what a run found for other hands.

    dpia: a draft of a data protection impact assessment in Markdown, with blanks for what people alone can say.
    cyclonedx: a model card in JSON (CycloneDX 1.6), leakage and utility with their intervals.

    \b
    Example:
      leakledger export runs/NAME dpia -o dpia.md
    """
    from leakledger.audit.assemble import load_record
    from leakledger.reports.cyclonedx import model_card
    from leakledger.reports.dpia import dpia

    record = load_record(run)
    text = dpia(record) if form == "dpia" else f"{json.dumps(model_card(record), indent=1)}\n"
    if output is None:
        echo(text, nl=False)
    else:
        write_file(output, text)
        notes.print(f"{output} written", markup=False, highlight=False)


def fail_on_verdict(status: str, fail_on: str | None) -> None:
    """Ends with the exit code of a verdict where `--fail-on` asks for it."""
    failing = {"leak": ("leaks",), "inconclusive": ("leaks", "inconclusive"), None: ()}[fail_on]
    if status in failing:
        raise click.exceptions.Exit(FAILING[status])


def plan_of_gate(policy: Path | None, baseline: Path | None, todo: Sequence[Any], config: Any) -> list[str]:
    """What a gate of this configuration takes, in sentences. Raises ValueError for one that can never fail."""
    if policy is None:
        if baseline is not None:
            raise ValueError("--baseline: is compared with under a policy; give --policy too")
        return []
    from leakledger.audit.gate.baseline import read_baseline
    from leakledger.audit.gate.plan import gate_needs, units
    from leakledger.audit.gate.policy import read_policy

    kept = None if baseline is None else read_baseline(baseline)
    read = read_policy(policy)
    return list(gate_needs(read, units(config, todo, read), len(config.audit.seeds), kept))
