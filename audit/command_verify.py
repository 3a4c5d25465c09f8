"""The commands that check and sign a record: `verify` and `keygen`."""

from dataclasses import asdict
from pathlib import Path

import click

from leakledger.audit.command import FAILURE, notes, reports_problems, show_rows
from leakledger.audit.terminal import echo


@click.command()
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
    show_rows([asdict(row) for row in rows], as_json, "Files of the run")
    if not all(row.ok for row in rows):
        raise click.exceptions.Exit(FAILURE)


@click.command()
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
    from leakledger.audit.signature import PUBLIC_ENDING, new_key

    echo(new_key(path).public)
    kept = f"{path} has the secret key, {path}{PUBLIC_ENDING} the public one, which is printed"
    notes.print(kept, markup=False, highlight=False, soft_wrap=True)
