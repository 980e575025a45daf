"""Many frames at once tell what they tell one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from goqueue import delay
from goqueue.broker.core.delay_headers import delivered_origins
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.delay import records
from goqueue.broker.delay.delivery import make_topic_frames
from goqueue.broker.delay.records import needed_records, read_log_changes
from goqueue.broker.delay.schedule import CANCELLED, PENDING, UNDECIDED
from goqueue.storage import frame, scan
from goqueue.storage.transaction_marker import TransactionMarker
from goqueue.wire.sections import PRODUCER_HEADER
from tests.broker.delay.delaywork import offsets

MARK = (PRODUCER_HEADER, ProducerMark(7, 0, 0, 1).encode())
NUMBERS = st.integers(0, 2**62)
DUES = st.one_of(NUMBERS.map(delay.deliver_at_header), st.integers(0, 2**40).map(delay.deliver_in_header))
OWN = st.lists(st.tuples(st.sampled_from(["a", "trace"]), st.binary(max_size=20)), max_size=2)
VALUES = st.one_of(st.binary(max_size=60), st.just(frame.encode(b"inner", None, frame.encode_headers([MARK]))))


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, bytes | None, list[tuple[str, bytes]], int, int]:
    """A value, a key, headers, a priority and flags."""
    mark = [MARK] if draw(st.booleans()) else []
    key = draw(st.none() | st.binary(min_size=1, max_size=9))
    headers = [*mark, draw(DUES), *draw(OWN)]
    flags = draw(st.sampled_from([0, frame.COMPRESSED, frame.TRANSACTIONAL, frame.COMPRESSED | frame.TRANSACTIONAL]))
    return draw(VALUES), key, headers, draw(st.integers(0, 4)), flags


BATCHES = st.lists(messages(), min_size=1, max_size=60)


def stamped(batch: list[tuple[bytes, bytes | None, list[tuple[str, bytes]], int, int]], first: int) -> memoryview:
    contents = [
        frame.encode(value, key, frame.encode_headers(headers), priority=priority, flags=flags)
        for value, key, headers, priority, flags in batch
    ]
    frames = scan.check_batch(bytearray(b"".join(contents)))
    scan.stamp(frames, first, 1_700_000_000 * 10**9)
    return frames.buffer.data


@given(BATCHES, st.integers(0, 2**50))
def test_vectorized_due_times_match_the_codec(batch: list[object], first: int) -> None:
    buffer = stamped(batch, first)  # type: ignore[arg-type]
    plain = [frame.decode(buffer, position) for position in frame.walk(buffer)]
    news = read_log_changes([buffer])
    assert news.offsets.tolist() == [one.offset for one in plain]
    assert news.dues.tolist() == [delay.due_time(one.headers, one.timestamp_ns) for one in plain]
    assert news.priorities.tolist() == [one.priority for one in plain]
    assert news.times.tolist() == [one.timestamp_ns for one in plain]
    states = [UNDECIDED if one.flags & frame.TRANSACTIONAL else PENDING for one in plain]
    assert news.states.tolist() == states
    assert not news.records


@given(BATCHES, st.integers(0, 2**50), st.randoms(use_true_random=False))
def test_topic_frames_differ_only_in_headers(batch: list[object], first: int, random: object) -> None:
    buffer = stamped(batch, first)  # type: ignore[arg-type]
    places = [(position, frame.measure(buffer, position)) for position in frame.walk(buffer)]
    random.shuffle(places)  # type: ignore[attr-defined]
    chosen = [buffer[position : position + length] for position, length in places]
    frames = make_topic_frames(chosen)
    before = [frame.decode(one) for one in chosen]
    after = [frame.decode(frames.buffer.data, position) for position in frame.walk(frames.buffer.data)]
    for old, new in zip(before, after, strict=True):
        own = [pair for pair in old.headers if not pair[0].startswith("__")]
        assert list(new.headers) == [delay.delayed_of_header(old.offset), *own]
        assert (new.value, new.key, new.priority) == (old.value, old.key, old.priority)
        assert new.flags == old.flags & ~frame.TRANSACTIONAL
    assert delivered_origins([frames.buffer.data]).tolist() == [one.offset for one in before]


def test_records_among_messages_are_decoded() -> None:
    due = frame.encode(b"a", None, frame.encode_headers([delay.deliver_at_header(5)]))
    frames = scan.check_batch(bytearray(due + records.encode_settled(CANCELLED, offsets(1, 2)) + due))
    scan.stamp(frames, 10, 7)
    news = read_log_changes([frames.buffer.data])
    assert news.offsets.tolist() == [10, 12]
    (record,) = news.records
    assert isinstance(record, records.DelayedSettled)
    assert (record.state, record.offsets.tolist()) == (CANCELLED, [1, 2])


def test_transaction_marker_is_decoded() -> None:
    marker = TransactionMarker(7, 0, is_commit=True, ranges=((1, 3), (8, 9))).encode()
    frames = scan.check_batch(bytearray(records.encode_settled(CANCELLED, offsets(1, 2)) + b"".join(marker)))
    scan.stamp(frames, 10, 7)
    news = read_log_changes([frames.buffer.data])
    assert not len(news.offsets)
    _, ended = news.records
    assert isinstance(ended, records.DelayedTransactionEnded)
    assert (ended.is_commit, ended.time_ns) == (True, 7)
    assert (ended.firsts.tolist(), ended.ends.tolist()) == ([1, 8], [3, 9])


STAYING = st.sets(st.integers(0, 30), max_size=4)
EDGES = st.sets(st.integers(0, 30), min_size=2, max_size=6).map(lambda edges: sorted(edges)[: len(edges) // 2 * 2])


@given(st.lists(EDGES, min_size=1, max_size=8), st.lists(EDGES, max_size=2), STAYING)
def test_needed_records_match_naive_model(told: list[list[int]], left: list[list[int]], alone: set[int]) -> None:
    ranges = [_pairs(edges) for edges in told]
    in_left = {one for edges in left for first, end in _pairs(edges) for one in range(first, end)}
    contents = list[bytes]()
    for number, one in enumerate(ranges):
        numbers = offsets(*sorted({offset for first, end in one for offset in range(first, end)}))
        contents.append(records.encode_settled(CANCELLED, numbers))
        contents += TransactionMarker(7, 0, is_commit=bool(number % 2), ranges=tuple(one)).encode()
        contents.append(records.encode_rescheduled(numbers, numbers))
    frames = scan.check_batch(bytearray(b"".join(contents)))
    everything, all_left = np.arange(len(frames)), [pair for edges in left for pair in _pairs(edges)]
    stays = needed_records(frames, everything, all_left, offsets(*sorted(alone)))
    for number, one in enumerate(ranges):
        spoken = {offset for first, end in one for offset in range(first, end)}
        assert stays[3 * number : 3 * number + 3].tolist() == [
            bool(spoken & in_left), bool(spoken & (in_left | alone)), False,
        ]  # fmt: skip


def _pairs(edges: list[int]) -> list[tuple[int, int]]:
    return list(zip(edges[::2], edges[1::2], strict=True))


def test_message_without_delay_header_is_due_at_once() -> None:
    frames = scan.check_batch(
        bytearray(frame.encode(b"a") + frame.encode(b"b", None, frame.encode_headers([("own", b"")])))
    )
    scan.stamp(frames, 0, 7)
    assert read_log_changes([frames.buffer.data]).dues.tolist() == [7, 7]


def test_only_delivered_messages_have_an_origin() -> None:
    content = frame.encode(b"a") + frame.encode(b"b", None, frame.encode_headers([delay.delayed_of_header(17)]))
    assert delivered_origins([memoryview(bytearray(content))]).tolist() == [17]


def test_delay_headers_are_decoded() -> None:
    assert delay.due_time([delay.deliver_at_header(5)], 100) == 5
    assert delay.due_time([MARK, delay.deliver_in_header(5)], 100) == 105
    assert delay.due_time([("own", b"")], 100) is None
    assert delay.delayed_offset([delay.delayed_of_header(3)]) == 3
    assert delay.delayed_offset([]) is None
