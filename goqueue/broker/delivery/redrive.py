"""Sending dead letters back to the topic they came from, or to another one.

They go the way they came: that they leave is recorded, they are published, that they are settled is recorded. What
was settled so stays in the topic of dead letters until retention removes it, and is passed over from then on.

What must stay true: of two who send back at once, each dead letter is taken by one; what is told to be moved is
durably there.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from goqueue.broker.admission import too_large
from goqueue.broker.delivery.changes import Closed, Committed, Departed, Move, Opened
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.deadletter import REDRIVE_GROUP, Undertaker
from goqueue.broker.delivery.letters import Criteria, DeadLetter, Scan, lies, redrive_cursor
from goqueue.broker.delivery.rules import DEAD_LETTER_SUFFIX
from goqueue.broker.delivery.transfer import dead_letter_topic, size_before
from goqueue.broker.groups.group import Group
from goqueue.broker.groups.ledger import Ledger
from goqueue.broker.groups.offsets import check_offset
from goqueue.broker.groups.state import Record
from goqueue.broker.groups.topics import Topics
from goqueue.broker.name import is_internal
from goqueue.broker.partition import Partition
from goqueue.broker.ranges import RangeMap
from goqueue.broker.topic import Topic
from goqueue.broker.work import Promise, Work
from goqueue.clock import Clock
from goqueue.errors import GoQueueError, RequestInvalid, TopicNotFound
from goqueue.limits import (
    CURSOR_RUNS_MAX,
    DEAD_LETTERS_AT_ONCE,
    READ_BYTES_MAX,
    READ_MESSAGES_MAX,
    REDRIVE_MAX,
    REDRIVE_RATE_MIN,
)
from goqueue.quantities import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveWish(Criteria):
    """Which dead letters to send back, how many, how fast, and where to."""

    limit: int
    rate: float | None = None
    """At most so many a second."""
    target: str | None = None
    """Instead of the topic that each came from."""
    start: Mapping[int, int] = field(default_factory=dict)
    """Where to begin in which partition; elsewhere with the first that was not sent back."""
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class Redriven:
    """What became of one dead letter, or would."""

    partition: int
    offset: int
    key: bytes | None
    error_text: str
    target_topic: str
    """Without a character, and partition -1, where it is not known."""
    target_partition: int
    failure: GoQueueError | None = None


@dataclass(slots=True)
class RedriveReport:
    """What came of a redrive, or would."""

    scanned: int = 0
    """Dead letters that were looked at."""
    matched: int = 0
    """Of those, which were meant: each has its result."""
    moved: int = 0
    """Of those, which are where they were sent, durably."""
    remaining: int = 0
    """Dead letters from `next` on, which were not looked at. There may be some before it that were not meant, or
    failed: so whoever goes on from `next` until none remain comes to an end."""
    next: dict[int, int] = field(default_factory=dict)
    """Where another redrive goes on, for each partition: its `start`."""
    results: list[Redriven] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether all was looked at that lay there when it began."""
        return not self.remaining


@dataclass(slots=True)
class Browsed:
    """Dead letters that were not sent back."""

    letters: list[DeadLetter] = field(default_factory=list)
    next: dict[int, int] = field(default_factory=dict)
    is_complete: bool = False


@dataclass(slots=True)
class ErrorCounts:
    """Why dead letters that were not sent back have failed, and how many for which reason."""

    counts: dict[str, int] = field(default_factory=dict)
    next: dict[int, int] = field(default_factory=dict)
    is_complete: bool = False


class Redrives:
    """Finds dead letters, and sends them back."""

    def __init__(self, ledger: Ledger, topics: Topics, clock: Clock, undertaker: Undertaker) -> None:
        self._ledger = ledger
        self._topics = topics
        self._clock = clock
        self._undertaker = undertaker

    def close_gone(self) -> None:
        """Forget what was sent back from topics that are gone. Where that is refused it is found out later."""
        for cursor in list(self._ledger.cursors(REDRIVE_GROUP).values()):
            topic = self._topics.topics.get(cursor.topic)
            is_current = topic is not None and topic.created_ns == cursor.topic_ns
            if not is_current and not self._topics.has_lost_record(cursor.topic):
                with suppress(GoQueueError):
                    self._ledger.record(REDRIVE_GROUP, [Closed(REDRIVE_GROUP, *cursor.place)])

    def begin(self, topic: str, wish: RedriveWish) -> "Redrive":
        """Of a topic, or of its dead letters by their own name; to be carried out as fast as is wished."""
        _check(wish)
        source = self._dead_letters_of(topic)
        if wish.target is not None and source is not None:
            _refuse_target(wish.target, source)
            self._topics.topic(wish.target)
        scan = self._scan(source, wish, wish.start) if source is not None else None
        return Redrive(self._ledger, self._topics, self._clock, self._undertaker, scan, wish)

    def redrive(self, topic: str, wish: RedriveWish) -> Work[RedriveReport]:
        """All at once, as fast as it goes."""
        redrive = self.begin(topic, wish)
        while not redrive.is_over:
            yield from redrive.step()
        report = yield from redrive.conclude()
        return report

    def browse(self, topic: str, limit: int, start: Mapping[int, int], criteria: Criteria) -> Work[Browsed]:
        """At most so many of those that were not sent back, and fewer where they are large."""
        browsed, size = Browsed(is_complete=True), 0
        source = self._dead_letters_of(topic)
        if source is None:
            return browsed
        scan, limit = self._scan(source, criteria, start), min(limit, READ_MESSAGES_MAX)
        while not scan.is_over and len(browsed.letters) < limit and size < READ_BYTES_MAX:
            found = yield from scan.piece(limit - len(browsed.letters))
            browsed.letters += found
            size += sum(len(letter.message.value) for letter in found)
        browsed.next, browsed.is_complete = scan.next, scan.is_complete
        return browsed

    def errors(self, topic: str, start: Mapping[int, int] | None = None) -> Work[ErrorCounts]:
        """The most frequent first."""
        found = ErrorCounts(is_complete=True)
        source = self._dead_letters_of(topic)
        if source is None:
            return found
        scan, counts = self._scan(source, Criteria(), start or {}), Counter[str]()
        while not scan.is_over:
            counts.update(letter.error for letter in (yield from scan.piece(READ_MESSAGES_MAX)))
        return ErrorCounts(dict(counts.most_common()), scan.next, scan.is_complete)

    def _scan(self, source: Topic, criteria: Criteria, start: Mapping[int, int]) -> Scan:
        for number, offset in start.items():
            check_offset((source.name, number), offset, source.partition(number))
        return Scan(self._ledger, source, criteria, start)

    def _dead_letters_of(self, name: str) -> Topic | None:
        """None where a topic has none yet."""
        own_name = name if name.endswith(DEAD_LETTER_SUFFIX) else dead_letter_topic(name)
        if own_name not in self._topics.topics and own_name != name:
            self._topics.topic(name)
            return None
        return self._topics.topic(own_name)


class Redrive:
    """One under way.

    Whoever carries it out does a `step` after the other until it `is_over`, the next one not before `seconds_due`
    seconds have passed since the first began. It may stop between two of them, and in the middle of one: what has left
    arrives, and is in no report then. In the end `conclude` gives the report.
    """

    def __init__(
        self,
        ledger: Ledger,
        topics: Topics,
        clock: Clock,
        undertaker: Undertaker,
        scan: Scan | None,
        wish: RedriveWish,
    ) -> None:
        self._ledger = ledger
        self._topics = topics
        self._clock = clock
        self._undertaker = undertaker
        self._scan = scan
        self._wish = wish
        self._sent = 0
        """Those that were moved, or would be."""
        self._is_stuck = False
        self.report = RedriveReport()

    @property
    def is_over(self) -> bool:
        return self._scan is None or self._is_stuck or self._room <= 0 or self._scan.is_over

    @property
    def seconds_due(self) -> float:
        """How long what was moved should have taken at least."""
        return self.report.moved / self._wish.rate if self._wish.rate is not None else 0.0

    @property
    def _room(self) -> int:
        return min(self._wish.limit - self._sent, REDRIVE_MAX - len(self.report.results))

    def step(self) -> Work[None]:
        """Move the next ones, as many as go together, or as may within a second."""
        if self._scan is None or self.is_over:
            return
        most = min(self._room, DEAD_LETTERS_AT_ONCE)
        if self._wish.rate is not None:
            most = max(1, min(most, int(self._wish.rate)))
        letters = yield from self._scan.piece(most)
        if letters:
            yield from self._take(self._scan.topic, letters)

    def conclude(self) -> Work[RedriveReport]:
        """The report, as far as it has come."""
        if self._scan is not None:
            self.report.scanned = self._scan.scanned
            self.report.remaining = yield from self._scan.remaining()
            self.report.next = dict(self._scan.next)
        return self.report

    # --- one chunk ---

    def _take(self, source: Topic, letters: Sequence[DeadLetter]) -> Work[None]:
        """All of one partition; those that others have taken meanwhile are theirs."""
        if self._topics.topic(source.name) is not source:
            raise TopicNotFound(f"topic {quoted(source.name)} was deleted meanwhile", topic=source.name)
        cursor, now_ns = redrive_cursor(self._ledger, source, letters[0].partition), self._clock.now_ns()
        results: dict[int, Redriven] = {}
        moves: list[tuple[int, Move]] = []
        for letter in letters:
            if not lies(cursor, letter.offset):
                continue
            try:
                target = self._target_of(source, letter)
                if not (moves and moves[-1][0] == letter.offset - 1):
                    _check_runs(cursor, letter)
            except GoQueueError as refusal:
                results[letter.offset] = _result(letter, self._wish.target or letter.origin_topic, None, refusal)
                continue
            results[letter.offset] = _result(letter, target.topic, target.number, None)
            moves.append((letter.offset, Move(target.topic, target.number, target.log_end, "", 0, 0, now_ns)))
        self._sent += len(moves)
        failures: Mapping[int, GoQueueError] = {}
        if moves and not self._wish.is_dry:
            failures = yield from self._carry(source, letters[0].partition, moves)
            self.report.moved += len(moves) - len(failures)
            self._is_stuck = bool(failures)
        self.report.matched += len(results)
        for offset, result in results.items():
            failure = failures.get(offset)
            self.report.results.append(result if failure is None else replace(result, failure=failure))

    def _target_of(self, source: Topic, letter: DeadLetter) -> Partition:
        """Where it belongs, if it may go there."""
        name = self._wish.target or letter.origin_topic
        if name is None:
            raise TopicNotFound("the message does not tell which topic it came from", hint="name a topic to send it to")
        _refuse_target(name, source)
        topic = self._topics.topic(name)
        if (size := size_before(letter.message)) > topic.settings.max_message_bytes:
            raise too_large(size, topic.settings.max_message_bytes)
        number = letter.partition if letter.origin_partition is None else letter.origin_partition
        target = topic.partitions[number % len(topic.partitions)]
        target.log.refuse_unless_open()  # else it would be on its way for as long as that is so
        return target

    def _carry(self, source: Topic, number: int, moves: list[tuple[int, Move]]) -> Work[Mapping[int, GoQueueError]]:
        """Those that are not there when it ends, each with the reason: some lie here still, others are on their way."""
        left = {offset for offset, _ in moves}
        place = (source.name, number)
        leaving = RangeMap((offset, offset + 1, move) for offset, move in moves)
        departed = Departed(REDRIVE_GROUP, *place, moves=list(leaving.runs()))
        try:
            durable: Promise[None] = Promise()
            self._ledger.record(REDRIVE_GROUP, [*self._opening(source, number), departed], durable)
            self._undertaker.call(self._ledger.cursors(REDRIVE_GROUP)[place])  # though nobody may wait for it
            yield durable
            while (cursor := redrive_cursor(self._ledger, source, number)) and _is_any_in(left, cursor):
                tried: Promise[None] = Promise()
                self._undertaker.when_tried(REDRIVE_GROUP, place, tried)
                self._undertaker.call(cursor)
                yield tried
        except GoQueueError as error:
            cursor = redrive_cursor(self._ledger, source, number)
            return {offset: error for offset in left if cursor is None or not cursor.is_settled(offset, offset + 1)}
        gone = TopicNotFound("its topic, or the one it was sent to, was deleted meanwhile", hint="name another topic")
        return {offset: gone for offset in left if cursor is None or not cursor.is_settled(offset, offset + 1)}

    def _opening(self, source: Topic, number: int) -> list[Record]:
        """What is to be recorded first: the group, which never expires, and its place there."""
        records: list[Record] = []
        if self._ledger.group(REDRIVE_GROUP) is None:
            records.append(Group(group=REDRIVE_GROUP))
        cursor, earliest = redrive_cursor(self._ledger, source, number), source.partition(number).earliest
        place = (REDRIVE_GROUP, source.name, number)
        if cursor is None:
            records.append(Opened(*place, topic_ns=source.created_ns, floor=earliest))
        elif cursor.floor < earliest and not any(cursor.moving.within(0, earliest)):
            records.append(Committed(*place, floor=earliest))  # retention has removed what lay below
        return records

    def __repr__(self) -> str:
        return f"<Redrive {self.report.moved} moved, {self._scan!r}>"


def _is_any_in(offsets: Iterable[int], cursor: Cursor) -> bool:
    """Whether some of them are on their way."""
    return any(offset in cursor.moving for offset in offsets)


def _result(letter: DeadLetter, topic: str | None, partition: int | None, failure: GoQueueError | None) -> Redriven:
    number = -1 if partition is None else partition
    return Redriven(letter.partition, letter.offset, letter.key, letter.error, topic or "", number, failure)


def _check(wish: RedriveWish) -> None:
    """Refuse what cannot be done within a request."""
    if not 1 <= wish.limit <= REDRIVE_MAX:
        raise RequestInvalid(f"limit is {wish.limit}, it may be 1 to {REDRIVE_MAX}", hint="go on where the last ended")
    if wish.rate is not None and not wish.rate >= REDRIVE_RATE_MIN:
        raise RequestInvalid(f"rate is {wish.rate}, {REDRIVE_RATE_MIN} is the least", hint="send fewer at a time")


def _refuse_target(name: str, source: Topic) -> None:
    """Headers may tell anything: whoever may publish there may have written them."""
    if is_internal(name) or name == source.name:
        raise TopicNotFound(f"no dead letters are sent to topic {quoted(name)}", hint="name another topic")


def _check_runs(cursor: Cursor | None, letter: DeadLetter) -> None:
    """Refuse to keep yet another range of what was sent back, where there are too many of them."""
    if cursor is None or cursor.run_count < CURSOR_RUNS_MAX:
        return
    offset = letter.offset
    if not (cursor.is_settled(offset - 1, offset) or cursor.is_settled(offset + 1, offset + 2)):
        raise RequestInvalid(
            f"dead letters of partition {letter.partition} were sent back from {cursor.run_count} separate places",
            hint=f"send all of them back from offset {cursor.floor} on, whatever they are",
        )
