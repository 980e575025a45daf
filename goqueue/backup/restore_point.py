"""A point to restore to: where the logs end that do not end where the backup does."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from goqueue.backup.manifest import Manifest
from goqueue.quantities import format_count


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a log ends in a restore."""

    offset: int
    """The first one that is dropped; that behind the log if none is."""
    dropped: int = 0
    """Messages and control records."""
    dropped_ns: int | None = None
    """The time of the first of them."""
    next_offset: int = 0
    """Where the log goes on; 0: where it ends."""
    aborts: bool = False
    """Whether open transactions are aborted at the end, because no coordinator knows that they are open."""


@dataclass(frozen=True, slots=True)
class PointInTime:
    """The ends of all logs that do not end where the backup does, and the logs that did not exist then."""

    time_ns: int | None
    ends: Mapping[str, LogEnd] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about messages of that time that are not there any more."""

    @property
    def name(self) -> str:
        """Names these ends: a restore continues one with the same."""
        told = repr((sorted((name, one.offset) for name, one in self.ends.items()), self.left_out))
        return f"{crc32(told.encode()):08x}"


def keeps_messages(manifest: Manifest, point: PointInTime) -> bool:
    """Return whether a restore has any message of a topic."""
    topics = [log for log in manifest.logs if not log.name.startswith("__") and log.name not in point.left_out]
    ends = {name: end.offset for name, end in point.ends.items()}
    return any(log.first_offset < ends.get(log.name, log.next_offset) for log in topics)


def describe_ends(point: PointInTime) -> Iterator[str]:
    """Say what a restore drops."""
    topics: dict[str, list[int]] = {}
    for name, one in point.ends.items():
        if not name.startswith("__"):
            counts = topics.setdefault(name.partition("/")[0], [0, 0])
            counts[name.endswith("/delayed")] += one.dropped
    for topic, (messages, delayed) in sorted(topics.items()):
        told = [format_count(messages, "message")] if messages else []
        told += [format_count(delayed, "record") + " of delayed messages"] if delayed else []
        yield f"{topic}: {' and '.join(told)} dropped"
    for topic in sorted({name.partition("/")[0] for name in point.left_out}):
        yield f"{topic}: partitions that did not exist then are left out"
    records = sum(one.dropped for name, one in point.ends.items() if name.startswith("__"))
    if records:
        yield f"{format_count(records, 'record')} of groups, transactions and topics dropped"
    yield from point.notes
