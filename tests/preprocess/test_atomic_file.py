import stat
from pathlib import Path

import pytest

from leakledger.preprocess.atomic_file import PRIVATE, atomic_file, remove_leftovers

ROOT = Path(__file__).parents[2]


def test_the_file_is_there_when_the_block_ends_and_not_before(tmp_path):
    path = tmp_path / "a.json"
    with atomic_file(path) as file:
        file.write(b"new")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_there_stays_when_writing_fails_and_nothing_is_left_behind(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), atomic_file(path) as file:
        file.writelines([b"half", None])
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_private_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "a"
    with atomic_file(path, PRIVATE) as file:
        file.write(b"")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_every_file_that_is_replaced_is_replaced_here():
    packages = (ROOT / name for name in ("attacks", "audit", "defenses", "preprocess", "reports"))
    files = [f for package in packages for f in package.rglob("*.py") if "os.replace(" in f.read_text()]
    assert files == [ROOT / "preprocess" / "atomic_file.py"]


def test_what_killed_writers_left_can_be_removed(tmp_path):
    path, other = tmp_path / "a.json", tmp_path / "b.json"
    killed = [atomic_file(p) for p in (path, other)]
    for writer in killed:
        writer.__enter__()
    remove_leftovers(tmp_path, "a.json")
    assert [p.name.split(".")[1] for p in tmp_path.iterdir()] == ["b"]
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_missing_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "none" / "a"):
        pass
