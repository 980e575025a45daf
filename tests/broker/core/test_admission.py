"""Admission: what a client may put into a topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.admission import remaining_frames, validate_batch
from goqueue.broker.core.producers import ProducerMark
from goqueue.errors import FrameInvalid, GoQueueError, MessageTooLarge
from goqueue.limits import MESSAGE_BYTES, SEQUENCE_COUNT
from goqueue.storage import frame, scan
from goqueue.wire.sections import PRODUCER_HEADER
from tests.broker.brokers import Running, frames_of, offer_batch


def admitted(content: bytes, most: int = MESSAGE_BYTES) -> ProducerMark | None:
    return validate_batch(scan.check_batch(bytearray(content)), most)


def with_headers(*headers: tuple[str, bytes], value: bytes = b"v") -> bytes:
    return frame.encode(value, None, frame.encode_headers(headers))


MARK = ProducerMark(7, 0, 5, 2)


@pytest.mark.parametrize(
    ("content", "mark"),
    [
        pytest.param(frames_of([b"one", b"two"]) + with_headers(("trace", b"1")), None, id="plain_messages"),
        pytest.param(frames_of([b"one", b"two"], MARK), MARK, id="mark_on_first_message"),
        pytest.param(frame.encode(b"v", b"k", flags=frame.COMPRESSED | frame.TOMBSTONE), None, id="client_flags"),
    ],
)
def test_valid_batch_is_accepted(content: bytes, mark: ProducerMark | None) -> None:
    assert admitted(content) == mark


MARK_HEADER = (PRODUCER_HEADER, MARK.encode())
RESERVED = ("__mine", b"")
WRONG_CHECKSUM = frames_of([b"one", b"two", b"three"])[:-3] + b"!!!"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "has none", id="no_message"),
        *(
            pytest.param(frames_of([b"one"]) + frame.encode(b"v", b"k", flags=flag), "flag", id=f"broker_flag_{flag}")
            for flag in (frame.CONTROL, frame.COMMIT, frame.TRANSACTIONAL)
        ),
        pytest.param(with_headers(RESERVED), "__mine", id="reserved_header"),
        pytest.param(
            with_headers((PRODUCER_HEADER, ProducerMark(7, 0, 5, 1).encode()), RESERVED),
            "__mine",
            id="reserved_header_after_mark",
        ),
        pytest.param(with_headers(("trace", b"1"), MARK_HEADER), "__producer", id="mark_is_not_first_header"),
        pytest.param(frames_of([b"one"]) + with_headers(MARK_HEADER), "__producer", id="mark_on_second_message"),
        pytest.param(
            frames_of([b"one", b"two", b"three"], MARK), "says 2 messages, the batch has 3", id="mark_with_other_count"
        ),
        pytest.param(
            frames_of([b"one"]) + frame.encode(b"", None, flags=frame.TOMBSTONE),
            "tombstone",
            id="keyless_tombstone",
        ),
        pytest.param(WRONG_CHECKSUM, "checksum", id="wrong_checksum"),
        pytest.param(frames_of([b"one", b"two"])[:-1], "the frame says", id="incomplete_message"),
    ],
)
def test_invalid_batch_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(FrameInvalid, match=reason):
        admitted(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        MARK.encode() + b"\0",
        ProducerMark(-1, 0, 0, 1).encode(),
        ProducerMark(7, -1, 0, 1).encode(),
        ProducerMark(7, 0, SEQUENCE_COUNT, 1).encode(),
        ProducerMark(7, 0, 0, 0).encode(),
    ],
)
def test_invalid_producer_mark_is_refused(content: bytes) -> None:
    with pytest.raises(FrameInvalid, match="__producer"):
        admitted(with_headers((PRODUCER_HEADER, content)))


def test_message_size_limit_is_inclusive() -> None:
    content = frame.encode(bytes(1000), b"key")
    size = 1000 + len(b"key") + len(frame.NO_HEADERS)
    assert admitted(content, size) is None
    with pytest.raises(MessageTooLarge, match=f"{size} bytes"):
        admitted(content, size - 1)


@pytest.mark.parametrize("at", [frame.AT_KEY_LENGTH, frame.AT_VALUE_LENGTH, frame.AT_HEADERS_LENGTH])
def test_wrong_frame_lengths_are_refused(at: int) -> None:
    content = bytearray(frames_of([b"one", b"two"]))
    content[at] = 0x7F
    with pytest.raises(FrameInvalid):
        admitted(bytes(content))


@given(st.binary(max_size=200), st.integers(0, 200))
def test_arbitrary_bytes_are_accepted_or_leave_the_log_empty(noise: bytes, cut: int) -> None:
    running = Running()
    running.create()
    partition = running.partition()
    try:
        offer_batch(partition, frames_of([b"one", b"two"], MARK)[:cut] + noise)
    except GoQueueError:
        assert partition.log_end == 0


@given(st.integers(2, 6), st.integers(1, 5))
def test_remaining_frames_have_an_adjusted_producer_mark(count: int, missing: int) -> None:
    missing = min(missing, count - 1)
    mark = ProducerMark(7, 3, SEQUENCE_COUNT - 2, count)
    sent = frames_of([b"%d" % number for number in range(count)], mark, b"key")
    rest, rest_mark = remaining_frames(scan.check_batch(bytearray(sent)), mark, missing)
    assert validate_batch(rest, MESSAGE_BYTES) == rest_mark
    assert rest_mark == ProducerMark(7, 3, (mark.sequence + count - missing) % SEQUENCE_COUNT, missing)
    content = bytes(rest.buffer)
    found = [frame.decode(content, position) for position in frame.walk(content)]
    assert [one.value for one in found] == [b"%d" % number for number in range(count - missing, count)]
    assert {one.key for one in found} == {b"key"}


def test_producer_mark_does_not_count_toward_message_size() -> None:
    exactly = [bytes(1022), bytes(1022)]  # and two for the count of the headers
    assert admitted(frames_of(exactly, MARK), 1024) == MARK
    with pytest.raises(MessageTooLarge, match="1025"):
        admitted(frames_of([bytes(1023), b""], MARK), 1024)
