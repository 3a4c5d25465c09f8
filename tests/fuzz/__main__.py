"""Fuzzes one parser, guided by the coverage of the project's own code: `python -m tests.fuzz wire --minutes 60`.

It needs `pip install atheris`. What is new to the coverage goes to the folder `--found` (runs/fuzz/NAME); an input that
ends in an error which the parser does not name is kept there as `crash-...`, and ends the fuzzing with exit code 77.
`--keep` copies the smallest of what was found into the corpus of the repository, which `tests/test_fuzz.py` plays.
Without a target, all are listed.
"""

import argparse
import ctypes
import os
import shutil
import sys
import time
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["leakledger", "tomllib"]):
    from tests.fuzz.targets import CORPUS, LARGEST, TARGETS

LEAVE = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(lambda status, _: os._exit(status))
KEPT, KEPT_BYTES = 40, 2**13  # inputs of a target in the repository, and the bytes of each


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("target", nargs="?", choices=sorted(TARGETS))
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--found", type=Path, default=Path("runs", "fuzz"))
    parser.add_argument("--keep", action="store_true", help="fuzz nothing; write the corpus of the repository anew")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    if asked.target is None:
        print("\n".join(TARGETS))
        return
    target, found = TARGETS[asked.target], asked.found / asked.target
    if asked.keep:
        keep(found, CORPUS / asked.target)
        return
    found.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (found / f"seed-{number}").write_bytes(seed)
    options = [f"-artifact_prefix={found}/", "-rss_limit_mb=4096", "-timeout=60", f"-max_len={LARGEST}"]
    more = [f"-max_total_time={60 * asked.minutes:.0f}", "-print_final_stats=1", str(found)]
    atheris.Setup([sys.argv[0], *options, *more], target)
    # The fuzzer ends by exit() from within, where what threads of libraries leave to be destroyed waits for ever.
    ctypes.CDLL(None).on_exit(LEAVE, None)
    print(f"stat::seconds_before: {time.process_time():.1f}", file=sys.stderr, flush=True)  # of making ready
    atheris.Fuzz()


def keep(found: Path, kept: Path) -> None:
    """The smallest inputs of `found`, each of which once covered something new, take the place of those in `kept`."""
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for path in sorted(found.glob("*"), key=lambda p: (p.stat().st_size, p.name))[:KEPT]:
        if path.stat().st_size <= KEPT_BYTES:
            shutil.copy(path, kept / path.name)


main()
