"""The invariants of groups, by name: a failure begins with the invariant that was broken."""

from collections import Counter
from typing import TYPE_CHECKING

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import run_work
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.dead_letter_message import DEAD_LETTER_HEADER_PREFIX
from goqueue.broker.groups.retries import DEAD_LETTER_SUFFIX
from goqueue.storage import frame
from goqueue.wire.sections import ORIGIN_HEADER
from tests.simulation.groups.model import Key, Progress
from tests.simulation.publishing.checks import is_readable
from tests.simulation.publishing.model import Content, content_of

if TYPE_CHECKING:
    from tests.simulation.groups.traffic import GroupTraffic

Copies = Counter[tuple[str, Content]]
"""How often each message is among the dead letters, by the group that could not do it."""


def check_cursors(world: "GroupTraffic") -> None:
    """Cheap enough for every step: each offset is in one place, and who has messages in hand owns where they are of."""
    ledger, topics = world.shards, world.broker.topics
    for group in ledger.groups():
        owners = group.owners()
        for place, cursor in ledger.cursors(group.group).items():
            check_cursor(cursor)
            whose = {transaction_ack.transaction_id for _, _, transaction_ack in cursor.transactional.runs()}
            assert whose <= world.transactions.standing(group.group), (
                f"what is transactional goes with its transaction: {cursor!r} has some of {whose}"
            )
            topic = topics.get(place[0])
            if topic is None or topic.created_ns != cursor.topic_ns:
                continue
            holders = {lease.grant.member for lease in cursor.leases.values()}
            assert holders <= {owners.get(place)}, (
                f"only the owner of a place has anything of it: {cursor!r} is of {owners.get(place)}, not of {holders}"
            )
        if world.shards.of(group.group).rebalancer.pending_rebalance(group.group) is None:
            for place in (place for member in group.members for place in group.partitions_to_process(member)):
                assert place in ledger.cursors(group.group) or place[0] not in topics, (
                    f"what is assigned can be read: {place} of {group.group}"
                )


def check_cursor(cursor: Cursor) -> None:
    assert cursor.floor <= cursor.unread, f"nothing is done before it was handed out: {cursor!r}"
    spans = [*cursor.settled(), *((first, end) for first, end, _ in cursor.waiting.runs())]
    spans += (run[:2] for one in (cursor.moving, cursor.transactional) for run in one.runs())
    spans += (span for lease in cursor.leases.values() for span in lease.ranges())
    at = cursor.floor
    for first, end in sorted(spans):
        is_next = first == at if first < cursor.position else first >= at and cursor.heads is not None
        assert is_next, f"each offset is in one place: {cursor!r} has {first} to {end}, expected {at} to follow"
        at = end
    if cursor.heads is None:
        assert at == cursor.position, f"nothing is behind the position: {cursor!r} has something up to {at}"
    else:
        assert cursor.position <= min(cursor.heads), f"lanes begin at the position: {cursor!r} has {cursor.heads}"
        assert at <= cursor.reach, f"nothing is behind the reach: {cursor!r} has something up to {at}"
    assert at >= cursor.position, f"each offset is in one place: {cursor!r} has nothing from {at} on"
    leased = sum(lease.left.count for lease in cursor.leases.values())
    assert leased == cursor.leased, f"what is leased is counted: {cursor!r} has {leased}"
    assert all(lease.left for lease in cursor.leases.values()), f"a lease has something left: {cursor!r}"
    assert all(cursor.by_lease.get(lease) is cursor for lease in cursor.leases), f"leases are found: {cursor!r}"


def check_groups(world: "GroupTraffic") -> None:
    """Everything that members were told is so."""
    copies = dead_letters(world)
    for key, progress in world.groups.progress.items():
        topic = world.broker.topics.get(key.topic)
        if (
            topic is None
            or topic.created_ns != key.created_ns
            or progress.unsure
            or key.group in world.groups.is_unsure
        ):
            continue
        if world.shards.partitions[world.shards.number(key.group)].log.fence is not None:
            assert world.is_faulty, f"every log of groups opens on a sound disk: that of {key.group}"
            continue
        cursor = world.shards.cursor(key.group, key.place)
        if cursor is None or cursor.topic_ns != key.created_ns:
            assert not progress.done, f"what is done stays so: {key} is forgotten"
            assert not progress.counts, f"deliveries are remembered: {key} is forgotten"
            continue
        partition = topic.partitions[key.partition]
        if is_readable(partition, is_faulty=True):
            _check_progress(key, progress, cursor, partition, copies)


def _check_progress(key: Key, progress: Progress, cursor: Cursor, partition: Partition, copies: Copies) -> None:
    for offset in progress.done:
        assert is_done(cursor, offset, _lane(progress, offset)) or offset < partition.earliest, (
            f"what is done stays so: {key} offset {offset} of {cursor!r}"
        )
    for offset in progress.transactional:
        assert offset in cursor.transactional, f"what is transactional stays so: {key} offset {offset} of {cursor!r}"
    for offset, counts in progress.counts.items():
        if not is_done(cursor, offset, _lane(progress, offset)) and offset >= partition.earliest:
            known = _deliveries(cursor, offset)
            assert known >= max(counts), f"a delivery count never falls: {key} offset {offset}: {known} of {counts}"
    if progress.owed is None:
        return
    excused = progress.maybe | progress.done.keys()
    for offset, content in progress.owed.history.items():
        found = copies[key.group, content]
        assert found <= 1 + progress.resets, f"nothing is a dead letter twice: {key} offset {offset}"
        if found and not progress.resets and offset >= partition.earliest:
            assert is_done(cursor, offset, content.priority), (
                f"in the source or in the dead letters: {key} offset {offset}"
            )
        if found or offset in excused or offset < max(progress.begin, partition.earliest):
            continue
        assert not cursor.is_settled(offset, offset + 1, content.priority) or not is_there(partition, offset), (
            f"no client is done with a message by itself: {key} offset {offset} of {cursor!r}"
        )


def is_done(cursor: Cursor, offset: int, lane: int | None = None) -> bool:
    """Or on its way to the dead letters."""
    return cursor.is_settled(offset, offset + 1, lane) or offset in cursor.moving


def _lane(progress: Progress, offset: int) -> int | None:
    content = progress.owed.history.get(offset) if progress.owed is not None else None
    return content.priority if content is not None else None


def _deliveries(cursor: Cursor, offset: int) -> int:
    if (retry := cursor.waiting.get(offset)) is not None:
        return retry.deliveries
    if (transaction_ack := cursor.transactional.get(offset)) is not None:
        return transaction_ack.history.deliveries
    return max((one.grant.deliveries for one in cursor.leases.values() if one.left.get(offset)), default=0)


def is_there(partition: Partition, offset: int) -> bool:
    """Return whether retention and compaction have left it."""
    if not partition.earliest <= offset < partition.high_watermark:
        return False
    read = run_work(partition.read(offset, 1))
    return bool(read.buffers) and frame.offset_at(read.buffers[0], 0) == offset


def dead_letters(world: "GroupTraffic") -> Copies:
    copies: Copies = Counter()
    for name, topic in world.broker.topics.items():
        if name.endswith(DEAD_LETTER_SUFFIX):
            for partition in topic.partitions:
                if is_readable(partition, is_faulty=True):
                    copies.update(_dead_letters_of(partition))
    return copies


def _dead_letters_of(partition: Partition) -> Copies:
    copies: Copies = Counter()
    offset = partition.earliest
    while offset < partition.high_watermark:
        read = run_work(partition.read(offset, 10_000))
        for buffer in read.buffers:
            for position in frame.walk(buffer):
                message = frame.decode(buffer, position)
                group = dict(message.headers)[ORIGIN_HEADER].decode().partition("/")[0]
                copies[group, as_published(message)] += 1
        offset = read.next_offset
    return copies


def as_published(message: frame.StoredMessage) -> Content:
    """Without what the broker says of where it came from."""
    content = content_of(message)
    headers = tuple(
        one for one in content.headers if one[0] != ORIGIN_HEADER and not one[0].startswith(DEAD_LETTER_HEADER_PREFIX)
    )
    return content._replace(headers=headers)
