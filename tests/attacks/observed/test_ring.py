"""What the messages of a ring fix, and which of them are refused."""

from dataclasses import replace

import pytest

from leakledger.attacks.observed.ring import Unreadable, read_ring
from leakledger.preprocess.messages import RingHighest
from leakledger.preprocess.views import MalformedMessage
from leakledger.preprocess.wire import encode
from tests.attacks.ring_example import FEATURES, SETS, run

RING = run("uhe")
EVERYONE = RING.view(*SETS)


def with_first(view, **changes):
    """The view with the first message of the ring changed; `highest` stands for its payload."""
    first = next(view.on(RingHighest))
    if "highest" in changes:
        body = encode(dict.fromkeys(FEATURES, changes.pop("highest")))
        changes |= {"body": body, "content": body}
    return replace(view, messages=tuple(replace(m, **changes) if m is first else m for m in view.messages))


def test_the_boundaries_of_all_parties_are_the_running_numbers_of_their_values():
    found = read_ring(EVERYONE, None)
    assert (found.ring, found.features) == (tuple(SETS), FEATURES)
    assert found.ends[0].tolist() == [0, 0]
    assert (found.ends[1:] >= found.ends[:-1]).all()
    assert found.ends[1].tolist() == [RING.size("P1", f) for f in FEATURES]
    assert found.segments() == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_two_messages_about_one_boundary_must_agree():
    first = next(EVERYONE.on(RingHighest))
    again = replace(first, sequence=10_000)
    twice = replace(EVERYONE, messages=(*EVERYONE.messages, again))
    assert read_ring(twice, None).evidence == read_ring(EVERYONE, None).evidence
    body = encode(dict.fromkeys(FEATURES, 99))
    other = replace(EVERYONE, messages=(*EVERYONE.messages, replace(again, body=body, content=body)))
    with pytest.raises(Unreadable, match=rf"message 10000 .* contradicts message {first.sequence}$"):
        read_ring(other, None)


def test_a_highest_number_is_at_least_minus_one():
    with pytest.raises(MalformedMessage, match=r"\(ring.highest, from P1\): highest is less than -1"):
        read_ring(with_first(EVERYONE, highest=-2), None)
    assert read_ring(with_first(EVERYONE, highest=-1), None).ends[1].tolist() == [0, 0]


def test_numbers_never_fall_along_the_ring():
    with pytest.raises(Unreadable, match="highest numbers fall along the ring"):
        read_ring(with_first(EVERYONE, highest=1000), None)


@pytest.mark.parametrize("end", ["sender", "recipient"])
def test_only_clients_are_in_the_ring(end):
    for stranger in ("server", "nobody"):
        with pytest.raises(Unreadable, match="the ring does not consist of the public clients"):
            read_ring(with_first(EVERYONE, **{end: stranger}), None)
