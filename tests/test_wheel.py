"""What an installation puts into site-packages: one name, with everything behind it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The files of a wheel built from the tracked files, as from a fresh clone."""
    folder = tmp_path_factory.mktemp("wheel")
    source, wheels = folder / "source", folder / "wheels"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to((ROOT / name).readlink())
        elif (ROOT / name).is_file():
            target.write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(wheels)]
    subprocess.run([*build, str(source)], check=True, capture_output=True)
    (wheel,) = wheels.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_a_wheel_puts_one_name_into_site_packages(names):
    assert {n.partition("/")[0] for n in names if ".dist-info/" not in n} == {"leakledger"}


def test_a_wheel_holds_every_module_and_template_of_the_five_packages(names):
    wanted = [
        f"leakledger/{p.relative_to(ROOT)}"
        for package in ("attacks", "audit", "defenses", "preprocess", "reports")
        for p in (ROOT / package).rglob("*")
        if p.suffix in (".py", ".html", ".css", ".typed")
    ]
    assert sorted(set(wanted) - set(names)) == []
    assert len(wanted) > 250
