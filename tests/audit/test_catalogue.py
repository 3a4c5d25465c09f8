import pytest

from leakledger.audit.catalogue import TABLES, known


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_listed_is_a_whole_sentence(kind):
    """Not one cut at the stop of an abbreviation, such as "(eq."."""
    for row in known(kind):
        about = row["about"]
        assert about, row["name"]
        assert about.count("(") == about.count(")"), row["name"]
        assert about.endswith((".", "?", ")")), row["name"]
