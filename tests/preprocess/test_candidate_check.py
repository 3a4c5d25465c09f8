"""What an encoding says of each cell is what the table holds, and the table stays what it was."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from leakledger.preprocess.encoders.local import Local
from leakledger.preprocess.encoders.server_dictionary import ServerDictionary
from leakledger.preprocess.method_errors import MethodError
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import SCALERS
from tests.preprocess.example import SCHEMA, simulated, table


@dataclass(frozen=True)
class Odd:
    """An encoding of somebody else, that makes something of what `inner` gives."""

    inner: Any
    candidates_of: Any = lambda found, block: found
    columns_of: Any = lambda codes: codes

    def transform(self, table):
        return self.columns_of(self.inner.transform(table))

    def candidates(self, table, block):
        return self.candidates_of(self.inner.candidates(table, block), block)


def prepared(base, **changed):
    """Two tables under an encoder like `base` whose encodings are changed so."""

    @dataclass(frozen=True)
    class Foreign(base):
        name = "foreign"

        def fit(self, fed, schema, tables):
            fitted = super().fit(fed, schema, tables)
            odd = {c: fed.local(c, partial(Odd, **changed), e) for c, e in fitted.encodings.items()}
            return replace(fitted, encodings=odd)

    tables = {"P1": table(30, 1), "P2": table(30, 2)}
    fed, located = simulated(tables)
    prepare(fed, SCHEMA, located, located, Foreign(), SCALERS["federated-zscore"]())


WRONG = {
    "off by one": (ServerDictionary, {"candidates_of": lambda found, b: (found + 1) % b.size}, "not the values of"),
    "none at all": (ServerDictionary, {"candidates_of": lambda found, b: found * 0 - 1}, "not the values of the rows"),
    "unnamed, off by one": (Local, {"candidates_of": lambda found, b: (found + 1) % b.size}, "not the codes of"),
    "unnamed, none": (Local, {"candidates_of": lambda found, b: found * 0 - 1}, "columns of ward are not the codes"),
    "no such candidate": (Local, {"candidates_of": lambda found, b: found + b.size}, "a number from -1 to"),
    "no numbers": (Local, {"candidates_of": lambda found, b: found / 2}, "a number from -1 to"),
    "other columns": (ServerDictionary, {"columns_of": lambda codes: codes[:, ::-1]}, "not the codes of the candid"),
}


@pytest.mark.parametrize("what", WRONG)
def test_candidates_that_the_rows_belie_are_refused_and_not_taken_for_the_truth(what):
    base, changed, problem = WRONG[what]
    with pytest.raises(MethodError, match=f"^the encoder foreign cannot be used: its .*{problem}"):
        prepared(base, **changed)


def wreck(table):
    table.frame["ward"] = "nowhere"
    table.frame.loc[:, "age"] = 0.0


class Wrecking:
    """An encoding that changes each table after it has read it."""

    def __init__(self, inner):
        self._inner = inner

    def transform(self, table):
        codes = self._inner.transform(table)
        wreck(table)
        return codes

    def candidates(self, table, block):
        found = self._inner.candidates(table, block)
        wreck(table)
        return found


def test_an_encoder_that_changes_tables_changes_copies_of_its_own():
    @dataclass(frozen=True)
    class Foreign(ServerDictionary):
        name = "foreign"

        def fit(self, fed, schema, tables):
            fitted = super().fit(fed, schema, tables)
            for c, t in tables.items():
                fed.local(c, wreck, t)
            return replace(fitted, encodings={c: fed.local(c, Wrecking, e) for c, e in fitted.encodings.items()})

    tables = {"P1": table(30, 1), "P2": table(30, 2)}
    before = {c: t.fingerprint() for c, t in tables.items()}
    fed, located = simulated(tables)
    prepare(fed, SCHEMA, located, located, Foreign(), SCALERS["federated-zscore"]())
    assert {c: t.fingerprint() for c, t in tables.items()} == before
