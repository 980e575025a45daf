"""Keeps the state of a journal up to date at the nodes that do not lead its log: each can answer questions of its own.

Changes are made at the leader, once it has read all that it inherited.
"""

import logging
from collections.abc import Callable
from typing import Any

from goqueue.broker.core.journal import Journal
from goqueue.errors import GoQueueError, LeaderUnavailable
from goqueue.runtime.cluster.owned_tasks import OwnedTasks

_log = logging.getLogger("goqueue.cluster")


class JournalFollower:
    """Follows one journal of a cluster."""

    def __init__(self, journal: Journal[Any], tasks: OwnedTasks, changed: Callable[[], None]) -> None:
        """`changed` is called when the state may be another one."""
        self._journal = journal
        self._changed = changed
        self._tasks = tasks
        self._seen_end = -1
        """The end of what `changed` was called for."""
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True

    def look(self) -> None:
        """Apply what is committed, now and whenever there is more."""
        if self._is_stopped or self._journal.is_closed:
            return
        self._journal.partition.watch(self._look_soon)
        try:
            self._follow()
        except GoQueueError as error:  # operators see the log's fault; the next look tries again
            _log.warning("log %s cannot be followed: %s", self._journal.log.name, error)

    def _look_soon(self) -> None:
        self._tasks.call_soon(self.look)

    def _follow(self) -> None:
        journal = self._journal
        if journal.has_pending:  # what is written here is applied when it is committed
            return
        if journal.durable_end < journal.partition.high_watermark:
            journal.follow()
        if journal.durable_end != self._seen_end:  # also when the log was cut back
            self._seen_end = journal.durable_end
            self._changed()

    def refuse_unless_led(self) -> None:
        """Raise if changes are made at another node. All earlier ones are known here, if this returns."""
        leadership = self._journal.partition.leadership
        if leadership is None:
            raise LeaderUnavailable("the cluster has not decided yet which node leads this log", retry_after=1)
        if not leadership.knows_end:
            raise leadership.other_coordinator()
        self._follow()
