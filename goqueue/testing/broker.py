"""A whole broker in the process of a test: the daemon's own rooms on a loop in a thread, reached over HTTP."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Self

import uvloop

from goqueue.config import load
from goqueue.daemon import Daemon


class LocalBroker:
    """`with LocalBroker(directory, log__level="info") as broker:` and then `broker.url`."""

    def __init__(self, data_dir: str, **settings: str) -> None:
        flags = {"data_dir": data_dir, "server.port": "0", "log.level": "error"}
        flags |= {name.replace("__", "."): text for name, text in settings.items()}
        self._config = load(None, None, flags)
        self._stop: Callable[[], Any] = lambda: None
        self._thread: threading.Thread | None = None
        self.daemon: Daemon
        self.url = ""

    def start(self) -> Self:
        """Recover the directory and listen."""
        started: Future[str] = Future()
        self._thread = threading.Thread(target=self._serve, args=(started,), name="local-broker", daemon=True)
        self._thread.start()
        self.url = started.result()
        return self

    def stop(self) -> None:
        """As SIGTERM would."""
        if self._thread is not None and self._thread.is_alive():
            self._stop()
            self._thread.join()

    def _serve(self, started: "Future[str]") -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run(started))

    async def _run(self, started: "Future[str]") -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        try:
            self.daemon = Daemon(self._config)
            await self.daemon.start()
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(self.daemon.address)
        await stopped.wait()
        await self.daemon.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
