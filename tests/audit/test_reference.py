from pathlib import Path

from leakledger.attacks import ATTACKS
from leakledger.audit.reference import keys_of, options_text, page, sections
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.options import options_of
from leakledger.preprocess.scalers import SCALERS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_what_the_code_says():
    assert PAGE.read_text(encoding="utf-8") == page(), "stale: run `make docs`"


def test_the_page_has_every_key_of_every_section_and_every_option_with_its_help():
    text = page()
    methods = (*ENCODERS.values(), *SCALERS.values(), *ATTACKS.values())
    stated = [o for section in sections().values() for o in keys_of(section).values()]
    for o in [*stated, *(o for method in methods for o in options_of(method).values())]:
        assert o.help, o.name
        assert f"| `{o.name}` |" in text
        assert o.help in text


def test_choices_and_ranges_are_in_words():
    keys = keys_of(sections()["audit"])
    assert keys["jobs"].range == "a whole number from 1, or none"
    assert keys["seeds"].range == "a list of whole numbers from 0"
    assert keys_of(sections()["data"])["test_fraction"].range == "a number above 0 and below 1"
    assert '"by-column"' in keys_of(sections()["partition"])["kind"].range
    assert options_of(ENCODERS["dh-psi"])["psi_route"].range == '"relay", "sealed", "direct" or none'


def test_the_options_of_a_method_are_printed_with_default_help_and_range():
    text = options_text(ENCODERS, "rolling-hash")
    assert "buckets = 5000\n      columns of a feature: M (a whole number from 1 and up to" in text
    assert options_text(ATTACKS, "plaintext") == ""
