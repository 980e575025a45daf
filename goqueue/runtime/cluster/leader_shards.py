"""Opens the shards whose logs this node leads, and closes those that it leads no more.

A shard is opened when all that the log has is committed: replaying it then gives what every later coordinator knows.
It is closed, with an answer for all who wait, as soon as its log may have another leader, and opened anew when this
node leads it again: in between another node may have decided. A node that has had no lease for a while cannot know, and
would keep its clients waiting: nothing that it records is committed if there is another leader.
"""

import asyncio
import logging
from functools import partial
from typing import Any

from goqueue.broker.core.leadership import Leadership
from goqueue.broker.core.shards import Shards
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.owned_tasks import OwnedTasks

_log = logging.getLogger("goqueue.cluster")

_RETRY_SECONDS = 1.0
_LEASE_SECONDS = 1.0
"""Without a lease, until shards are closed: a change of the controller takes less."""
_TICK_SECONDS = 0.25


class LeaderShards:
    """The shards of one internal topic, as far as this node coordinates them."""

    def __init__(self, shards: Shards[Any], tasks: OwnedTasks) -> None:
        self._shards = shards
        self._tasks = tasks
        self._opened: dict[int, int] = {}
        """The leader epoch in which each open shard was opened."""
        self._closing: set[int] = set()
        """Closed shards of which something is still being written."""
        self._lapsed: dict[int, float] = {}
        """Since when there is no lease, by the clock of the loop."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._wakers = [partial(self._look_soon, number) for number in range(len(shards.partitions))]

    def look(self) -> None:
        """Look at all partitions. From then on each is looked at when its readers are woken, and from time to time."""
        if self._timer is None:
            self._tick()
        for number in range(len(self._shards.partitions)):
            self._look_again(number)

    def stop(self) -> None:
        """Open nothing any more. What is open is closed with the broker."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._timer = self._tasks.call_later(_TICK_SECONDS, self._tick)
        for number, partition in enumerate(self._shards.partitions):
            leadership = partition.leadership
            if number in self._lapsed or (leadership is not None and not leadership.may_answer):
                self._look_again(number)

    def _look_soon(self, number: int) -> None:
        self._tasks.call_soon(self._look_again, number)

    def _look_again(self, number: int) -> None:
        if not self._is_stopped:
            self._shards.partitions[number].watch(self._wakers[number])
            self._look(number)

    def _look(self, number: int) -> None:
        leadership = self._shards.partitions[number].leadership
        leads = leadership is not None and leadership.knows_end and self._has_lease(number, leadership)
        opened = self._opened.get(number)
        if opened is not None and leadership is not None and (not leads or leadership.leader_epoch != opened):
            self._close(number)
        if leadership is not None and leads and number not in self._opened and number not in self._closing:
            self._open(number, leadership.leader_epoch)

    def _has_lease(self, number: int, leadership: Leadership) -> bool:
        """Return whether this node has a lease, or had one a moment ago."""
        if leadership.may_answer:
            self._lapsed.pop(number, None)
            return True
        now = asyncio.get_running_loop().time()
        return now - self._lapsed.setdefault(number, now) < _LEASE_SECONDS

    def _close(self, number: int) -> None:
        del self._opened[number]
        self._closing.add(number)
        self._shards.close(number).then(partial(self._on_settled, number))

    def _on_settled(self, number: int, _: object) -> None:
        self._closing.discard(number)
        self._look_soon(number)

    def _open(self, number: int, epoch: int) -> None:
        try:
            self._shards.open(number)
        except GoQueueError as error:
            _log.warning("%s cannot be opened yet: %s", self._shards.partitions[number].log.name, error)
            self._tasks.call_later(_RETRY_SECONDS, self._look_again, number)
        else:
            self._opened[number] = epoch
