"""A file that is written whole or not at all: whoever reads it finds the old content or the new, never half of one."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o600  # readable by its owner alone
ENDING = ".partial"


@contextmanager
def atomic_file(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends; where that raises, `path` stays as it was.

    `mode`: permissions of a new file, less those that the process masks.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{ENDING}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Removes what killed writers of `name` left in `folder`. Only for whoever knows that nobody writes it now."""
    for path in folder.glob(f".{name}.*{ENDING}"):
        path.unlink(missing_ok=True)
