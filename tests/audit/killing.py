"""Kills commands of one small run, at random moments or at every step that reaches the disk, and watches what is left.

`python killing.py FOLDER KILLS SEED` kills at random moments, `python killing.py FOLDER steps EVERY` at every so many
steps; either prints what it counted as JSON. Commands run in forks of this process, which has all libraries loaded, so
that a kill meets work and not imports.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from leakledger.audit import store as stores
from leakledger.audit.cli import main
from leakledger.audit.config_file import load_config
from leakledger.audit.run import run_audit
from leakledger.audit.store import FILE, RESULTS, NoRecordYet, Store
from leakledger.audit.terminal import ITSELF

COMMANDS = {
    "run": ["run", "audit.toml", "-o", "run", "--sign", "key"],
    "report": ["report", "run"],
    "verify": ["verify", "run"],
}
ENDED = (0, 1, 2)  # exit codes of a command that says what it has to say


def started(command, die_at=None):
    """The process of a command, in a fork. With `die_at`, it kills itself before its step of that number."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if die_at is not None:
        die_at_step(die_at)
    code = 70
    try:
        main(COMMANDS[command], standalone_mode=True)
    except SystemExit as end:
        code = end.code or 0
    except BaseException as error:  # whatever else ends it is what the test looks for
        print(f"{ITSELF}: {error!r}")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def die_at_step(number):
    """From the `number`th call on that brings something to the disk, there is no process."""
    left = [number]

    def counting(real):
        def step(*args, **named):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **named)

        return step

    os.replace, os.fsync, os.open = map(counting, (os.replace, os.fsync, os.open))
    stores._insert = counting(stores._insert)


def ended(pid):
    """The exit code of a process, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def finish(command, allowed=(0,)):
    code = ended(started(command))
    text = Path("log").read_text(errors="replace")
    assert code in allowed, f"{command}: exit code {code}: {text}"
    assert not defect(text), text
    return code


def defect(text):
    return ITSELF in text or "Traceback" in text


def finished_cases():
    if not (Path("run") / FILE).exists():
        return set()
    try:
        with closing(Store.read(Path("run"))) as record:
            return record.finished()
    except NoRecordYet:
        return set()


def whole(expected):
    """Runs to the end what was killed, checks that it is what it should be, and starts over."""
    finish("run")
    assert (Path("run") / RESULTS).read_bytes() == expected
    assert finish("verify") == 0
    assert not list(Path("run").rglob("*.partial"))
    shutil.rmtree("run")


def kill_at_random(kills, seed):
    """Kills `kills` commands at random moments; a run that is complete is started over once more was done to it."""
    coins, counts = random.Random(seed), Counter()
    took = {}
    for command in COMMANDS:
        began = time.monotonic()
        finish(command)
        took[command] = time.monotonic() - began
    expected = (Path("run") / RESULTS).read_bytes()
    shutil.rmtree("run")
    while sum(n for (_, what), n in counts.items() if what == "killed") < kills:
        before = finished_cases()
        command = coins.choice(["run", "run", *COMMANDS]) if Path("run").exists() else "run"
        pid = started(command)
        time.sleep(coins.uniform(0, took[command]))
        os.kill(pid, signal.SIGKILL)
        code = ended(pid)
        counts[command, "killed" if code == -signal.SIGKILL else "ended"] += 1
        assert code in (-signal.SIGKILL, *ENDED), (command, code)
        assert not defect(Path("log").read_text(errors="replace"))
        assert before <= finished_cases(), f"{command}: lost a finished case"
        if command == "run" and coins.random() < 0.25:
            finish("verify", ENDED)
            whole(expected)
            counts["run", "whole and equal"] += 1
    return {" ".join(key): n for key, n in sorted(counts.items())}


def kill_at_steps(every):
    """Kills the run before one after another of its steps, and continues it each time."""
    finish("run")
    expected = (Path("run") / RESULTS).read_bytes()
    shutil.rmtree("run")
    step = kills = 0
    while ended(started("run", step)) == -signal.SIGKILL:
        step, kills = step + every, kills + 1
        finish("verify", ENDED)
        whole(expected)
    return {"kills": kills}


def warm_up():
    """Loads what commands load when they run, so that forks of this process have it.

    All but the engine that draws charts: its threads would be missing in a fork.
    """
    run_audit(load_config(Path("audit.toml"), ()), Path("run"))
    shutil.rmtree("run")


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    warm_up()
    what, number = sys.argv[2:4]
    found = kill_at_steps(int(number)) if what == "steps" else kill_at_random(int(what), int(number))
    print(json.dumps(found))
