"""Keeps the process of one party by itself: an empty folder of its own, and no other place that it could write to.

Two layers. Linux's Landlock (5.13 and later, no privileges needed) takes the right to write anywhere else from the
process and all that it starts, native code too. Everywhere, an audit hook of Python (PEP 578) refuses to open files
elsewhere for writing, to change the file system elsewhere, to start programs, to open sockets and to share memory. The
hook is for slips and not for hostile code; so is the whole module: files can be read, as models and libraries must be.

Kernel interface: linux/landlock.h, version 1 to 7. System call numbers are the same on all architectures.
"""

import ctypes
import mmap
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, Final

from leakledger.preprocess.told_failure import DEBUG

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system calls
QUERY_VERSION, PATH_BENEATH = 1, 1
NO_NEW_PRIVILEGES = 38
WRITES: Final = {1: 0b1_1111_1111_0010, 2: 1 << 13, 3: 1 << 14}  # version -> rights that it added, all that write
FILE_WRITES: Final = 1 << 1 | 1 << 14  # to write to a file, and to truncate it

KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT", DEBUG)  # of the driver's environment
KEPT_ENDINGS = ("_NUM_THREADS",)
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
REFUSED = ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec")
SOCKETS = ("socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def environment(folder: str, driver: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a party's process: where programs and modules are, language and threads; nothing else.

    Its home, its temporary files and its working directory are `folder`.
    """
    kept = {k: v for k, v in driver.items() if k in KEPT or k.endswith(KEPT_ENDINGS)}
    # A child finds modules where the driver does, wherever it was started.
    paths = os.pathsep.join(os.path.abspath(p) for p in sys.path)
    own = dict.fromkeys(("HOME", "TMPDIR", "TEMP", "TMP"), folder)
    # joblib, of scikit-learn, would ask for a semaphore, which is refused, and warn about it on the driver's terminal.
    quiet = {"PYTHONDONTWRITEBYTECODE": "1", "JOBLIB_MULTIPROCESSING": "0"}
    return {**kept, **own, **_threads(), "PYTHONPATH": paths, **quiet}


def _threads() -> dict[str, str]:
    """As many threads as the driver computes with: the last digits of a sum depend on how it is divided."""
    torch = sys.modules.get("torch")  # a driver without it has not changed what a party finds by itself
    return dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(torch.get_num_threads())) if torch else {}


def new_folder() -> tempfile.TemporaryDirectory[str]:
    """An empty folder that only this user can enter."""
    return tempfile.TemporaryDirectory(prefix="leakledger-party-", ignore_cleanup_errors=True)


def confine(folder: str) -> bool:
    """From here on, this process can write in `folder` only; whether the kernel sees to it too.

    Must be called before other threads start: Landlock holds for the thread that asks, and for those that it starts.
    """
    by_kernel = _landlock(folder)
    own = os.path.realpath(folder)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in REFUSED or event in SOCKETS:
            raise PermissionError(f"a party's process does no {event}")
        if event == "mmap.__new__" and arguments[2] != mmap.ACCESS_READ:
            raise PermissionError("a party's process shares no memory")
        if (event == "open" and _writes(arguments)) or event in CHANGES:
            _check(arguments[0], own)

    sys.addaudithook(watch)
    return by_kernel


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    return bool(flags & WRITING) if isinstance(flags, int) else set(str(mode)) & set("wax+") != set()


def _check(path: Any, own: str) -> None:
    if isinstance(path, int):  # an open file
        return
    where = os.path.realpath(os.fsdecode(path))
    if where != own and not where.startswith(own + os.sep) and where != os.devnull:
        raise PermissionError(f"a party's process writes in its own folder only, not to {where}")


def _landlock(folder: str) -> bool:
    """Whether the kernel now refuses every write outside `folder` and to devices that keep nothing."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(QUERY_VERSION))
    if version < 1:
        return False
    rights = sum(added for since, added in WRITES.items() if since <= version)
    ruleset = libc.syscall(
        CREATE_RULESET, ctypes.byref(ctypes.c_uint64(rights)), ctypes.c_size_t(8), ctypes.c_uint32(0)
    )
    if ruleset < 0:
        return False
    try:
        _allow(libc, ruleset, folder, rights)
        _allow(libc, ruleset, os.devnull, rights & FILE_WRITES)
        libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(libc.syscall(RESTRICT_SELF, ruleset, ctypes.c_uint32(0)) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: Any, ruleset: int, path: str, rights: int) -> None:
    beneath = os.open(path, os.O_PATH)
    try:
        rule = rights.to_bytes(8, sys.byteorder) + beneath.to_bytes(4, sys.byteorder)  # packed: no padding after it
        libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, ctypes.c_uint32(0))
    finally:
        os.close(beneath)


if __name__ == "__main__":
    confine(os.getcwd())
    from leakledger.preprocess.transport.party import main  # its libraries start threads

    main()
