"""Reads that look for messages: piece by piece, within bounds, and without a gap from one to the next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import run_work
from goqueue.broker.filters.filter_set import FilterSet
from goqueue.broker.filters.grammar import parse_filters
from goqueue.broker.filters.search import Search, SearchOptions
from goqueue.clock import NANOSECONDS
from goqueue.compression import compress
from goqueue.errors import LogClosed, OffsetOutOfRange, RangeDamaged
from goqueue.limits import FILTER_PIECE_BYTES, FILTER_SCAN_SECONDS, MIB, VALUE_BYTES_MAX
from goqueue.storage import frame, scan
from tests.broker.brokers import Running, frames_of

EVERYTHING = 10**9


class Ticking:
    """A clock that advances by this much each time it is read."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._step = round(seconds * NANOSECONDS)
        self._now = 0

    def now_ns(self) -> int:
        return self._now

    def monotonic_ns(self) -> int:
        self._now += self._step
        return self._now


def search_options(
    *filters: str,
    max_bytes: int = EVERYTHING,
    limit: int | None = None,
    counts_values: bool = False,
    until_ns: int | None = None,
    scan_bytes: int = EVERYTHING,
    skip_damage: bool = False,
) -> SearchOptions:
    return SearchOptions(
        sieve=FilterSet(parse_filters(filters)),
        max_bytes=max_bytes,
        limit=limit,
        counts_values=counts_values,
        until_ns=until_ns,
        scan_bytes=scan_bytes,
        skip_damage=skip_damage,
    )


def look(partition: Partition, wanted: SearchOptions, offset: int = 0, clock: Ticking | None = None) -> Search:
    search = Search(partition, offset, wanted, clock or Ticking())
    run_work(search.look())
    return search


def offsets(search: Search) -> list[int]:
    return [frame.offset_at(buffer, position) for buffer in search.found.buffers for position in frame.walk(buffer)]


def filled(values: list[bytes], key: bytes | None = None) -> Partition:
    running = Running()
    running.create()
    for value in values:
        running.publish(frames_of([value], key=key))
    return running.partition()


def log_control(running: Running, partition: Partition) -> None:
    partition.log.append(scan.walk(bytearray(frame.encode(b"x", flags=frame.CONTROL))))
    running.flush()


def test_search_finds_matches_and_returns_the_next_offset() -> None:
    partition = filled([b"%d" % number for number in range(30)])
    search = look(partition, search_options("value~7"))
    assert (offsets(search), search.next_offset) == ([7, 17, 27], 30)
    assert (search.scanned, search.matched, search.is_at_end) == (30, 3, True)
    assert look(partition, search_options("value~7"), 18).scanned == 12


@given(
    st.lists(st.sampled_from([b"a", b"b" * 300, b"ab", b"control"]), min_size=1, max_size=40),
    st.integers(1, 1000),
    st.none() | st.integers(1, 5),
    st.integers(1, 2000),
    st.booleans(),
)
def test_consecutive_searches_find_every_match_once(
    values: list[bytes], max_bytes: int, limit: int | None, scan_bytes: int, counts_values: bool
) -> None:
    running = Running()
    running.create()
    partition = running.partition()
    for value in values:
        if value == b"control":
            log_control(running, partition)
        else:
            running.publish(frames_of([value]))
    wanted = search_options(
        "value~a", max_bytes=max_bytes, limit=limit, scan_bytes=scan_bytes, counts_values=counts_values
    )
    found: list[int] = []
    offset = scanned = 0
    while offset < len(values):
        search = look(partition, wanted, offset, Ticking(0.02))
        assert search.next_offset > offset
        assert limit is None or search.matched <= limit
        assert search.found.size <= max_bytes or search.matched == 1
        found += offsets(search)
        scanned += search.scanned
        offset = search.next_offset
    assert found == [number for number, value in enumerate(values) if b"a" in value]
    assert scanned == len(values) - values.count(b"control")


def test_search_returns_one_message_larger_than_the_limit() -> None:
    partition = filled([b"no", b"yes" * 500, b"no", b"yes"])
    first = look(partition, search_options("value~yes", max_bytes=1))
    assert (offsets(first), first.next_offset, first.is_full) == ([1], 3, True)
    assert offsets(look(partition, search_options("value~yes", max_bytes=1), 3)) == [3]


def test_byte_limit_counts_decompressed_values_when_shown() -> None:
    value = compress(b"x" * 10_000)
    assert value is not None
    running = Running()
    running.create()
    partition = running.partition()
    running.publish(frame.encode(value, flags=frame.COMPRESSED) * 3)
    assert look(partition, search_options("priority=2", max_bytes=20_000)).matched == 3
    shown = look(partition, search_options("priority=2", max_bytes=20_000, counts_values=True))
    assert (shown.matched, shown.next_offset) == (2, 2)


def test_search_stops_at_the_time_limit_and_makes_progress(running: Running, partition: Partition) -> None:
    running.publish(frames_of([bytes(FILTER_PIECE_BYTES)] * 3))
    slow = Ticking(FILTER_SCAN_SECONDS)
    found = [look(partition, search_options("value=x"), offset, slow).next_offset for offset in (0, 1, 2)]
    assert found == [1, 2, 3]


def test_scan_limit_counts_decompressed_bytes() -> None:
    plain = filled([b"x" * 1000] * 10)
    assert look(plain, search_options("value=y", scan_bytes=2500)).next_offset < 10
    value = compress(bytes(VALUE_BYTES_MAX))
    assert value is not None
    running = Running()
    bombs = running.create().partition(0)
    running.publish(frame.encode(value, flags=frame.COMPRESSED) * 4)
    assert look(bombs, search_options("value~x", scan_bytes=MIB)).next_offset == 1
    assert look(bombs, search_options("value~x", scan_bytes=EVERYTHING)).next_offset == 4


def test_search_stops_at_the_end_time(running: Running, partition: Partition) -> None:
    for value in (b"a", b"b", b"a"):
        running.publish(frames_of([value]))
        running.clock.advance(1.0)
    second = run_work(partition.read(1, 1)).buffers[0]
    search = look(partition, search_options("value=a", until_ns=frame.timestamp_at(second)))
    assert (offsets(search), search.scanned, search.next_offset) == ([0], 2, 2)
    assert search.is_past_end
    assert not search.is_at_end


def test_search_continues_with_new_messages(running: Running, partition: Partition) -> None:
    running.publish(frames_of([b"a"]))
    search = look(partition, search_options("value=b"))
    assert search.is_at_end
    running.publish(frames_of([b"b", b"a"]))
    run_work(search.look())
    assert (offsets(search), search.scanned, search.next_offset) == ([1], 3, 3)


def test_search_at_unknown_offset_is_refused() -> None:
    partition = filled([b"a"])
    with pytest.raises(OffsetOutOfRange):
        look(partition, search_options("value=a"), 2)


def test_search_stops_before_damage_and_refuses_to_start_in_it(running: Running) -> None:
    for number in range(3):
        running.publish(frames_of([b"%d" % number * FILTER_PIECE_BYTES]))
    (path,) = [one for one in running.disk.paths() if one.endswith("orders/0/00000000000000000001.log")]
    running.disk.flip(path, 100)
    partition = running.partition()
    first = look(partition, search_options("value~0"))
    assert (offsets(first), first.next_offset, first.is_at_end) == ([0], 1, False)
    with pytest.raises(RangeDamaged):
        look(partition, search_options("value~0"), 1)
    assert offsets(look(partition, search_options("value~2", skip_damage=True), 1)) == [2]


def test_search_in_a_closed_log_keeps_earlier_results(running: Running) -> None:
    running.publish(frames_of([b"a"]))
    partition = running.partition()
    search = look(partition, search_options("value=a"))
    running.delete()
    run_work(search.look())
    assert offsets(search) == [0]
    with pytest.raises(LogClosed):
        look(partition, search_options("value=a"))
