"""Epoch frames: what was written is read, what a later version adds is passed over, and the impossible is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import FrameInvalid
from goqueue.limits import OFFSET_MAX
from goqueue.storage import frame, scan
from goqueue.storage.epoch_frame import KEY, EpochFrame, decode_epoch_frame, epoch_messages, is_epoch_frame
from goqueue.storage.transaction_marker import TransactionMarker

NUMBERS = st.integers(0, OFFSET_MAX)
EXAMPLE = EpochFrame(7, "node-1", 1_700_000_000_000_000_000, 6)
VALUE = frame.decode(EXAMPLE.encode()).value


@given(st.sets(NUMBERS, min_size=2, max_size=2), st.text(max_size=40), NUMBERS)
def test_epoch_frame_round_trips(epochs: set[int], node: str, time_ns: int) -> None:
    began = EpochFrame(max(epochs), node, time_ns, min(epochs))
    message = frame.decode(began.encode())
    assert is_epoch_frame(message)
    assert decode_epoch_frame(message) == began


def test_epoch_frame_of_a_later_version_is_read() -> None:
    later = (2).to_bytes(2, "big") + VALUE[2:] + b"what version 2 adds"
    assert decode_epoch_frame(frame.decode(frame.encode(later, KEY, flags=frame.CONTROL))) == EXAMPLE


@pytest.mark.parametrize(
    "value",
    [
        b"",
        VALUE[:-1],
        VALUE + b"more",
        bytes(2) + VALUE[2:],
        VALUE[:-1] + b"\xff",
        frame.decode(EpochFrame(6, "node-1", 0, 6).encode()).value,
        frame.decode(EpochFrame(0, "node-1", 0).encode()).value,
        frame.decode(EpochFrame(OFFSET_MAX + 1, "node-1", 0).encode()).value,
        frame.decode(EpochFrame(1, "node-1", OFFSET_MAX + 1).encode()).value,
    ],
)
def test_impossible_epoch_frame_is_refused(value: bytes) -> None:
    message = frame.decode(frame.encode(value, KEY, flags=frame.CONTROL, offset=5))
    assert is_epoch_frame(message)
    with pytest.raises(FrameInvalid, match="epoch frame at offset 5 is impossible"):
        decode_epoch_frame(message)


def test_epoch_frames_differ_from_messages_and_other_control_records() -> None:
    [marker] = TransactionMarker(7, 1, False, ((3, 5),)).encode()
    contents = [
        frame.encode(VALUE, KEY),
        frame.encode(VALUE, KEY, flags=frame.TRANSACTIONAL),
        frame.encode(VALUE, b"Epoch", flags=frame.CONTROL),
        frame.encode(b"", b"delivered", flags=frame.CONTROL),
        EXAMPLE.encode(),
        marker,
    ]
    assert [is_epoch_frame(frame.decode(one)) for one in contents] == [False] * 4 + [True, False]
    found = list(epoch_messages(scan.walk(b"".join(contents))))
    assert [decode_epoch_frame(one) for one in found] == [EXAMPLE]
