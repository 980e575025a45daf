"""Logs that a start could not open, and records of internal logs that it could not read."""

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
