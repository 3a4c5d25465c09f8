import errno
import json
import os
import stat
from dataclasses import replace

import pytest
from nacl.signing import SigningKey

from leakledger.audit.case import cases
from leakledger.audit.chain import digest_of
from leakledger.audit.provenance import run_facts
from leakledger.audit.run_secret import master_secret, read_secret
from leakledger.audit.signature import (
    CONTEXT,
    FILE,
    SignatureError,
    Signer,
    new_key,
    public_key,
    read_signature,
    read_signer,
    sign_run,
)
from leakledger.audit.store import Store, StoreError
from tests.audit.example import config

SETTINGS = config()
SEED = bytes(range(32))


@pytest.fixture(scope="module")
def facts():
    return run_facts(SETTINGS, cases(SETTINGS), "r", "leakledger run")


@pytest.fixture
def store(tmp_path, facts):
    record = Store.create(tmp_path / "run", facts, "now")
    record.add_file("results.json", b"{}")
    yield record
    record.close()


def test_the_key_of_a_seed_is_that_of_rfc_8032():
    # RFC 8032, section 7.1, test 1
    seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert Signer(bytes.fromhex(seed)).public == public


def test_what_is_signed_is_the_last_head_and_how_many_entries_it_covers(store):
    signed = Signer(SEED).sign(store)
    message = CONTEXT + f'{{"entries":{len(store.entries)},"head":"{store.entries[-1].head}"}}'.encode()
    SigningKey(SEED).verify_key.verify(message, bytes.fromhex(signed.signature))
    signed.check(store)


def test_a_signature_stays_valid_when_the_record_goes_on_and_covers_what_was_there(store):
    sign_run(store.folder, Signer(SEED))
    before = read_signature(store)
    store.add_file("report.html", b"page")
    assert read_signature(store) == before
    assert before.entries == len(store.entries) - 1


def test_a_signature_of_another_record_is_refused(store, tmp_path, facts):
    other = Store.create(tmp_path / "other", facts, "later")
    other.add_file("results.json", b"{}")
    sign_run(store.folder, Signer(SEED))
    (tmp_path / "other" / FILE).write_bytes((store.folder / FILE).read_bytes())
    with pytest.raises(SignatureError, match=r"signature.json: signs another record than this one"):
        read_signature(other)
    other.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda s: replace(s, entries=s.entries - 1),
        lambda s: replace(s, head=digest_of(b"")),
        lambda s: replace(s, key=Signer(bytes(32)).public),
        lambda s: replace(s, signature=s.signature[:-2]),
        lambda s: replace(s, signature=f"{int(s.signature, 16) ^ 1:0128x}"),
        lambda s: replace(s, key="no key"),
        lambda s: replace(s, signature=7),
    ],
)
def test_a_signature_that_was_changed_anywhere_is_refused(store, change):
    with pytest.raises(SignatureError, match="is no signature by the key that it names"):
        change(Signer(SEED).sign(store)).check(store)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "null", '{"algorithm": "RSA"}', '{"algorithm": "Ed25519"}', "[" * 100_000, "\xe9"]
)
def test_a_file_that_is_no_signature_is_named(store, text):
    (store.folder / FILE).write_text(text, encoding="latin-1")
    with pytest.raises(SignatureError, match=r"signature.json: is no signature of a record$"):
        read_signature(store)


@pytest.mark.parametrize(("name", "value"), [("entries", True), ("entries", 3.0), ("key", None), ("key", "0" * 63)])
def test_a_signature_of_another_form_is_named(store, name, value):
    sign_run(store.folder, Signer(SEED))
    path = store.folder / FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(SignatureError, match=r"signature.json: is no signature of a record$"):
        read_signature(store)


@pytest.mark.parametrize(("name", "other"), [("algorithm", "none"), ("key", "00" * 32), ("head", "ab" * 32)])
def test_a_signature_that_says_two_things_of_one_is_none(store, name, other):
    sign_run(store.folder, Signer(SEED))
    path = store.folder / FILE
    path.write_text(path.read_text().replace(f'"{name}":', f'"{name}": {json.dumps(other)}, "{name}":'))
    assert json.loads(path.read_text())[name] != other
    with pytest.raises(SignatureError, match=r"signature.json: is no signature of a record$"):
        read_signature(store)


def test_a_run_that_is_not_finished_is_not_signed(tmp_path, facts):
    Store.create(tmp_path, facts, "now").close()
    with pytest.raises(SignatureError, match="the run is not finished"):
        sign_run(tmp_path, Signer(SEED))
    assert not (tmp_path / FILE).exists()


def test_a_key_is_text_for_its_owner_alone_and_its_public_half_lies_beside_it(tmp_path):
    made = new_key(tmp_path / "audit.key")
    assert stat.S_IMODE((tmp_path / "audit.key").stat().st_mode) == 0o600
    assert read_signer(tmp_path / "audit.key") == made
    assert public_key(str(tmp_path / "audit.key.pub")) == public_key(made.public.upper()) == made.public
    assert made.seed.hex() not in repr(made)
    assert new_key(tmp_path / "other.key") != made


@pytest.mark.parametrize(("full", "before"), [("a", 0), ("a.pub", 1)])
def test_a_key_that_cannot_be_written_whole_is_not_there_and_its_file_is_named(tmp_path, monkeypatch, full, before):
    synced = []

    def no_space(descriptor):
        synced.append(descriptor)
        if len(synced) > before:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left") as raised:
        new_key(tmp_path / "a")
    assert raised.value.filename == str(tmp_path / full)
    assert list(tmp_path.iterdir()) == []


def test_no_key_is_written_over(tmp_path):
    new_key(tmp_path / "a")
    kept = (tmp_path / "a").read_bytes()
    with pytest.raises(SignatureError, match=r"a.pub: exists already"):
        new_key(tmp_path / "a")
    (tmp_path / "a.pub").unlink()
    with pytest.raises(SignatureError, match="a: exists already"):
        new_key(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == kept


def test_a_key_that_others_can_read_is_refused_with_what_to_do(tmp_path):
    new_key(tmp_path / "a")
    (tmp_path / "a").chmod(0o640)
    with pytest.raises(SignatureError, match=r"others can read this key \(mode 640\); `chmod 600 .*a` first"):
        read_signer(tmp_path / "a")


def test_a_key_to_sign_with_and_the_secrets_of_a_run_are_not_taken_for_each_other(tmp_path):
    made = new_key(tmp_path / "a.key")
    with pytest.raises(StoreError, match="holds no secret of a run") as refused:
        read_secret(tmp_path / "a.key")
    assert made.seed.hex() not in str(refused.value)
    master_secret(tmp_path)
    with pytest.raises(SignatureError, match="holds digits alone, as a run's secrets do") as told:
        read_signer(tmp_path / "secrets")
    assert (tmp_path / "secrets").read_text().strip() not in str(told.value)
    (tmp_path / "a.key.pub").unlink()
    with pytest.raises(SignatureError, match=r"a\.key: holds the key to sign with") as shown:
        public_key(str(tmp_path / "a.key"))
    assert made.seed.hex() not in str(shown.value)


@pytest.mark.parametrize("text", ["", "00" * 31, "zz" * 32, "00 " * 32, "\xe9" * 64])
def test_a_file_that_is_no_key_is_refused_without_being_shown(tmp_path, text):
    path = tmp_path / "wrong"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(SignatureError, match=r"wrong: holds no key to sign with; `leakledger keygen FILE` makes one$"):
        read_signer(path)
    with pytest.raises(SignatureError, match=r"wrong: holds no public key"):
        public_key(str(path))
    with pytest.raises(SignatureError, match=r"absent: cannot be read: No such file"):
        read_signer(tmp_path / "absent")
