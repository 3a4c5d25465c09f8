from leakledger.attacks import ATTACKS
from leakledger.audit.records.checks import TITLES, check_title
from leakledger.reports.words import noun


def test_every_check_of_an_attack_has_one_name_for_readers_that_is_no_code():
    checks = {check for attack in ATTACKS.values() for check in attack.checks}
    assert checks == TITLES.keys()
    assert len(set(TITLES.values())) == len(TITLES)
    assert all(" " in title for title in TITLES.values())


def test_sentences_of_exports_name_what_a_check_found():
    """SARIF said 'The transcript shows stated, without statistics'."""
    assert noun("stated") == "data on a sender's own rows in the clear"
    assert noun("of-a-plugin") == check_title("of-a-plugin") == "of a plugin"
    assert noun("held_out_mean") == "means of the target in held-out rows"
