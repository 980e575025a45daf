"""The daemon: reads the configuration, builds the rooms, joins them, and owns their start and stop.

The only place that knows all rooms. It owns the data directory for as long as it runs: recovery at the
start, the thread that made it for everything in between, the marker of a clean stop at the end.
"""

import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from goqueue.clock import NANOSECONDS, SystemClock
from goqueue.config import Config
from goqueue.storage.disk import SystemDisk
from goqueue.storage.log import LogSettings
from goqueue.storage.store import Store, StoreSettings, process_name


class Daemon:
    """One broker process. `start` it, `run` it until somebody says `stop`, and it leaves cleanly."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._store: Store | None = None

    def start(self) -> Store:
        """Take the data directory and recover what is in it. Being told to stop meanwhile ends `run` at once."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self.stop())
        _raise_file_limit()
        self._store = Store.open(
            SystemDisk(),
            os.path.abspath(self.config.data_dir),
            SystemClock(),
            owner=process_name("goqueue serve", os.getpid()),
            settings=store_settings(self.config),
            deliver=self._inbox.put,
        )
        return self._store

    def run(self) -> None:
        """Do what arrives, until told to stop; then write what is left."""
        assert self._store is not None, "start comes before run"
        try:
            while (job := self._inbox.get()) is not None:
                job()
        finally:
            self._store.close()

    def stop(self) -> None:
        """From any thread, or from a signal."""
        self._inbox.put(None)


def store_settings(config: Config) -> StoreSettings:
    """The configuration in the storage engine's own words."""
    storage = config.storage
    return StoreSettings(
        flush=storage.flush,
        flush_interval_ns=round(storage.flush_interval * NANOSECONDS),
        tail_bytes=storage.tail_bytes,
        log=LogSettings(storage.segment_bytes, round(storage.segment_age * NANOSECONDS)),
    )


def _raise_file_limit() -> None:
    """A broker has more files open than the usual limit of a shell allows; ours to raise up to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
