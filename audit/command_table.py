"""The commands about one's own table: `init`, which looks at it and writes a configuration, and `validate`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from leakledger.audit.command import OneLine, console, reports_problems, write_file
from leakledger.audit.records import plural
from leakledger.audit.terminal import echo


@click.command()
@click.argument(
    "configs", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False)
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one value.")
@click.option("--policy", type=click.Path(path_type=Path, dir_okay=False), help="What the gate will ask for.")
@click.option("--baseline", type=click.Path(path_type=Path, dir_okay=False), help="What it will compare with.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the run is to go; by default below runs/. For one CONFIG.",
)
@click.option("--no-transcripts", is_flag=True, help="The run will keep no messages: they need no disk.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the values in force and the account as JSON; a list, of several."
)
def validate(
    configs: tuple[Path, ...],
    overrides: tuple[str, ...],
    policy: Path | None,
    baseline: Path | None,
    output: Path | None,
    no_transcripts: bool,
    as_json: bool,
) -> None:
    """Check every CONFIG and its data.

    Nothing is trained or attacked. Printed are the columns as they will be read, with examples masked, what looks
    like a slip (identifiers, dates, levels that differ in spaces alone, rows left out), attacks that the model or
    training rules out, the cases, what they will take (time, memory and disk, roughly), what their verdicts can and
    cannot say, and the epsilon of all that clients send, or the steps that have none. What `run` would refuse is
    refused, in a line for each CONFIG, after all were checked. With --policy, what the gate takes; one that can never
    fail is refused.

    \b
    Examples:
      leakledger validate audit.toml
      leakledger validate north/audit.toml south/audit.toml
      leakledger validate audit.toml --policy policy.toml --baseline baseline.json
    """
    if output is not None and len(configs) > 1:
        raise OneLine("--output: runs of several configurations go to a folder each; give one CONFIG with it")
    alone, told, refused = len(configs) == 1, [], []
    for config in configs:
        if not (alone or as_json):
            console.print(f"{config}:", markup=False, highlight=False)
        try:
            told.append(_checked(config, overrides, policy, baseline, output, not no_transcripts, as_json))
        except OneLine as problem:
            if alone:
                raise
            said = problem.message
            refused.append(type(problem)(said if said.startswith(str(config)) else f"{config}: {said}"))
            refused[-1].show()
    if as_json:
        echo(json.dumps(told[0] if alone else told, indent=1))
    if refused:
        worst = max(refused, key=lambda problem: problem.exit_code)
        raise type(worst)(f"{len(refused)} of {plural(len(configs), 'configuration')} refused")


@reports_problems
def _checked(
    config: Path,
    overrides: tuple[str, ...],
    policy: Path | None,
    baseline: Path | None,
    output: Path | None,
    transcripts: bool,
    silent: bool,
) -> dict[str, Any]:
    """The file, its values in force and its account as plain data, which is printed unless it is to be `silent`."""
    from leakledger.audit import tables
    from leakledger.audit.account import account_of
    from leakledger.audit.command_gate import plan_of_gate
    from leakledger.audit.config_file import load_config

    settings = load_config(config, overrides)
    name, command = tables.run_name(settings, config), tables.run_command(config, overrides)
    account = account_of(settings, name, command, output, transcripts=transcripts)
    of_gate = plan_of_gate(policy, baseline, account.cases, settings)
    account = replace(account, verdicts=(*account.verdicts, *of_gate))
    told = {"file": str(config), "config": settings.in_force(), **account.to_plain()}
    if silent:
        return told
    data = account.data
    tables.print_rows(console, account.column_rows(), f"Columns of {data.name} ({plural(account.table.rows, 'row')})")
    named = [{"case": c.id, "method": c.setting.method, **_named(c.setting)} for c in account.cases]
    tables.print_rows(
        console, named, f"{config}: {plural(len(named), 'case')} on {plural(data.rows, 'row')} of {data.name}"
    )
    for line in tables.unnamed_source(settings, config):
        console.print(line, markup=False)
    for sentence in account.sentences():
        console.print(sentence, markup=False, highlight=False)
    return told


def _named(setting: Any) -> dict[str, str]:
    return {"defense": setting.defense, "training": setting.training}


@click.command()
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False), default=Path("audit.toml"))
@click.option(
    "--data", type=click.Path(path_type=Path, dir_okay=False), help="Your table: look at it, and write down its schema."
)
@click.option("--target", help="The column to predict, with --data.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Choose a method, or set another value.")
@reports_problems
def init(path: Path, data: Path | None, target: str | None, overrides: tuple[str, ...]) -> None:
    """Write a configuration to start from.

    It goes to PATH, with every option of the chosen methods explained; an existing file is left alone. With --data, the
    file is looked at: how it is written (separator, encoding, decimal sign, what means missing) and what its columns
    hold go into the configuration for you to check, examples masked. Identifiers and dates are left out at first.

    \b
    Examples:
      leakledger init audit.toml
      leakledger init audit.toml --data patients.csv --target readmitted
      leakledger init audit.toml --set preprocessing.encoder=rolling-hash --set attacks.use='["tableak"]'
    """
    from leakledger.audit.config_template import starter
    from leakledger.audit.own_table import starter_for

    if data is None and target is not None:
        raise OneLine("--target: goes with --data, which names the table")
    text = starter(overrides, path.parent) if data is None else starter_for(data, target, overrides, path.parent)
    if path.exists() or path.is_symlink():
        raise OneLine(f"{path}: exists already; choose another name")
    write_file(path, text)
    echo(f"{path} written; `leakledger validate {path}` checks it, `leakledger run {path}` runs it")
