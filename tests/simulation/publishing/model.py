"""The naive model: what clients of a broker remember of it, and what the broker owes them.

A model outlives crashes, as clients do. It knows no segments, no snapshots and no windows: a partition is a dict
from offset to content. Every content is used once, so a message that is found twice was stored twice.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from goqueue.broker.core.partition import Placement
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.topic import TopicSettings
from goqueue.storage import frame
from goqueue.wire.sections import PRODUCER_HEADER


class Content(NamedTuple):
    """A message as a client means it."""

    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    is_tombstone: bool = False
    priority: int = frame.NORMAL

    def encode(self, mark: ProducerMark | None = None) -> bytes:
        headers = [*([(PRODUCER_HEADER, mark.encode())] if mark else []), *self.headers]
        flags = frame.TOMBSTONE if self.is_tombstone else 0
        return frame.encode(self.value, self.key, frame.encode_headers(headers), flags=flags, priority=self.priority)


def content_of(message: frame.StoredMessage) -> Content:
    """Return what a reader gets, without the mark of a producer."""
    headers = tuple(header for header in message.headers if header[0] != PRODUCER_HEADER)
    return Content(message.key, message.value, headers, message.is_tombstone, message.priority)


@dataclass
class MaintenanceRun:
    """The inputs of one maintenance run of a partition."""

    now_ns: int
    settings: TopicSettings
    size: int = 0
    """The largest that the log was meanwhile."""


@dataclass
class PartitionModel:
    """The messages that one partition owes to readers."""

    name: str
    history: dict[int, Content] = field(default_factory=dict)
    """All that was answered or seen, by offset."""
    offsets: dict[Content, int] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    open: set[Content] = field(default_factory=set)
    """What was sent, and whose result is unknown."""
    earliest: int = 0
    upkeep: MaintenanceRun | None = None
    """The look of the upkeep that may still remove something."""
    was_compacted: bool = False
    latest_ns: int = 0
    """The latest time that any upkeep went by; the clock may have been set back since."""

    @property
    def end(self) -> int:
        return max(self.history, default=-1) + 1

    def stored(self, contents: list[Content], placement: Placement, *, at_once: bool = True) -> None:
        """An answer: each content has its offset, and those that were stored at once have one time."""
        places = [offset for first, end in placement.pieces for offset in range(first, end)]
        assert len(places) == len(contents), f"{self.name}: {len(contents)} messages were answered with {places}"
        for offset, content in zip(places, contents, strict=True):
            self.has(offset, content)
            if at_once:
                self.timed(offset, placement.time_ns)

    def has(self, offset: int, content: Content) -> None:
        """From now on it is owed."""
        known = self.history.setdefault(offset, content)
        assert known == content, f"{self.name}: offset {offset} was given twice, to {known} and to {content}"
        place = self.offsets.get(content, offset)
        assert place == offset or place < self.earliest, (
            f"{self.name}: {content} was stored twice, at {place} and at {offset}"
        )
        self.offsets[content] = offset
        self.open.discard(content)

    def timed(self, offset: int, time_ns: int) -> None:
        known = self.times.setdefault(offset, time_ns)
        assert known == time_ns, f"{self.name}: the time of offset {offset} has changed"

    def latest(self) -> dict[bytes, int]:
        """The newest offset of every key."""
        return {content.key: offset for offset, content in sorted(self.history.items()) if content.key}


@dataclass
class TopicModel:
    """One topic from its creation to its end; a topic that comes later under the same name is another one."""

    name: str
    settings: TopicSettings
    partitions: list[PartitionModel]
    state: Literal["coming", "here", "gone"] = "coming"
    may_go: bool = False
    """Its deletion was asked for, and the result is unknown."""
    before: "TopicModel | None" = None
    """One of the same name whose creation had no answer."""
    changes: list[TopicSettings] = field(default_factory=list)
    """The settings that were asked for, while the result is unknown."""


@dataclass
class Model:
    """Everything that clients know of a broker."""

    topics: dict[str, TopicModel] = field(default_factory=dict)
    made_by_broker: frozenset[str] = frozenset()
    """Topics that no client asks for."""
    producers: set[int] = field(default_factory=set)
    waiting: int = 0
    """How many of those who asked this process were not told yet."""
    counts: Counter[str] = field(default_factory=Counter)
    """What happened how often, to see that a simulation does something."""

    def here(self) -> list[TopicModel]:
        return [topic for topic in self.topics.values() if topic.state == "here"]

    def producer(self, number: int) -> None:
        assert number not in self.producers, f"the producer id {number} was given twice"
        self.producers.add(number)
