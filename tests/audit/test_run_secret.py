"""The master secret of a run: where it is, where it is not, what follows from it and what does not."""

import json
import stat

import pytest
from click.testing import CliRunner

from leakledger.audit.assemble import load_record
from leakledger.audit.case import cases
from leakledger.audit.cli import main
from leakledger.audit.federate import federate
from leakledger.audit.play import view_of
from leakledger.audit.run import run_audit
from leakledger.audit.run_secret import FILE, master_secret, read_secret
from leakledger.audit.store import StoreError
from leakledger.audit.truth import Truth
from leakledger.preprocess.sealing import new_identity
from leakledger.preprocess.secret import PUBLIC_MASTER, pinned
from leakledger.preprocess.transcript import read_transcript
from leakledger.preprocess.wire import encode
from tests.audit.example import config

METHOD = {"encoder": "dh-psi", "scaler": "zscore-sac", "route": "sealed"}
QUICK = {
    "data": {"source": "fair", "rows": 120},
    "attacks": {"use": ["plaintext", "vocabulary"]},
    "preprocessing": [METHOD],
    "training": {"rounds": 1, "batch_size": 4},
}


def heads(folder):
    return {c.id: c.transcript_head for c in load_record(folder).cases}


def identities(settings, master=PUBLIC_MASTER):
    """The public key of each party of the first case, by which messages to it are sealed."""
    found = federate(settings, cases(settings)[0], master)
    return {p: new_identity(s).public_bytes() for p, s in found.secrets.items()}


def test_a_new_secret_is_kept_for_its_owner_alone_and_found_again(tmp_path):
    master = master_secret(tmp_path)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert (
        read_secret(tmp_path / FILE) == master == master_secret(tmp_path, begun=True) == master_secret(tmp_path, master)
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == [FILE]
    other = tmp_path / "other"
    other.mkdir()
    assert master_secret(other) != master
    assert len(master) == 32


def test_a_given_secret_is_kept_and_another_one_refused(tmp_path):
    assert master_secret(tmp_path, pinned(1)) == pinned(1) == master_secret(tmp_path)
    with pytest.raises(StoreError, match="holds a run with other secrets; choose another folder"):
        master_secret(tmp_path, pinned(2))


def test_finished_cases_whose_secret_is_gone_are_not_continued_with_another(tmp_path):
    with pytest.raises(StoreError, match=r"secrets: is gone, and the finished cases need it"):
        master_secret(tmp_path, begun=True)
    assert not (tmp_path / FILE).exists()
    assert master_secret(tmp_path, pinned(1), begun=True) == pinned(1)


@pytest.mark.parametrize("text", ["", "00" * 31, "00" * 33, "zz" * 32, "00 " * 32, "\xe9" * 64])
def test_a_file_that_is_no_secret_is_refused_without_being_shown(tmp_path, text):
    path = tmp_path / "wrong"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=r"wrong: holds no secret of a run, which is 64 hexadecimal digits$"):
        read_secret(path)
    with pytest.raises(StoreError, match="absent: cannot be read: No such file"):
        read_secret(tmp_path / "absent")


def test_a_run_replays_with_its_secrets_and_has_other_keys_with_others(tmp_path):
    settings = config(**QUICK)
    run_audit(settings, tmp_path / "one")
    kept = read_secret(tmp_path / "one" / FILE)
    run_audit(settings, tmp_path / "again", master=kept)
    run_audit(settings, tmp_path / "other")
    assert heads(tmp_path / "one") == heads(tmp_path / "again") != heads(tmp_path / "other")
    results = [(tmp_path / name / "results.json").read_bytes() for name in ("one", "again")]
    assert results[0].replace(b'"one"', b'"again"') == results[1]


def test_an_interrupted_run_goes_on_with_the_secret_that_it_drew(tmp_path):
    settings = config(**QUICK, audit={"seeds": [0, 1]})

    def stop(name, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_audit(settings, tmp_path / "killed", progress=stop)
    assert len(heads(tmp_path / "killed")) == 1
    run_audit(settings, tmp_path / "killed")
    run_audit(settings, tmp_path / "whole", master=read_secret(tmp_path / "killed" / FILE))
    assert heads(tmp_path / "killed") == heads(tmp_path / "whole")
    assert len(heads(tmp_path / "killed")) == 2


def test_the_secret_is_in_no_other_file_of_the_run(tmp_path):
    settings, folder = config(**QUICK), tmp_path / "run"
    result = CliRunner().invoke(
        main, ["run", "-o", str(folder), *_overrides(settings)], env={"LEAKLEDGER_SECRETS": None}
    )
    assert result.exit_code == 0, result.output
    master = read_secret(folder / FILE)
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != FILE]
    assert {p.suffix for p in files} >= {".json", ".sqlite", ".html", ".parquet"}
    for form in (master, master.hex().encode(), master.hex().upper().encode()):
        assert [p.name for p in files if form in p.read_bytes()] == []
        assert form not in result.output.encode()


def test_the_command_line_replays_with_a_file_of_secrets(tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("no secret")
    result = CliRunner().invoke(main, ["run", "-o", str(tmp_path / "x"), "--secrets", str(wrong)])
    assert result.exit_code == 2
    assert "holds no secret of a run" in result.output
    assert "Traceback" not in result.output
    given = tmp_path / "given"
    given.write_text(pinned("given").hex() + "\n")
    folder = tmp_path / "run"
    settings = config(**QUICK)
    result = CliRunner().invoke(main, ["run", "-o", str(folder), "--secrets", str(given), *_overrides(settings)])
    assert result.exit_code == 0, result.output
    assert read_secret(folder / FILE) == pinned("given")


def _overrides(settings):
    plain = settings.in_force()
    pairs = {
        "data.rows": plain["data"]["rows"],
        "attacks.use": plain["attacks"]["use"],
        "training.rounds": 1,
        "preprocessing.encoder": "dh-psi",
        "audit.jobs": 1,
        "audit.seeds": [0],
    }
    return [part for key, value in pairs.items() for part in ("--set", f"{key}={json.dumps(value)}")]


def test_the_same_seed_under_another_master_secret_gives_other_keys():
    one, other = identities(config(**QUICK)), identities(config(**QUICK), pinned("other"))
    assert not {*one.values()} & {*other.values()}
    assert one == identities(config(**QUICK))


CHANGES = {
    "seed": {"audit": {"seeds": [1]}},
    "rows": {"data": {"source": "fair", "rows": 121}},
    "split": {"data": {"source": "fair", "rows": 120, "test_fraction": 0.3}},
    "parties": {"partition": {"kind": "divergent", "parties": 4}},
    "partition": {"partition": {"kind": "iid", "parties": 3}},
    "route": {"preprocessing": [{**METHOD, "route": "relay"}]},
    "option": {"preprocessing": [{**METHOD, "pad_to": 2}]},
    "scaler": {"preprocessing": [{"encoder": "dh-psi", "scaler": "local"}]},
    "model": {"model": {"hidden": [20, 21]}},
    "training": {"training": {"rounds": 1, "batch_size": 5}},
    "rate": {"training": {"rounds": 1, "batch_size": 4, "learning_rate": 0.2}},
    "defense": {"defense": {"name": "gaussian-noise", "sigma": 0.1}},
}


def test_no_two_configurations_seal_under_the_same_key_and_no_two_messages_with_the_same_nonce():
    keys = {name: identities(config(**{**QUICK, **change})) for name, change in {"none": {}, **CHANGES}.items()}
    every = [key for parties in keys.values() for key in parties.values()]
    assert len(set(every)) == len(every)
    settings = config(**QUICK)
    found = federate(settings, cases(settings)[0], PUBLIC_MASTER)
    sealed = [m.sequence for m in found.ledger if m.sealed]
    assert len(sealed) == len(set(sealed)) > 0


@pytest.mark.parametrize("change", [{"attacks": {"use": ["plaintext"]}}, {"audit": {"observers": ["server"]}}])
def test_what_is_attacked_and_by_whom_changes_no_message(change):
    assert identities(config(**QUICK)) == identities(config(**{**QUICK, **change}))


def test_a_copy_of_the_table_in_another_folder_has_the_same_keys(tmp_path):
    found = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        folder.mkdir()
        rows = "\n".join(f"{20 + n},{'abc'[n % 3]},{n % 2}" for n in range(40))
        (folder / "people.csv").write_text(f"age,town,label\n{rows}\n")
        (folder / "people.schema.toml").write_text('target = "label"\nnumeric = ["age"]\ncategorical = ["town"]\n')
        found.append(identities(config(**{**QUICK, "data": {"source": str(folder / "people.csv"), "rows": None}})))
    assert found[0] == found[1]


def test_no_view_holds_the_secret_of_another_party_or_what_it_came_from(tmp_path):
    settings = config(**QUICK)
    found = federate(settings, cases(settings)[0], PUBLIC_MASTER)
    for observers in (["server"], ["P1"], ["server", "P2"]):
        view = view_of(observers, Truth(found))
        assert view.coins == {p: found.secrets[p] for p in observers}
        seen = b"".join([m.body + (m.content or b"") for m in view.messages]) + encode(
            [dict(view.coins), view.public.to_plain()]
        )
        others = [s for p, s in found.secrets.items() if p not in observers]
        assert not any(s in seen or new_identity(s).secret in seen for s in [*others, PUBLIC_MASTER])


def test_a_transcript_holds_no_secret_of_a_party(tmp_path):
    settings = config(**QUICK)
    run_audit(settings, tmp_path / "run", master=PUBLIC_MASTER)
    (path,) = (tmp_path / "run" / "transcripts").iterdir()
    content = path.read_bytes()
    assert len(read_transcript(path).ledger) > 0
    found = federate(settings, cases(settings)[0], PUBLIC_MASTER)
    assert not any(s in content for s in found.secrets.values())
