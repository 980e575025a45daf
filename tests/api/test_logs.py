"""`GET /logs`: the last lines of the broker's log."""

import io
import logging
from collections.abc import Iterator

import pytest

from goqueue.observe.logs import configure_logging, fields
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask


@pytest.fixture
def log(broker: LocalBroker) -> Iterator[logging.Logger]:
    """The log of the broker, which the daemon configures only as a program."""
    output = configure_logging("debug", "text", io.StringIO(), recent=broker.daemon.recent_logs)
    yield logging.getLogger("goqueue.test")
    output.close()


def test_lines_are_chosen_by_level_number_and_limit(broker: LocalBroker, log: logging.Logger) -> None:
    start = ask(broker.url, "GET", "/logs?level=debug").json["last"]
    log.info("topic created", extra=fields(topic="orders", partitions=3))
    log.error("log fenced", extra=fields(log="orders/1"))
    log.debug("detail")
    log.warning("member removed")

    def events(query: str) -> list[str]:
        answer = ask(broker.url, "GET", f"/logs?after={start}&{query}").json
        return [line["event"] for line in answer["lines"] if line["logger"] == "goqueue.test"]

    assert events("") == ["topic created", "log fenced", "member removed"]
    assert events("level=debug") == ["topic created", "log fenced", "detail", "member removed"]
    assert events("level=warning&limit=1") == ["member removed"]
    answer = ask(broker.url, "GET", f"/logs?level=error&after={start}").json
    (line,) = answer["lines"]
    assert (line["level"], line["fields"]) == ("error", {"log": "orders/1"})
    assert start < line["number"] < answer["last"]
    assert line["time"].endswith("Z")
    assert ask(broker.url, "GET", f"/logs?after={answer['last']}&level=warning").json["lines"] == []
    every, without = (ask(broker.url, "GET", f"/logs?requests={word}").json["lines"] for word in ("true", "false"))
    assert "request" in [line["event"] for line in every]
    assert "request" not in [line["event"] for line in without]


def test_secrets_of_requests_are_in_no_line(broker: LocalBroker, log: logging.Logger) -> None:
    del log
    ask(broker.url, "GET", "/topics?api_key=topsecret", headers={"authorization": "Bearer topsecret"})
    ask(broker.url, "GET", "/topics/orders?token=topsecret", headers={"x-api-key": "topsecret"})
    answer = ask(broker.url, "GET", "/logs?level=debug&limit=1000")
    assert b"/topics/orders" in answer.body
    assert b"topsecret" not in answer.body


@pytest.mark.parametrize("query", ["level=loud", "limit=0", "limit=1001", "after=-1", "lines=3"])
def test_invalid_query_is_refused(broker: LocalBroker, query: str) -> None:
    answer = ask(broker.url, "GET", f"/logs?{query}")
    assert (answer.status, answer.code) == (400, "request_invalid")
