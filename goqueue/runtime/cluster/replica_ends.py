"""The note of a node of how far its replicas are committed and decided. It is a lower bound, written from time to time.

{data}/high-watermarks    by log: what is committed, and where the oldest open transaction began if there is one
"""

import logging
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple

from msgspec import ValidationError, convert

from goqueue.broker.core.work import Work
from goqueue.cluster.partitions import PartitionId, partition_of
from goqueue.errors import GoQueueError
from goqueue.storage.disk import Disk, read_all
from goqueue.storage.layout import decode_checkpoint, write_checkpoint

_log = logging.getLogger("goqueue.cluster")

NOTE = "high-watermarks"


class NotedEnds(NamedTuple):
    """The ends of one replica at an earlier moment."""

    high_watermark: int = 0
    undecided: int | None = None
    """Every transaction below is decided; None: this was never noted."""


class ReplicaEnds:
    """The note, and what it said last."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk, self._path = disk, f"{path}/{NOTE}"
        self._noted = self._load()

    def of(self, log: PartitionId) -> NotedEnds:
        return self._noted.get(_key(log), NotedEnds())

    def delayed_logs(self) -> Iterator[PartitionId]:
        """Yield the delayed logs that have something committed."""
        for key, noted in self._noted.items():
            topic_id, _, number = key.partition("/")
            log = PartitionId(int(topic_id), int(number))
            if noted.high_watermark and log != partition_of(log):
                yield log

    def forget(self, log: PartitionId) -> None:
        self._noted.pop(_key(log), None)

    def forget_topics(self, ids: Collection[int]) -> None:
        gone = {str(topic_id) for topic_id in ids}
        self._noted = {key: one for key, one in self._noted.items() if key.partition("/")[0] not in gone}

    def _load(self) -> dict[str, NotedEnds]:
        if self._disk.kind(self._path) != "file":
            return {}
        note = decode_checkpoint(read_all(self._disk, self._path)) or {}
        try:
            ends, undecided = (convert(note.get(name, {}), dict[str, int]) for name in ("ends", "undecided"))
        except ValidationError as error:
            _log.warning("the note %s is left out: %s", self._path, error)
            return {}
        return {key: NotedEnds(end, undecided.get(key, end)) for key, end in ends.items()}

    def store(self, news: dict[PartitionId, NotedEnds]) -> Work[None]:
        """Write what has changed, besides what was noted of logs that take no part yet."""
        found = self._noted | {_key(log): ends for log, ends in news.items()}
        if found == self._noted:
            return
        ends = {key: one.high_watermark for key, one in found.items()}
        undecided = {key: one.undecided for key, one in found.items() if one.undecided not in (None, ends[key])}
        try:
            yield _job(self._disk, self._path, ends=ends, undecided=undecided)
            self._noted = found
        except GoQueueError as error:
            _log.warning("high watermarks could not be noted: %s", error)


def _job(disk: Disk, path: str, **content: Any) -> Callable[[], None]:
    return partial(write_checkpoint, disk, path, **content)


def _key(log: PartitionId) -> str:
    return f"{log.topic_id}/{log.partition}"
