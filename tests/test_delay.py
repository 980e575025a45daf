"""The headers of delayed messages, as the plain codec of frames sees them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue import delay
from goqueue.errors import FrameInvalid
from goqueue.storage import frame

NUMBERS = st.integers(0, 2**64 - 1)


@given(NUMBERS)
def test_each_is_encoded_to_the_same_length_behind_its_prefix(number: int) -> None:
    for header in (delay.deliver_at_header(number), delay.deliver_in_header(number), delay.delayed_of_header(number)):
        encoded = frame.encode_headers([header])[2:]
        assert encoded.startswith(delay.PREFIXES[header[0]])
        assert len(encoded) == delay.HEADER_BYTES
        assert delay.decode_number(*header) == number


@given(NUMBERS, st.integers(0, 2**63))
def test_what_is_due_is_found_behind_whatever_stands_first(number: int, time: int) -> None:
    before = ("__producer", b"...")
    assert delay.due_time([before, delay.deliver_at_header(number), ("own", b"1")], time) == number
    assert delay.due_time([before, delay.deliver_in_header(number)], time) == time + number
    assert delay.due_time([before, ("own", b"1")], time) is None


def test_a_delivered_message_knows_what_it_was() -> None:
    assert delay.delayed_offset([delay.delayed_of_header(7), ("own", b"1")]) == 7
    assert delay.delayed_offset([("own", b"1")]) is None
    with pytest.raises(FrameInvalid, match="__delayed_of has 5 bytes instead of 8"):
        delay.delayed_offset([(delay.DELAYED_OF, b"seven")])
