"""`goqueue-cli trace` against a real broker."""

import json
import signal
from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.api.troubled import LIFE, SETTINGS, SPAN, TRACE, live_troubled_life
from tests.brokers import ask, create, publish
from tests.cli.programs import cli, running


def test_trace_get_shows_a_waterfall_of_a_message_and_its_copies(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), **SETTINGS) as broker:
        create(broker.url, "orders")
        live_troubled_life(broker)
        done = cli(broker.url, "trace", "get", "orders/0@1")
        assert (done.code, done.err) == (0, "")
        lines = done.out.splitlines()
        assert lines[0] == f"trace {TRACE}: completed"
        assert "  3  orders/0@1  redriven of orders.dlq/0@0; stored, billing: settled" in lines
        titles = lines[lines.index("") + 1]
        assert titles.split() == ["AFTER", "WATERFALL", "EVENT", "MESSAGE", "DETAILS"]
        rows = [line.split() for line in lines[lines.index("") + 2 :]]
        assert [row[2] for row in rows] == LIFE
        assert "reason=failure 1" in done.out
        (row,) = json.loads(cli(broker.url, "trace", "get", TRACE, "-o", "json").out)
        assert [event["event_type"] for event in row["events"]] == LIFE
        traced = cli(broker.url, "consume", "orders", "--last", "1", "--trace")
        assert traced.out == f"tea\n{done.out}"
        assert cli(broker.url, "consume", "orders", "--trace", "-o", "json").code == 2
        assert cli(broker.url, "consume", "orders", "--trace", "--group", "other").code == 2
        listed = cli(broker.url, "trace", "list").out.splitlines()
        assert listed[0].split() == ["TRACE", "STATUS", "MESSAGE", "BATCH", "AGE", "TOOK", "EVENTS", "LAST"]
        assert (listed[1].split()[:2], len(listed)) == ([TRACE, "completed"], 2)
        words = ("--topic", "orders", "--group", "billing", "--from", "-1h", "--status", "completed", "-o", "name")
        assert cli(broker.url, "trace", "search", *words).out == f"{TRACE}\n"
        assert cli(broker.url, "trace", "search", "--status", "error").err == "there are no such traces\n"
        assert cli(broker.url, "trace", "stats").out.splitlines()[1].split()[:3] == ["1", "0", "0"]
        assert cli(broker.url, "trace", "get", "orders/0@9").code == 5
        assert cli(broker.url, "trace", "get", "orders").code == 2
        unknown = cli(broker.url, "trace", "follow", "--topic", "nosuch")
        assert (unknown.code, unknown.out) == (5, "")


def test_trace_follow_prints_traces_as_they_change(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    with running(broker.url, "trace", "follow", "--topic", "orders") as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[:3] == [b"TRACE", b"STATUS", b"MESSAGE"]
        publish(broker.url, "orders", "a", "b", partition=0)
        assert process.stdout.readline().split()[1:4] == [b"completed", b"orders/0@0", b"2"]
        process.send_signal(signal.SIGINT)
        process.communicate()


def test_trace_get_says_that_there_are_more_messages_with_its_id(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    for number in range(3):
        publish(
            broker.url, "orders", *[str(number)] * 27, partition=0, headers={"traceparent": f"00-{TRACE}-{SPAN}-01"}
        )
    for asked, first in ((TRACE, 0), ("orders/0@60", 60)):
        shown = [cli(broker.url, "trace", "get", asked) for _ in range(2)]
        assert shown[0].out == shown[1].out
        assert f"  0  orders/0@{first}  start" in shown[0].out
        assert "50 messages and 150 events: there are more" in shown[0].err
    trace = ask(broker.url, "GET", "/topics/orders/partitions/0/messages/0/trace").json
    assert (trace["truncated"], len({one["offset"] for one in trace["messages"]})) == (True, 50)
