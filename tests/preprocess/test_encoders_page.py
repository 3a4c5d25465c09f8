"""What docs/encoders.md says of every encoder, against the encoders."""

import re
from pathlib import Path

import pytest

from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.options import options_of
from tests.preprocess.example import SCHEMA, simulated, table
from tests.preprocess.registered import encoders

PAGE = (Path(__file__).parents[2] / "docs" / "encoders.md").read_text(encoding="utf-8")


def rows(heading):
    """The cells of the table under a heading, row by row."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def row_of(heading, name):
    return next(r for r in rows(heading) if f"`{name}`" in r[0])


@pytest.mark.parametrize("name", encoders())
def test_the_page_counts_the_messages_of_four_clients_and_names_their_topics(name):
    fed, located = simulated({f"P{i}": table(12, i) for i in range(4)})
    ENCODERS[name]().fit(fed, SCHEMA, located)
    assert int(re.findall(r"\d+", row_of("Messages", name)[2])[0]) == len(fed.ledger)
    named = " ".join(re.findall(r"`([^`]*)`", row_of("Who sees what", name)[1]))
    for topic in {m.topic for m in fed.ledger}:
        first, rest = topic.split(".", 1)
        stands = any(part in named for part in (topic, f"{first}.*", f".{rest}", f".{rest.split('.')[0]}.*"))
        assert stands or (name == "mod-norm" and first == name)


def test_every_option_of_an_encoder_is_on_the_page():
    named = {option for row in rows("Options") for option in re.findall(r"`([^`]*)`", row[0])}
    assert {name for e in ENCODERS.values() for name in options_of(e)} == named
