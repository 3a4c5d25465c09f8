"""The command `attack`: what attacks read out of a transcript that any runtime recorded."""

import json
from pathlib import Path
from typing import Any

import click

from leakledger.audit.command import console, reports_problems
from leakledger.audit.terminal import echo


@click.command()
@click.argument("transcript", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "-p", "--party", "party", default="server", show_default=True, help='Who attacks: a party, "clients", or server+P2.'
)
@click.option("-a", "--attack", "names", multiple=True, metavar="NAME", help="An attack to play (repeatable).")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the attacks' randomness.")
@click.option(
    "--reveal",
    is_flag=True,
    help="Show claimed values and statistics instead of masking them. How many values, rows or candidates there are is "
    "always shown.",
)
@click.option("--json", "as_json", is_flag=True, help="Print claims and controls as JSON.")
@reports_problems
def attack(transcript: Path, party: str, names: tuple[str, ...], seed: int, reveal: bool, as_json: bool) -> None:
    """Attack a TRANSCRIPT that any runtime recorded.

    TRANSCRIPT is a file that `leakledger.Recorder` wrote, or one of a run's transcripts. Printed is what each attack
    claims about whom, whether it is proven, and whether the attack passed its controls. There is no truth to score
    claims against, so there is no verdict; an attack that claims nothing is no evidence that nothing leaks. One that a
    malformed message ends is named with the message, and the others are played.

    Exit codes: 0 every attack was played to its end; 2 bad input; 11 inconclusive: one was not.

    \b
    Examples:
      leakledger attack round-0.parquet
      leakledger attack round-0.parquet --party clients --attack plaintext --reveal
    """
    from leakledger.audit.gate_records import INCONCLUSIVE
    from leakledger.audit.transcript_attack import attack_transcript, claim_rows, record_tables, to_plain

    found = attack_transcript(transcript, party, names, seed)
    rows = claim_rows(found.played, reveal)
    records = dict(record_tables(found.played, found.layout) if reveal else ())
    if as_json:
        echo(json.dumps({"claims": rows, **to_plain(found), "records": records}, indent=1))
    else:
        _print(found, rows, records, transcript.name)
    if found.inconclusive:
        raise click.exceptions.Exit(INCONCLUSIVE)


def _print(found: Any, rows: list[dict[str, Any]], records: dict[str, list[dict[str, Any]]], name: str) -> None:
    """Claims, rows that are to be revealed, and why the others claim nothing."""
    from leakledger.audit.tables import print_rows
    from leakledger.audit.transcript_attack import aborted_lines, failed_lines, silent_rows, unread_lines

    print_rows(console, rows, f"Claims from {name}")
    for title, table in records.items():
        print_rows(console, table, title)
    silent = [f"No claim by {line}" for line in silent_rows(found.played)]
    for line in (*failed_lines(found.played), *silent, *unread_lines(found.unread), *aborted_lines(found.aborts)):
        console.print(f"{line}.", markup=False, highlight=False)
    console.print("Nobody knows the truth here, so nothing is scored; silence is no evidence.", highlight=False)
