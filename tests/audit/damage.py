"""Damage to the files of a finished run, drawn from a seed, and what every command must make of it."""

import shutil

import numpy as np

from leakledger.audit.assemble import load_record
from leakledger.audit.signature import FILE as SIGNATURE
from leakledger.audit.signature import read_signature
from leakledger.audit.store import FILE, RESULTS, SECRETS, Store
from tests.audit.recorded import call, checked

IGNORED = (".lock",)  # empty, and only held


def flip(data, coins):
    at = int(coins.integers(len(data)))
    return data[:at] + bytes([data[at] ^ 1 << int(coins.integers(8))]) + data[at + 1 :]


def overwrite(data, coins):
    at, size = int(coins.integers(len(data))), int(coins.integers(1, 64))
    new = coins.bytes(len(data[at : at + size]))
    return data[:at] + new + data[at + len(new) :]


def zeros(data, coins):
    at, size = int(coins.integers(len(data))), int(coins.choice([1, 16, 512, 4096]))
    return data[:at] + bytes(len(data[at : at + size])) + data[at + size :]


def cut(data, coins):
    return data[: int(coins.integers(len(data)))]


def take_out(data, coins):
    at, size = int(coins.integers(len(data))), int(coins.choice([1, 7, 512, 4096]))
    return data[:at] + data[at + size :]


def put_in(data, coins):
    at = int(coins.integers(len(data) + 1))
    return data[:at] + coins.bytes(int(coins.integers(1, 64))) + data[at:]


def digit(data, coins):
    """Another decimal digit in place of one: what a forger of a figure does."""
    places = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
    at = places[int(coins.integers(len(places)))] if places else 0
    return data[:at] + b"%d" % ((data[at] - 48 + 1 + int(coins.integers(9))) % 10) + data[at + 1 :]


KINDS = (flip, overwrite, zeros, cut, take_out, put_in, digit)


def damaged(run, folder, seed):
    """A copy of `run` with one damage; what was done, and the file."""
    coins = np.random.default_rng(seed)
    shutil.copytree(run, folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in IGNORED)
    weights = np.array([3.0 if p.name == FILE else 1.0 for p in files])
    path = files[int(coins.choice(len(files), p=weights / weights.sum()))]
    name = path.relative_to(folder).as_posix()
    if coins.random() < 0.04:
        path.unlink()
        return "remove", name
    kind = KINDS[int(coins.integers(len(KINDS)))]
    path.write_bytes(kind(path.read_bytes(), coins))
    return kind.__name__, name


def outcome(run, folder, name, key):
    """What `verify` makes of a damaged copy: "named", or "same" where all means what it meant. Anything else fails."""
    same = {p: (folder / p).is_file() and (folder / p).read_bytes() == (run / p).read_bytes() for p in files_of(run)}
    code, wrong = checked(folder, "--verify-key", key)
    if code == 0:
        assert all(same.values()) or means_the_same(run, folder, name), name
    else:
        assert not all(same.values())
        assert name in wrong or FILE in wrong, (name, wrong)
        assert not any("Traceback" in text or "\n" in text for text in wrong.values())
    return "named" if code else "same"


def used(run, folder, name):
    """Lets the other commands use a damaged copy: they name the damage, or do what they would have done without it."""
    original = (run / RESULTS).read_bytes()
    again = call("run", run.parent / "audit.toml", "-o", folder, "--json")
    assert (again.exit_code, again.stdout.encode()) == (0, original) or one_line(again), name
    assert again.exit_code == 2 or (folder / RESULTS).read_bytes() == original
    for command in (("view", folder), ("report", folder)):
        result = call(*command)
        assert result.exit_code == 0 or one_line(result), (command, result.output)


def one_line(result):
    return result.exit_code == 2 and len(result.stderr.strip().splitlines()) == 1 and "Traceback" not in result.output


def files_of(run):
    return [p.relative_to(run).as_posix() for p in run.rglob("*") if p.is_file() and p.name not in IGNORED]


def means_the_same(run, folder, name):
    """Whether a file that differs is read as the original is, or is one that may be kept elsewhere."""
    if name == SECRETS:
        return not (folder / name).exists()
    if name == SIGNATURE:
        return signature_of(run) == signature_of(folder)
    return name == FILE and load_record(run) == load_record(folder)


def signature_of(folder):
    store = Store.read(folder)
    signature = read_signature(store)
    store.close()
    return signature.key.lower(), signature.entries, signature.head, signature.signature.lower()
