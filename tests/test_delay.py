"""The headers of delayed messages, as the plain codec of frames sees them."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue import delay
from goqueue.storage import frame

NUMBERS = st.integers(0, 2**64 - 1)


@given(NUMBERS)
def test_headers_are_what_the_codec_would_make_of_their_names(number: int) -> None:
    value = number.to_bytes(8, "big")
    for name, encoded in (
        (delay.DELIVER_AT, delay.deliver_at(number)),
        (delay.DELIVER_IN, delay.deliver_in(number)),
        (delay.DELAYED_OF, delay.delayed_of(number)),
    ):
        assert encoded == frame.encode_headers([(name, value)])[2:]
        assert encoded.startswith(delay.PREFIXES[name])
        assert len(encoded) == delay.HEADER_BYTES == delay.PREFIX_BYTES + 8


@given(NUMBERS, st.integers(0, 2**63))
def test_what_is_due_is_found_behind_whatever_stands_first(number: int, time: int) -> None:
    def due(name: str) -> int | None:
        return delay.due_ns([("__producer", b"..."), (name, number.to_bytes(8, "big")), ("own", b"1")], time)

    assert due(delay.DELIVER_AT) == number
    assert due(delay.DELIVER_IN) == time + number
    assert due("other") is None


def test_a_delivered_message_knows_what_it_was() -> None:
    assert delay.origin([(delay.DELAYED_OF, (7).to_bytes(8, "big")), ("own", b"1")]) == 7
    assert delay.origin([("own", b"1")]) is None
    assert delay.origin([(delay.DELAYED_OF, b"seven")]) is None


def test_three_prefixes_are_three() -> None:
    assert len({len(prefix) for prefix in delay.PREFIXES.values()}) == 1
    assert len(set(delay.PREFIXES.values())) == 3
