"""The lines of the console about what stays open."""

from dataclasses import replace

from leakledger.audit.records import Ruling
from leakledger.audit.tables import _unanswered
from tests.reports.example import example


def test_an_asset_is_said_to_be_open_in_no_setting_that_answers_it():
    def ruling(setting, asset, verdict):
        missing = ("1 kind of message unread: a",) if verdict == "inconclusive" else ()
        return Ruling(setting, "server", asset, verdict, 0.1, missing=missing)

    told = [ruling(s, "mean", "inconclusive") for s in "ab"]
    told += [ruling("a", "minimum", "inconclusive"), ruling("b", "minimum", "leaks")]
    assert list(_unanswered(replace(example(), rulings=tuple(told)), set())) == [
        "Not answered: mean by server in 2 of 2 settings: 1 kind of message unread: a.",
        "Not answered: minimum by server in 1 of 2 settings: 1 kind of message unread: a.",
    ]
