"""What tests of the encoders on a ring share: partitions, odd texts, tampering, and a protocol for two kinds of run."""

import hashlib
import unicodedata

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from leakledger.preprocess.crypto.oprf import DOMAIN
from leakledger.preprocess.crypto.ristretto import element, hash_to_group
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.wire import decode, encode
from tests.preprocess.example import SCHEMA, cut, table

ROWS = 24
HASHES = ("md5", "sha1", "sha256", "sha512", "sha3_256", "blake2b")
E_ACUTE = "café"
ODD = ("", "\0", "\0a", "a", "a\0", "x" * 2000, E_ACUTE, unicodedata.normalize("NFD", E_ACUTE), "\u202eab", "אב", " a")


def splits_of(parties, rows=ROWS):
    """Tables P1, P2, ...: the same rows, each at some party; a party may have none."""
    owners = st.lists(st.integers(0, parties - 1), min_size=rows, max_size=rows)
    return owners.map(
        lambda o: cut(table(rows), [np.flatnonzero(np.array(o) == party) for party in range(parties)]),
    )


def text_table(wards, diets):
    """A table of these texts, one row each, of which the ages and the target do not matter."""
    n = len(wards)
    frame = pd.DataFrame({"ward": wards, "diet": diets, "age": np.zeros(n), "dose": np.zeros(n), "ill": ["no"] * n})
    return Table(frame.astype({"ward": "str", "diet": "str", "ill": "str", "age": float, "dose": float}), SCHEMA, "odd")


def odd_tables():
    """Texts that are easily confused, shared by two parties in part; the third has no rows; no diet is shared."""
    return {
        "P1": text_table(ODD[:9], ["d1"] * 9),
        "P2": text_table(ODD[2:], ["d2"] * (len(ODD) - 2)),
        "P3": text_table([], []),
    }


def numbers_of(fed, fit):
    """Each party's numbers: {party: {feature: {value: number}}}."""
    encodings = {p: fed.own(e) for p, e in fit.encodings.items()}
    return {
        p: {f: dict(zip(e.dictionaries_[f], e.ids_[f], strict=True)) for f in e.dictionaries_}
        for p, e in encodings.items()
    }


class Tampering(Simulated):
    """A federation in which the first message on `topic` arrives as `change` of its payload."""

    def __init__(self, clients, topic, change):
        super().__init__(list(clients), secret=pinned(3))
        self.topic, self.change = topic, change

    def _carry(self, header, content):
        received = super()._carry(header, content)
        if header.topic != self.topic:
            return received
        self.topic = None
        return encode(self.change(decode(received)))


def fit_encoder(fed, inputs, params):
    """An encoder as a protocol over plain inputs: every client ends with its rows, numbers and blocks."""
    tables = {c: fed.local(c, Table.from_plain, inputs[c]) for c in fed.clients}
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in params.get("options", {}).items()}
    fit = ENCODERS[params["encoder"]](**options).fit(fed, SCHEMA, tables)
    blocks = fed.public(lambda described: [b.to_plain() for b in described], fit.blocks)
    return {
        c: fed.local(c, lambda e, t, b: {"rows": e.transform(t), "ids": e.ids_, "blocks": b}, e, tables[c], blocks)
        for c, e in fit.encodings.items()
    }


def encoded_by(name, tables, **options):
    """The federation, the fit and the stacked rows of all parties under one encoder."""
    fed = Simulated(list(tables), secret=pinned(1))
    located = {p: fed.at(p, t) for p, t in tables.items()}
    fit = ENCODERS[name](**options).fit(fed, SCHEMA, located)
    return fed, fit, np.vstack([fed.own(fit.encodings[p]).transform(t) for p, t in tables.items()])


def assert_encodes_as_the_server_dictionary_does(name, tables, **options):
    """Dropped: per feature, exactly the columns of `server-dictionary`, reordered. Kept: these, and one column of zeros
    for each further holder of a value.
    """
    _, theirs, expected = encoded_by("server-dictionary", tables)
    for unused in ("keep", "drop"):
        _, fit, found = encoded_by(name, tables, unused=unused, **options)
        for block, reference in zip(fit.blocks.value, theirs.blocks.value, strict=True):
            columns = found[:, block.start : block.start + block.size].T
            if unused == "keep":
                assert block.size == sum(len(set(t.values(block.feature))) for t in tables.values())
                columns = columns[columns.any(1)]
            assert_same_columns(columns, expected[:, reference.start : reference.start + reference.size].T)
            assert block.values is None


def assert_same_columns(found, expected):
    assert sorted(c.tobytes() for c in found) == sorted(c.tobytes() for c in expected)


def lowest_numbers(name, tables, **options):
    """Each party's numbers, and the number that each value must have: that of its first holder in the ring."""
    fed, fit, _ = encoded_by(name, tables, **options)
    ring = options.get("ring", tuple(tables))
    alone = numbers_of(*encoded_by("uhe", tables, ring=ring)[:2])
    expected = {}
    for p in ring:
        for feature, own in alone[p].items():
            for value, number in own.items():
                expected.setdefault((feature, value), number)
    return numbers_of(fed, fit), expected


def assert_the_lowest_number_wins(name, tables, **options):
    found, expected = lowest_numbers(name, tables, **options)
    for own in found.values():
        for feature, numbered in own.items():
            assert numbered == {v: expected[feature, v] for v in numbered}


def assert_no_message_shows_a_value(fed, tables):
    """No value, no digest of one, with or without its feature, in any message that is not on the ring."""
    traces = set()
    for t in tables.values():
        for feature in SCHEMA.categorical:
            for value in set(t.values(feature)) - {"", "a", "\0", " a"}:
                for data in (value.encode(), element(feature, value), feature.encode() + value.encode()):
                    traces.add(data)
                    traces.update(hashlib.new(h, data).digest()[:8] for h in HASHES)
                traces.add(hash_to_group(element(feature, value), DOMAIN))
    for m in fed.ledger:
        assert not any(trace in m.content for trace in traces), m


def assert_refused(name, tables, change):
    """A run in which the first message on a topic is altered ends with an error that says who refuses what and when."""
    topic, alter, text = change
    fed = Tampering(tables, topic, alter)
    located = {p: fed.at(p, t) for p, t in tables.items()}
    with fed.scope("encode"), pytest.raises(FederationError, match=rf"{text}.*step encode, round 0\)"):
        ENCODERS[name]().fit(fed, SCHEMA, located)
