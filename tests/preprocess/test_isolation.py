"""A process that is confined to a folder; each test starts one of its own."""

import json
import os
import subprocess
import sys

import pytest
import torch

from leakledger.preprocess.transport.isolation import environment, new_folder

CONFINED = "import os, sys; from leakledger.preprocess.transport.isolation import confine; confine(os.getcwd())\n"
NATIVE = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.open(sys.argv[1].encode(), os.O_WRONLY | os.O_CREAT, 0o600))
"""


def confined(code, folder, *arguments):
    """What code prints in a confined process, or the last line of its error."""
    command = [sys.executable, "-P", "-c", CONFINED + code, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment(str(folder)), capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.fixture
def folders(tmp_path):
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (other / "there").write_text("kept")
    return own, other


def test_the_own_folder_can_be_written_and_everything_read(folders):
    own, other = folders
    code = "open('file', 'w').write('own'); print(open('file').read(), open(sys.argv[1]).read())"
    assert confined(code, own, other / "there") == "own kept"
    assert confined("import tempfile; f = tempfile.TemporaryFile(); print(f.write(b'12'))", own) == "2"
    assert confined("print(open(os.devnull, 'w').write('12'))", own) == "2"


@pytest.mark.parametrize(
    "code",
    [
        "open(sys.argv[1], 'w')",
        "open(sys.argv[1], 'a')",
        "open(sys.argv[1], 'r+')",
        "os.open(sys.argv[1], os.O_RDWR)",
        "os.remove(sys.argv[1])",
        "os.rename(sys.argv[1], 'mine')",
        "os.mkdir(sys.argv[1] + '2')",
        "os.truncate(sys.argv[1], 0)",
        "os.chdir(os.path.dirname(sys.argv[1])); open('there', 'w')",
        "os.symlink(os.path.dirname(sys.argv[1]), 'link'); open('link/there', 'w')",
    ],
)
def test_nothing_else_can_be_written_or_changed(folders, code):
    own, other = folders
    assert "PermissionError: a party's process writes in its own folder only" in confined(code, own, other / "there")
    assert [p.name for p in other.iterdir()] == ["there"]
    assert (other / "there").read_text() == "kept"


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess; subprocess.run(['true'])",
        "os.system('true')",
        "os.fork()",
        "import socket; socket.socket().connect(('127.0.0.1', 9))",
        "import socket; socket.socket().bind(('127.0.0.1', 0))",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'1', ('127.0.0.1', 9))",
        "import mmap; mmap.mmap(-1, 10)",
        "from multiprocessing.shared_memory import SharedMemory; SharedMemory(create=True, size=8)",
    ],
)
def test_no_programs_sockets_or_shared_memory(folders, code):
    assert confined(code, folders[0]).startswith("PermissionError")


def test_a_file_can_be_mapped_for_reading(folders):
    own, other = folders
    code = "import mmap; print(mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 0, access=mmap.ACCESS_READ)[:])"
    assert confined(code, own, other / "there") == "b'kept'"


def test_where_the_kernel_has_landlock_native_code_cannot_write_either(folders):
    own, other = folders
    held = subprocess.run(
        [sys.executable, "-P", "-c", CONFINED.replace("confine(os.getcwd())\n", "print(confine(os.getcwd()))")],
        cwd=own,
        env=environment(str(own)),
        capture_output=True,
        text=True,
    )
    if held.stdout.strip() != "True":
        pytest.skip("this kernel has no Landlock")
    assert confined(NATIVE, own, other / "native") == "-1"
    assert not (other / "native").exists()
    assert int(confined(NATIVE, own, own / "native")) > 0


def test_the_drivers_variables_stay_behind_but_for_those_that_programs_need(tmp_path):
    driver = {"PATH": "/bin", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "TOKEN": "x", "LEAKLEDGER_SECRETS": "/s"}
    own = environment(str(tmp_path), {**driver, "HOME": "/root", "TMPDIR": "/tmp"})
    assert own.keys() - {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "JOBLIB_MULTIPROCESSING"} == {
        *("PATH", "LANG", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "HOME", "TMPDIR", "TEMP", "TMP")
    }
    assert {own[k] for k in ("HOME", "TMPDIR", "TEMP", "TMP")} == {str(tmp_path)}
    assert all(os.path.isabs(p) for p in own["PYTHONPATH"].split(os.pathsep))
    seen = json.loads(confined("import json; print(json.dumps(dict(os.environ)))", tmp_path))
    assert "LEAKLEDGER_SECRETS" not in seen


def test_a_library_that_would_share_memory_is_told_not_to_and_warns_of_nothing(folders):
    code = "import warnings; warnings.simplefilter('error'); import sklearn.metrics; print('silent')"
    assert confined(code, folders[0]) == "silent"


def test_a_party_computes_with_as_many_threads_as_its_driver(tmp_path, monkeypatch):
    assert confined("import torch; print(torch.get_num_threads())", tmp_path) == str(torch.get_num_threads())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert environment(str(tmp_path))["OMP_NUM_THREADS"] == environment(str(tmp_path))["MKL_NUM_THREADS"] == "3"


def test_a_new_folder_is_empty_its_owners_and_gone_afterwards():
    with new_folder() as folder, new_folder() as other:
        assert os.listdir(folder) == []
        assert os.stat(folder).st_mode & 0o777 == 0o700
        assert folder != other
    assert not os.path.exists(folder)
