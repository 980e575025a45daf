"""Reads that look for messages: piece by piece, within bounds, and without a gap from one to the next."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.filters.grammar import parse_filters
from goqueue.broker.filters.search import Search, Wish
from goqueue.broker.filters.sieve import Sieve
from goqueue.broker.partition import Partition
from goqueue.broker.work import run
from goqueue.clock import NANOSECONDS
from goqueue.compression import compress
from goqueue.errors import LogClosed, OffsetOutOfRange, RangeDamaged
from goqueue.limits import FILTER_PIECE_BYTES, FILTER_SCAN_SECONDS, MIB, VALUE_BYTES_MAX
from goqueue.storage import frame, scan
from tests.broker.brokers import Running, frames_of

EVERYTHING = 10**9


class Ticking:
    """A clock that goes on by so much each time somebody looks."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._step = round(seconds * NANOSECONDS)
        self._now = 0

    def now_ns(self) -> int:
        return self._now

    def monotonic_ns(self) -> int:
        self._now += self._step
        return self._now


def wish(
    *filters: str,
    max_bytes: int = EVERYTHING,
    limit: int | None = None,
    counts_values: bool = False,
    until_ns: int | None = None,
    scan_bytes: int = EVERYTHING,
    skip_damage: bool = False,
) -> Wish:
    return Wish(
        sieve=Sieve(parse_filters(filters)),
        max_bytes=max_bytes,
        limit=limit,
        counts_values=counts_values,
        until_ns=until_ns,
        scan_bytes=scan_bytes,
        skip_damage=skip_damage,
    )


def look(partition: Partition, wanted: Wish, offset: int = 0, clock: Ticking | None = None) -> Search:
    search = Search(partition, offset, wanted, clock or Ticking())
    run(search.look())
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


def test_what_fits_is_found_and_the_next_search_begins_behind_what_was_looked_at() -> None:
    partition = filled([b"%d" % number for number in range(30)])
    search = look(partition, wish("value~7"))
    assert (offsets(search), search.next_offset) == ([7, 17, 27], 30)
    assert (search.scanned, search.matched, search.is_at_end) == (30, 3, True)
    assert look(partition, wish("value~7"), 18).scanned == 12


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from([b"a", b"b" * 300, b"ab", b"control"]), min_size=1, max_size=40),
    st.integers(1, 1000),
    st.none() | st.integers(1, 5),
    st.integers(1, 2000),
    st.booleans(),
)
def test_answers_joined_hold_all_that_fits_once(
    values: list[bytes], max_bytes: int, limit: int | None, scan_bytes: int, counts_values: bool
) -> None:
    running = Running()
    partition = running.create().partition(0)
    for value in values:
        if value == b"control":
            log_control(running, partition)
        else:
            running.publish(frames_of([value]))
    wanted = wish("value~a", max_bytes=max_bytes, limit=limit, scan_bytes=scan_bytes, counts_values=counts_values)
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


def test_one_message_is_given_however_large_it_is() -> None:
    partition = filled([b"no", b"yes" * 500, b"no", b"yes"])
    first = look(partition, wish("value~yes", max_bytes=1))
    assert (offsets(first), first.next_offset, first.is_full) == ([1], 3, True)
    assert offsets(look(partition, wish("value~yes", max_bytes=1), 3)) == [3]


def test_a_search_for_one_message_stops_behind_it() -> None:
    search = look(filled([b"a", b"b", b"a", b"a"]), wish("value=b", limit=1))
    assert (offsets(search), search.scanned, search.next_offset) == ([1], 2, 2)


def test_values_count_as_they_are_unpacked_where_they_are_shown() -> None:
    value = compress(b"x" * 10_000)
    assert value is not None
    running = Running()
    partition = running.create().partition(0)
    running.publish(frame.encode(value, flags=frame.COMPRESSED) * 3)
    assert look(partition, wish("priority=2", max_bytes=20_000)).matched == 3
    shown = look(partition, wish("priority=2", max_bytes=20_000, counts_values=True))
    assert (shown.matched, shown.next_offset) == (2, 2)


def test_time_bounds_how_long_one_request_looks_and_each_comes_on() -> None:
    running = Running()
    partition = running.create().partition(0)
    running.publish(frames_of([bytes(FILTER_PIECE_BYTES)] * 3))
    slow = Ticking(FILTER_SCAN_SECONDS)
    found = [look(partition, wish("value=x"), offset, slow).next_offset for offset in (0, 1, 2)]
    assert found == [1, 2, 3]


def test_bytes_bound_how_much_one_request_looks_at_and_unpacked_ones_count() -> None:
    plain = filled([b"x" * 1000] * 10)
    assert look(plain, wish("value=y", scan_bytes=2500)).next_offset < 10
    value = compress(bytes(VALUE_BYTES_MAX))
    assert value is not None
    running = Running()
    bombs = running.create().partition(0)
    running.publish(frame.encode(value, flags=frame.COMPRESSED) * 4)
    assert look(bombs, wish("value~x", scan_bytes=MIB)).next_offset == 1
    assert look(bombs, wish("value~x", scan_bytes=EVERYTHING)).next_offset == 4


def test_nothing_that_was_appended_too_late_is_looked_at() -> None:
    running = Running()
    partition = running.create().partition(0)
    for value in (b"a", b"b", b"a"):
        running.publish(frames_of([value]))
        running.clock.advance(1.0)
    second = run(partition.read(1, 1)).buffers[0]
    search = look(partition, wish("value=a", until_ns=frame.timestamp_at(second)))
    assert (offsets(search), search.scanned, search.next_offset) == ([0], 2, 2)
    assert search.is_past_end
    assert not search.is_at_end


def test_control_records_are_passed_over_and_not_counted() -> None:
    running = Running()
    partition = running.create().partition(0)
    running.publish(frames_of([b"a"]))
    log_control(running, partition)
    log_control(running, partition)
    search = look(partition, wish("value!=b"))
    assert (offsets(search), search.scanned, search.next_offset) == ([0], 1, 3)


def test_a_search_goes_on_when_there_is_more() -> None:
    running = Running()
    partition = running.create().partition(0)
    running.publish(frames_of([b"a"]))
    search = look(partition, wish("value=b"))
    assert search.is_at_end
    running.publish(frames_of([b"b", b"a"]))
    run(search.look())
    assert (offsets(search), search.scanned, search.next_offset) == ([1], 3, 3)


def test_an_offset_outside_is_refused() -> None:
    partition = filled([b"a"])
    with pytest.raises(OffsetOutOfRange):
        look(partition, wish("value=a"), 2)


def test_damage_ends_an_answer_and_refuses_the_next() -> None:
    running = Running()
    running.create()
    for number in range(3):
        running.publish(frames_of([b"%d" % number * FILTER_PIECE_BYTES]))
    (path,) = [one for one in running.disk.paths() if one.endswith("orders/0/00000000000000000001.log")]
    running.disk.flip(path, 100)
    partition = running.partition()
    first = look(partition, wish("value~0"))
    assert (offsets(first), first.next_offset, first.is_at_end) == ([0], 1, False)
    with pytest.raises(RangeDamaged):
        look(partition, wish("value~0"), 1)
    assert offsets(look(partition, wish("value~2", skip_damage=True), 1)) == [2]


def test_a_search_in_a_log_that_was_closed_tells_what_it_had_and_then_so() -> None:
    running = Running()
    running.create()
    running.publish(frames_of([b"a"]))
    partition = running.partition()
    search = look(partition, wish("value=a"))
    running.delete()
    run(search.look())
    assert offsets(search) == [0]
    with pytest.raises(LogClosed):
        look(partition, wish("value=a"))
