"""A file that is written whole or not at all: whoever reads it finds the old content or the new, never half of one.

Content is on the disk before its name is, and the name before `atomic_file` ends, so that this holds where the power
fails too.
"""

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o600  # readable by its owner alone
PRIVATE_FOLDER = 0o700
ENDING = ".partial"
UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)  # file systems that sync no folders


@contextmanager
def atomic_file(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends; where that raises, `path` stays as it was.

    `mode`: permissions of a new file, less those that the process masks. An error of the system names `path`. What is
    no file that another could take the place of (/dev/null, /dev/stdout, a pipe) is written as the block goes.
    """
    target = Path(path)
    if is_stream(target):
        with _naming(target, target), target.open("wb") as stream:
            yield stream
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{ENDING}")
    with _naming(target, temporary):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with _in_place_of(target, temporary, descriptor) as file:
            yield file


def is_stream(target: Path) -> bool:
    """Whether it is no regular file, or the name that a system gives to one that is open (/dev/stdout)."""
    opened = target.is_symlink() and target.parent.resolve().parts[:2] in (("/", "dev"), ("/", "proc"))
    return opened or (target.exists() and not target.is_file() and not target.is_dir())


@contextmanager
def _naming(target: Path, temporary: Path) -> Iterator[None]:
    """Of a disk that is full the system names no file, and of a folder that cannot be written one that nobody knows."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, os.fspath(temporary)):
            error.filename = os.fspath(target)
        raise


@contextmanager
def _in_place_of(target: Path, temporary: Path, descriptor: int) -> Iterator[BinaryIO]:
    """The open file `temporary`, which gets its name when the block ends, or is gone where that raises."""
    try:
        with os.fdopen(descriptor, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until this process ends: how `remove_leftovers` knows a living writer
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, target)
        sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def private_folder(path: Path) -> None:
    """Makes a folder for its owner alone, unless it is there already; its parents are made as the process masks."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Brings the names in `folder` to the disk, where its file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Removes what killed writers of `name` left in `folder`, where it may; a file that is being written stays."""
    for path in folder.glob(f".{name}.*{ENDING}"):
        with suppress(OSError), path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
