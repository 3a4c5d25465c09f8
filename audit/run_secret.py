"""The master secret of a run: drawn once, kept in the run's folder for its owner alone, and in no other file.

`leakledger run --secrets FILE` replays a run with the file of another one: the same configuration and data give the
same messages, byte for byte. Who has the file and the configuration can open every sealed message of the run.
"""

from collections.abc import Collection
from pathlib import Path

from leakledger.audit.chain import digest_of
from leakledger.audit.store import StoreError
from leakledger.preprocess.atomic_file import PRIVATE, atomic_file
from leakledger.preprocess.secret import SECRET_BYTES, new_secret

FILE = "secrets"


def master_secret(
    folder: Path, given: bytes | None = None, begun: bool = False, recorded: Collection[str] = ()
) -> bytes:
    """The master secret of the run in `folder`: the one it keeps, else `given`, else a new one; it is kept from now on.

    Raises StoreError when the folder keeps another than `given`, has finished cases (`begun`) and no secret, or keeps
    one whose digest is not `recorded`, where one is.
    """
    path = folder / FILE
    check_secret(folder, given, recorded)
    if path.exists():
        kept = read_secret(path)
        if given not in (None, kept):
            raise StoreError(f"{folder}: holds a run with other secrets; choose another folder with --output")
        if recorded and digest_of(secret_text(kept)) not in recorded:
            raise StoreError(f"{path}: was changed: this run began with another secret; put it back, or use --output")
        return kept
    if (begun or recorded) and given is None:
        raise StoreError(f"{path}: is gone, and the finished cases need it; give a copy with --secrets, or --output")
    master = given or new_secret()
    with atomic_file(path, PRIVATE) as file:
        file.write(secret_text(master))
    return master


def check_secret(folder: Path, given: bytes | None, recorded: Collection[str]) -> None:
    """Raises StoreError when a secret is given that is not the one whose digest is `recorded`, where one is."""
    if given is not None and recorded and digest_of(secret_text(given)) not in recorded:
        raise StoreError(f"{folder}: holds a run with other secrets; choose another folder with --output")


def secret_text(secret: bytes) -> bytes:
    """The content of the file that keeps a secret."""
    return f"{secret.hex()}\n".encode()


def read_secret(path: Path) -> bytes:
    """The master secret in `path`, 64 hexadecimal digits. Raises StoreError, without showing any of it, for others."""
    try:
        text = path.read_text(encoding="ascii").strip()
        secret = bytes.fromhex(text)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        secret, text = b"", ""
    if len(secret) != SECRET_BYTES or len(text) != 2 * SECRET_BYTES:
        raise StoreError(f"{path}: holds no secret of a run, which is {2 * SECRET_BYTES} hexadecimal digits")
    return secret
