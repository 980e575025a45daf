"""The invariants of topics and partitions, by name: a failure begins with the invariant that was broken."""

from goqueue.broker.broker import Broker
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.work import run_work
from goqueue.errors import LogFenced
from goqueue.limits import TOMBSTONE_GRACE_SECONDS
from goqueue.storage import frame
from tests.simulation.publishing.model import Content, Model, PartitionModel, TopicModel, content_of

HOUR_NS = 3600 * 10**9
READ_BYTES = 3000

Found = list[tuple[int, int, Content]]
"""Offset, time and content of each message that readers see."""


def check_positions(partition: Partition) -> None:
    """Cheap enough for every step."""
    positions = (
        partition.earliest,
        partition.last_stable,
        partition.high_watermark,
        partition.durable_end,
        partition.log_end,
    )
    assert list(positions) == sorted(positions), f"positions in order: {partition.log.name} has {positions}"


def check_recovered(broker: Broker, model: Model, *, is_faulty: bool) -> None:
    """After a start: topics are there as they were answered, and what was seen of open sends counts as answered."""
    for name, topic in list(model.topics.items()):
        if (found := _check_topic(broker, topic)) is None:
            del model.topics[name]
        else:
            model.topics[name] = found
    known = model.topics.keys() | model.made_by_broker
    strangers = {name for name in broker.topics if not is_internal(name)} - known
    assert not strangers, f"a deleted topic stays deleted: {strangers}"
    assert broker.unclaimed == [], f"no log without a topic: {broker.unclaimed}"
    for topic in model.topics.values():
        for owed, partition in zip(topic.partitions, broker.topics[topic.name].partitions, strict=True):
            if is_readable(partition, is_faulty=is_faulty):
                _adopt(partition, owed)


def _check_topic(broker: Broker, topic: TopicModel) -> TopicModel | None:
    """Make certain what was open about it, and which of those that may have been created it is."""
    there = broker.topics.get(topic.name)
    if there is None:
        assert topic.state != "here" or topic.may_go, f"a topic that was answered exists: {topic.name} is gone"
        return None
    one: TopicModel | None = topic
    while one is not None and one.state != "here" and not _could_be(one, there):
        one = one.before
    assert one is not None, f"a topic is as it was asked for: no client asked for {there!r}"
    assert _could_be(one, there), f"a topic is as it was answered: {there!r} is not {one.settings}"
    one.state, one.may_go, one.before = "here", False, None
    one.settings, one.changes = there.settings, []
    return one


def _could_be(topic: TopicModel, there: Topic) -> bool:
    return len(there.partitions) == len(topic.partitions) and there.settings in (topic.settings, *topic.changes)


def is_readable(partition: Partition, *, is_faulty: bool) -> bool:
    """A log that could not be opened may have been refused by the disk, never by anything else."""
    try:
        partition.log.locate(partition.earliest, 1)
    except LogFenced:
        assert is_faulty, f"every log opens: {partition.log.name} does not on a sound disk"
        return False
    return True


def _adopt(partition: Partition, owed: PartitionModel) -> None:
    for offset, time_ns, content in visible(partition):
        if offset not in owed.history:
            assert content in owed.open, f"nothing comes from nowhere: {owed.name} has {content} at {offset}"
            assert offset >= owed.end, f"offsets rise: {owed.name} has something new at {offset}, below {owed.end}"
            owed.has(offset, content)
        owed.timed(offset, time_ns)


def visible(partition: Partition) -> Found:
    """All that readers see, the way they get it."""
    found: Found = []
    offset = partition.earliest
    while True:
        read = run_work(partition.read(offset, READ_BYTES))
        for buffer in read.buffers:
            messages = [frame.decode(buffer, position) for position in frame.walk(buffer)]
            found += ((one.offset, one.timestamp_ns, content_of(one)) for one in messages)
        if read.next_offset == offset:
            return found
        offset = read.next_offset


def check(broker: Broker, model: Model) -> None:
    """Everything that clients were told is so, and they see nothing else."""
    for topic in model.here():
        there = broker.topics.get(topic.name)
        assert there is not None, f"a topic that was answered exists: {topic.name} is gone"
        for owed, partition in zip(topic.partitions, there.partitions, strict=True):
            check_positions(partition)
            if is_readable(partition, is_faulty=True):
                check_partition(partition, owed)


def check_partition(partition: Partition, owed: PartitionModel) -> None:
    check_retention(partition, owed)
    found = visible(partition)
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets)), f"offsets rise: {owed.name} has {offsets}"
    times = [time_ns for _, time_ns, _ in found]
    assert times == sorted(times), f"times rise: {owed.name} has {times}"
    assert not offsets or offsets[-1] < partition.high_watermark, f"readers end at the high watermark: {owed.name}"
    assert partition.log_end >= owed.end, f"offsets are given once: {owed.name} forgot {owed.end - 1}"
    for offset, time_ns, content in found:
        assert offset in owed.history, f"nothing is seen before its answer: {owed.name} shows {content} at {offset}"
        owed.has(offset, content)
        owed.timed(offset, time_ns)
    missing = [one for one in owed.history if one >= partition.earliest and one not in set(offsets)]
    if missing:
        _check_compacted(owed, missing, set(offsets))


def _check_compacted(owed: PartitionModel, missing: list[int], seen: set[int]) -> None:
    """Only compaction removes one message and leaves those around it, and it leaves the latest of every key."""
    assert owed.was_compacted, f"what was answered is readable: {owed.name} misses {missing}"
    latest = owed.latest()
    for offset in missing:
        content = owed.history[offset]
        newest = latest.get(content.key or b"", offset)
        is_old = owed.times.get(offset, 0) < owed.latest_ns - TOMBSTONE_GRACE_SECONDS * 10**9
        assert newest > offset or (content.is_tombstone and is_old), (
            f"the latest of every key is kept: {owed.name} misses {content} at {offset}"
        )
    gone = {key for key, offset in latest.items() if owed.history[offset].is_tombstone and offset not in seen}
    back = [offset for offset in seen if owed.history[offset].key in gone]
    assert not back, f"a deleted key stays deleted: {owed.name} shows {back}"


def check_retention(partition: Partition, owed: PartitionModel) -> None:
    """Removed is only what is too old, or too much."""
    before, owed.earliest = owed.earliest, partition.earliest
    assert owed.earliest >= before, f"the earliest offset rises: {owed.name} had {before}, has {owed.earliest}"
    if owed.earliest == before:
        return
    assert owed.upkeep is not None, f"only upkeep removes: {owed.name} begins at {owed.earliest}"
    settings = owed.upkeep.settings
    assert "delete" in settings.cleanup, f"only retention removes from the beginning: {owed.name}"
    is_large = settings.retention_bytes is not None and owed.upkeep.size > settings.retention_bytes
    oldest_kept = owed.upkeep.now_ns - round((settings.retention_hours or 1e9) * HOUR_NS)
    gone = [one for one in range(before, owed.earliest) if one in owed.history]
    if owed.was_compacted:  # which may have taken those with a key long before
        gone = [one for one in gone if owed.history[one].key is None]
    young = [one for one in gone if owed.times.get(one, 0) >= oldest_kept]
    assert is_large or not young, f"what is young and not too much is kept: {owed.name} lost {young}"
