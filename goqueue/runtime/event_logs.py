"""Log lines of groups (members, rebalances, dead letters) and of transactions (long or obstructed ones, their ends)."""

import logging
from collections.abc import Collection, Iterable

from goqueue.broker.broker import Broker
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.coordinator import GroupCoordinator
from goqueue.broker.groups.dead_letters import REDRIVE_GROUP
from goqueue.broker.groups.records import Group, MessageMove
from goqueue.broker.groups.settlement import DroppedMessages, count_offsets
from goqueue.broker.transactions.partitions import HeldMessages
from goqueue.broker.transactions.records import EndedTransaction, TransactionMetadata
from goqueue.broker.transactions.refusals import describe_reason
from goqueue.broker.transactions.registry import duration_seconds
from goqueue.broker.transactions.shards import TransactionShard
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.observe.histogram import Histogram
from goqueue.observe.logs import fields
from goqueue.quantities import format_count, format_duration

_group_log = logging.getLogger("goqueue.groups")
_transaction_log = logging.getLogger("goqueue.transactions")

_LINES_MAX = 20  # per second: thousands may begin in the same second
_PLACES_NAMED = 5


def log_group_events(coordinator: GroupCoordinator) -> None:
    coordinator.rebalancer.on_durable.subscribe(_log_rebalance)
    coordinator.dead_letter_mover.on_moved.subscribe(_log_dead_letters)
    coordinator.settlement.on_dropped.subscribe(_log_dropped)


def _log_rebalance(before: Group, after: Group, vanished: Collection[str]) -> None:
    for member in sorted(vanished):
        _group_log.warning(
            "a member was removed: its session timed out", extra=fields(group=after.group, member=member)
        )
    if after.generation == before.generation:
        return
    places = sum(map(len, after.assignment.values()))
    told = f"{format_count(len(after.members), 'member')}, {format_count(places, 'partition')}"
    what = "waits for members to revoke partitions" if after.phase == "pending_revoke" else "has a new assignment"
    facts = fields(group=after.group, generation=after.generation, because=",".join(after.reasons))
    _group_log.info("a group %s: %s", what, told, extra=facts)


def _log_dead_letters(group: str, place: PartitionRef, move: MessageMove, count: int) -> None:
    facts = fields(group=group, topic=place[0], partition=place[1], to=move.topic)
    if group == REDRIVE_GROUP:
        _group_log.info("%s sent back", format_count(count, "dead letter"), extra=facts)
    else:
        _group_log.warning("%s given up: %s", format_count(count, "message"), move.error[:200], extra=facts)


def _log_dropped(dropped: DroppedMessages) -> None:
    named = dropped.ranges[:_PLACES_NAMED]
    places = [f"{first}-{end - 1}" if end - first > 1 else f"{first}" for first, end in named]
    offsets = ",".join([*places, "…"] if len(dropped.ranges) > len(named) else places)
    facts = fields(group=dropped.group, topic=dropped.ref.topic, partition=dropped.ref.partition, offsets=offsets)
    count = format_count(count_offsets(dropped.ranges), "message")
    _group_log.warning("%s dropped, there is no dead-letter topic: %s", count, dropped.error[:200], extra=facts)


def log_transaction_events(broker: Broker, seconds: Histogram) -> None:
    """Write log lines of transactions, and observe their durations."""
    journal = _TransactionEventLog(broker, seconds)
    for coordinator in broker.transactions:
        journal.follow(coordinator)
    broker.transactions.on_opened.subscribe(journal.follow)


class _TransactionEventLog:
    def __init__(self, broker: Broker, seconds: Histogram) -> None:
        self._broker = broker
        self._seconds = seconds
        self._told: dict[TransactionId, str] = {}
        """Ids of logged transactions."""
        self._second_ns = self._lines = 0

    def follow(self, coordinator: TransactionShard) -> None:
        coordinator.timeouts.on_hung.subscribe(self.hung)
        coordinator.on_ended.subscribe(self.ended)
        coordinator.completer.on_obstacle.subscribe(self.log_obstacle)

    def hung(self, record: TransactionMetadata) -> None:
        if record.state != "ongoing" or not self._may_tell("transactions are open for long"):
            return
        self._told[record.whose] = record.id
        now_ns = self._broker.transactions.clock.now_ns()
        _transaction_log.warning(
            "transaction %s of %s is open for %s: %s; it is aborted %s; `goqueue-cli transaction abort %s` ends it now",
            *(record.whose, record.id, format_duration(round((now_ns - record.began_ns) / NANOSECONDS))),
            *(self._held_back(record), self._expiry(record, now_ns), record.id),
            extra=fields(transactional_id=record.id, transaction=str(record.whose)),
        )

    def _held_back(self, record: TransactionMetadata) -> str:
        places = self._broker.transactions.lookup
        now = [touched for touched in record.partitions if not touched.log_ref.is_delayed]
        held = {touched.log_ref: places.held_by(record, touched) for touched in now}
        found = [f"{log_ref.topic}/{log_ref.partition}" for log_ref, one in held.items() if one.held_back]
        more = ", …" if len(found) > _PLACES_NAMED else ""
        groups = f"; groups with acks in it: {', '.join(record.groups[:_PLACES_NAMED])}" if record.groups else ""
        if not found:
            return f"it holds no messages back{groups}"
        count = _count(held.values())
        return f"it holds {count} of {', '.join(found[:_PLACES_NAMED])}{more} back{groups}"

    def _expiry(self, record: TransactionMetadata, now_ns: int) -> str:
        transactions = self._broker.transactions.of(record.id)
        due_ns = transactions.timeouts.expires_ns(record)
        within = f"in {format_duration(max(0, round((due_ns - now_ns) / NANOSECONDS)))}"
        is_last = transactions.timeouts.ends_at_maximum(record)
        return f"{within}, its maximum duration" if is_last else f"{within} without a sign of life"

    def log_obstacle(self, name: str, error: GoQueueError) -> None:
        """Log that a decided end cannot be carried out."""
        record = self._broker.transactions.record(name)
        if record is None or not self._may_tell("transactions cannot be ended"):
            return
        self._told[record.whose] = name
        _transaction_log.warning(
            "transaction %s of %s is to be %s, which fails and is retried every second: %s",
            *(record.whose, name, "committed" if record.state == "prepare_commit" else "aborted", error.sentence),
            extra=fields(transactional_id=name, transaction=str(record.whose)),
        )

    def ended(self, ended: EndedTransaction) -> None:
        self._seconds.observe(duration_seconds(ended))
        name = self._told.pop(ended.whose, None)
        if name is None:
            return
        is_commit = ended.state == "complete_commit"
        _transaction_log.info(
            "transaction %s of %s was %s after %s",
            *(
                ended.whose,
                name,
                "committed" if is_commit else "aborted",
                format_duration(round(duration_seconds(ended))),
            ),
            extra=fields(transactional_id=name, reason="" if is_commit else describe_reason(ended.reason)),
        )

    def _may_tell(self, what: str) -> bool:
        """Return whether another line may be written in this second; the last one says that there are more."""
        second_ns = self._broker.transactions.clock.now_ns() // NANOSECONDS
        if second_ns != self._second_ns:
            self._second_ns, self._lines = second_ns, 0
        self._lines += 1
        if self._lines == _LINES_MAX + 1:
            _transaction_log.warning("more %s: `goqueue-cli transaction list` shows them", what)
        return self._lines <= _LINES_MAX


def _count(held: Iterable[HeldMessages]) -> str:
    return format_count(sum(one.held_back for one in held), "message")
