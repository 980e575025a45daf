"""Stands in the place of a log that could not be opened: it holds nothing, and refuses with the reason."""

from typing import NoReturn

from goqueue.errors import GoQueueError, LogFenced
from goqueue.storage.log import Log, LogSettings, Resources
from goqueue.storage.recovery import Recovered
from goqueue.storage.segment import Segment


class ClosedLog(Log):
    """Fenced from the beginning, for readers as well."""

    def __init__(self, name: str, resources: Resources, settings: LogSettings, reason: GoQueueError) -> None:
        super().__init__(name, resources, settings, Recovered("", [Segment("", 0)], 0, 0))
        self.fence = LogFenced(f"log {name} could not be opened: {reason}", hint=reason.hint, log=name)

    def refuse_unless_readable(self) -> NoReturn:
        assert self.fence is not None
        raise self.fence
