"""Every parser that reads what others wrote, as a function of bytes that may raise its named errors and nothing else.

Errors are one line each: whatever a file holds, a terminal and a log show one line of it at most.
"""

import base64
import gzip
import io
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from leakledger.audit.benchmarks.base import kept
from leakledger.audit.benchmarks.finished import _read
from leakledger.audit.chain import canonical, digest_of
from leakledger.audit.config_file import ConfigError, load_config
from leakledger.audit.dp_claims.settings_file import read_settings
from leakledger.audit.gate.baseline import _HISTORY, BaselineError, _entry, note_on, read_baseline
from leakledger.audit.gate.policy import PolicyError, read_policy
from leakledger.audit.gate.waivers import WaiverFileError, read_waivers
from leakledger.audit.run_secret import read_secret
from leakledger.audit.signature import FILE as SIGNATURE
from leakledger.audit.signature import SignatureError, public_key, read_signature, read_signer
from leakledger.audit.store import FILE as RECORD
from leakledger.audit.store import Store, StoreError
from leakledger.preprocess import strict_json
from leakledger.preprocess.alignment.aliases import read_aliases
from leakledger.preprocess.crypto import bfv, ckks_public, seal
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.data.schema_file import read_schema
from leakledger.preprocess.encoders.subword.facebook import ModelFileError, open_model
from leakledger.preprocess.messages import KINDS, decode_payload
from leakledger.preprocess.messages.base import MessageFormatError
from leakledger.preprocess.secret import KeyStream
from leakledger.preprocess.transcript import TranscriptError, read_transcript
from leakledger.preprocess.transport.pipes import frame, read_frame
from leakledger.preprocess.wire import WireError, decode, encode
from tests.audit.recorded import call, made
from tests.preprocess.test_fasttext import WRITTEN_BY_FASTTEXT, model_bytes

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = b"""target = "y"
task = "binary"
classes = ["n", "y"]
positive_class = "y"
categorical = ["a", "b"]
numeric = ["x", "z"]
integer = ["x"]
sensitive = ["a"]
drop = ["id"]
carried = ["site"]
separator = ";"
decimal = ","
encoding = "latin-1"
na_values = ["NA", "?"]
domains = { a = ["u", "v"] }

[orders]
b = ["low", "high"]

[ranges]
x = [0, 1e3]
"""
POLICY = b"""[gate]
alpha = 0.05
power = 0.8
sd = 0.1
[[leakage]]
name = "n"
adversary = "2 clients"
assets = ["records", "vocabulary"]
ceiling = 0.3
regression = true
floor = 0.01
margin = 0.1
[[utility]]
metric = "f1"
floor = 0.01
margin = 0.05
[findings]
forbid = "any"
allow = ["vocabulary", "mean"]
"""
WAIVERS = b"""[[waiver]]
id = "W-7"
fingerprint = "LL-0123456789abcdef"
scope = "a-setting"
max_observed = 0.30
reason = "r"
owner = "o"
approver = "a"
created = 2026-11-01
expires = 2027-02-01
"""
RESUMED = b'{"key": "k", "found": {"a": [0.5, 1, "b"]}}\n{"key": "l", "found": {}}\n{"ke'
TODAY = date(2026, 12, 1)
FEATURES = "age", "sex", "job kind"
ALIASES = b'age = ["Age", "age"]\nsex = ["Sex"]\n"job kind" = ["Kind of job", "Trade"]\n'
CORPUS = Path(__file__).parent / "corpus"
SHM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
WAYS = [("utf-8", ","), ("utf-8", ";"), ("latin-1", ","), ("utf-16", "\t")]  # encodings and separators of tables
FRESH, LARGEST = b"\x00\x01", 2**18  # whether a ciphertext is claimed to be fresh; bytes of a seed that is kept


@dataclass(frozen=True)
class Target:
    """`parse` raises `errors` for what it refuses. `seeds` are valid inputs to start from."""

    parse: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    seeds: Callable[[], Iterable[bytes]]

    def __call__(self, data: bytes) -> bool:
        """Whether `data` was read. Raises what the parser may not: another error, or one of several lines."""
        try:
            self.parse(data)
        except self.errors as error:
            if len(str(error).splitlines()) > 1:
                raise AssertionError(f"{type(error).__name__} of several lines: {error}") from None
            return False
        return True


# Parsers --------------------------------------------------------------------------------------------------------


def wire(data: bytes) -> None:
    value = decode(data)
    again = encode(value)
    assert encode(decode(again)) == again


def payload(data: bytes) -> None:
    """The kind's number in two bytes, then the content."""
    topics = sorted(KINDS)
    decode_payload(topics[int.from_bytes(data[:2], "big") % len(topics)], data[2:])


def frames(data: bytes) -> None:
    pipe = io.BytesIO(data)
    while pipe.tell() < len(data):
        read_frame(pipe)


def ciphertext(data: bytes) -> None:
    bfv.load(of_seal(data[1:]), fresh=data[:1] in FRESH)


def exchange_key(data: bytes) -> None:
    seal.load_public_key(ckks_public.context(), of_seal(data))


def of_seal(data: bytes) -> bytes:
    """SEAL's bytes under a digest and a header that are right for them, so that SEAL itself reads them."""
    if seal.HEADER_BYTES < len(data) <= seal.MAX_BYTES:
        data = seal.HEADER + data[3:8] + len(data).to_bytes(seal.HEADER_BYTES - 8, "little") + data[seal.HEADER_BYTES :]
    return sha256(data).digest() + data


def in_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], None]:
    """What reads a file of this name, given its content."""

    def parse(data: bytes) -> None:
        with tempfile.TemporaryDirectory(dir=SHM) as folder:
            path = Path(folder, name)
            path.write_bytes(data)
            os.chmod(path, 0o600)
            read(path)

    return parse


def record(path: Path) -> None:
    with closing(Store.read(path.parent)) as store:
        _ = store.facts(), store.created(), store.entries, store.head, store.complete, store.aborted()
        list(store.cases())


def signature(path: Path) -> None:
    """A signature beside a record that is sound."""
    shutil.copy(finished_run() / RECORD, path.parent)
    with closing(Store.read(path.parent)) as store:
        read_signature(store)


def table(path: Path) -> None:
    """Under one of four ways to read, which the first byte chooses; it is no part of the table."""
    data = path.read_bytes()
    path.write_bytes(data[1:])
    encoding, separator = WAYS[data[0] % len(WAYS)] if data else WAYS[0]
    read_table(path, target="y", missing="drop", na_values=("NA",), encoding=encoding, separator=separator)


def claim(path: Path) -> None:
    """Reads settings, no more: what is checked of them takes its time."""
    read_settings(path, {}).reading()


def baseline(path: Path) -> None:
    """Under digests that are right for it, and compared with itself."""
    path.write_bytes(resealed(path.read_bytes()))
    read = read_baseline(path)
    note_on(read.snapshot, read, "")


def resealed(data: bytes) -> bytes:
    """A baseline with its chain computed anew; what is none, as it is."""
    try:
        plain = strict_json.loads(data.decode())
        *before, last = _HISTORY.validate_python(plain["history"])
        moves = [*before, replace(last, content=digest_of(canonical(plain["snapshot"])))]
        for k, move in enumerate(moves):
            moves[k] = replace(move, head=_entry(move, moves[:k]).head)
        return json.dumps({**plain, "history": [asdict(m) for m in moves]}).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return data


def resumed(path: Path) -> None:
    _read(path, TypeAdapter(dict[str, tuple[float, int | None, str]]))


def aliases(path: Path) -> None:
    read_aliases(FEATURES, path)


# Seeds ----------------------------------------------------------------------------------------------------------


@cache
def finished_run() -> Path:
    """A small, signed run; its files are seeds."""
    return made(Path(tempfile.mkdtemp(prefix="fuzz", dir=SHM)))


def of_run(*names: str) -> Callable[[], Iterable[bytes]]:
    return lambda: [p.read_bytes() for name in names for p in sorted(finished_run().parent.glob(name))]


def of_repository(*patterns: str) -> Callable[[], Iterable[bytes]]:
    return lambda: [p.read_bytes() for pattern in patterns for p in sorted(ROOT.glob(pattern))]


def baselines() -> Iterable[bytes]:
    """One that was moved twice, the second time under a policy."""
    run = finished_run()
    path, policy = run.parent / "baseline.json", run.parent / "policy.toml"
    policy.write_bytes(POLICY)
    said = ["--author", "A", "--reason", "r", "-o", path]
    for more in ([], ["--policy", policy]):
        assert call("baseline", "save", run, *said, *more).exit_code == 0
    return [path.read_bytes()]


def results() -> Iterable[bytes]:
    """Two rows of a benchmark."""
    content = json.loads((ROOT / "benchmarks" / "results" / "growth.json").read_bytes())
    return [json.dumps({**content, "rows": content["rows"][:2]}).encode()]


def sent() -> Iterable[bytes]:
    """The first message of each kind that the run sent, behind the number of its kind."""
    path = min(finished_run().glob("transcripts/*.parquet"))
    first = {m.topic: m for m in reversed(list(read_transcript(path).ledger))}
    numbers = {topic: n.to_bytes(2, "big") for n, topic in enumerate(sorted(KINDS))}
    return [numbers[t] + m.body for t, m in first.items()]


def schemas() -> Iterable[bytes]:
    plain = {"target": "y", "classes": ["a", "b"], "categorical": ["c"], "numeric": ["n"], "orders": {"c": ["1", "2"]}}
    return [json.dumps(plain).encode(), json.dumps({**plain, "integer": ["n"], "sensitive": ["c"]}).encode()]


def tables() -> Iterable[bytes]:
    text = 'age,"job, kind",y\n' + "".join(f'{20 + i},"a""{i % 3}",{"yes" if i % 2 else "no"}\n' for i in range(12))
    written = [text.encode(), text.replace(",", ";").encode(), text.replace("job", "m\u00e9tier").encode("latin-1")]
    zipped, marked = gzip.compress(text.encode(), mtime=0), b"\xef\xbb\xbf" + text.encode()
    return [bytes([way]) + data for way, data in enumerate(written)] + [b"\0" + zipped, b"\0" + marked]


def parquets() -> Iterable[bytes]:
    pipe = io.BytesIO()
    pd.DataFrame({"n": [1, 2, 3, 4], "c": list("abab"), "y": ["no", "yes", "no", "yes"]}).to_parquet(pipe)
    return [b"\0" + pipe.getvalue()]


def ciphertexts() -> Iterable[bytes]:
    randomness = Randomness(KeyStream(bytes(32)))
    numbers = np.arange(bfv.SLOTS) % bfv.PLAIN_MODULUS
    return [b"\x00" + bfv.encrypt(bfv.new_key(randomness), numbers, randomness)[seal.DIGEST_BYTES :]]


def exchange_keys() -> Iterable[bytes]:
    return [ckks_public.key_pair(bytes(32)).public[seal.DIGEST_BYTES :]]


def models() -> Iterable[bytes]:
    return [zlib.decompress(base64.b64decode(WRITTEN_BY_FASTTEXT)), model_bytes(buckets=2, dimension=2)[0]]


TARGETS = {
    "wire": Target(wire, (WireError,), lambda: [s[2:] for s in sent()]),
    "payload": Target(payload, (MessageFormatError, WireError), sent),
    "frames": Target(frames, (EOFError, WireError), lambda: [frame(s[2:]) * 2 for s in sent()]),
    "ciphertext": Target(ciphertext, (MessageError,), ciphertexts),
    "exchange-key": Target(exchange_key, (MessageError,), exchange_keys),
    "transcript": Target(in_file("x.parquet", read_transcript), (TranscriptError,), of_run("run/transcripts/*")),
    "record": Target(in_file(RECORD, record), (StoreError,), of_run(f"run/{RECORD}")),
    "signature": Target(in_file(SIGNATURE, signature), (SignatureError, StoreError), of_run(f"run/{SIGNATURE}")),
    "key": Target(in_file("key", read_signer), (SignatureError,), of_run("key")),
    "public-key": Target(in_file("key.pub", lambda p: public_key(str(p))), (SignatureError,), of_run("key.pub")),
    "secrets": Target(in_file("secrets", read_secret), (StoreError,), of_run("run/secrets")),
    "configuration": Target(
        in_file("a.toml", lambda p: load_config(p, (), {})), (ConfigError,), of_repository("examples/*.toml")
    ),
    "schema-json": Target(in_file("x.schema.json", read_schema), (DataError,), schemas),
    "schema-toml": Target(in_file("x.schema.toml", read_schema), (DataError,), lambda: [SCHEMA]),
    "table": Target(in_file("x.csv", table), (DataError,), tables),
    "parquet": Target(in_file("x.parquet", table), (DataError,), parquets),
    "claim-toml": Target(in_file("c.toml", claim), (ValueError,), of_repository("examples/dp/*.toml")),
    "claim-json": Target(in_file("c.json", claim), (ValueError,), of_repository("examples/dp/*.json")),
    "baseline": Target(in_file("b.json", baseline), (BaselineError,), baselines),
    "policy": Target(in_file("p.toml", read_policy), (PolicyError,), lambda: [POLICY]),
    "waivers": Target(in_file("w.toml", lambda p: read_waivers(p, TODAY)), (WaiverFileError,), lambda: [WAIVERS]),
    "aliases": Target(in_file("a.toml", aliases), (DataError,), lambda: [ALIASES]),
    "results": Target(in_file("r.json", lambda p: kept(p, "growth")), (ValueError,), results),
    "resumed": Target(in_file("r.jsonl", resumed), (ValueError,), lambda: [RESUMED]),
    "fasttext": Target(in_file("m.bin", open_model), (ModelFileError,), models),
}
