"""Signs the record of a run, and checks such a signature: Ed25519 (RFC 8032), by libsodium.

The hash chain shows a change to whoever holds a head from before it. A signature needs no such head: with the signer's
public key, anyone can tell that the record is the one that the holder of the key signed, entry by entry. It says who
vouches for a record, not that the record is true: whoever has the key can sign a run that never was. It is worth as
much as the way by which its reader got the public key.

A key file holds a word of its own and the 32 bytes of a seed as 64 hexadecimal digits, for its owner alone (mode 0600);
beside it, `.pub` has the 64 digits of the public key.
"""

import json
import os
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from leakledger.audit.chain import canonical
from leakledger.audit.store import SIGNATURE, Store, StoreError
from leakledger.preprocess import strict_json
from leakledger.preprocess.atomic_file import PRIVATE, atomic_file, sync_folder
from leakledger.preprocess.secret import new_secret

FILE: Final = SIGNATURE
PUBLIC_ENDING: Final = ".pub"
CONTEXT: Final = b"LeakLedger: the signature of a record, format 1\n"  # no other message of anyone starts so
KEY_BYTES, SIGNATURE_BYTES = 32, 64
TAG = "leakledger-signing-key "  # without it a key and the secrets of a run would be taken for each other


class SignatureError(ValueError):
    """A key or signature that is none, or a signature of something else."""


@dataclass(frozen=True)
class Signature:
    """Over the first `entries` entries of a record, by their `head`. `key` and `signature` are hexadecimal."""

    key: str
    entries: int
    head: str
    signature: str

    def check(self, store: Store) -> None:
        """Raises SignatureError unless it is a signature by `key` of the record's first `entries` entries."""
        try:
            VerifyKey(bytes.fromhex(self.key)).verify(
                _statement(self.entries, self.head), bytes.fromhex(self.signature)
            )
        except (BadSignatureError, ValueError, TypeError):  # the latter two of texts that are no key or no signature
            raise SignatureError("is no signature by the key that it names: it was changed") from None
        if not 0 < self.entries <= len(store.entries) or store.entries[self.entries - 1].head != self.head:
            raise SignatureError("signs another record than this one")


@dataclass(frozen=True)
class Signer:
    """Who signs. The seed is never printed."""

    seed: bytes = field(repr=False)

    @property
    def public(self) -> str:
        """The public key, 64 hexadecimal digits."""
        return bytes(SigningKey(self.seed).verify_key).hex()

    def sign(self, store: Store) -> Signature:
        """A signature of all that the record has now. Raises SignatureError for a run that is not finished."""
        if not store.complete:
            raise SignatureError(f"{store.folder}: the run is not finished, so there is nothing to sign yet")
        entries, head = len(store.entries), store.entries[-1].head
        signed = SigningKey(self.seed).sign(_statement(entries, head)).signature
        return Signature(self.public, entries, head, signed.hex())


def new_key(path: Path) -> Signer:
    """Draws a key and writes its file, and the public key beside it. Raises SignatureError where one of them exists."""
    signer = Signer(new_secret())
    public = path.with_name(path.name + PUBLIC_ENDING)
    if public.exists():
        raise SignatureError(f"{public}: exists already; choose another name")
    _write_new(path, TAG + signer.seed.hex(), PRIVATE)
    try:
        _write_new(public, signer.public, 0o644)
    except BaseException:
        path.unlink()  # nobody was told of it, and it would forbid the next try
        raise
    sync_folder(path.parent)
    return signer


def read_signer(path: Path) -> Signer:
    """The signer whose key is in `path`. Raises SignatureError, showing none of it, for a file that is no key or that
    others may read. Digits alone are refused: so are a run's secrets, which whoever has the run's folder could sign by.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise SignatureError(f"{path}: cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise SignatureError(f"{path}: others can read this key (mode {mode & 0o777:o}); `chmod 600 {path}` first")
    text = _content(path)
    if _is_key(text):
        raise SignatureError(
            f"{path}: holds digits alone, as a run's secrets do; if they are a key to sign with, write {TAG!r} before "
            "them"
        )
    if not text.startswith(TAG) or not _is_key(text.removeprefix(TAG)):
        raise SignatureError(f"{path}: holds no key to sign with; `leakledger keygen FILE` makes one")
    return Signer(bytes.fromhex(text.removeprefix(TAG)))


def public_key(text: str) -> str:
    """The public key that `text` is, or that the file of this name holds. Raises SignatureError for neither, and,
    showing none of it, for the file of a key to sign with.
    """
    if _is_key(text):
        return text.lower()
    path, found = Path(text), _content(Path(text))
    if found.startswith(TAG):
        raise SignatureError(f"{path}: holds the key to sign with; give the public one, {path}{PUBLIC_ENDING}")
    if not _is_key(found):
        raise SignatureError(f"{path}: holds no public key, which is {2 * KEY_BYTES} hexadecimal digits")
    return found.lower()


def sign_run(folder: Path, signer: Signer) -> None:
    """Signs the record of a finished run and writes `signature.json` beside it, in place of another one."""
    with closing(Store.read(folder)) as store:
        signature, path = signer.sign(store), folder / FILE
        text = json.dumps({"algorithm": "Ed25519"} | asdict(signature), indent=1)
        if path.exists() and path.read_text(encoding="utf-8", errors="replace") == f"{text}\n":
            return
        with atomic_file(path, PRIVATE) as file:
            file.write(f"{text}\n".encode())


def read_signature(store: Store) -> Signature | None:
    """The signature beside a record, checked against it; None where there is none.

    Raises SignatureError for one that is damaged, or of something else. That its key is the one it should be, only who
    knows that key can tell.
    """
    path = store.folder / FILE
    if not path.exists():
        return None
    try:
        plain = strict_json.loads(path.read_text(encoding="utf-8"))
        if plain.pop("algorithm") != "Ed25519":
            raise ValueError("another algorithm than Ed25519")
        signature = Signature(**plain)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise SignatureError(f"{path}: is no signature of a record") from None
    try:
        if type(signature.entries) is not int or not _is_key(str(signature.key)):
            raise SignatureError("is no signature of a record")
        signature.check(store)
    except SignatureError as error:
        raise SignatureError(f"{path}: {error}") from None
    return signature


def _statement(entries: int, head: str) -> bytes:
    """What is signed."""
    return CONTEXT + canonical({"entries": entries, "head": head})


def _write_new(path: Path, text: str, mode: int) -> None:
    """Writes a line to a file that is not there yet, whole or not at all. Raises SignatureError where it is there."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise SignatureError(f"{path}: exists already; choose another name") from None
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = os.fspath(path)
        raise


def _content(path: Path) -> str:
    """The line in a file; empty where it is none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise SignatureError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        return ""


def _is_key(text: str) -> bool:
    return len(text) == 2 * KEY_BYTES and set(text.lower()) <= set("0123456789abcdef")
