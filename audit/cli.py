"""The command line. Exit codes: 0 pass, 1 the tool failed, 2 it was used wrongly or the input is bad, 130 interrupted.
`verify` and `check-dp` end with 1 where what they check does not hold, `check-dp` with 11 where nobody can say; `gate`
and `run --fail-on` with 10 for a violation, 11 where nobody can say, 12 for a void waiver; `attack` with 11 where an
attack was not played to its end.

Commands import what they use when they run: torch and pandas take seconds to load, which neither `--help` nor the
completion of a word on a terminal should.
"""

import click

from leakledger.audit.command_attack import attack
from leakledger.audit.command_benchmark import benchmark
from leakledger.audit.command_check_dp import check_dp
from leakledger.audit.command_frontier import frontier
from leakledger.audit.command_gate import baseline, compare, export, gate
from leakledger.audit.command_list import info, list_
from leakledger.audit.command_report import report, view
from leakledger.audit.command_run import run
from leakledger.audit.command_table import init, validate
from leakledger.audit.command_verify import keygen, verify
from leakledger.audit.terminal import Commands


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


# fmt: off
for command in (
    run, frontier, attack, report, view, verify, keygen,
    gate, baseline, compare, export,
    init, validate, list_, info, benchmark, check_dp,
):
    main.add_command(command)
# fmt: on

if __name__ == "__main__":  # as `python -m leakledger.audit.cli`, which would do nothing and end with 0
    main(prog_name="leakledger")
