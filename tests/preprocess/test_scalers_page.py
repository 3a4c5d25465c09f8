"""What docs/scalers.md says of every scaler, against the scalers."""

import re
from math import log2
from pathlib import Path

import pytest

from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.options import options_of
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import ALIASES, SCALERS
from tests.every import every
from tests.preprocess.example import SCHEMA, simulated, table
from tests.preprocess.registered import IN_THE_CLEAR

PAGE = (Path(__file__).parents[2] / "docs" / "scalers.md").read_text(encoding="utf-8")


def rows(heading):
    """The cells of the table under a heading, row by row."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def quoted(cell):
    return re.findall(r"`([^`]*)`", cell)


@every("name", IN_THE_CLEAR)
def test_the_page_counts_the_messages_of_four_clients_and_names_their_topics(name):
    fed, located = simulated({f"P{i}": table(12, i) for i in range(4)})
    prepare(fed, SCHEMA, located, located, ENCODERS["target"](), SCALERS[name]())
    (row,) = (r for r in rows("Who sees what") if quoted(r[0]) == [name])
    assert int(re.findall(r"\d+", row[1])[0]) == len(fed.ledger)
    assert {m.topic.split(".")[0] for m in fed.ledger} == {topic.removesuffix(".*") for topic in quoted(row[2])}


def test_every_option_of_a_scaler_is_on_the_page_beside_the_scalers_that_have_it():
    named = {option: quoted(row[1]) or list(SCALERS) for row in rows("Options") for option in quoted(row[0])}
    having = {option: [n for n, s in SCALERS.items() if option in options_of(s)] for option in named}
    assert {o for s in SCALERS.values() for o in options_of(s)} == named.keys()
    for option in named.keys() - {"scaler_delta"}:  # beside scaler_epsilon, of one of the two
        assert set(named[option]) == set(having[option]), option


def test_every_alias_is_on_the_page():
    assert {alias for row in rows("Names") for alias in quoted(row[0])} == set(ALIASES)


@every("log_degree", [14, 15])
def test_the_page_says_how_far_the_noise_of_a_decryption_exceeds_the_rounding_of_inputs(log_degree):
    """Of either ring: what hides the rounding in one does not in the other."""
    pytest.importorskip("tenseal.sealapi")
    from leakledger.preprocess.crypto.threshold_ckks import wide
    from leakledger.preprocess.crypto.threshold_ckks.parameters import parameters
    from leakledger.preprocess.scalers.ppf_zscore import smudged

    def noise(hiding_bits):
        of = parameters(log_degree)
        scale = wide.PRIMES * of.prime_bits + 10 + 1e-6  # quotients of up to 2^20 rows have a little more
        return log2(smudged(of, 2, wide.quotient_smudging(of, 2, 20, scale, hiding_bits) - scale))

    said = r"2\^(-\d+)\s+(?:of\s+half the range )?in the ring of 2\^{}, which exceeds (?:that|it) by\s+(\d+)"
    size, above = re.search(said.format(log_degree), PAGE).groups()
    assert (int(size), int(above)) == (round(noise(40)), round(noise(40) + 53))
    as_much = {14: 40, 15: int(re.search(r"(\d+) `hiding_bits` do as much there", PAGE)[1])}[log_degree]
    assert 23 <= noise(as_much) + 53 < 24
