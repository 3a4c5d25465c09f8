"""No damage to a file of a finished run passes unseen, and none ends in a traceback."""

import shutil
from collections import Counter

import pytest

from tests.audit.damage import damaged, outcome, used
from tests.audit.recorded import made

FEW, MANY = 80, 1_000
USED = 16  # of the few, one in so many is also given to the other commands, which take longer


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made(tmp_path_factory.mktemp("damage"))


def counted(run, folder, seeds, every):
    """How often each kind of damage to each file was named, or left the meaning as it was."""
    counts = Counter()
    for seed in seeds:
        kind, name = damaged(run, folder, seed)
        place = "transcript" if name.startswith("transcripts/") else name
        counts[place, kind, outcome(run, folder, name, run.parent / "key.pub")] += 1
        if seed % every == 0:
            used(run, folder, name)
        shutil.rmtree(folder)
    return counts


@pytest.mark.slow
def test_a_few_damages_are_all_named_or_change_no_meaning(run, tmp_path):
    counts = counted(run, tmp_path / "copy", range(FEW), USED)
    assert {place for place, *_ in counts} == {
        "record.sqlite",
        "report.html",
        "results.json",
        "secrets",
        "signature.json",
        "transcript",
    }
    assert sum(n for (*_, told), n in counts.items() if told == "named") > 0.9 * FEW


@pytest.mark.slow
@pytest.mark.soak
def test_a_thousand_damages_are_all_named_or_change_no_meaning(run, tmp_path):
    counts = counted(run, tmp_path / "copy", range(FEW, FEW + MANY), 1)
    assert sum(counts.values()) == MANY
    for (place, kind, told), n in sorted(counts.items()):
        print(f"{place:16} {kind:10} {told:6} {n}")
