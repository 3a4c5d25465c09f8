"""What docs/flfe.md says of options, messages and transformations, against the code."""

import re
from pathlib import Path

from leakledger.preprocess.features.flfe import FLFE
from leakledger.preprocess.features.transformations import TRANSFORMATIONS
from leakledger.preprocess.messages import KINDS
from leakledger.preprocess.options import options_of

PAGE = (Path(__file__).parents[3] / "docs" / "flfe.md").read_text(encoding="utf-8")


def first_cells(heading):
    """The names in the first column of the table under a heading row."""
    lines = PAGE.split(f"| {heading} |")[1].split("\n\n")[0].splitlines()[2:]
    return {name for line in lines for name in re.findall(r"`([^`]*)`", line.split("|")[1])}


def test_every_option_is_on_the_page():
    assert first_cells("option") == set(options_of(FLFE))


def test_every_message_is_on_the_page():
    assert first_cells("message") == {t for t in KINDS if t.startswith("flfe.")}


def test_every_transformation_is_on_the_page():
    assert all(f"`{t}`" in PAGE for t in TRANSFORMATIONS)
