import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.public import Box, PrivateKey, PublicKey

from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.sealing import Identity, SealError, filled, new_identity, open_box, seal_box, unfilled
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.wire import encode
from tests.preprocess.low_order import NO_KEYS
from tests.preprocess.notes import tell

# "Cryptography in NaCl", section 10 (also tests/box.c of NaCl): keys, nonce, plaintext and box of its worked example.
ALICE = Identity(bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
BOB = Identity(bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
BOB_PUBLIC = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
NONCE = 0x69696EE955B62B73CD62BDA875FC73D68219E0036B7A0B37
PLAINTEXT = (
    "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c61296cdc3c01233561f4"
    "1db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde048977eb48f59ffd4924ca1c60902e52"
    "f0a089bc76897040e082f937763848645e0705"
)
BOX = (
    "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186ac0dfc17c98dce87b"
    "4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da"
    "99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5"
)


def test_the_worked_example_of_nacl_comes_out() -> None:
    assert BOB.public_bytes().hex() == BOB_PUBLIC
    assert seal_box(ALICE, BOB.public_bytes(), NONCE, bytes.fromhex(PLAINTEXT)).hex() == BOX
    assert open_box(BOB, ALICE.public_bytes(), NONCE, bytes.fromhex(BOX)).hex() == PLAINTEXT


@given(st.binary(max_size=100), st.integers(0, 2**63))
@settings(deadline=None)
def test_a_seal_is_a_box_under_the_sequence_number(content: bytes, sequence: int) -> None:
    sealed = seal_box(ALICE, BOB.public_bytes(), sequence, content)
    reference = Box(PrivateKey(BOB.secret), PublicKey(ALICE.public_bytes()))
    assert reference.decrypt(sealed, sequence.to_bytes(24, "big")) == content
    assert len(sealed) == len(content) + 16
    assert open_box(BOB, ALICE.public_bytes(), sequence, sealed) == content


@pytest.mark.parametrize("position", [0, 15, 16, -1])
def test_a_flipped_bit_breaks_the_seal(position: int) -> None:
    sealed = bytearray(seal_box(ALICE, BOB.public_bytes(), 7, b"content"))
    sealed[position] ^= 1
    with pytest.raises(ValueError, match="seal is broken"):
        open_box(BOB, ALICE.public_bytes(), 7, bytes(sealed))


@pytest.mark.parametrize("length", [0, 1, 15, 16, 22])
def test_a_shortened_message_breaks_the_seal(length: int) -> None:
    sealed = seal_box(ALICE, BOB.public_bytes(), 7, b"content")
    assert len(sealed) == 23
    with pytest.raises(ValueError, match="seal is broken"):
        open_box(BOB, ALICE.public_bytes(), 7, sealed[:length])


def test_another_number_sender_or_recipient_breaks_the_seal() -> None:
    sealed = seal_box(ALICE, BOB.public_bytes(), 7, b"content")
    carol = Identity(bytes(range(32)))
    for who, sender, sequence in [(BOB, ALICE, 8), (BOB, carol, 7), (carol, ALICE, 7)]:
        with pytest.raises(ValueError, match="seal is broken"):
            open_box(who, sender.public_bytes(), sequence, sealed)


def test_an_identity_never_shows_its_secret() -> None:
    assert repr(ALICE) == "Identity()"


def test_an_identity_follows_from_the_secret_of_its_party_and_is_not_it() -> None:
    assert new_identity(pinned(5)) == new_identity(pinned(5)) != new_identity(pinned(6))
    assert new_identity(pinned(5)).secret != pinned(5)


@given(st.binary(max_size=60), st.integers(61, 200))
@settings(deadline=None)
def test_what_is_filled_up_has_the_agreed_size_and_comes_back(content: bytes, size: int) -> None:
    assert len(filled(content, size)) == size
    assert unfilled(filled(content, size), size) == content


@pytest.mark.parametrize("length", [8, 9, 100])
def test_a_message_that_does_not_fit_is_refused_with_both_sizes(length: int) -> None:
    with pytest.raises(ValueError, match=rf"{length} bytes does not fit into sealed messages of 8"):
        filled(bytes(length), 8)


@pytest.mark.parametrize("changed", [b"", bytes(8), b"a" * 8, b"note\x80\0\0\0\0", b"note\x80"])
def test_filling_of_another_form_is_refused(changed: bytes) -> None:
    with pytest.raises(SealError, match="not filled up as agreed"):
        unfilled(changed, 8)


def test_messages_of_a_fixed_size_look_alike_to_a_relay_and_arrive_as_they_were() -> None:
    fed = Simulated(["a", "b"], secret=pinned(1))
    with fed.fixed_size(64):
        for note in ("", "a secret", "a much longer secret than that"):
            arrived = tell(fed, fed.at("a", note), "b", "note", via="server", sealed=True)
            assert fed.own(arrived) == note
        tell(fed, fed.at("a", "open"), "b", "note")
        with pytest.raises(
            ValueError, match=r"bytes does not fit into sealed messages of 64; raise sealed_bytes \(a -> b"
        ):
            tell(fed, fed.at("a", "x" * 64), "b", "note", via="server", sealed=True)
    tell(fed, fed.at("a", "after"), "b", "note", via="server", sealed=True)
    notes = [m for m in fed.ledger if m.topic == "note"]
    assert [m.size for m in notes if m.sealed] == [80, 80, 80, len(notes[-1].content or b"") + 16]
    assert notes[3].size < 64


def test_a_relay_sees_size_and_route_but_no_content() -> None:
    fed = Simulated(["a", "b"], secret=pinned(1))
    tell(fed, fed.at("a", "a secret"), "b", "note", via="server", sealed=True)
    original = list(fed.ledger)[-1]
    seen = original.as_seen_by({"server"})
    assert (seen.size, seen.route, seen.sender, seen.recipient) == (original.size, "relay", "a", "b")
    assert b"a secret" not in seen.body
    assert seen.content is None
    with pytest.raises(ValueError, match="sealed for b"):
        _ = seen.payload
    assert original.as_seen_by({"b"}).payload == original.as_seen_by({"a", "server"}).payload
    assert original.payload.value == "a secret"


def test_public_keys_go_through_the_server_once_before_the_first_sealed_message() -> None:
    fed = Simulated(["a", "b"], secret=pinned(1))
    for to in ("b", "server", "b"):
        tell(fed, fed.at("a", 1), to, "note", sealed=True)
    topics = [m.topic for m in fed.ledger]
    assert topics == ["channel.public-key"] * 6 + ["note"] * 3
    assert {m.relay for m in fed.ledger if "server" not in (m.sender, m.recipient)} == {"server", None}


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), *NO_KEYS])
def test_a_public_key_that_no_secret_can_be_agreed_with_is_refused_by_name_before_anything_is_sealed(
    key: bytes,
) -> None:
    class Meddling(Simulated):
        """A federation whose relay passes on another key of b."""

        def _carry(self, header, content):  # type: ignore[no-untyped-def]
            received = super()._carry(header, content)
            return encode(key) if (header.topic, header.sender) == ("channel.public-key", "b") else received

    fed = Meddling(["a", "b"], secret=pinned(1))
    with pytest.raises(
        FederationError, match=r"refuses the public key of b: no secret can be agreed with it \(step start\)$"
    ):
        tell(fed, fed.at("a", 1), "b", "note", via="server", sealed=True)
    assert [m.topic for m in fed.ledger if m.sealed] == []
    assert [abort.reason for abort in fed.ledger.aborts] == ["SealError"]


def test_a_message_that_was_changed_on_its_way_is_refused_by_name() -> None:
    class Meddling(Simulated):
        """A federation whose relay flips the last bit of what passes."""

        def _open(self, header, body):  # type: ignore[no-untyped-def]
            return super()._open(header, body[:-1] + bytes([body[-1] ^ 1]))

    fed = Meddling(["a", "b"], secret=pinned(1))
    tell(fed, fed.at("a", 1), "b", "open")
    with pytest.raises(
        ValueError, match=r"b refuses a message: the seal is broken \(a -> b, note, step start, round 0\)"
    ):
        tell(fed, fed.at("a", 1), "b", "note", via="server", sealed=True)
