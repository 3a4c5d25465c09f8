"""The commands that say what there is: `list` and `info`."""

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from leakledger.audit.command import OneLine, reports_problems, show_rows
from leakledger.audit.terminal import echo

KINDS = {  # what `list` lists, and which of `catalogue.TABLES` that is
    "data": "data",
    "partitions": "partition",
    "encoders": "encoder",
    "scalers": "scaler",
    "algorithms": "algorithm",
    "aggregations": "aggregation",
    "features": "features",  # how they are made
    "alignments": "alignment",  # of schemas
    "defenses": "defense",
    "attacks": "attack",
    "readers": "reader",  # of table files, by suffix
}


@click.command(name="list")
@click.argument("what", type=click.Choice([*KINDS, "runs"]), required=False)
@click.option(
    "--in",
    "folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="With runs: the folder that they are in [default: ./runs].",
)
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
@reports_problems
def list_(what: str | None, folder: Path | None, as_json: bool) -> None:
    """List known names, or the runs in a folder.

    \b
    Examples:
      leakledger list
      leakledger list attacks --json
      leakledger list runs --in /srv/audits
    """
    from leakledger.audit.catalogue import known
    from leakledger.audit.plugins import FAILED

    wanted = [kind for plural, kind in KINDS.items() if what in (None, plural)]
    if folder is not None and what != "runs":
        raise OneLine("--in: goes with runs, which are in it")
    for name, why in FAILED.items():
        echo(f"leakledger: the plugin {name} cannot be used: {why}", err=True)
    rows = _runs(folder or Path("runs")) if what == "runs" else [row for kind in wanted for row in known(kind)]
    show_rows(rows, as_json, what or "Known names")


@click.command()
@click.argument("name")
@reports_problems
def info(name: str) -> None:
    """Describe what is called NAME.

    An encoder, scaler, aggregation, attack, defense, way to make features, partition or embedded table.

    \b
    Example:
      leakledger info server-dictionary
    """
    from leakledger.audit.catalogue import describe

    echo(describe(name))


def _runs(folder: Path) -> list[dict[str, Any]]:
    from leakledger.audit.assemble import kept_config
    from leakledger.audit.case import cases
    from leakledger.audit.store import FILE, Store

    rows = []
    for path in sorted(folder.glob(f"*/{FILE}")):
        try:
            with closing(Store.read(path.parent)) as store:
                facts, config = store.facts(), kept_config(store)
                finished = f"{len(store.finished())} of {len(cases(config))}"
                rows.append({"run": facts.id, "started": store.created(), "data": facts.data.name, "cases": finished})
        except ValueError as error:  # the others are listed all the same
            rows.append({"run": path.parent.name, "started": "", "data": "", "cases": " ".join(str(error).split())})
    return rows
