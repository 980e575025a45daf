"""Redrive: publishes dead letters to their original topic, or to another one.

A redrive moves messages as the DLQ move does: the start is recorded, the message is published, it is recorded as
settled. The dead letter stays in its topic until retention removes it, and is skipped from then on.

Invariants: of concurrent redrives only one takes each dead letter; a message that is reported as moved is durable.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from goqueue.broker.core.admission import message_too_large
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.ranges import RangeMap
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.dead_letter_message import redriven_size
from goqueue.broker.groups.dead_letter_reader import (
    DeadLetter,
    DeadLetterCriteria,
    DeadLetterReader,
    is_redrivable,
)
from goqueue.broker.groups.dead_letters import REDRIVE_GROUP, DeadLetterMover
from goqueue.broker.groups.offsets import check_committable_offset
from goqueue.broker.groups.policies import DeliveryPolicies
from goqueue.broker.groups.records import (
    CursorClosed,
    CursorOpened,
    Group,
    GroupRecord,
    MessageMove,
    MoveStarted,
    OffsetCommitted,
)
from goqueue.broker.groups.retries import dead_letter_topic
from goqueue.broker.groups.store import GroupRules, GroupServices, is_topic_deleted
from goqueue.errors import GoQueueError, RequestInvalid, TopicNotFound
from goqueue.limits import (
    CURSOR_RANGES_MAX,
    DEAD_LETTERS_AT_ONCE,
    READ_BYTES_MAX,
    READ_MESSAGES_MAX,
    REDRIVE_MAX,
    REDRIVE_RATE_MIN,
)
from goqueue.quantities import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveOptions(DeadLetterCriteria):
    """Which dead letters to redrive, how many, how fast, and where to."""

    limit: int
    rate: float | None = None
    """Messages per second, at most."""
    target: str | None = None
    """A topic instead of the original one."""
    start: Mapping[int, int] = field(default_factory=dict)
    """The first offset by partition; elsewhere the first that was not redriven."""
    is_dry: bool = False
    check_target: Callable[[str], None] = lambda _: None
    """Raises when the caller may not write to a topic: the messages themselves name where they go."""


@dataclass(frozen=True, slots=True)
class RedrivenMessage:
    partition: int
    offset: int
    key: bytes | None
    error_text: str
    target_topic: str
    """Empty, and partition -1, when it is not known."""
    target_partition: int
    failure: GoQueueError | None = None


@dataclass(slots=True)
class RedriveReport:
    scanned: int = 0
    """Dead letters that were read."""
    matched: int = 0
    """Dead letters that met the criteria: each has a result."""
    moved: int = 0
    """Dead letters that are durable in their target."""
    remaining: int = 0
    """Dead letters from `next` on, which were not read. Messages before it did not match, or failed: so redrives that
    continue at `next` until nothing remains come to an end."""
    next: dict[int, int] = field(default_factory=dict)
    """The `start` with which another redrive continues."""
    topic: str | None = None
    """The topic that has the dead letters; None if there is none yet."""
    results: list[RedrivenMessage] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return not self.remaining


@dataclass(slots=True)
class DeadLetterPage:
    topic: str | None = None
    """Where they are; None if there is no such topic yet."""
    letters: list[DeadLetter] = field(default_factory=list)
    next: dict[int, int] = field(default_factory=dict)
    is_complete: bool = False


@dataclass(slots=True)
class DeadLetterErrorCounts:
    counts: dict[str, int] = field(default_factory=dict)
    next: dict[int, int] = field(default_factory=dict)
    is_complete: bool = False
    topic: str | None = None


class Redriver(GroupRules):
    """Finds and redrives dead letters."""

    def __init__(self, services: GroupServices, dead_letter_mover: DeadLetterMover, policies: DeliveryPolicies) -> None:
        super().__init__(services)
        self._services = services
        self._dead_letter_mover = dead_letter_mover
        self._policies = policies

    def close_deleted(self) -> None:
        """Close the redrive cursors of deleted topics. If that is refused, the cursors are recognized as stale."""
        for cursor in list(self._store.cursors(REDRIVE_GROUP).values()):
            if is_topic_deleted(self._topics, cursor):
                with suppress(GoQueueError):
                    self._store.record(REDRIVE_GROUP, [CursorClosed(REDRIVE_GROUP, *cursor.ref)])

    def begin(self, topic: str, options: RedriveOptions) -> "Redrive":
        """Return a redrive of a topic, named by its own name or by that of its dead-letter topic."""
        _check(options)
        source, origin = self._source(topic, options.group)
        if options.target is not None and source is not None:
            _check_target(options.target, source)
            self._topics.topic(options.target)
        options = replace(options, origin=origin)
        reader = self._reader(source, options, options.start) if source is not None else None
        return Redrive(self._services, self._dead_letter_mover, reader, options)

    def browse(
        self, topic: str, limit: int, start: Mapping[int, int], criteria: DeadLetterCriteria
    ) -> Work[DeadLetterPage]:
        """Return dead letters that were not redriven: fewer than the limit when they are large."""
        page, size = DeadLetterPage(is_complete=True), 0
        source, origin = self._source(topic, criteria.group)
        if source is None:
            return page
        page.topic, criteria = source.name, replace(criteria, origin=origin)
        reader, limit = self._reader(source, criteria, start), min(limit, READ_MESSAGES_MAX)
        while not reader.is_over and len(page.letters) < limit and size < READ_BYTES_MAX:
            found = yield from reader.read(limit - len(page.letters))
            page.letters += found
            size += sum(len(letter.message.value) for letter in found)
        page.next, page.is_complete = reader.next, reader.is_complete
        return page

    def errors(self, topic: str, start: Mapping[int, int] | None = None) -> Work[DeadLetterErrorCounts]:
        """Count dead letters by error, the most frequent first."""
        source, origin = self._source(topic)
        if source is None:
            return DeadLetterErrorCounts(is_complete=True)
        reader, counts = self._reader(source, DeadLetterCriteria(origin=origin), start or {}), Counter[str]()
        while not reader.is_over:
            counts.update(letter.error for letter in (yield from reader.read(READ_MESSAGES_MAX)))
        return DeadLetterErrorCounts(dict(counts.most_common()), reader.next, reader.is_complete, source.name)

    def _reader(self, source: Topic, criteria: DeadLetterCriteria, start: Mapping[int, int]) -> DeadLetterReader:
        for number, offset in start.items():
            check_committable_offset(PartitionRef(source.name, number), offset, source.partition(number))
        return DeadLetterReader(self._store, source, criteria, start)

    def topic_of_letters(self, name: str, group: str | None = None) -> str | None:
        """Return the name of the topic with the dead letters of a topic, or None if there is none yet."""
        source, _ = self._source(name, group)
        return None if source is None else source.name

    def _source(self, name: str, group: str | None = None) -> tuple[Topic | None, str | None]:
        """Return the topic with the dead letters of a topic, or None if there is none yet.

        The second value names the topic if others may have theirs there too, so that only its own are meant.
        """
        own_name, usual_name = self._policies.dead_letter_topic(name, group), dead_letter_topic(name)
        if own_name not in (name, usual_name) and own_name in self._topics.topics:
            return self._topics.topics[own_name], name
        if own_name == name:
            return self._topics.topic(name), None
        if usual_name in self._topics.topics:
            return self._topics.topics[usual_name], None
        named = self._policies.dead_letter_topics_of_groups(name)
        if found := next((one for one in named if one in self._topics.topics), None):
            return self._topics.topics[found], name
        self._topics.topic(name)  # which exists: there are no dead letters yet
        return None, None


class Redrive(GroupRules):
    """A redrive in steps.

    The caller runs `step` until `is_over`, each not before `seconds_due` seconds have passed since the first, and then
    `conclude`. It may stop between or within steps: a move that has started completes, but is in no report.
    """

    def __init__(
        self,
        services: GroupServices,
        dead_letter_mover: DeadLetterMover,
        reader: DeadLetterReader | None,
        options: RedriveOptions,
    ) -> None:
        super().__init__(services)
        self._dead_letter_mover = dead_letter_mover
        self._reader = reader
        self._options = options
        self._sent = 0
        """Messages that were moved, or would be in a dry run."""
        self._has_failed = False
        self.report = RedriveReport()

    @property
    def source(self) -> Topic | None:
        """The dead-letter queue, if there is one."""
        return None if self._reader is None else self._reader.topic

    @property
    def is_over(self) -> bool:
        return self._reader is None or self._has_failed or self._room <= 0 or self._reader.is_over

    @property
    def seconds_due(self) -> float:
        """The time that the moves so far take at the requested rate."""
        return self.report.moved / self._options.rate if self._options.rate is not None else 0.0

    @property
    def _room(self) -> int:
        return min(self._options.limit - self._sent, REDRIVE_MAX - len(self.report.results))

    def step(self) -> Work[None]:
        """Move the next messages: one chunk, or as many as the rate allows in a second."""
        if self._reader is None or self.is_over:
            return
        most = min(self._room, DEAD_LETTERS_AT_ONCE)
        if self._options.rate is not None:
            most = max(1, min(most, int(self._options.rate)))
        letters = yield from self._reader.read(most)
        if letters:
            yield from self._redrive_chunk(self._reader.topic, letters)

    def conclude(self) -> Work[RedriveReport]:
        if self._reader is not None:
            self.report.scanned = self._reader.scanned
            self.report.remaining = yield from self._reader.remaining()
            self.report.next = dict(self._reader.next)
            self.report.topic = self._reader.topic.name
        return self.report

    # --- one chunk ---

    def _redrive_chunk(self, source: Topic, letters: Sequence[DeadLetter]) -> Work[None]:
        """Redrive dead letters of one partition; those that another redrive has taken meanwhile are left out."""
        if self._topics.topic(source.name) is not source:
            raise TopicNotFound(f"topic {quoted(source.name)} was deleted during the redrive", topic=source.name)
        cursor, now_ns = self._store.cursor_of(REDRIVE_GROUP, source, letters[0].partition), self._clock.now_ns()
        results: dict[int, RedrivenMessage] = {}
        moves: list[tuple[int, MessageMove]] = []
        for letter in letters:
            if not is_redrivable(cursor, letter.offset):
                continue
            try:
                target = self._target_of(source, letter)
                if not (moves and moves[-1][0] == letter.offset - 1):
                    _check_range_limit(cursor, letter)
            except GoQueueError as refusal:
                results[letter.offset] = _result(letter, self._options.target or letter.origin_topic, None, refusal)
                continue
            results[letter.offset] = _result(letter, *target, None)
            moves.append((letter.offset, MessageMove(*target, self._port.end(target), "", 0, 0, now_ns)))
        self._sent += len(moves)
        failures: Mapping[int, GoQueueError] = {}
        if moves and not self._options.is_dry:
            failures = yield from self._move(source, letters[0].partition, moves)
            self.report.moved += len(moves) - len(failures)
            self._has_failed = bool(failures)
        self.report.matched += len(results)
        for offset, result in results.items():
            failure = failures.get(offset)
            self.report.results.append(result if failure is None else replace(result, failure=failure))

    def _target_of(self, source: Topic, letter: DeadLetter) -> PartitionRef:
        """Return the partition that the message goes to; raise when it may not go there."""
        name = self._options.target or letter.origin_topic
        if name is None:
            raise TopicNotFound("the message has no header with its original topic", hint="name a target topic")
        _check_target(name, source)
        self._options.check_target(name)
        topic = self._topics.topic(name)
        if (size := redriven_size(letter.message)) > topic.settings.max_message_bytes:
            raise message_too_large(size, topic.settings.max_message_bytes)
        number = letter.partition if letter.origin_partition is None else letter.origin_partition
        target = PartitionRef(topic.name, number % len(topic.partitions))
        self._port.refuse_unless_open(target)  # otherwise the move would not end while that is so
        return target

    def _move(
        self, source: Topic, number: int, moves: list[tuple[int, MessageMove]]
    ) -> Work[Mapping[int, GoQueueError]]:
        """Move messages. Return the error of each that has not arrived: some were not moved, others are moving."""
        left = {offset for offset, _ in moves}
        ref = PartitionRef(source.name, number)
        moving = RangeMap((offset, offset + 1, move) for offset, move in moves)
        started = MoveStarted(REDRIVE_GROUP, *ref, moves=list(moving.runs()))
        try:
            durable = self._store.recorded(REDRIVE_GROUP, [*self._opening(source, number), started])
            self._dead_letter_mover.queue(self._store.cursors(REDRIVE_GROUP)[ref])  # also when the caller goes away
            yield durable
            while (cursor := self._store.cursor_of(REDRIVE_GROUP, source, number)) and _is_any_moving(left, cursor):
                attempted: Promise[None] = Promise()
                self._dead_letter_mover.call_when_attempted(REDRIVE_GROUP, ref, attempted)
                self._dead_letter_mover.queue(cursor)
                yield attempted
        except GoQueueError as error:
            cursor = self._store.cursor_of(REDRIVE_GROUP, source, number)
            return {offset: error for offset in left if cursor is None or not cursor.is_settled(offset, offset + 1)}
        gone = TopicNotFound("the dead-letter queue or the target was deleted during the redrive", hint="name a target")
        return {offset: gone for offset in left if cursor is None or not cursor.is_settled(offset, offset + 1)}

    def _opening(self, source: Topic, number: int) -> list[GroupRecord]:
        """Return records that create the redrive group, which never expires, and its cursor."""
        records: list[GroupRecord] = []
        if self._store.group(REDRIVE_GROUP) is None:
            records.append(Group(group=REDRIVE_GROUP))
        cursor, earliest = self._store.cursor_of(REDRIVE_GROUP, source, number), source.partition(number).earliest
        key = (REDRIVE_GROUP, source.name, number)
        if cursor is None:
            records.append(CursorOpened(*key, topic_ns=source.created_ns, floor=earliest))
        elif cursor.floor < earliest and not any(cursor.moving.within(0, earliest)):
            records.append(OffsetCommitted(*key, floor=earliest))  # retention has removed what lay below
        return records


def _is_any_moving(offsets: Iterable[int], cursor: Cursor) -> bool:
    return any(offset in cursor.moving for offset in offsets)


def _result(
    letter: DeadLetter, topic: str | None, partition: int | None, failure: GoQueueError | None
) -> RedrivenMessage:
    number = -1 if partition is None else partition
    return RedrivenMessage(letter.partition, letter.offset, letter.key, letter.error, topic or "", number, failure)


def _check(options: RedriveOptions) -> None:
    if not 1 <= options.limit <= REDRIVE_MAX:
        raise RequestInvalid(
            f"limit is {options.limit}, allowed are 1 to {REDRIVE_MAX}",
            hint="redrive in several requests: each returns where the next one starts",
        )
    if options.rate is not None and not options.rate >= REDRIVE_RATE_MIN:
        raise RequestInvalid(
            f"rate is {options.rate}, the minimum is {REDRIVE_RATE_MIN}", hint="lower the limit instead of the rate"
        )


def _check_target(name: str, source: Topic) -> None:
    """Origin headers cannot be trusted: any producer of the topic may have written them."""
    if is_internal(name) or name == source.name:
        raise TopicNotFound(f"dead letters cannot be redriven to topic {quoted(name)}", hint="name another topic")


def _check_range_limit(cursor: Cursor | None, letter: DeadLetter) -> None:
    """Raise when the message would add another range to a cursor that has too many."""
    if cursor is None or cursor.run_count < CURSOR_RANGES_MAX:
        return
    offset = letter.offset
    if not (cursor.is_settled(offset - 1, offset) or cursor.is_settled(offset + 1, offset + 2)):
        raise RequestInvalid(
            f"the redriven messages of partition {letter.partition} are in {cursor.run_count} separate ranges",
            hint=f"redrive all dead letters from offset {cursor.floor} on, without criteria",
        )
