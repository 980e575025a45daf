"""The invariants of transactions, by name: a failure begins with the invariant that was broken."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from goqueue.broker.core.aborted_index import AbortedIndex
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import run_work
from goqueue.broker.transactions.records import OPEN, PREPARED
from goqueue.storage import frame
from tests.simulation.transactions.model import Message, Place

if TYPE_CHECKING:
    from tests.simulation.transactions.traffic import TransactionTraffic

Found = list[tuple[int, frame.StoredMessage]]


def check_positions(partition: Partition) -> None:
    """Cheap enough for every step."""
    positions = [
        partition.earliest,
        partition.last_stable,
        partition.high_watermark,
        partition.log_end,
    ]
    assert positions == sorted(positions), f"positions in order: {partition.log.name} has {positions}"


def committed(partition: Partition, offset: int, max_bytes: int = 3000) -> Iterator[frame.StoredMessage]:
    """The messages that readers of what is committed get from an offset on."""
    while (read := run_work(partition.read(offset, max_bytes))).next_offset > offset:
        offset = read.next_offset
        for buffer in read.buffers:
            messages = (frame.decode(buffer, position) for position in frame.walk(buffer))
            yield from (one for one in messages if not one.flags & frame.CONTROL)


def stored(partition: Partition) -> dict[int, frame.StoredMessage]:
    """Return what readers get who want to see what is open as well, by offset."""
    found, offset = dict[int, frame.StoredMessage](), partition.earliest
    while (read := run_work(partition.read_uncommitted(offset, 3000))).next_offset > offset:
        offset = read.next_offset
        for buffer in read.buffers:
            messages = [frame.decode(buffer, position) for position in frame.walk(buffer)]
            found |= {one.offset: one for one in messages if not one.flags & frame.CONTROL}
    assert offset >= partition.high_watermark, f"everything can be read: {partition.log.name} ends at {offset}"
    return found


def follow(world: "TransactionTraffic", place: Place, partition: Partition) -> None:
    """A reader who has seen everything before sees what is new."""
    offset = max(place.read_to, partition.earliest)
    stable = partition.last_stable
    for message in committed(partition, offset):
        assert place.read_to <= message.offset < stable, f"readers end at the last stable offset: {message}"
        _saw(world, place, message)
    place.read_to = max(offset, stable)


def _saw(world: "TransactionTraffic", place: Place, found: frame.StoredMessage) -> Message:
    known = world.model.messages.get(found.value)
    assert known is not None, f"nothing comes from nowhere: {found}"
    assert known.place is place, f"a message is where it was sent to: {found} of {known} is in {place}"
    assert known.key == found.key, f"a message is as it was sent: {found} of {known}"
    assert not known.is_hidden, f"what is not committed is never seen: {known}"
    if known.seen is not None:
        assert known.seen == found.offset, f"never twice: {known} is seen at {found.offset}"
    elif known.due_ns is None and known.offset is not None:
        assert known.offset == found.offset, f"a message is where it was answered to be: {known}, not {found.offset}"
    if known.due_ns is not None:
        assert found.timestamp_ns >= known.due_ns, f"never early: {known} came at {found.timestamp_ns}"
    known.seen = found.offset
    if known.transaction is not None:
        known.transaction.has_ended("commit", world.tick)
    return known


def check_place(world: "TransactionTraffic", place: Place, partition: Partition) -> None:
    """Readers see what is committed and nothing else; who reads everything sees everything."""
    earliest, stable = partition.earliest, partition.last_stable
    messages = list(committed(partition, earliest, world.random.choice((1, 700, 5000))))
    seen = {message.offset: _saw(world, place, message) for message in messages}
    assert list(seen) == sorted(seen), f"offsets rise: {place} has {list(seen)}"
    assert len(seen) == len(messages), f"an offset is seen once: {place} has {list(seen)}"
    assert all(offset < stable for offset in seen), f"readers end at the last stable offset: {place}"
    latest = {one.key: offset for offset, one in seen.items() if one.key is not None}
    for message in place.messages:
        at = message.offset if message.due_ns is None else message.seen
        if message.is_certain and at is not None and earliest <= at < stable and at not in seen:
            is_superseded = place.was_compacted and latest.get(message.key or b"", -1) > at
            assert is_superseded, f"what is committed is seen: {message} in {place}"
    everything = stored(partition)
    assert seen.keys() <= everything.keys(), f"who reads everything sees everything: {place}"
    for message in place.messages:
        at = message.offset if message.due_ns is None else None
        if at is None or at < earliest or at not in everything:
            is_there = at is None or at < earliest or place.was_compacted
            assert is_there, f"who reads everything sees everything: {message} is not in {place}"
        else:
            assert everything[at].value == message.value, f"an offset is given once: {message} is {everything[at]}"


def check_caches(world: "TransactionTraffic", place: Place, partition: Partition) -> None:
    """Return what is hidden is in the log: who knows nothing yet, and has no cache, finds the same."""
    known = run_work(partition.aborted.within(partition.earliest, partition.last_stable))
    for path in [path for path in world.disk.paths() if path.endswith(".aborted")]:
        world.disk.remove(path)
    for segment in partition.log.segments:
        segment.aborted, segment.has_aborted_file = None, False
    fresh = AbortedIndex(partition.log, lambda: partition.last_stable)
    found = run_work(fresh.within(partition.earliest, partition.last_stable))
    assert _meant(partition, found) == _meant(partition, known), f"caches are caches: {place} has {known}, not {found}"


def _meant(partition: Partition, ranges: list[tuple[int, int]]) -> set[int]:
    """Offsets of what is there, since no client needs to know of the rest."""
    there = stored(partition)
    return {offset for first, end in ranges for offset in range(first, end) if offset in there}


def check_register(world: "TransactionTraffic") -> None:
    """After a start: no epoch has fallen."""
    for name, whose in world.model.latest.items():
        record = world.transactions.record(name)
        if record is None or record.producer != whose.producer:
            continue
        is_to_rise = record.state in PREPARED and record.epoch + 1 == whose.epoch  # of what was told, not recorded
        assert is_to_rise or record.epoch >= whose.epoch, f"epochs rise: {name} had {whose}, has {record.whose}"


def check_rested(world: "TransactionTraffic") -> None:
    """Nothing is open any more, and nothing is held back."""
    assert not world.transactions.open_count, f"all transactions end: {list(world.transactions.open_ones())}"
    assert all(record.state not in OPEN for record in world.records.values())
    for place, partition in world.partitions():
        assert partition.last_stable == partition.high_watermark == partition.log_end, (
            f"the last stable offset moves on: {partition!r} is stable up to {partition.last_stable}: {place}"
        )
        assert not partition.open, f"nothing is open any more: {partition.open!r} of {place}"


def check_all_or_nothing(world: "TransactionTraffic") -> None:
    readable = {place for place, _ in world.partitions()}
    for transaction in world.model.transactions.values():
        for message in transaction.messages:
            if not transaction.is_committed:
                assert message.seen is None, f"all or nothing: {message}"
            elif message.is_certain and message.due_ns is not None and message.place in readable:
                is_gone = message.place.may_expire or message.place.was_compacted
                assert message.seen is not None or is_gone, f"what was scheduled comes: {message}"
