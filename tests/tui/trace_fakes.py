"""A broker with one trace: a message that fails twice, becomes a dead letter, is sent back, and is acknowledged."""

from typing import Any

from goqueue.client.trace_requests import Trace
from tests.tui.group_fakes import GroupClient

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
_MEMBER = "till-42f5be3d"


def event(
    after_ms: float, name: str, place: tuple[str, int, int] = ("orders", 0, 17), **details: Any
) -> dict[str, Any]:
    microseconds = round(after_ms * 1000)
    topic, partition, offset = place
    return {
        "timestamp": f"2025-12-31T23:57:{12 + microseconds // 1_000_000:02}.{microseconds % 1_000_000:06}000Z",
        "event_type": name,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "delayed": False,
        "details": details,
    }


def message(
    place: tuple[str, int, int], relation: str, source: int | None, state: str, **groups: str
) -> dict[str, Any]:
    topic, partition, offset = place
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "delayed": False,
        "relation": relation,
        "source": source,
        "trace_id": TRACE_ID,
        "status": "completed",
        "state": state,
        "groups": groups,
    }


LETTER, AGAIN = ("orders.dlq", 2, 4), ("orders", 0, 31)


def lease(attempt: int) -> dict[str, Any]:
    return {"group": "billing", "member": _MEMBER, "attempt": attempt}


TRACE: dict[str, Any] = {
    "trace_id": TRACE_ID,
    "topic": "orders",
    "partition": 0,
    "offset": 17,
    "delayed": False,
    "status": "completed",
    "start": "2025-12-31T23:57:12.000000000Z",
    "end": "2025-12-31T23:57:14.480000000Z",
    "duration": 2.48,
    "sampled": True,
    "parent_span_id": "b7ad6b7169203331",
    "tracestate": "",
    "truncated": False,
    "messages": [
        message(("orders", 0, 17), "start", None, "stored", billing="settled"),
        message(LETTER, "dead_letter", 0, "stored"),
        message(AGAIN, "redriven", 1, "stored", billing="settled"),
    ],
    "events": [
        event(0, "publish.received"),
        event(0, "publish.partitioned", partition=0, by="key"),
        event(2.1, "publish.persisted"),
        event(3.4, "consume.fetched", **lease(1), until="2025-12-31T23:57:42Z"),
        event(412, "consume.nacked", **lease(1), reason="no rule for [voucher]", seconds=0.4086),
        event(1415, "consume.fetched", **lease(2), until="2025-12-31T23:57:43Z"),
        event(1790, "consume.nacked", **lease(2), reason="no rule for [voucher]", seconds=0.375),
        event(1791, "dlq.routed", group="billing", attempt=2, topic="orders.dlq", partition=2, offset=4),
        event(1793, "publish.persisted", LETTER),
        event(2200, "dlq.redriven", LETTER, topic="orders", partition=0, offset=31),
        event(2202, "publish.persisted", AGAIN),
        event(2204, "consume.fetched", AGAIN, **lease(1), until="2025-12-31T23:57:44Z"),
        event(2480, "consume.acked", AGAIN, **lease(1), seconds=0.276),
    ],
}


def listed(offset: int, status: str, batch: int, last: dict[str, Any]) -> Trace:
    trace_id = f"{offset:032x}"
    times = {"end": last["timestamp"], "duration": 2.48 / (offset % 7 + 1), "events": [*TRACE["events"][:3], last]}
    return Trace({**TRACE, "trace_id": trace_id, "offset": offset, "status": status, "batch": batch, **times})


LISTED = [
    listed(31, "pending", 1000, event(2900, "consume.fetched")),
    listed(17, "completed", 1, event(2480, "consume.acked")),
    listed(12, "error", 1, event(1791, "dlq.routed")),
    listed(10, "completed", 250, event(900, "transaction.committed")),
    listed(4, "error", 3, event(400, "transaction.aborted")),
]
STATS: dict[str, Any] = {
    "enabled": True,
    "sampling": 0.1,
    "statuses": {"completed": 91, "pending": 7, "error": 2},
    "events": {},
    "records": 10_000,
    "sampled_out": 12_345,
    "dropped": 0,
    "file_bytes": 23_456_789,
    "oldest": "2025-12-31T20:00:00Z",
}


class TraceClient(GroupClient):
    """A client of a broker that knows one trace."""

    def __init__(self) -> None:
        super().__init__()
        self.answers |= {
            "trace": lambda _: Trace(TRACE),
            "message_trace": self._message_trace,
            "traces": lambda _: LISTED,
            "search_traces": lambda **options: [one for one in LISTED if one.status == options["status"]],
            "trace_stats": lambda: STATS,
        }

    def _message_trace(self, topic: str, partition: int, offset: int, *, delayed: bool) -> Trace:
        assert (topic, partition, offset, delayed) == ("orders", 0, 17, False)
        return Trace(TRACE)
