"""The daemon: reads the configuration, builds the broker's components, and owns their start and stop.

The only module that knows all components. It owns the data directory while it runs: recovery at the start, the event
loop, and the clean-stop marker at the end.
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
from goqueue.api.endpoint import ApiContext, MemberDefaults
from goqueue.api.http.origin_guard import OriginGuard
from goqueue.api.http.server import Server
from goqueue.api.http.server_state import HttpLimits
from goqueue.api.openapi import openapi_document
from goqueue.api.pipeline import HttpObserver, RequestPipeline
from goqueue.api.table import ENDPOINTS
from goqueue.broker.groups.coordinator import GroupSettings
from goqueue.broker.groups.retries import DeliveryPolicy
from goqueue.clock import NANOSECONDS, SystemClock
from goqueue.config import Config
from goqueue.config.value_types import list_items
from goqueue.observe.history import History
from goqueue.observe.logs import REQUESTS, AccessLog, configure_logging
from goqueue.observe.metrics import Metrics
from goqueue.runtime.doctor_facts import open_files_max
from goqueue.runtime.event_loop import LoopLatencyMeter
from goqueue.runtime.history_sampler import HistorySampler
from goqueue.runtime.runtime import Runtime, RuntimeSettings
from goqueue.storage.disk import SystemDisk
from goqueue.storage.log import LogSettings
from goqueue.storage.store import Store, StoreSettings, process_name

_log = logging.getLogger("goqueue.daemon")

_GARBAGE_THRESHOLD = 50_000
"""New objects before a garbage collection, which pauses all requests: they create many objects and no cycles."""


class Daemon:
    """One broker process: `run` it until `stop` is called."""

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
        self._sampler = HistorySampler(self.runtime, self.metrics)
        _raise_file_limit()
        limits = _limits(config).within(open_files_max())
        self.connections_max = limits.connections
        """Below the setting if the limit of open files is lower."""
        app = _app(config, self.runtime, self.metrics, self._sampler.history, self.connections_max)
        self.recent_logs = app.recent_logs
        requests = config.log.requests
        access = AccessLog(logging.getLogger(REQUESTS), per_second=requests, clock=clock) if requests else None
        self.server = Server(
            RequestPipeline(ENDPOINTS, app, _guard(config)),
            limits=limits,
            observer=HttpObserver(self.metrics, access),
            clock=clock,
        )
        app.check_answers = self.server.check_answers
        self._lag = LoopLatencyMeter(self.metrics.observe_loop_lag)
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
        """Run until stopped. Call `started` when clients can connect, `stopped` when everything is written."""
        log = self.config.log
        logs = configure_logging(log.level, log.format, sys.stderr, recent=self.recent_logs)
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
        self.runtime.on_failure.subscribe(self._fail)
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
            raise RuntimeError("the broker failed: see its log")

    def _fail(self) -> None:
        self._has_failed = True
        self._stop.set()

    async def start(self) -> None:
        """Bind the address, recover the data directory, and listen."""
        config = self.config
        owner = process_name("goqueue serve", os.getpid())
        # Bind the address first: without it, nothing else is touched. The loop does not run during recovery,
        # so early connections wait in the kernel.
        await self.server.start(config.server.host, config.server.port)
        try:
            self.runtime.start(os.path.abspath(config.data_dir), owner, store_settings(config))
        except BaseException:
            await self.server.stop(0)
            raise
        self._lag.start()
        self._sampler.start()

    async def close(self) -> None:
        """Finish requests in progress, within limits, and write everything."""
        self._lag.stop()
        self.runtime.refuse_new_work()
        await self.server.stop(self.config.server.stop_timeout)
        await self._sampler.stop()
        await self.runtime.stop()

    def stop(self) -> None:
        """Stop the broker. Called on the loop's thread by a signal."""
        self._stop.set()

    def _log_sizes(self) -> dict[str, int]:
        sizes = {name: topic.size for name, topic in self.runtime.broker.topics.items()}
        for delivery in self.runtime.broker.delay_scheduler.deliveries():
            delayed_log = delivery.delays.delayed_log
            sizes[delayed_log.topic] = sizes.get(delayed_log.topic, 0) + delayed_log.log.size
        return sizes


def _tell_of_mistake(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled error of the event loop; the broker continues."""
    _log.error("%s", context.get("message", "unhandled"), exc_info=context.get("exception"))


def _app(config: Config, runtime: Runtime, metrics: Metrics, history: History, connections_max: int) -> ApiContext:
    topics = config.topics
    return ApiContext(
        runtime,
        metrics,
        history,
        topics.partitions,
        {"retention_hours": topics.retention / 3600, "max_message_bytes": topics.max_message_bytes},
        topics.auto_create,
        MemberDefaults(config.groups.session_timeout, config.groups.max_in_flight),
        openapi_document(ENDPOINTS, __version__),
        connections_max=connections_max,
        connections_wanted=config.server.connections,
    )


def _guard(config: Config) -> OriginGuard:
    server = config.server
    names = {"localhost", socket.gethostname(), server.host, *list_items(server.allowed_hosts)}
    return OriginGuard(hosts=names, origins=list_items(server.allowed_origins))


def _limits(config: Config) -> HttpLimits:
    server = config.server
    return HttpLimits(
        body_bytes=server.request_bytes,
        idle_seconds=server.idle_timeout,
        connections=server.connections,
        bodies_bytes=max(server.in_flight_bytes, server.request_bytes),
    )


def store_settings(config: Config) -> StoreSettings:
    """Return the storage settings of a configuration."""
    storage = config.storage
    return StoreSettings(
        flush=storage.flush,
        flush_interval_ns=round(storage.flush_interval * NANOSECONDS),
        tail_bytes=storage.tail_bytes,
        log=LogSettings(storage.segment_bytes, round(storage.segment_age * NANOSECONDS)),
    )


def group_settings(config: Config) -> GroupSettings:
    """Return the group settings of a configuration."""
    groups = config.groups
    return GroupSettings(
        policy=DeliveryPolicy(
            visibility_ns=round(groups.visibility_timeout * NANOSECONDS),
            retries_max=groups.max_retries,
            retry_ns=round(groups.retry_delay * NANOSECONDS),
            retry_ns_max=round(groups.max_retry_delay * NANOSECONDS),
        ),
        revocation_ns=round(groups.revocation_timeout * NANOSECONDS),
        retention_ns=round(groups.retention * NANOSECONDS),
    )


def _raise_file_limit() -> None:
    """Raise the limit of open files to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
