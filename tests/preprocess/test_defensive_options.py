"""No option of preprocessing that defends silently does nothing: each changes the view of whom it is against."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.options import options_of
from leakledger.preprocess.scalers import SCALERS
from tests.attacks.ring_example import EVERYTHING, SCHEMA, SETS, run, table

PAGE = (Path(__file__).parents[2] / "docs" / "defenses.md").read_text(encoding="utf-8")
DECLARED = replace(SCHEMA, ranges={"age": (-9.0, 9.0)}, domains=EVERYTHING)
SEALED = {"ring_route": "sealed", "psi_route": "sealed"}
TRIED = {  # option -> encoder, its options without and with the defense, who must see something else
    "pad_to": ("uhe", {}, {"pad_to": 5}, "P2"),
    "noise": ("uhe", {}, {"noise": 50}, "P2"),
    "ring_route": ("uhe", {"ring_route": "relay"}, {"ring_route": "sealed"}, "server"),
    "psi_route": ("dh-psi", {}, {"psi_route": "sealed"}, "server"),
    "sealed_bytes": ("dh-psi", SEALED, {**SEALED, "sealed_bytes": 9000}, "server"),
    "route": ("mod-norm", {}, {"route": "sealed"}, "server"),
    "sharing": ("mod-norm", {}, {"sharing": "ring"}, "P1"),
    "directions": ("dh-psi", {}, {"directions": "upward"}, "P1"),
    "encoder_epsilon": ("server-dictionary", {}, {"encoder_epsilon": 1.0}, "server"),
    "scaler_epsilon": ("federated-zscore", {}, {"scaler_epsilon": 1.0}, "server"),
}


def seen(method, options, observer):
    """Everything that an observer has of each message: who told whom, how long it is, what it says."""
    if method in SCALERS:
        scaler = SCALERS[method](**options)
        found = run("server-dictionary", schema=DECLARED, tables=declared(), scaler=scaler)
    else:
        found = run(method, schema=DECLARED, tables=declared(), **options)
    return [(m.topic, m.sender, m.recipient, m.size, m.content) for m in found.view(observer).messages]


def declared():
    return {p: replace(table(v, seed=i), schema=DECLARED) for i, (p, v) in enumerate(SETS.items())}


@pytest.mark.parametrize("option", TRIED)
def test_an_option_that_defends_changes_the_view_of_whom_it_is_against(option):
    method, without, with_it, observer = TRIED[option]
    assert seen(method, without, observer) == seen(method, without, observer)
    assert seen(method, without, observer) != seen(method, with_it, observer)


def test_every_option_that_the_page_lists_is_tried_and_is_one():
    section = PAGE.split("## On preprocessing: what each option ends\n")[1].split("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`([a-z_]+)(?: = [^`]*)?`", row)}
    assert listed == set(TRIED)
    assert listed <= {name for m in (*ENCODERS.values(), *SCALERS.values()) for name in options_of(m)}
