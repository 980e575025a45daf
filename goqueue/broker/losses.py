"""Logs that a start could not open or that other nodes have, and records of internal logs that it could not read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from goqueue.errors import GoQueueError, LogFenced
from goqueue.storage.log import Log, LogResources, LogSettings
from goqueue.storage.recovery import RecoveredLog
from goqueue.storage.segment import Segment


@dataclass(frozen=True, slots=True)
class LostJournalRecords:
    log: str
    count: int
    names: tuple[str, ...]
    """The logs without a topic, groups, or transactional ids that may be affected."""


class UnavailableLog(Log):
    """A placeholder for a log that could not be opened: it is empty, and refuses every use with the reason."""

    def __init__(self, name: str, resources: LogResources, settings: LogSettings, reason: GoQueueError) -> None:
        super().__init__(name, resources, settings, RecoveredLog("", [Segment("", 0)], 0, 0))
        self.fence = LogFenced(f"log {name} could not be opened: {reason}", hint=reason.hint, log=name)

    def refuse_unless_readable(self) -> NoReturn:
        assert self.fence is not None
        raise self.fence


class AbsentLog(Log):
    """A placeholder for a log of which this node of a cluster has no replica: it is empty, and refuses every use."""

    def __init__(self, name: str, resources: LogResources, settings: LogSettings) -> None:
        super().__init__(name, resources, settings, RecoveredLog("", [Segment("", 0)], 0, 0))
        self.fence = LogFenced(f"this node has no replica of log {name}", hint="ask the leader of it", log=name)
        self.refusal: Callable[[], GoQueueError] | None = None
        """Returns what is said instead, by those who know the leader."""

    @property
    def obstacle(self) -> GoQueueError | None:
        return self.fence if self.refusal is None else self.refusal()

    def refuse_unless_readable(self) -> None:
        self.refuse_unless_open()


def fault_of(log: Log) -> GoQueueError | None:
    """Return why a log accepts nothing, for operators; a log that is on other nodes only has no fault."""
    return None if isinstance(log, AbsentLog) else log.fence
