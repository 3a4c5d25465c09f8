import hashlib
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakledger.preprocess import transcript
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transcript import (
    SCHEMA,
    TranscriptError,
    read_transcript,
    verify_transcript,
    write_transcript,
)
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import (
    Abort,
    CategoricalBlock,
    FeatureLayout,
    Mechanism,
    Message,
    Method,
    ModelSpec,
    NumericBlock,
    PublicFacts,
    TrainingSpec,
)
from leakledger.preprocess.wire import encode
from tests.preprocess.notes import spread, tell

Rows = list[dict[str, Any]]
LAYOUT = FeatureLayout((NumericBlock("age", 0, 1.5), CategoricalBlock("ward", 1, 2, ("x", "y"), np.eye(2))))
PUBLIC = PublicFacts(
    ("a", "b"),
    "server",
    Method("uhe", {"ring": ["b", "a"]}),
    mechanisms=(Mechanism("gaussian-noise", {"sigma": 0.1}),),
    schema={"target": "ill"},
    layout=LAYOUT,
    model=ModelSpec(3, 2),
    training=TrainingSpec(),
)
META = {"case": "demo", "seed": "5"}


def run() -> Ledger:
    """Ten messages: six public keys, then an open, a repeated, a sealed relayed and an empty-bodied direct one."""
    fed = Simulated(["a", "b"], secret=pinned(5))
    with fed.scope("fit", round=1):
        tell(fed, fed.at("a", "sealed content"), "b", "note", via="server", sealed=True)
        tell(fed, fed.at("a", {"weight": np.arange(50.0)}), "server", "update")
        tell(fed, fed.at("b", {"weight": np.arange(50.0)}), "server", "update")
        tell(fed, fed.at("server", None), "b", "done")
    return fed.ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.parquet"
    write_transcript(path, run(), PUBLIC, META)
    return path


def stored_facts(path: Path) -> dict[bytes, bytes]:
    return {k: v for k, v in pq.read_metadata(path).metadata.items() if k != b"ARROW:schema"}


def rewrite(path: Path, change: Callable[[Rows], Rows], **facts: bytes) -> None:
    """Writes a well-formed Parquet file with other rows or facts in place of the transcript."""
    known = stored_facts(path) | {name.encode(): value for name, value in facts.items()}
    rows = change(pq.read_table(path).to_pylist())
    with pq.ParquetWriter(path, SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(rows, SCHEMA))
        writer.add_key_value_metadata({k: v for k, v in known.items() if v})


def with_row(index: int, **changes: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [r | changes if i == index else r for i, r in enumerate(rows)]


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def test_a_transcript_gives_back_what_was_written(path: Path) -> None:
    stored = read_transcript(path)
    assert list(stored.ledger) == list(run())
    assert stored.ledger.head == run().head == verify_transcript(path) == verify_transcript(path, run().head)
    assert (stored.public, stored.meta) == (PUBLIC, META)


def test_aborts_are_stored_and_cannot_be_dropped_added_or_changed(path: Path) -> None:
    ledger = run()
    ledger.abort(Abort("b", "fit", 1, "WireError"))
    write_transcript(path, ledger, PUBLIC, META)
    assert read_transcript(path).ledger.aborts == (Abort("b", "fit", 1, "WireError"),)
    assert verify_transcript(path, ledger.head) != run().head
    stored = stored_facts(path)[b"aborts"]
    for other in (b"", b64encode(encode([])), b64encode(encode([{"party": "a"}])), b64encode(encode([1])), b"!"):
        rewrite(path, lambda rows: rows, aborts=other)
        with pytest.raises(TranscriptError, match=str(path)):
            read_transcript(path)
    write_transcript(path, run(), PUBLIC, META)
    rewrite(path, lambda rows: rows, aborts=stored)
    with pytest.raises(TranscriptError, match="its head, public facts or metadata were changed"):
        read_transcript(path)


def test_a_relays_own_ledger_has_no_content_to_store(path: Path) -> None:
    ledger = Ledger(m.as_seen_by({"server"}) for m in run())
    write_transcript(path, ledger, PUBLIC)
    assert list(read_transcript(path).ledger) == list(ledger)
    assert b"sealed content" not in path.read_bytes()
    assert read_transcript(path).meta == {}


def test_an_empty_ledger_can_be_stored(path: Path) -> None:
    write_transcript(path, Ledger(), PublicFacts(("a", "b"), "server"))
    assert (len(read_transcript(path).ledger), verify_transcript(path)) == (0, bytes(32))


messages = st.builds(
    Message,
    st.integers(0, 2**40),
    st.text(),
    st.integers(0, 2**31),
    st.text(),
    st.text(),
    st.text(),
    st.none() | st.text(min_size=1),
    st.booleans(),
    st.sampled_from([b"", b"one", b"two"]),
    st.none() | st.sampled_from([b"", b"one", b"three"]),
).map(lambda m: m if m.sealed else replace(m, content=m.body))


@given(st.lists(messages, max_size=6))
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_ledger_survives(tmp_path: Path, sent: list[Message]) -> None:
    write_transcript(tmp_path / "any.parquet", Ledger(sent), PUBLIC, META)
    assert list(read_transcript(tmp_path / "any.parquet").ledger) == sent


def test_any_number_of_row_groups_gives_the_same_ledger(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "GROUP_ROWS", 3)
    monkeypatch.setattr(transcript, "GROUP_BYTES", 400)
    write_transcript(path, run(), PUBLIC, META)
    assert pq.read_metadata(path).num_row_groups >= 4
    assert list(read_transcript(path).ledger) == list(run())


def test_repeated_payloads_are_stored_once(tmp_path: Path) -> None:
    payload = np.random.default_rng(0).bytes(2**20)  # no compressor makes it smaller
    fed = Simulated(["a", "b"], secret=pinned(1))
    for number in range(8):
        tell(fed, fed.at("a", payload), "b", "model", via="server", sealed=number > 5)
        spread(fed, fed.at("server", payload), "model")
    write_transcript(tmp_path / "run.parquet", fed.ledger, PUBLIC)
    # Once in the clear, and two ciphertexts; the content of these is the payload again.
    assert 3 * 2**20 < os.path.getsize(tmp_path / "run.parquet") < 3.1 * 2**20
    stored = read_transcript(tmp_path / "run.parquet").ledger
    assert list(stored) == list(fed.ledger)


SEALED, UPDATE, REPEATED, DONE = 6, 7, 8, 9


@pytest.mark.parametrize(
    ("index", "changes", "what"),
    [
        (UPDATE, {"topic": "upgrade"}, "does not follow"),
        (UPDATE, {"sender": "b"}, "does not follow"),
        (UPDATE, {"round": 2}, "does not follow"),
        (UPDATE, {"head": "00" * 32}, "does not follow"),
        (UPDATE, {"size": 1}, "not direct of 1"),
        (UPDATE, {"route": "relay"}, "not relay of"),
        (UPDATE, {"digest": "00" * 32}, "do not have their digest"),
        (UPDATE, {"body": b"other"}, "do not have their digest"),
        (UPDATE, {"body": None}, "bytes are missing"),
        (UPDATE, {"sealed": True}, "does not follow"),
        (UPDATE, {"content_digest": "00" * 32}, "open, yet has a content"),
        (REPEATED, {"body": b"other"}, "do not have their digest"),
        (REPEATED, {"digest": "11" * 32}, "bytes are missing"),
        (SEALED, {"content": b"other"}, "do not have their digest"),
        (SEALED, {"content": None}, "bytes are missing"),
        (SEALED, {"content_digest": None, "content": None}, "does not follow"),
        (DONE, {"sequence": 3}, "does not follow"),
    ],
)
def test_a_changed_row_is_refused_by_its_number(path: Path, index: int, changes: dict[str, Any], what: str) -> None:
    rewrite(path, with_row(index, **changes))
    with pytest.raises(TranscriptError, match=what) as caught:
        read_transcript(path)
    assert str(path) in str(caught.value)
    assert f"message {changes.get('sequence', index)} " in str(caught.value)


@pytest.mark.parametrize("column", ["body", "head", "content"])
def test_a_flipped_bit_is_refused_by_its_number(path: Path, column: str) -> None:
    old = pq.read_table(path).to_pylist()[SEALED][column]
    new = flipped(old) if isinstance(old, bytes) else flipped(old.encode()).decode()
    rewrite(path, with_row(SEALED, **{column: new}))
    with pytest.raises(TranscriptError, match=f"message {SEALED} "):
        verify_transcript(path)


@pytest.mark.parametrize(
    ("change", "first_bad"),
    [
        (lambda rows: rows[:4] + rows[5:], 5),
        (lambda rows: rows[1:], 1),
        (lambda rows: [*rows[:4], rows[5], rows[4], *rows[6:]], 5),
        (lambda rows: [*rows[:4], rows[3], *rows[4:]], 3),
        (lambda rows: rows[::-1], 9),
    ],
    ids=["one dropped", "the first dropped", "two swapped", "one repeated", "reversed"],
)
def test_missing_moved_or_repeated_rows_are_refused_by_number(
    path: Path, change: Callable[[Rows], Rows], first_bad: int
) -> None:
    rewrite(path, change)
    with pytest.raises(TranscriptError, match=f"message {first_bad} was tampered with"):
        read_transcript(path)


def test_missing_rows_at_the_end_are_refused_by_the_last_number(path: Path) -> None:
    rewrite(path, lambda rows: rows[:-2])
    with pytest.raises(TranscriptError, match="has 8 of 10 messages: the last is message 7"):
        read_transcript(path)
    rewrite(path, lambda rows: [])
    with pytest.raises(TranscriptError, match="has 0 of 10 messages"):
        read_transcript(path)


@pytest.mark.parametrize("name", ["public", "meta", "head", "digest", "messages", "format"])
def test_changed_or_missing_facts_are_refused(path: Path, name: str) -> None:
    original = path.read_bytes()
    other = {"public": b"", "meta": b"gaF4oXk=", "head": b"00" * 32, "messages": b"9"}.get(name, b"0")
    for value in (other, b"", b"!"):
        path.write_bytes(original)
        rewrite(path, lambda rows: rows, **{name: value})
        with pytest.raises(TranscriptError, match=str(path)):
            read_transcript(path)


def test_a_consistent_forgery_has_another_head(path: Path) -> None:
    forged = Ledger(replace(m, topic="other") for m in run())
    write_transcript(path, forged, PUBLIC, META)
    assert verify_transcript(path) == forged.head
    with pytest.raises(TranscriptError, match=f"its head is {forged.head.hex()}, expected {run().head.hex()}"):
        verify_transcript(path, run().head)


def test_a_file_cut_anywhere_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(TranscriptError, match=str(path)):
            read_transcript(path)


def test_a_flipped_byte_anywhere_changes_nothing_unnoticed(path: Path) -> None:
    whole, original = path.read_bytes(), read_transcript(path)
    refused, damaged = 0, 0
    for position in range(0, len(whole), 41):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        try:
            stored = read_transcript(path)
        except TranscriptError as error:
            refused += 1
            damaged += "is damaged from its first message on" in str(error)
        else:
            assert list(stored.ledger) == list(original.ledger)
            assert (stored.public, stored.meta) == (original.public, original.meta)
    assert refused > len(whole) / 41 / 2
    assert damaged > 0


def test_other_files_are_no_transcripts(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    for content in (b"", b"PAR1", b"text" * 100):
        path.write_bytes(content)
        with pytest.raises(TranscriptError, match=f"{path} is not a") as said:
            read_transcript(path)
        assert "bytes" not in str(said.value)
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(TranscriptError, match=f"{path} is not a transcript"):
        read_transcript(path)


def with_facts(path: Path, public: bytes, meta: bytes) -> None:
    """Puts public facts and metadata into a transcript, with the digest that fits them."""
    parts = run().head + hashlib.sha256(public).digest() + hashlib.sha256(meta).digest()
    digest = hashlib.sha256(parts).hexdigest().encode()
    rewrite(path, lambda rows: rows, public=b64encode(public), meta=b64encode(meta), digest=digest)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["clients", "encoder", "scaler", "mechanisms", "schema", "layout", "model", "training"])


@given(changes=st.dictionaries(names, plain, min_size=1), meta=plain)
def test_public_facts_and_metadata_of_another_form_are_named_or_read(changes: dict[str, Any], meta: Any) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.parquet"
        write_transcript(path, run(), PUBLIC)
        with_facts(path, encode({**PUBLIC.to_plain(), **changes}), encode(meta))
        with suppress(TranscriptError):
            read_transcript(path)


@pytest.mark.parametrize("name", ["public", "meta", "aborts", "messages", "head", "digest", "format"])
@pytest.mark.parametrize("value", [b"\xff", b"AAAA", b"=", b"-1", b"9" * 5000, b64encode(encode([{"party": []}]))])
def test_metadata_that_was_replaced_is_named(path: Path, name: str, value: bytes) -> None:
    rewrite(path, lambda rows: rows, **{name: value})
    with pytest.raises(TranscriptError, match=str(path)):
        read_transcript(path)


def test_public_facts_of_another_version_are_no_damage_and_named_without_what_python_says_of_them(path: Path) -> None:
    """They were 'not a whole transcript: NumericBlock.__init__() got an unexpected keyword argument'."""
    with_facts(path, encode({**PUBLIC.to_plain(), "layout": [{"kind": "numeric", "newer": 1}]}), encode(META))
    assert verify_transcript(path) == run().head
    with pytest.raises(
        TranscriptError, match=r"is whole, but has public facts that this version .* cannot read"
    ) as said:
        read_transcript(path)
    assert "__init__" not in str(said.value)


def older_format(path: Path) -> None:
    """Makes a stored transcript one of the format before: the same columns, the facts that it had."""
    public = {"clients": ["a", "b"], "server": "server", "encoder": "uhe(ring 2)", "scaler": "", "schema": {}}
    rewrite(path, lambda rows: rows, format=b"leakledger-transcript-1", public=b64encode(encode(public)))


def test_a_transcript_of_the_older_format_is_named_and_says_what_to_do(path: Path) -> None:
    older_format(path)
    with pytest.raises(TranscriptError) as refused:
        verify_transcript(path)
    assert str(refused.value) == (
        f"{path} has the older format leakledger-transcript-1, whose messages have no kinds; run the audit again to "
        "have it written anew"
    )


def test_columns_of_another_type_are_refused(path: Path) -> None:
    table, facts = pq.read_table(path), stored_facts(path)
    index = table.schema.get_field_index("size")
    table = table.set_column(index, "size", table["size"].cast(pa.float64()))
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(facts)
    with pytest.raises(TranscriptError, match="is not a transcript of format"):
        read_transcript(path)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_transcript(tmp_path / "none.parquet")


def test_reading_leaves_no_thread_that_an_end_right_after_it_would_abort(path: Path) -> None:
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        pytest.skip("threads of native code are counted under Linux alone")
    counted = (
        "import os, sys; from pathlib import Path; from leakledger.preprocess.transcript import read_transcript;"
        f"before = len(os.listdir('{tasks}')); read_transcript(Path(sys.argv[1]));"
        f"print(len(os.listdir('{tasks}')) - before)"
    )
    done = subprocess.run([sys.executable, "-c", counted, str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path: Path) -> None:
    before = path.read_bytes()
    broken = Ledger([*run(), replace(list(run())[-1], content=b"not its body")])
    with pytest.raises(ValueError, match="message 9 is open, yet its content is not its body"):
        write_transcript(path, broken, PUBLIC, META)
    with pytest.raises(ValueError, match="object has no encoding"):
        write_transcript(path, run(), replace(PUBLIC, schema={"x": object()}))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
