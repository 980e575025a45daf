"""Admission: what a client may put into a topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.admission import admit, remainder
from goqueue.broker.producers import MARK_NAME, Mark
from goqueue.errors import FrameInvalid, GoQueueError, MessageTooLarge
from goqueue.limits import MESSAGE_BYTES, SEQUENCE_COUNT
from goqueue.storage import frame, scan
from tests.broker.brokers import Running, frames_of, offer_batch


def admitted(content: bytes, most: int = MESSAGE_BYTES) -> Mark | None:
    return admit(scan.batch(bytearray(content)), most)


def with_headers(*headers: tuple[str, bytes], value: bytes = b"v") -> bytes:
    return frame.encode(value, None, frame.encode_headers(headers))


MARK = Mark(7, 0, 5, 2)


def test_plain_messages_come_in_without_a_mark() -> None:
    assert admitted(frames_of([b"one", b"two"]) + with_headers(("trace", b"1"))) is None


def test_the_mark_of_a_producer_stands_on_the_first_message() -> None:
    assert admitted(frames_of([b"one", b"two"], MARK)) == MARK


def test_no_message_at_all_is_refused() -> None:
    with pytest.raises(FrameInvalid, match="has none"):
        admitted(b"")


@pytest.mark.parametrize("flag", [frame.CONTROL, frame.COMMIT, frame.TRANSACTIONAL])
def test_flags_that_are_the_brokers_own_are_refused(flag: int) -> None:
    with pytest.raises(FrameInvalid, match="flag"):
        admitted(frames_of([b"one"]) + frame.encode(b"v", b"k", flags=flag))


def test_flags_of_clients_are_not() -> None:
    assert admitted(frame.encode(b"v", b"k", flags=frame.COMPRESSED | frame.TOMBSTONE)) is None


def test_headers_that_are_the_brokers_own_are_refused_wherever_they_stand() -> None:
    with pytest.raises(FrameInvalid, match="__mine"):
        admitted(with_headers(("__mine", b"")))
    with pytest.raises(FrameInvalid, match="__mine"):
        admitted(with_headers((MARK_NAME, Mark(7, 0, 5, 1).encode()), ("__mine", b"")))


def test_a_mark_that_stands_elsewhere_is_refused() -> None:
    mark = (MARK_NAME, MARK.encode())
    with pytest.raises(FrameInvalid, match="__producer"):
        admitted(with_headers(("trace", b"1"), mark))
    with pytest.raises(FrameInvalid, match="__producer"):
        admitted(frames_of([b"one"]) + with_headers(mark))


def test_a_mark_that_counts_other_messages_than_there_are_is_refused() -> None:
    with pytest.raises(FrameInvalid, match="speaks of 2 messages, 3 are there"):
        admitted(frames_of([b"one", b"two", b"three"], MARK))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        MARK.encode() + b"\0",
        Mark(-1, 0, 0, 1).encode(),
        Mark(7, -1, 0, 1).encode(),
        Mark(7, 0, SEQUENCE_COUNT, 1).encode(),
        Mark(7, 0, 0, 0).encode(),
    ],
)
def test_a_mark_that_cannot_be_is_refused(content: bytes) -> None:
    with pytest.raises(FrameInvalid, match="__producer"):
        admitted(with_headers((MARK_NAME, content)))


def test_a_tombstone_needs_a_key() -> None:
    with pytest.raises(FrameInvalid, match="tombstone"):
        admitted(frames_of([b"one"]) + frame.encode(b"", None, flags=frame.TOMBSTONE))


def test_a_message_may_be_as_large_as_the_topic_allows_and_no_larger() -> None:
    content = frame.encode(bytes(1000), b"key")
    size = 1000 + len(b"key") + len(frame.NO_HEADERS)
    assert admitted(content, size) is None
    with pytest.raises(MessageTooLarge, match=f"{size} bytes"):
        admitted(content, size - 1)


def test_a_wrong_checksum_is_refused_wherever_it_is() -> None:
    content = bytearray(frames_of([b"one", b"two", b"three"]))
    content[-3] ^= 1
    with pytest.raises(FrameInvalid, match="checksum"):
        admitted(bytes(content))


@pytest.mark.parametrize("at", [frame.AT_KEY_LENGTH, frame.AT_VALUE_LENGTH, frame.AT_HEADERS_LENGTH])
def test_lengths_that_lie_are_refused(at: int) -> None:
    content = bytearray(frames_of([b"one", b"two"]))
    content[at] = 0x7F
    with pytest.raises(FrameInvalid):
        admitted(bytes(content))


def test_half_a_message_at_the_end_is_refused() -> None:
    with pytest.raises(FrameInvalid):
        admitted(frames_of([b"one", b"two"])[:-1])


@given(st.binary(max_size=200), st.integers(0, 200))
def test_whatever_arrives_is_taken_or_refused_and_leaves_no_trace(noise: bytes, cut: int) -> None:
    running = Running()
    running.create()
    partition = running.partition()
    try:
        offer_batch(partition, frames_of([b"one", b"two"], MARK)[:cut] + noise)
    except GoQueueError:
        assert partition.log_end == 0


@given(st.integers(2, 6), st.integers(1, 5))
def test_the_rest_of_a_batch_says_which_messages_it_holds(count: int, missing: int) -> None:
    missing = min(missing, count - 1)
    mark = Mark(7, 3, SEQUENCE_COUNT - 2, count)
    sent = frames_of([b"%d" % number for number in range(count)], mark, b"key")
    rest, rest_mark = remainder(scan.batch(bytearray(sent)), mark, missing)
    assert admit(rest, MESSAGE_BYTES) == rest_mark
    assert rest_mark == Mark(7, 3, (mark.sequence + count - missing) % SEQUENCE_COUNT, missing)
    content = bytes(rest.buffer)
    found = [frame.decode(content, position) for position in frame.walk(content)]
    assert [one.value for one in found] == [b"%d" % number for number in range(count - missing, count)]
    assert {one.key for one in found} == {b"key"}


def test_a_message_has_the_same_size_wherever_in_a_batch_it_stands() -> None:
    exactly = [bytes(1022), bytes(1022)]  # and two for the count of the headers
    assert admitted(frames_of(exactly, MARK), 1024) == MARK
    with pytest.raises(MessageTooLarge, match="1025"):
        admitted(frames_of([bytes(1023), b""], MARK), 1024)
