"""The note of a node of how far its replicas are committed and decided. It is a lower bound, written from time to time.

{data}/high-watermarks    by log: what is committed, where it begins, and where the oldest open transaction began if
                          there is one; and how far the log of the cluster is applied
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
_PARTS = "ends", "undecided", "starts"


class NotedEnds(NamedTuple):
    """The ends of one replica at an earlier moment."""

    high_watermark: int = 0
    undecided: int | None = None
    """Every transaction below is decided; None: this was never noted."""
    start: int | None = None
    """The first offset; None: this was never noted."""


class ReplicaEnds:
    """The note, and what it said last."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk, self._path = disk, f"{path}/{NOTE}"
        self.cluster_end = 0
        """The log of the cluster was committed up to here."""
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
            ends, undecided, starts = (convert(note.get(name, {}), dict[str, int]) for name in _PARTS)
            self.cluster_end = convert(note.get("cluster_end", 0), int)
        except ValidationError as error:
            _log.warning("the note %s is left out: %s", self._path, error)
            return {}
        return {key: NotedEnds(end, undecided.get(key, end), starts.get(key)) for key, end in ends.items()}

    def store(self, news: dict[PartitionId, NotedEnds], cluster_end: int = 0) -> Work[None]:
        """Write what has changed, besides what was noted of logs that take no part yet."""
        found = self._noted | {_key(log): ends for log, ends in news.items()}
        if found == self._noted and cluster_end <= self.cluster_end:
            return
        ends = {key: one.high_watermark for key, one in found.items()}
        undecided = {key: one.undecided for key, one in found.items() if one.undecided not in (None, ends[key])}
        try:
            starts = {key: one.start for key, one in found.items() if one.start is not None}
            note = {"ends": ends, "undecided": undecided, "starts": starts, "cluster_end": cluster_end}
            yield _job(self._disk, self._path, **note)
            self._noted, self.cluster_end = found, cluster_end
        except GoQueueError as error:
            _log.warning("high watermarks could not be noted: %s", error)


def _job(disk: Disk, path: str, **content: Any) -> Callable[[], None]:
    return partial(write_checkpoint, disk, path, **content)


def _key(log: PartitionId) -> str:
    return f"{log.topic_id}/{log.partition}"
