import pytest

from leakledger.audit import plugins
from leakledger.audit.catalogue import TABLES, describe, known


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_listed_is_a_whole_sentence(kind):
    """Not one cut at the stop of an abbreviation, such as "(eq."."""
    for row in known(kind):
        about = row["about"]
        assert about, row["name"]
        assert about.count("(") == about.count(")"), row["name"]
        assert about.endswith((".", "?", ")")), row["name"]


def test_a_plugin_that_was_left_out_is_not_merely_unknown(monkeypatch):
    monkeypatch.setattr(plugins, "FAILED", {"tally": "theirs:Tally: TypeError: it states no name"})
    with pytest.raises(ValueError, match="installed and cannot be used: theirs:Tally: TypeError: it states no name"):
        describe("tally")
