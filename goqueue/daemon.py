"""The daemon: reads the configuration, builds the rooms, joins them, and owns their start and stop.

The only place that knows all rooms. It owns the data directory for as long as it runs: recovery at the
start, the event loop for everything in between, the marker of a clean stop at the end.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvloop

from goqueue import __version__
from goqueue.api.call import App, MemberDefaults
from goqueue.api.http.limits import HttpLimits
from goqueue.api.http.origin import OriginGuard
from goqueue.api.http.server import Server
from goqueue.api.observer import HttpObserver
from goqueue.api.openapi import document
from goqueue.api.router import Router
from goqueue.api.status import status_of
from goqueue.api.table import ENDPOINTS
from goqueue.broker.delivery.rules import Rules
from goqueue.broker.groups.coordinator import GroupSettings
from goqueue.clock import NANOSECONDS, SystemClock
from goqueue.config import Config
from goqueue.config.kinds import list_items
from goqueue.observe.history import History
from goqueue.observe.logs import AccessLog, configure
from goqueue.observe.metrics import Metrics
from goqueue.runtime.gatherer import open_files_max
from goqueue.runtime.lag import LagMeter
from goqueue.runtime.runtime import Runtime, RuntimeSettings
from goqueue.runtime.sampler import Sampler
from goqueue.storage.disk import SystemDisk
from goqueue.storage.log import LogSettings
from goqueue.storage.store import Store, StoreSettings, process_name

_log = logging.getLogger("goqueue.daemon")

_GARBAGE_THRESHOLD = 50_000
"""New objects before the collector looks: requests make many and no cycles, and each look costs them a pause."""


class Daemon:
    """One broker process: `run` it until somebody says `stop`, and it leaves cleanly."""

    def __init__(self, config: Config) -> None:
        self.config = config
        clock = SystemClock()
        self.metrics = Metrics(__version__, log_sizes=self._log_sizes)
        settings = RuntimeSettings(
            config.server.in_flight_bytes,
            config.storage.upkeep_interval,
            group_settings(config),
            config.storage.retention_jump_percent,
        )
        self.runtime = Runtime(SystemDisk(), clock, self.metrics, settings)
        self._sampler = Sampler(self.runtime, self.metrics)
        _raise_file_limit()
        limits = _limits(config).within(open_files_max())
        self.connections_max = limits.connections
        """Fewer than the setting says where the limit of open files leaves no more."""
        app = _app(config, self.runtime, self.metrics, self._sampler.history, self.connections_max)
        router = Router(ENDPOINTS, app)
        requests = config.log.requests
        access = (
            AccessLog(logging.getLogger("goqueue.requests"), per_second=requests, clock=clock) if requests else None
        )
        self.server = Server(
            _guarded(router, config),
            limits=limits,
            observer=HttpObserver(self.metrics, router, access),
            clock=clock,
        )
        app.check_answers = self.server.check_answers
        self._lag = LagMeter(self.metrics.observe_lag)
        self._has_failed = False
        self._stop: asyncio.Event

    @property
    def address(self) -> str:
        host, port = self.server.address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def store(self) -> Store:
        return self.runtime.store

    def run(self, started: Callable[["Daemon"], None], stopped: Callable[[], None]) -> None:
        """Until told to stop. `started` is called when clients can come, `stopped` when all is written."""
        logs = configure(self.config.log.level, self.config.log.format, sys.stderr)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._run(started))
            stopped()
        finally:
            logs.close()

    async def _run(self, started: Callable[["Daemon"], None]) -> None:
        self._stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_tell_of_mistake)
        self.runtime.on_failure = self._fail
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self.stop)
        await self.start()
        gc.freeze()
        gc.set_threshold(_GARBAGE_THRESHOLD)
        try:
            started(self)
            await self._stop.wait()
        finally:
            await self.close()
        if self._has_failed:
            raise RuntimeError("the broker could not go on: its log says why")

    def _fail(self) -> None:
        self._has_failed = True
        self._stop.set()

    async def start(self) -> None:
        """Take the address and the data directory, recover what is in it, and listen."""
        config = self.config
        owner = process_name("goqueue serve", os.getpid())
        # The address first: without it, nothing else should be touched. Until recovery is done the loop does not
        # turn, so clients wait with the kernel.
        await self.server.start(config.server.host, config.server.port)
        try:
            self.runtime.start(os.path.abspath(config.data_dir), owner, store_settings(config))
        except BaseException:
            await self.server.stop(0)
            raise
        self._lag.start()
        self._sampler.start()

    async def close(self) -> None:
        """Finish what is in progress, within bounds, and write what is left."""
        self._lag.stop()
        self.runtime.refuse_new_work()
        await self.server.stop(self.config.server.stop_timeout)
        await self._sampler.stop()
        await self.runtime.stop()

    def stop(self) -> None:
        """On the loop's thread, as a signal comes."""
        self._stop.set()

    def _log_sizes(self) -> dict[str, int]:
        sizes = {name: topic.size for name, topic in self.runtime.broker.topics.items()}
        for postman in self.runtime.broker.office.postmen():
            inbox = postman.delays.inbox
            sizes[inbox.topic] = sizes.get(inbox.topic, 0) + inbox.log.size
        return sizes


def _tell_of_mistake(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody caught is a mistake of ours: it goes where all lines go, and the broker goes on."""
    _log.error("%s", context.get("message", "unhandled"), exc_info=context.get("exception"))


def _app(config: Config, runtime: Runtime, metrics: Metrics, history: History, connections_max: int) -> App:
    topics = config.topics
    return App(
        runtime,
        metrics,
        history,
        topics.partitions,
        {"retention_hours": topics.retention / 3600, "max_message_bytes": topics.max_message_bytes},
        topics.auto_create,
        MemberDefaults(config.groups.session_timeout, config.groups.max_in_flight),
        document(ENDPOINTS, __version__, status_of),
        connections_max=connections_max,
        connections_wanted=config.server.connections,
    )


def _guarded(router: Router, config: Config) -> OriginGuard:
    server = config.server
    names = {"localhost", socket.gethostname(), server.host, *list_items(server.allowed_hosts)}
    return OriginGuard(router, hosts=names, origins=list_items(server.allowed_origins))


def _limits(config: Config) -> HttpLimits:
    server = config.server
    return HttpLimits(
        body_bytes=server.request_bytes,
        idle_seconds=server.idle_timeout,
        connections=server.connections,
        bodies_bytes=max(server.in_flight_bytes, server.request_bytes),
    )


def store_settings(config: Config) -> StoreSettings:
    """The configuration in the storage engine's own words."""
    storage = config.storage
    return StoreSettings(
        flush=storage.flush,
        flush_interval_ns=round(storage.flush_interval * NANOSECONDS),
        tail_bytes=storage.tail_bytes,
        log=LogSettings(storage.segment_bytes, round(storage.segment_age * NANOSECONDS)),
    )


def group_settings(config: Config) -> GroupSettings:
    """The configuration in the words of the rules."""
    groups = config.groups
    return GroupSettings(
        rules=Rules(
            visibility_ns=round(groups.visibility_timeout * NANOSECONDS),
            retries_max=groups.max_retries,
            retry_ns=round(groups.retry_delay * NANOSECONDS),
            retry_ns_max=round(groups.max_retry_delay * NANOSECONDS),
        ),
        revocation_ns=round(groups.revocation_timeout * NANOSECONDS),
        retention_ns=round(groups.retention * NANOSECONDS),
    )


def _raise_file_limit() -> None:
    """A broker has more files open than the usual limit of a shell allows; ours to raise up to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
