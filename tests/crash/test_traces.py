"""Traces after a broker was killed: what was written is there, and a torn line is skipped."""

from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.api.keys import eventually
from tests.api.members import Member, told
from tests.api.troubled import settle
from tests.brokers import ask, create, publish
from tests.processes import Served


def test_traces_survive_a_kill_and_a_torn_line(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with Served("--data-dir", data) as served:
        create(served.url, "orders")
        publish(served.url, "orders", "a", partition=0)
        (found,) = Member(served.url).join().poll()
        settle(served.url, "ack", found["receipt_handle"])
        traces = Path(data, "traces")
        eventually(lambda: any(b"consume.acked" in one.read_bytes() for one in traces.iterdir()))
        served.kill()
    (file,) = traces.iterdir()
    lines = file.read_bytes()
    file.write_bytes(lines + lines.splitlines()[0][:40])
    with LocalBroker(data) as broker:
        trace = told(ask(broker.url, "GET", "/topics/orders/partitions/0/messages/0/trace"))
        events = [one["event_type"] for one in trace["events"]]
        assert events[2:] == ["publish.persisted", "consume.fetched", "consume.acked"]
        assert (trace["status"], trace["events"][-1]["details"]["attempt"]) == ("completed", 1)
        publish(broker.url, "orders", "b", partition=0)
    assert len(list(traces.iterdir())) == 2
