"""`docs/extending.md`, followed to the letter in a copy of the repository: no test has to be edited."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("attacks", "audit", "defenses", "preprocess", "reports", "leakledger", "tests", "docs")
CONTRACTS = {
    "tests/test_layering.py": "",
    "tests/attacks/test_contract.py": "counts or registered",
    "tests/attacks/test_reads.py": "counts or corpus",
    "tests/preprocess/test_contract.py": "tally",
    "tests/preprocess/test_registries.py": "",
    "tests/preprocess/test_protocol_rules.py": "",
    "tests/preprocess/test_messages.py": "",
}
AUDIT = """
[data]
source = "fair"
rows = 300
[[preprocessing]]
encoder = "tally"
at_most = 40
scaler = "local"
[training]
rounds = 1
[attacks]
use = ["counts"]
[attacks.counts]
fewest = 1
[audit]
observers = ["server"]
seeds = [0]
jobs = 1
"""


def written(page: str, folder: Path) -> list[str]:
    """Does what the page's blocks say, and returns the files that changed."""
    changed = []
    for where, name, block in re.findall(r"```python\n# (in )?(\S+\.py)\n(.*?)```", page, re.S):
        path = folder / name
        path.write_text(edited(path.read_text(), block) if where else block)
        changed.append(name)
    return changed


def edited(text: str, block: str) -> str:
    """A package with the block's import beside its imports, and the rest as first lines of its table."""
    lines = block.splitlines(keepends=True)
    imported = "".join(line for line in lines if line.startswith("from "))
    named = "".join(line for line in lines if not line.startswith("from "))
    before, mark, after = text.partition("    for ")
    head, rest = before.split("from ", 1)
    first, _, others = after.partition("\n")
    return f"{head}{imported}from {rest}{mark}{first}\n{named}{others}"


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the repository after the page was followed."""
    folder = tmp_path_factory.mktemp("extended")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        source, target = ROOT / name, folder / name
        if name.split("/")[0] not in PACKAGES and "/" in name:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.is_file():
            target.write_bytes(source.read_bytes())
    assert written((ROOT / "docs" / "extending.md").read_text(), folder) == [
        "preprocess/messages/tally.py",
        "preprocess/encoders/tally.py",
        "preprocess/encoders/__init__.py",
        "attacks/transcript/counts.py",
        "attacks/__init__.py",
    ]
    return folder


def ran(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_contracts_hold_for_what_the_page_adds(contract, extended):
    chosen = ["-k", CONTRACTS[contract]] if CONTRACTS[contract] else []
    done = ran(extended, "-m", "pytest", "-q", "-p", "no:cacheprovider", contract, *chosen)
    assert done.returncode == 0, done.stdout[-3_000:]
    assert re.search(r"\d+ passed", done.stdout)


@pytest.mark.slow
def test_what_the_page_adds_can_be_configured_and_is_found_to_leak(extended, tmp_path):
    (tmp_path / "audit.toml").write_text(AUDIT)
    started = "from leakledger.audit.cli import main; main()"
    done = ran(extended, "-c", started, "run", str(tmp_path / "audit.toml"), "-o", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["verdict"]["status"] == "leaks"
    (score,) = (s for s in results["scores"] if s["attack"] == "counts" and s["metric"] == "f1")
    assert score["value"] == 1
    assert all(c["passed"] for c in results["controls"])
    assert not any(u["topic"] == "tally.counts" for u in results["unread"])
