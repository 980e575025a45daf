"""`goqueue-cli trace` against a real broker."""

import json
from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.api.troubled import LIFE, SETTINGS, TRACE, live_troubled_life
from tests.brokers import create
from tests.cli.programs import cli


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
        assert cli(broker.url, "trace", "get", "orders/0@9").code == 5
        assert cli(broker.url, "trace", "get", "orders").code == 2
