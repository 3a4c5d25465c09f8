"""What the contracts of encoders and scalers share: a protocol that preprocesses, run both ways, and its rules."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakledger.audit.control_federations import SCHEMA, made_up_tables
from leakledger.audit.plugins import FAILED
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.pipeline import Encoded, prepare
from leakledger.preprocess.protocol_rules import violations
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.processes import PartyProcesses
from leakledger.preprocess.transport.simulated import run_simulated
from leakledger.preprocess.views import FeatureLayout
from leakledger.preprocess.wire import encode

PATIENCE = 120.0  # seconds that a party waits for another: importing takes long on a busy machine


def preprocess(fed: Federation, inputs: Mapping[str, At[Any]], params: Mapping[str, Any]) -> dict[str, At[Any]]:
    """Every party ends with its encoded rows, the server with the layout."""
    tables = {c: fed.local(c, Table.from_plain, x) for c, x in inputs.items()}
    encoder = ENCODERS[params["encoder"]](**params["encoder_options"])
    scaler = SCALERS[params["scaler"]](**params["scaler_options"])
    prepared = prepare(fed, SCHEMA, tables, tables, encoder, scaler)
    layout = fed.public(FeatureLayout.to_plain, prepared.layout)
    held = {c: fed.local(c, _rows, prepared.train[c]) for c in inputs}
    return {**held, fed.server: fed.local(fed.server, list, layout)}


def _rows(data: Encoded) -> Any:
    return data.rows


def assert_registered(table: Mapping[str, Any], name: str, thing: Any) -> None:
    """That the entry point of `thing` was found, and it is known by its name."""
    assert name not in FAILED, f"{name} was left out: {FAILED[name]}"
    assert name in table, f"no installed entry point is called {name!r}; install the package (pip install -e .)"
    assert table[name] is thing, f"{name!r} is {table[name]}, not {thing}"


def assert_keeps_the_rules(method: type) -> None:
    """That the file of a method does nothing that a protocol must not do (`protocol_rules`)."""
    path = Path(inspect.getfile(method))
    found = list(violations(path.read_text(encoding="utf-8")))
    assert not found, f"{path}: {found[0]}"


def assert_same_both_ways(params: Mapping[str, Any]) -> None:
    """That a run with one process per party has the messages and results of one in this process, byte by byte."""
    inputs = {p: t.to_plain() for p, t in made_up_tables(0, False).items()}
    secret = pinned("contract")
    simulated = run_simulated(preprocess, list(inputs), inputs, params, secret=secret)
    with PartyProcesses(list(inputs), timeout=PATIENCE) as parties:
        projected = parties.run(f"{__name__}:preprocess", inputs, params, secret=secret)
    for party, expected in simulated.items():
        found = projected[party]
        assert [m.header() for m in found.messages] == [m.header() for m in expected.messages], party
        assert [m.body for m in found.messages] == [m.body for m in expected.messages], party
        assert encode(found.value) == encode(expected.value), party
