"""The log of a real broker on a screen."""

import io
import logging
from collections.abc import Iterator

import pytest

from goqueue.observe.logs import configure_logging, fields
from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from tests.tui.pilots import press, see, shown, text, until


@pytest.fixture
def log(broker: LocalBroker) -> Iterator[logging.Logger]:
    """The log of the broker, which the daemon configures only as a program."""
    output = configure_logging("info", "text", io.StringIO(), recent=broker.daemon.recent_logs)
    yield logging.getLogger("goqueue.test")
    output.close()


async def test_log_is_shown_by_level_and_in_full(broker: LocalBroker, log: logging.Logger) -> None:
    log.info("topic created", extra=fields(topic="orders", partitions=3))
    log.warning("member removed", extra=fields(group="billing", why="no heartbeat"))
    async with shown(broker.url, Location("logs"), size=(80, 24)) as pilot:
        await see(pilot, "topic created topic=orders", "member removed", "info and above")
        log.warning("partition closed")
        await see(pilot, "partition closed")
        await press(pilot, "slash", *"heartbeat", "enter")
        await until(pilot, lambda: "partition closed" not in text(pilot.app))
        await press(pilot, "enter")
        await see(pilot, "billing", "no heartbeat", "goqueue.test")
        await press(pilot, "escape", "slash", *["backspace"] * 9, "enter", "v")
        await see(pilot, "warning and above", "partition closed")
        await until(pilot, lambda: "topic created" not in text(pilot.app))
        await press(pilot, "v")
        await see(pilot, "error and above", "there are no lines")
        await press(pilot, "v", "v")
        await see(pilot, "topic created")
        assert "request" not in text(pilot.app).replace("Requests", "")
        await press(pilot, "a")
        await see(pilot, "info and above with requests", "request method=GET")
