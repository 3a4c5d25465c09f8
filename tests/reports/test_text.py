import math
import unicodedata
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.audit.records import invisible
from leakledger.reports import text

anything = st.text(st.characters())
seen = st.characters(categories=["L", "N", "P", "S", "Zs"]).filter(lambda char: not invisible(char))
INKLESS = "\u034f\u115f\u1160\u17b4\u180b\u2800\u3164\ufe00\ufe0f\uffa0\U0001d159\U000e0100\U000e01ef"


@given(anything)
def test_visible_text_fits_any_file_and_turns_nothing_around(words):
    shown = text.visible(words)
    shown.encode("utf-8")
    ET.fromstring(f"<a>{shown.replace('&', '&amp;').replace('<', '&lt;')}</a>")
    turning = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    assert not turning & {unicodedata.bidirectional(c) for c in shown}
    assert not any(map(invisible, shown))


@pytest.mark.parametrize("sign", [*"\u00ad\u061c\u200b\u200d\u200e\u200f\u2028\u2029\u2060\ufeff\U000e0061", *INKLESS])
def test_two_names_that_differ_in_a_sign_that_is_not_seen_do_not_look_alike(sign):
    assert text.visible(f"age{sign}") == f"age⟨U+{ord(sign):04X}⟩"


@given(st.text(seen))
def test_ordinary_text_stays_as_it_is(words):
    assert text.visible(words) == words


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.12345, "0.123"),
        (-0.5, "−0.500"),
        (0.0, "0.000"),
        (1e-5, "1.0e−05"),
        (1234.5, "1,234"),
        (None, "–"),
        (math.nan, "–"),
        (-math.inf, "−∞"),
    ],
)
def test_numbers_are_rounded_one_way(value, shown):
    assert text.number(value) == shown


@given(st.floats(-999, 999))
def test_a_shown_number_is_within_half_a_unit_of_its_last_digit(value):
    assert float(text.number(value).replace("−", "-")) == pytest.approx(value, abs=5.1e-4)


@pytest.mark.parametrize(
    ("octets", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.7, "1.00 kB"),
        (1000, "1.00 kB"),
        (9_996, "10.0 kB"),
        (12_345_678, "12.3 MB"),
        (999_500_000, "1.00 GB"),
        (10**15, "1,000 TB"),
        (None, "–"),
    ],
)
def test_sizes_have_three_significant_digits_and_a_decimal_unit(octets, shown):
    assert text.size(octets) == shown


def test_counts_are_whole_unless_they_are_means():
    assert [text.count(v) for v in (1234.0, 2.5, None)] == ["1,234", "2.5", "–"]


def test_an_open_bucket_says_so():
    inf = math.inf
    bounds = [(0.0, 0.25), (-inf, -1.0), (1.5, inf), (-inf, inf)]
    assert [text.span(*b) for b in bounds] == ["0 to 0.25", "up to −1", "above 1.5", "any"]


def test_a_bucket_without_an_end_is_open_as_one_that_ends_at_infinity():
    assert [text.span(None, 0.72), text.span(2.04, None), text.span(None, None)] == ["up to 0.72", "above 2.04", "any"]


def test_per_cent_has_one_decimal_where_it_needs_one():
    shown = [text.percent(v) for v in (0.2, 0.9734, 1.0, 0.0, -0.051)]
    assert shown == ["20\u00a0%", "97.3\u00a0%", "100\u00a0%", "0\u00a0%", "−5.1\u00a0%"]
    assert text.percent(None) == "–"


def test_an_interval_needs_both_ends():
    assert text.interval(0.1, 0.25) == "[0.100, 0.250]"
    assert text.interval(None, 0.25) == "–"


def test_an_interval_is_rounded_outwards():
    assert text.interval(0.6046, 0.9971) == "[0.604, 0.998]"
    assert text.interval(-0.5001, 0.1004) == "[−0.501, 0.101]"
    assert text.interval(0.0007, 1.0) == "[0.000, 1.000]"
    assert text.interval(2e-9, 1234.5) == "[2.0e−09, 1,235]"


def test_one_round_and_many_read_as_such():
    assert [text.rounds(3, 3), text.rounds(0, 99)] == ["round 3", "rounds 0–99"]


@given(anything, st.integers(1, 40))
def test_a_shortened_text_fits_and_marks_what_it_lost(words, length):
    cut = text.shortened(words, length)
    assert len(cut) <= length
    assert cut == words or (cut[-1] == "…" and words.startswith(cut[:-1]))


@given(st.floats(-2, 1e6))
def test_a_bound_is_shown_as_no_less_than_it_is_but_for_rounding_of_floats(value):
    shown = float(text.bound(value).replace("−", "-"))
    assert value - 1e-11 * abs(value) <= shown < value + 0.00101


def test_a_bound_of_nothing_is_a_dash():
    assert (text.bound(None), text.bound(math.inf)) == ("–", "∞")
