"""Suggestions for misspelt names."""

from leakledger.preprocess.data.suggest import closest, listed, shown


def test_the_nearest_name_is_suggested():
    assert closest("agee", ["age", "sex", "wage-gap"]) == " (did you mean 'age'?)"


def test_case_is_no_difference_and_the_known_spelling_is_shown():
    assert closest("tenyearchd", ["TenYearCHD", "age"]) == " (did you mean 'TenYearCHD'?)"


def test_nothing_is_suggested_for_a_name_like_none():
    assert closest("zebra", ["age", "sex"]) == ""
    assert closest("age", []) == ""


def test_a_name_is_shown_as_it_is_unless_a_line_or_a_list_would_misread_it():
    assert shown("age at entry") == "age at entry"
    assert shown("two\nlines") == "'two\\nlines'"
    assert listed(["weight, kg", "age", " b"]) == "'weight, kg', age, ' b'"
