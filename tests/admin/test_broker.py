"""`goqueue-admin broker`: what a broker is and has, and how fast it goes."""

import csv
import io
import json
import logging
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from goqueue import __version__
from goqueue.observe.logs import configure_logging, fields
from goqueue.testing.broker import LocalBroker
from tests.admin.programs import admin, running
from tests.brokers import create, publish


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with two topics and three messages."""
    with LocalBroker(str(tmp_path_factory.mktemp("broker") / "data")) as local:
        create(local.url, "orders", partitions=2)
        create(local.url, "payments")
        publish(local.url, "orders", *"abc")
        yield local.url


def test_a_broker_is_described_in_facts_and_checks(url: str) -> None:
    done = admin(url, "broker", "describe")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith(f"{url}: GoQueue {__version__}, ok, up for ")
    assert lines[1].startswith("  2 topics, 3 partitions, 0 groups, 3 messages, ")
    assert lines[2].startswith("  published ")
    assert re.fullmatch(r"  disk: \S+ used and \S+ available of \S+ \(\d+%\)", lines[3])
    assert lines[5] == "  ready: ready"
    assert [line.split()[:2] for line in lines[7:]] == [
        ["CHECK", "STATUS"], ["storage", "pass"], ["loop", "pass"], ["in_flight", "pass"],
    ]  # fmt: skip


def test_for_programs_a_broker_is_one_row_with_everything(url: str) -> None:
    (row,) = json.loads(admin(url, "broker", "describe", "-o", "json").out)
    assert (row["name"], row["version"], row["health"], row["ready"]) == (url, __version__, "ok", "pass")
    assert (row["topics"], row["partitions"], row["messages"]) == (2, 3, 3)
    assert row["rates"].keys() >= {"published_per_second", "read_per_second", "settled_per_second"}
    assert row["disk"]["free_bytes"] <= row["disk"]["total_bytes"]
    assert [check["name"] for check in row["checks"]] == ["storage", "loop", "in_flight"]
    (line,) = csv.DictReader(StringIO(admin(url, "broker", "describe", "-o", "csv").out))
    assert line["messages"] == "3"
    assert admin(url, "broker", "describe", "-o", "name").out == f"{url}\n"


def test_a_partition_that_takes_nothing_makes_its_health_degraded(tmp_path: Path) -> None:
    place = tmp_path / "data"
    with LocalBroker(str(place)) as local:
        create(local.url, "orders")
        publish(local.url, "orders", "x")
    for file in (place / "logs/orders/0").iterdir():
        file.unlink()
    with LocalBroker(str(place)) as local:
        (row,) = json.loads(admin(local.url, "broker", "describe", "-o", "json").out)
    assert (row["health"], row["ready"]) == ("degraded", "pass")


def test_watching_writes_a_line_for_each_change(broker: LocalBroker) -> None:
    url = broker.url
    create(url, "orders")
    with running(url, "broker", "watch", "--every", "100ms", "-o", "jsonl") as process:
        first = json.loads(process.stdout.readline())
        assert (first["event"], first["name"], first["health"]) == ("added", url, "ok")
        assert first["disk_free_bytes"] > 0
        create(url, "another")
        changed = (json.loads(line) for line in process.stdout)
        assert next(row for row in changed if row["topics"] == 2)["event"] == "changed"


def test_an_interval_that_is_none_is_refused(url: str) -> None:
    done = admin(url, "broker", "watch", "--every", "often")
    assert (done.code, done.out) == (2, "")
    assert "'often' is not a duration" in done.err


# --- its log ---


@pytest.fixture
def log(broker: LocalBroker) -> Iterator[logging.Logger]:
    """The log of the broker, which the daemon configures only as a program."""
    output = configure_logging("info", "text", io.StringIO(), recent=broker.daemon.recent_logs)
    yield logging.getLogger("goqueue.test")
    output.close()


def test_log_is_printed_as_the_broker_writes_it(broker: LocalBroker, log: logging.Logger) -> None:
    log.info("topic created", extra=fields(topic="orders", partitions=3))
    log.warning("member removed", extra=fields(group="billing", why="no \x1b[31mheartbeat"))
    first, second = [line for line in admin(broker.url, "broker", "logs").out.splitlines() if "request" not in line]
    assert first.split("Z ")[1] == "INFO    topic created topic=orders partitions=3"
    assert second.split("Z ")[1] == 'WARNING member removed group=billing why="no \\x1b[31mheartbeat"'
    (row,) = json.loads(admin(broker.url, "broker", "logs", "--level", "warning", "-o", "json").out)
    assert (row["event"], row["level"], row["fields"]["group"]) == ("member removed", "warning", "billing")
    nothing = admin(broker.url, "broker", "logs", "--level", "error")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "the log has no lines of level error or above\n")


def test_log_is_followed_from_line_to_line(broker: LocalBroker, log: logging.Logger) -> None:
    log.warning("before")
    with running(broker.url, "broker", "logs", "--level", "warning", "--follow", "-o", "jsonl") as process:
        assert json.loads(process.stdout.readline())["event"] == "before"
        log.info("a detail")
        log.error("after")
        assert json.loads(process.stdout.readline())["event"] == "after"


def test_level_that_does_not_exist_is_refused(url: str) -> None:
    done = admin(url, "broker", "logs", "--level", "loud")
    assert (done.code, done.out) == (2, "")
    assert "loud" in done.err
