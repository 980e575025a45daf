"""The dashboard in a process of its own, with a watch on its loop: what `dashboard` in this package starts.

python -m benchmarks.toolkit.screen PORT PLACE SECONDS RESULT

The result is a file, since the terminal is drawn on: the longest that one callback has held the loop, the most
processor time that one has used, both in milliseconds, and how many messages were taken in a second.
"""

import asyncio
import json
import sys
import time
from inspect import getfile
from pathlib import Path

from goqueue_admin.dashboard.app import Dashboard
from goqueue_admin.dashboard.broker.service import connect
from goqueue_admin.dashboard.command import run
from goqueue_admin.dashboard.screens import routes
from goqueue_admin.dashboard.screens.messages import MessagesScreen
from goqueue_admin.dashboard.screens.routes import Location

SETTLE_SECONDS = 2.0
"""On the overview first: what it takes to load and to start is not the loop's."""


class Watch:
    """The longest that one callback has held the loop, and the most processor time that one has used."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.busiest = 0.0

    def start(self) -> None:
        handle = asyncio.events.Handle
        original, clock, processor = handle._run, time.perf_counter, time.thread_time

        def timed(one: asyncio.events.Handle) -> None:
            began, used = clock(), processor()
            original(one)
            self.longest = max(self.longest, clock() - began)
            self.busiest = max(self.busiest, processor() - used)

        handle._run = timed  # type: ignore[method-assign, assignment]


class Watched(Dashboard):
    """Goes to a place once it has settled, and leaves after some seconds there."""

    CSS_PATH = str(Path(getfile(Dashboard)).with_name("dashboard.tcss"))

    def __init__(self, port: int, place: Location, seconds: float) -> None:
        super().__init__(connect(f"http://127.0.0.1:{port}", 5.0))
        self.found: dict[str, float] = {}
        self._aim, self._seconds = place, seconds
        self._watch = Watch()
        self._began = (0.0, 0)

    def on_mount(self) -> None:  # type: ignore[override]  # Textual calls both
        self.set_timer(SETTLE_SECONDS, self._begin)

    def _begin(self) -> None:
        self._watch.start()
        self.go(self._aim)
        self.set_timer(1.0, self._count)
        self.set_timer(1.0 + self._seconds, self._end)

    def _count(self) -> None:
        self._began = (time.perf_counter(), self._taken)

    def _end(self) -> None:
        at, taken = self._began
        rate = (self._taken - taken) / (time.perf_counter() - at)
        self.found = {
            "longest_ms": self._watch.longest * 1000,
            "busiest_ms": self._watch.busiest * 1000,
            "taken_per_second": rate,
        }
        self.exit()

    @property
    def _taken(self) -> int:
        page = self.page
        return page.feed.received.total if isinstance(page, MessagesScreen) and page.feed is not None else 0


def main(port: str, place: str, seconds: str, result: str) -> None:
    aim = routes.parse_location(place)
    assert aim is not None, f"{place!r} is no place"
    app = Watched(int(port), aim, float(seconds))
    run(app)
    Path(result).write_text(json.dumps(app.found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
