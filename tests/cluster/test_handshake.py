"""The keys and seals of connections between nodes."""

from goqueue.cluster.handshake import PeerKeys, Sealer

SECRET = b"a secret of the whole cluster"
DIALER, LISTENER = ("n1", b"\1" * 32), ("n2", b"\2" * 32)


def test_both_sides_derive_the_same_keys() -> None:
    one, other = PeerKeys(SECRET, DIALER, LISTENER), PeerKeys(SECRET, DIALER, LISTENER)

    assert one.listener_proof == other.listener_proof
    assert len({one.listener_proof, one.dialer_key, one.listener_key}) == 3


def test_another_secret_nonce_or_name_gives_other_keys() -> None:
    keys = PeerKeys(SECRET, DIALER, LISTENER)
    variants = (
        PeerKeys(b"another secret of a cluster", DIALER, LISTENER),
        PeerKeys(SECRET, ("n1", b"\3" * 32), LISTENER),
        PeerKeys(SECRET, DIALER, ("n2", b"\3" * 32)),
        PeerKeys(SECRET, ("n3", b"\1" * 32), LISTENER),
        PeerKeys(SECRET, LISTENER, DIALER),
    )

    assert all(one.listener_proof != keys.listener_proof for one in variants)
    assert all(one.dialer_key != keys.dialer_key for one in variants)


def test_message_that_was_changed_repeated_or_left_out_is_not_sealed() -> None:
    sender, reader = Sealer(b"k" * 32), Sealer(b"k" * 32)
    first, second, third = (sender.seal(content) for content in (b"one", b"two", b"three"))

    assert reader.is_sealed(b"one", first)
    assert not reader.is_sealed(b"one", first)  # repeated
    assert reader.is_sealed(b"three", third)
    assert not Sealer(b"k" * 32).is_sealed(b"two", second)  # the one before is missing
    assert not Sealer(b"k" * 32).is_sealed(b"One", first)
    assert not Sealer(b"K" * 32).is_sealed(b"one", first)
