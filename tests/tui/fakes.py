"""A broker whose answers never change, a clock that stands, and the dashboard over both."""

import json
import math
from collections.abc import Awaitable, Callable
from typing import Any

from goqueue.client.admin_requests import Offsets, TopicDetails, TopicInfo
from goqueue.client.message import Message, decode
from goqueue.errors import BrokerUnreachable
from goqueue.storage import frame
from goqueue_admin.dashboard.app import Dashboard
from goqueue_admin.dashboard.broker.service import Service

NOW_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z
ADDRESS = "http://broker.example:8080"
NAMES = ("orders", "payments", "shipments", "invoices", "audit.log", "customers", "prices", "returns")


class FrozenClock:
    """Both clocks stand still until a test moves them."""

    def __init__(self) -> None:
        self.now = NOW_NS
        self.monotonic = 1_000_000_000

    def now_ns(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.monotonic

    def pass_seconds(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)
        self.monotonic += int(seconds * 1e9)


def wave(base: float, swing: float, period: float, length: int = 300) -> list[float]:
    """Something that goes up and down, the same each time."""
    return [
        round(base + swing * math.sin(second / period) + swing / 3 * math.sin(second / period * 3.7), 3)
        for second in range(length)
    ]


def topics() -> list[TopicDetails]:
    return [
        TopicDetails(
            name=name,
            partitions=3 * (1 + number % 3),
            total_messages=9_876_543 // (number * number + 1),
            total_size_bytes=4_321_987_654 // (number * number + 1),
            created_at="2025-11-18T08:30:00.000000000Z",
            config={"cleanup": "compact" if number == 6 else "delete", "retention_hours": None if number == 6 else 168},
            published_per_second=12_345.6 / (number * 3 + 1) if number != 4 else 0.0,
            bytes_per_second=3_456_789.0 / (number * 3 + 1) if number != 4 else 0.0,
            read_per_second=11_876.5 / (number * 3 + 1) if number != 4 else 0.0,
            faults=1 if number == 3 else 0,
        )
        for number, name in enumerate(NAMES)
    ]


HISTORY = {
    "interval_seconds": 1,
    "end": "2026-01-01T00:00:00.000000000Z",
    "series": {
        "published": wave(14_000, 4_000, 23),
        "published_bytes": wave(3_600_000, 900_000, 23),
        "read": wave(13_000, 5_000, 31),
        "read_bytes": wave(3_300_000, 1_000_000, 31),
        "settled": wave(12_000, 3_000, 31),
        "requests": wave(900, 200, 17),
        "publish_p50_ms": wave(1.4, 0.3, 19),
        "publish_p99_ms": wave(5.2, 2.1, 13),
        "flush_p99_ms": wave(2.8, 0.9, 13),
        "loop_lag_ms": wave(0.6, 0.3, 11),
        "total_lag": [max(0.0, value) for value in wave(180_000, 150_000, 60)],
        "disk_used_bytes": [61_000_000_000.0 + second * 9_000_000 for second in range(300)],
        "stored_bytes": [8_000_000_000.0 + second * 2_500_000 for second in range(300)],
    },
}
STATS = {
    "node_id": "0",
    "uptime": 273_904.2,
    "topics": len(NAMES),
    "groups": 5,
    "partitions": 48,
    "total_size_bytes": 8_765_432_198,
    "connections": 42,
    "memory_bytes": 312_475_648,
    "loop_lag_ms": 0.62,
    "disk": {"total_bytes": 107_374_182_400, "used_bytes": 74_088_185_856, "free_bytes": 27_917_287_424},
    "rates": {
        "published_per_second": 14_231.4,
        "published_bytes_per_second": 3_567_890.1,
        "read_per_second": 13_456.7,
        "read_bytes_per_second": 3_298_765.4,
        "settled_per_second": 12_098.7,
        "requests_per_second": 912.3,
    },
    "topic_stats": {},
}
DOCTOR = {
    "status": "warning",
    "checked_at": "2026-01-01T00:00:00.000000000Z",
    "checks": [{"name": name, "status": "ok", "message": ""} for name in ("disk", "lag", "loop", "storage")],
    "findings": [
        {
            "code": "disk_filling",
            "severity": "warning",
            "subject": "disk",
            "sentence": "the disk is 74% full and fills at 9MB/s",
            "hint": "lower retention_bytes of the largest topics: goqueue-cli topic list --sort-by size",
            "details": {"free_bytes": 27_917_287_424},
        },
        {
            "code": "partition_fenced",
            "severity": "critical",
            "subject": "invoices/2",
            "sentence": "the partition takes no messages since a write failed",
            "hint": "restart the broker when the disk is well again",
            "details": {"since": "2025-12-31T23:58:12Z"},
        },
        {
            "code": "topic_idle",
            "severity": "note",
            "subject": "audit.log",
            "sentence": "nothing was published for 3 days",
            "hint": "",
            "details": {},
        },
    ],
}


LOG_LINES = [
    ("info", "goqueue.daemon", "topic created", {"topic": "orders", "partitions": 3}),
    ("info", "goqueue.requests", "request", {"method": "GET", "endpoint": "/stats", "status": 200, "ms": 0.41}),
    ("warning", "goqueue.groups", "member removed", {"group": "billing", "why": "no heartbeat for 30 s"}),
    ("error", "goqueue.storage", "log fenced", {"log": "invoices/2", "error": "no space left on device"}),
]


def logs(level: str, _limit: int, *, requests: bool) -> dict[str, Any]:
    levels = ["debug", "info", "warning", "error"]
    lines = [
        {
            "number": number,
            "time": f"2025-12-31T23:59:{10 + number:02}.250000000Z",
            "level": name,
            "logger": logger,
            "event": event,
            "fields": fields,
        }
        for number, (name, logger, event, fields) in enumerate(LOG_LINES, 1)
        if levels.index(name) >= levels.index(level) and (requests or event != "request")
    ]
    return {"lines": lines, "last": len(LOG_LINES)}


def partitions(count: int = 3) -> list[dict[str, Any]]:
    return [
        {
            "partition": number,
            "earliest": 1_000 * number,
            "latest": 3_292_181 + 17_000 * number,
            "log_end": 3_292_181 + 17_000 * number + (12 if number == 1 else 0),
            "durable_end": 3_292_181 + 17_000 * number,
            "high_watermark": 3_292_181 + 17_000 * number,
            "last_stable": 3_292_181 + 17_000 * number,
            "size_bytes": 1_440_662_551 - 99_000_000 * number,
            "segments": 23 - number,
            "leader": 0,
            "replicas": [0],
            "in_sync_replicas": [0],
            "fault": "a write failed: no space left on device" if number == 2 else None,
        }
        for number in range(count)
    ]


def message(number: int, value: bytes, key: bytes = b"", headers: dict[str, bytes] | None = None) -> Message:
    """As it comes out of an answer of the broker."""
    encoded = frame.encode(
        value,
        key,
        frame.encode_headers(headers or {}),
        offset=3_292_000 + number,
        timestamp_ns=NOW_NS - (60 - number) * 73_000_000,
    )
    return decode("orders", number % 3, encoded, 0, 2**62)[0]


def messages(count: int = 48) -> list[Message]:
    return [
        message(
            number,
            json.dumps({"id": 90_000 + number, "customer": f"customer-{number % 7}", "total": number * 1.5}).encode(),
            f"customer-{number % 7}".encode(),
            {"source": b"shop", "trace": b"4bf92f3577b34da6"},
        )
        for number in range(count)
    ] + [message(count, b"\x00\x01\xff\xfe binary", b"raw"), message(count + 1, b"two\nlines \x1b[31mred", b"esc")]


class FakeReader:
    """Two lists of messages, and then nothing more."""

    scanned = 0
    matched = 0

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    async def batches(self) -> Any:
        yield self._messages

    async def __aiter__(self) -> Any:
        for one in self._messages:
            yield one

    async def __aenter__(self) -> "FakeReader":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class FakeClient:
    """An `AsyncClient` with an answer, or a function that returns one, for each method. No call is answered while it
    `is_away`."""

    def __init__(self) -> None:
        self.is_away = False
        self.asked: list[str] = []
        self.all_topics = topics()
        self.messages = messages()
        self.reader_options: dict[str, Any] = {}
        self.answers: dict[str, Any] = {
            "stats": STATS,
            "history": HISTORY,
            "doctor": DOCTOR,
            "version": {"version": "0.1.0"},
            "group_details": [],
            "priority_stats": {"topics": {}},
            "topic_details": lambda: self.all_topics,
            "topics": lambda: [topic.name for topic in self.all_topics],
            "subjects": [],
            "backups": None,
            "groups": [],
            "transactions": lambda *_: [],
            "logs": logs,
            "partitions": lambda _: partitions(),
            "topic": lambda name: topic_info(name, 3_292_181),
            "reader": self._reader,
        }

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        if method.startswith("_"):
            raise AttributeError(method)

        async def call(*arguments: Any, **options: Any) -> Any:
            self.asked.append(" ".join(map(str, (method, *arguments, *([options] if options else [])))))
            if self.is_away:
                raise BrokerUnreachable(f"no broker answers at {ADDRESS}: Connection refused")
            answer = self.answers[method]
            return answer(*arguments, **options) if callable(answer) else answer

        return call

    async def close(self) -> None:
        pass

    def _reader(self, _topic: str, **options: Any) -> FakeReader:
        self.reader_options = options
        start = options["start"]
        if isinstance(start, int) and options.get("until") == start + 1:
            return FakeReader([one for one in self.messages if one.offset == start])
        return FakeReader(self.messages)


def topic_info(name: str, latest: int, **details: Any) -> TopicInfo:
    return TopicInfo(name, 3, partition_offsets={str(number): Offsets(0, latest) for number in range(3)}, **details)


def dashboard(client: FakeClient | None = None, clock: FrozenClock | None = None, **options: Any) -> Dashboard:
    service = Service(client or FakeClient(), ADDRESS, clock or FrozenClock())
    return Dashboard(service, **options)
