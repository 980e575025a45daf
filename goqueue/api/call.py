"""What a handler gets: the request, already understood, and the broker that it is for."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from goqueue.api.http.message import Request
from goqueue.api.unpacking import UnpackedMemory
from goqueue.broker.topic import Topic
from goqueue.errors import PartitionNotFound
from goqueue.limits import HTTP_CONNECTIONS, IN_FLIGHT_MESSAGES, SESSION_SECONDS
from goqueue.observe.history import History
from goqueue.observe.metrics import Metrics
from goqueue.quantities import quoted
from goqueue.runtime.gatherer import Gatherer
from goqueue.runtime.runtime import Runtime
from goqueue.runtime.scraper import Scraper

_PARTITION = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class MemberDefaults:
    """What a member gets that does not say."""

    session_timeout: float = SESSION_SECONDS
    max_in_flight: int = IN_FLIGHT_MESSAGES


@dataclass(slots=True)
class App:
    """What all handlers share."""

    runtime: Runtime
    metrics: Metrics
    history: History
    default_partitions: int
    default_settings: dict[str, Any]
    auto_create: bool = False
    groups: MemberDefaults = field(default_factory=MemberDefaults)
    openapi: dict[str, Any] = field(default_factory=dict)
    creating: "dict[str, asyncio.Future[Topic]]" = field(default_factory=dict)
    """Topics that are being made because somebody publishes to them."""
    connections_max: int = HTTP_CONNECTIONS
    connections_wanted: int = HTTP_CONNECTIONS
    """By the setting; more than `connections_max` where the limit of open files leaves no more."""
    check_answers: Callable[[], None] = lambda: None
    """Raises BrokerOverloaded where nothing large should be read for an answer now."""
    unpacked: UnpackedMemory = field(default_factory=UnpackedMemory)
    gatherer: Gatherer = field(init=False)
    """Of facts, for the doctor."""
    scraper: Scraper = field(init=False)

    def __post_init__(self) -> None:
        self.gatherer = Gatherer(
            self.runtime,
            self.history,
            connections_max=self.connections_max,
            connections_wanted=self.connections_wanted,
        )
        self.scraper = Scraper(self.runtime, self.metrics)


@dataclass(slots=True)
class Call:
    """One call of one endpoint."""

    app: App
    request: Request
    parameters: dict[str, str]
    """What stands in the path, percent-decoded."""
    query: Any = None
    body: Any = None

    @property
    def runtime(self) -> Runtime:
        return self.app.runtime

    @property
    def partition(self) -> int:
        """The partition's number in the path."""
        text = self.parameters["partition"]
        if _PARTITION.fullmatch(text):
            return int(text)
        raise PartitionNotFound(f"{quoted(text)} is not the number of a partition", hint="partitions count from 0")
