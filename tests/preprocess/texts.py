"""Odd texts, tables of given texts, and encoders run with a process per party, for tests of encoders."""

import numpy as np
import pandas as pd

from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from tests.preprocess.contract import assert_same_views
from tests.preprocess.example import SCHEMA, table

ODD = [
    "",
    "\0",
    "a\0b",
    "x" * 1100,
    "e\u0301\u0302",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\u202eabc",
    "\U0001f600",
]
CLIENTS = ("P1", "P2", "P3")


def table_of(wards, diets=None):
    """A table with these texts, as many rows."""
    n = len(wards)
    frame = pd.DataFrame(
        {
            "ward": np.array(wards, object),
            "diet": np.array(diets or ["full"] * n, object),
            "age": np.arange(n, dtype=np.float64),
            "dose": np.ones(n),
            "ill": np.array([("no", "yes")[i % 2] for i in range(n)], object),
        }
    )
    return Table(frame.astype({"ward": "str", "diet": "str", "ill": "str"}), SCHEMA, "texts")


def encoder_case(fed, inputs, params):
    """Fits an encoder; every client ends with its columns, the server with the public blocks."""
    tables = {c: fed.local(c, Table.from_plain, inputs[c]) for c in fed.clients}
    fit = ENCODERS[params["encoder"]](**params["options"]).fit(fed, SCHEMA, tables)
    held = {c: fed.local(c, lambda e, t: e.transform(t), fit.encodings[c], tables[c]) for c in fed.clients}
    return {**held, fed.server: fed.at(fed.server, [b.to_plain() for b in fit.blocks.value])}


def runs_projected(encoder, **options):
    """Asserts that the encoder gives the same columns, blocks and views with a process per party."""
    inputs = {c: table(20 + 7 * i, seed=i).to_plain() for i, c in enumerate(CLIENTS)}
    return assert_same_views(encoder_case, CLIENTS, inputs, {"encoder": encoder, "options": options})
