"""Keeps the state of a journal up to date at the nodes that do not lead its log: each can answer questions of its own.

Changes are made at the leader, once it has read all that it inherited. Damage is skipped, so that later records are in
force, and the state is built anew as soon as the log was repaired.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from goqueue.broker.core.journal import Journal, LostRange
from goqueue.errors import GoQueueError, LeaderUnavailable, NotCoordinator
from goqueue.runtime.cluster.owned_tasks import OwnedTasks

_log = logging.getLogger("goqueue.cluster")


class JournalFollower:
    """Follows one journal of a cluster."""

    def __init__(self, journal: Journal[Any], tasks: OwnedTasks, changed: Callable[[], None]) -> None:
        """`changed` is called when the state may be another one."""
        self.journal = journal
        journal.led_epoch = 0
        self.moved: asyncio.Event = asyncio.Event()
        """Set, and cleared at once, when there is another leader, or more was applied."""
        self._changed = changed
        self._tasks = tasks
        self._seen_end = -1
        """The end of what `changed` was called for."""
        self._gone: list[LostRange] = []
        """What is missing in the log though nothing there is damaged."""
        journal.awaits_repair = bool(journal.losses)
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True

    def look(self) -> None:
        """Apply what is committed, now and whenever there is more."""
        if self._is_stopped or self.journal.is_closed:
            return
        self.journal.partition.watch(self._look_soon)
        try:
            self._follow()
        except GoQueueError as error:  # operators see the log's fault; the next look tries again
            _log.warning("log %s cannot be followed: %s", self.journal.log.name, error)
        self.moved.set()
        self.moved.clear()

    def _look_soon(self) -> None:
        self._tasks.call_soon(self.look)

    def _follow(self) -> None:
        journal = self.journal
        if journal.has_pending:  # what is written here is applied when it is committed
            return
        if journal.durable_end < journal.partition.high_watermark:
            journal.follow()
        if journal.losses:
            self._read_repaired()
        leadership = journal.partition.leadership
        if leadership is not None and leadership.knows_end:
            journal.led_epoch = leadership.leader_epoch
        if journal.durable_end != self._seen_end:  # also when the log was cut back
            self._seen_end = journal.durable_end
            self._changed()

    def _read_repaired(self) -> None:
        """Apply what damage had hidden, once it was repaired with the bytes of another node."""
        journal = self.journal
        if any(one not in self._gone and not journal.is_damaged(one) for one in journal.losses):
            journal.replay()
            self._gone = [one for one in journal.losses if not journal.is_damaged(one)]
            self._seen_end = -1
        journal.awaits_repair = any(one not in self._gone for one in journal.losses)

    @property
    def end(self) -> int:
        """The offset up to which the log is applied here."""
        return self.journal.durable_end

    @property
    def leader(self) -> str:
        """The node that leads the log, as far as this one knows; empty if none does."""
        leadership = self.journal.partition.leadership
        return "" if leadership is None else leadership.leader

    @property
    def is_led(self) -> bool:
        """True if changes are made here. All earlier ones are known here, if it is."""
        leadership = self.journal.partition.leadership
        if leadership is None or not leadership.knows_end:
            return False
        self._follow()
        return self.journal.is_led

    def refusal(self) -> NotCoordinator | LeaderUnavailable:
        """Return why changes are not made here, for clients that can go to another node."""
        leadership = self.journal.partition.leadership
        if leadership is None:
            return LeaderUnavailable("the cluster has not decided yet which node leads this log", retry_after=1)
        return leadership.other_coordinator()

    def refuse_unless_newest(self) -> None:
        """Raise if another node may have become the leader without the knowledge of this one."""
        leadership = self.journal.partition.leadership
        if leadership is None or not leadership.shows_end:
            raise self.unknown_here()

    def unknown_here(self) -> LeaderUnavailable:
        """Return the error of a change, or of a question that finds nothing here, while no leader can be asked."""
        return LeaderUnavailable(
            f"this node reaches no leader of {self.journal.log.name}, which alone can tell",
            hint="retry in a moment, or ask another node",
            retry_after=1,
        )

    async def reach(self, end: int, seconds: float) -> bool:
        """Wait until the log is applied up to this offset; False if it is not in time."""
        try:
            async with asyncio.timeout(seconds):
                while self.end < end:
                    await self.moved.wait()
        except TimeoutError:
            return False
        return True
