"""Fuzzes parsers in turn, always the one that had least, and keeps what each has had: `python -m tests.fuzz.rounds`.

A round is `python -m tests.fuzz NAME`. Its time is the processor's, since a machine that others use gives a fuzzer less
than the clock says; time of all rounds adds up, each of which goes on from what is in the folder `--found`. The figures
lie in `rounds.json` beside this file, with the date of each parser's last round. Interrupted, it loses a round at most.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leakledger.preprocess.atomic_file import atomic_file

KEPT = Path(__file__).with_name("rounds.json")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.rounds", description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help="of these only [default: all]")
    parser.add_argument("--until", type=float, default=60.0, help="minutes of the processor that each shall have had")
    parser.add_argument("--round", type=float, default=10.0, help="minutes of one round, by the clock")
    parser.add_argument("--minutes", type=float, help="begin no round after these [default: when all is done]")
    parser.add_argument("--found", type=Path, default=Path("runs", "fuzz"))
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    listing = [sys.executable, "-m", "tests.fuzz"]
    names = asked.targets or subprocess.check_output(listing, text=True, stderr=subprocess.DEVNULL).split()
    begun = time.monotonic()
    while asked.minutes is None or time.monotonic() - begun < 60 * asked.minutes:
        had = rounds()
        name = min(names, key=lambda n: had.get(n, {}).get("minutes", 0.0))
        if had.get(name, {}).get("minutes", 0.0) >= asked.until:
            return
        keep(name, fuzzed(name, asked.round, asked.found))


def rounds() -> dict[str, dict[str, Any]]:
    """What each parser has had: minutes of the processor, inputs, places reached in the last round, its date."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}


def fuzzed(name: str, minutes: float, found: Path) -> dict[str, Any]:
    """One round. Ends the program where an input ended in an unexpected error: the fuzzer says which."""
    command = [sys.executable, "-m", "tests.fuzz", name, "--minutes", str(minutes), "--found", str(found)]
    before = seconds_of_children()
    done = subprocess.run(command, text=True, errors="replace", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"{done.stderr}\n{name} ended with exit code {done.returncode}: see above, and {found / name}")
    used = seconds_of_children() - before
    statistics = dict(line.split(maxsplit=1) for line in done.stderr.splitlines() if line.startswith("stat::"))
    _, _, places = done.stderr.rpartition(" cov: ")  # of libFuzzer's last line that says how many were reached
    return {
        "minutes": (used - float(statistics["stat::seconds_before:"])) / 60,
        "inputs": int(statistics["stat::number_of_executed_units:"]),
        "places": int(places.split()[0]),
        "date": datetime.now(UTC).date().isoformat(),
    }


def seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def keep(name: str, now: dict[str, Any]) -> None:
    """Adds a round to what the parser has had."""
    had = rounds()
    before = had.get(name, {})
    sums = {key: round(before.get(key, 0) + now[key], 1) for key in ("minutes", "inputs")}
    had[name] = {**sums, "places": now["places"], "date": now["date"]}
    with atomic_file(KEPT) as file:
        file.write(f"{json.dumps(dict(sorted(had.items())), indent=1)}\n".encode())


if __name__ == "__main__":
    main()
