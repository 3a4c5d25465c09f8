"""The section on differential privacy: one epsilon, or the steps that have none."""

from dataclasses import replace

from leakledger.audit.records import PrivacyAccount, PrivacyPart
from leakledger.reports.html import render
from leakledger.reports.privacy import Guaranteed, guaranteed, outside
from tests.reports.example import example
from tests.reports.page import parse


def settings_of(record):
    return dict(enumerate(dict.fromkeys(c.setting for c in record.cases), 1))


def test_the_seed_with_the_largest_epsilon_speaks_for_a_setting_and_none_is_more_than_any():
    record = example()
    own = [c for c in record.cases if c.setting == record.cases[0].setting]
    stated = [PrivacyAccount("record", "replace", 1e-5, e, "composed") for e in (1.0, 3.0, 2.0)]
    cases = [replace(c, privacy=(a,)) for c, a in zip(own, stated, strict=True)]
    assert guaranteed({1: own[0].setting}, cases)[0].accounts == (stated[1],)
    none = PrivacyAccount("record", "replace", 1e-5, None, missing=("training: nothing",))
    assert guaranteed({1: own[0].setting}, [*cases, replace(own[0], privacy=(none,))])[0].accounts == (none,)


def test_the_page_states_epsilon_with_its_unit_and_neighbours_or_names_the_step_that_has_none():
    record = example()
    text = parse(render(record)).by_id("privacy").text
    assert "1.2500" in text
    assert "one is there or not" in text
    assert "no epsilon" in text
    assert "adds no noise" in text


def test_units_without_an_epsilon_for_the_same_reasons_share_a_line_and_others_do_not():
    def account(unit, epsilon=None, missing=("training: nothing",)):
        return PrivacyAccount(unit, "replace", 1e-5, epsilon, missing=missing)

    setting = example().cases[0].setting

    def units(*accounts):
        return [units for units, _ in Guaranteed(setting, accounts).lines]

    assert units(account("record"), account("client")) == ["record, client"]
    assert units(account("record"), account("client", missing=("encoder: counts",))) == ["record", "client"]
    assert units(account("record", 1.0, ()), account("client")) == ["record", "client"]


def test_what_no_figure_speaks_of_is_listed_once_and_only_beside_figures():
    record = example()
    rows = guaranteed(settings_of(record), record.cases)
    assert len(outside(rows)) == 1
    without = [replace(r, accounts=tuple(a for a in r.accounts if a.epsilon is None)) for r in rows]
    assert outside(without) == []


def test_a_record_without_accounts_says_so():
    record = example()
    bare = replace(record, cases=tuple(replace(c, privacy=()) for c in record.cases))
    assert "No case has been accounted for" in parse(render(bare)).by_id("privacy").text


def test_the_epsilon_of_one_stage_alone_stands_with_its_delta_and_with_what_it_does_not_speak_of():
    part = PrivacyPart("training", "Gaussian noise", 2.5)
    stated = PrivacyAccount("record", "replace", 1e-6, None, "", (part,), ("encoder: counts",), ("held-out rows",))
    record = example()
    bare = replace(record, cases=tuple(replace(c, privacy=(stated,)) for c in record.cases))
    text = parse(render(bare)).by_id("privacy").text
    assert "training alone: epsilon 2.5000 at delta 1e-06: Gaussian noise" in " ".join(text.split())
    assert "held-out rows" in text
