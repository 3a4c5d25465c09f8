import errno
import os
import stat
from pathlib import Path

import pytest

from leakledger.preprocess.atomic_file import PRIVATE, atomic_file, private_folder, remove_leftovers

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


def test_a_file_that_cannot_be_made_is_called_as_it_was_named(tmp_path):
    path = tmp_path / "no" / "a.json"
    with pytest.raises(FileNotFoundError) as error, atomic_file(path):
        pass
    assert error.value.filename == str(path)


def test_an_error_of_the_system_names_the_file_that_is_meant(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")  # names none
    for error, named in ((full, "a.json"), (OSError(errno.EIO, "broken", "other.csv"), "other.csv")):
        with pytest.raises(OSError, match=named) as caught, atomic_file(tmp_path / "a.json"):
            raise error
        assert Path(caught.value.filename).name == named
    with pytest.raises(FileNotFoundError) as caught, atomic_file(tmp_path / "gone" / "a.json"):
        pass
    assert caught.value.filename == str(tmp_path / "gone" / "a.json")


def test_a_private_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "a"
    with atomic_file(path, PRIVATE) as file:
        file.write(b"")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_no_file_is_written_and_not_replaced(tmp_path):
    pipe, kept = tmp_path / "pipe", tmp_path / "kept"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with kept.open("wb") as opened:
        for path in (pipe, Path(f"/proc/self/fd/{opened.fileno()}")):  # as /dev/stdout is
            with atomic_file(path, PRIVATE) as file:
                file.write(b"said")
    assert os.read(reader, 10) == b"said"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert kept.read_bytes() == b"said"
    assert sorted(tmp_path.iterdir()) == [kept, pipe]


def test_every_file_that_is_replaced_is_replaced_here():
    packages = (ROOT / name for name in ("attacks", "audit", "defenses", "preprocess", "reports"))
    files = [f for package in packages for f in package.rglob("*.py") if "os.replace(" in f.read_text()]
    assert files == [ROOT / "preprocess" / "atomic_file.py"]


def test_what_killed_writers_left_is_removed_and_what_is_being_written_is_not(tmp_path):
    for name in (".a.json.00.partial", ".a.json.01.partial", ".b.json.00.partial", "a.json.partial"):
        (tmp_path / name).write_bytes(b"half")
    with atomic_file(tmp_path / "a.json") as file:
        file.write(b"new")
        remove_leftovers(tmp_path, "a.json")
        remove_leftovers(tmp_path, "b.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "a.json.partial"]
    assert (tmp_path / "a.json").read_bytes() == b"new"
    remove_leftovers(tmp_path / "none")


def test_content_reaches_the_disk_before_its_name_and_the_name_before_the_end(tmp_path, monkeypatch):
    done = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda d: (done.append("folder" if is_folder(d) else "file"), sync(d)))
    monkeypatch.setattr(os, "replace", lambda *a: (done.append("name"), replace(*a)))
    with atomic_file(tmp_path / "a") as file:
        file.write(b"new")
    assert done == ["file", "name", "folder"]


def is_folder(descriptor):
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


def test_a_private_folder_is_for_its_owner_alone_and_one_that_is_there_stays(tmp_path):
    private_folder(tmp_path / "runs" / "one")
    assert stat.S_IMODE((tmp_path / "runs" / "one").stat().st_mode) == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    private_folder(tmp_path / "open")
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o755


def test_a_folder_that_is_missing_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "none" / "a"):
        pass
