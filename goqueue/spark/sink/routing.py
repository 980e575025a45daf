"""Which partition of its topic a message goes to: the same in each attempt of a task."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.client.endpoints import TopicInfo
from goqueue.errors import PartitionNotFound
from goqueue.partitioner import hash_named

if TYPE_CHECKING:
    from goqueue.storage.scan import Positions

STRETCH_MESSAGES = 8192
"""So many messages without a key go to one partition before the next has its turn: few large requests."""
_POSITIVE = 0x7FFFFFFF


class Router:
    """For one topic, as one task writes to it."""

    def __init__(self, topic: TopicInfo, task: int) -> None:
        self.topic = topic
        self._hash_key = hash_named(topic.partitioner)
        self._task = task
        self._keyless = 0

    def route(self, count: int, keys: pa.BinaryArray | None, given: pa.Array | None) -> "Positions":
        """By what a row says, then by its key, then by its number."""
        chosen = np.full(count, -1, np.int64) if given is None else self._given(given)
        left = np.flatnonzero(chosen < 0)
        if len(left) and keys is not None:
            chosen[left] = self._by_key(keys if len(left) == count else keys.take(pa.array(left)))
            left = np.flatnonzero(chosen < 0)
        numbers = self._keyless + np.arange(len(left))
        chosen[left] = (self._task + numbers // STRETCH_MESSAGES) % self.topic.partitions
        self._keyless += len(left)
        return chosen

    def _given(self, column: pa.Array) -> "Positions":
        least, most = pc.min_max(column).values()
        for found in (least.as_py(), most.as_py()):
            if found is not None and not 0 <= found < self.topic.partitions:
                raise PartitionNotFound(
                    f"a row says partition {found}, topic {self.topic.name} has 0 to {self.topic.partitions - 1}",
                    hint="without a column partition, or where it is null, messages go by their key",
                )
        numbers: Positions = np.array(column.cast(pa.int64()).fill_null(-1))
        return numbers

    def _by_key(self, keys: pa.BinaryArray) -> "Positions":
        """-1 where there is none."""
        hash_key = self._hash_key
        hashes = np.fromiter((hash_key(key) if key else -1 for key in keys.to_pylist()), np.int64, len(keys))
        found: Positions = np.where(hashes < 0, -1, (hashes & _POSITIVE) % self.topic.partitions)
        return found
