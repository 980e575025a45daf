"""The SDK over gRPC: an httpx transport that carries its requests with the stubs.

What has a method of its own goes by it: publishing, reading, polling, settling, transactions, delayed messages. The
rest, such as joins with options of the SDK and administration, goes by `AdminService.Call`.
"""

import base64
import json
import re
import threading
from collections import deque
from time import monotonic
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import grpc
import httpx
import msgspec
from crc32c import crc32c
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from goqueue import errors
from goqueue.api.http.error_responses import status_of
from goqueue.client import Client
from goqueue.limits import MIB
from goqueue.quantities import parse_duration
from goqueue.rpc.endpoints import endpoints_of
from goqueue.rpc.methods import SPECIAL
from goqueue.rpc.stubs import services
from goqueue.rpc.transcoding import JSON_NAMES, fill, seconds_of, setting_value, time_of, to_json
from goqueue.rpc.v1 import ack_pb2, admin_pb2, consume_pb2, publish_pb2
from goqueue.storage.frame import PRIORITIES
from goqueue.testing.broker import LocalBroker
from goqueue.wire.headers import CHECKSUM, FIRST_OFFSET, FRAMES, HIGH_WATERMARK, JSON, LEASES, NEXT_OFFSET, PARTITIONS
from goqueue.wire.leases import LENGTH, LeaseDescription, PollHead
from tests.rpc.stubs import Stubs

LAG_SECONDS = 0.05
LAG_SECONDS_MAX = 5.0
ACKS = {
    "leader": publish_pb2.ACK_MODE_LEADER,
    "none": publish_pb2.ACK_MODE_NONE,
    "all": publish_pb2.ACK_MODE_ALL,
}
KINDS = {kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "code")}
OWN_METHODS = [
    (path.split(" ")[0], re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path.split(" ")[1])), service.name, method)
    for service in services()
    if service.name in {"TransactionService", "DelayedService"}
    for method in service.methods
    if f"{service.name}.{method.name}" not in SPECIAL
    for path in endpoints_of(method)
]


class RpcTransport(httpx.BaseTransport):
    """Answers requests of HTTP by calls of gRPC."""

    def __init__(self, address: str) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(address, options)
        self._stubs = Stubs(self._channel)
        self._members: dict[str, _Member] = {}

    def close(self) -> None:
        for member in self._members.values():
            member.stream.cancel()
        self._channel.close()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        url = urlsplit(str(request.url))
        query = {name: values if name == "filter" else values[-1] for name, values in parse_qs(url.query).items()}
        try:
            return self._answer(request, [unquote(part) for part in url.path.split("/")[1:]], query)
        except grpc.RpcError as error:
            return _refused(error)

    def _answer(self, request: httpx.Request, path: list[str], query: dict[str, Any]) -> httpx.Response:
        match request.method, *path:
            case "POST", "topics", topic, "messages":
                is_framed = request.headers["content-type"] == FRAMES
                publish = self._publish_frames if is_framed else self._publish_message
                return publish(topic, request, query)
            case "GET", "topics", topic, "partitions", number, "messages" if "filter" not in query:
                return self._read(topic, int(number), query)
            case "GET", "groups", group, "poll":
                return self._poll(group, query)
            case "POST", "groups", group, "settle":
                return self._settle(group, json.loads(request.content))
        for verb, pattern, service, method in OWN_METHODS:
            found = pattern.fullmatch("/" + "/".join(path))
            if verb == request.method and found is not None:
                values = {**query, **(json.loads(request.content) if request.content else {}), **found.groupdict()}
                known = {JSON_NAMES.get(field.name, field.name) for field in method.input_type.fields}
                if values.keys() <= known and query.get("limit") != "0":  # which Protobuf does not tell from none
                    return self._call_method(service, method, values)
        return self._call(request)

    def _call(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        asked = admin_pb2.CallRequest(method=request.method, path=path, body=request.content.decode())
        answer = self._stubs.admin.Call(asked)
        return httpx.Response(answer.status, content=answer.body, headers={"content-type": answer.content_type})

    def _call_method(self, service: str, method: Any, values: dict[str, Any]) -> httpx.Response:
        request = GetMessageClass(method.input_type)()
        numbers = {field.name for field in method.input_type.fields if field.cpp_type in {1, 2, 3, 4}}
        fill(request, {name: int(value) if name in numbers else value for name, value in values.items()})
        stub = {"TransactionService": self._stubs.transactions, "DelayedService": self._stubs.delayed}[service]
        response = getattr(stub, method.name)(request)
        plain = (field for field in method.output_type.fields if not field.has_presence)
        defaults = {field.name: [] if field.is_repeated else field.default_value for field in plain}
        text = json.dumps({**defaults, **to_json(response)}, default=bytes.decode)
        return httpx.Response(200, content=text, headers={"content-type": JSON})

    # --- messages ---

    def _publish_frames(self, topic: str, request: httpx.Request, query: dict[str, Any]) -> httpx.Response:
        batch = publish_pb2.PublishBatchRequest(
            topic=topic,
            frames=request.content,
            ack_mode=ACKS[query.get("acks", "leader")],
            producer_id=int(query.get("producer_id", 0)),
            producer_epoch=int(query.get("epoch", 0)),
            begin=query.get("begin") == "true",
            partitions=int(request.headers.get(PARTITIONS, 0)),
            checksum=int(request.headers[CHECKSUM], 16),
        )
        results = self._stubs.publish.PublishBatch(batch).results
        return httpx.Response(200, json={"results": [_section(one) for one in results]})

    def _publish_message(self, topic: str, request: httpx.Request, _: dict[str, Any]) -> httpx.Response:
        (given,) = json.loads(request.content)["messages"]
        message = publish_pb2.PublishRequest(topic=topic, headers=given.get("headers", {}))
        for name, encoding in (("value", "encoding"), ("key", "key_encoding")):
            text = given.get(name)
            if text is None:
                message.tombstone = message.tombstone or name == "value"
            else:
                setattr(message, name, base64.b64decode(text) if encoding in given else text.encode())
        if "partition" in given:
            message.partition = given["partition"]
        if "priority" in given:
            message.priority = PRIORITIES.index(given["priority"])
        if "delay" in given:
            message.delay.FromNanoseconds(round(_seconds(given["delay"]) * 1e9))
        if "deliver_at" in given or "deliverAt" in given:
            message.deliver_at.FromJsonString(given.get("deliver_at") or given["deliverAt"])
        found = self._stubs.publish.Publish(message)
        result = {"partition": found.partition, "offset": found.offset, "delayed": found.delayed}
        if found.delayed:
            result["deliverAt"] = time_of(found.deliver_at)
        return httpx.Response(200, json={"results": [result]})

    def _read(self, topic: str, number: int, query: dict[str, Any]) -> httpx.Response:
        offset, wait = int(query["offset"]), parse_duration(query["wait"]) if "wait" in query else 0.0
        rows = json.loads(self._stubs.admin.Call(_get(f"/topics/{topic}/partitions")).body)["partitions"]
        request = consume_pb2.ConsumeRequest(
            topic=topic,
            partitions=[number],
            start_position=consume_pb2.CONSUME_START_POSITION_OFFSET,
            start_offset=offset,
            max_bytes=min(int(query["max_bytes"]), 4 * MIB),
            frames=True,
            read_uncommitted=query.get("isolation") == "read_uncommitted",
            skip_damage=query.get("skip_damage") == "true",
            until_end=not wait,
        )
        stream = self._stubs.consume.Consume(request, timeout=wait or None)
        frames, following, watermark = b"", max(offset, rows[number]["latest"]) if not wait else offset, 0
        try:
            batch = next(one.messages for one in stream if one.HasField("messages"))
        except StopIteration:
            watermark = rows[number]["latest"]
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
        else:
            frames, following, watermark = batch.frames, batch.next_offset, batch.high_watermark
            stream.cancel()
        numbers = {NEXT_OFFSET: following, HIGH_WATERMARK: watermark, FIRST_OFFSET: rows[number]["earliest"]}
        headers = {name: str(value) for name, value in numbers.items()} | {PARTITIONS: str(len(rows))}
        return _content(frames, FRAMES, headers)

    # --- groups ---

    def _poll(self, group: str, query: dict[str, Any]) -> httpx.Response:
        member = self._members.get(query["member_id"])
        if member is None:
            member = self._members[query["member_id"]] = _Member(self._stubs, group, query)
        generation, end = int(query["generation"]), monotonic() + parse_duration(query["timeout"])
        # A stream does not say that there is nothing to receive now: the lag of the group does.
        while not member.has_changed(generation, LAG_SECONDS):
            late = monotonic() - end
            if late > LAG_SECONDS_MAX or (late > 0 and not self._lag(group)):
                break
        return member.poll(generation)

    def _lag(self, group: str) -> int:
        return int(json.loads(self._stubs.admin.Call(_get(f"/groups/{group}")).body)["total_lag"])

    def _settle(self, group: str, body: dict[str, Any]) -> httpx.Response:
        request = ack_pb2.SettleRequest(group=group, member_id=body["member_id"])
        for part in ("acks", "nacks", "rejects", "releases"):
            for one in body.get(part, ()):
                ranges = [ack_pb2.OffsetRange(first=first, end=end) for first, end in one["ranges"]]
                entry = getattr(request, part).add(
                    topic=one["topic"], partition=one["partition"], lease=one["lease"], ranges=ranges
                )
                if one.get("delay") is not None:
                    entry.delay.FromNanoseconds(round(_seconds(one["delay"]) * 1e9))
                entry.reason = one.get("reason") or ""
        for one in body.get("extensions", ()):
            longer = request.extensions.add(topic=one["topic"], partition=one["partition"], lease=one["lease"])
            longer.timeout.FromNanoseconds(round(_seconds(one["timeout"]) * 1e9))
        response = self._stubs.acks.Settle(request)
        found = {part: [_settled(one) for one in getattr(response, part)] for part in (*body.keys() - {"member_id"},)}
        return httpx.Response(200, json=found)


class _Member:
    """The stream of a member, whose messages wait for polls."""

    def __init__(self, stubs: Stubs, group: str, query: dict[str, Any]) -> None:
        described = json.loads(stubs.admin.Call(_get(f"/groups/{group}")).body)
        (me,) = (one for one in described["members"] if one["member_id"] == query["member_id"])
        request = consume_pb2.SubscribeRequest(
            topics=me["topics"],
            group_id=group,
            member_id=query["member_id"],
            frames=True,
            max_messages=int(query["max_messages"]),
            max_bytes=min(int(query["max_bytes"]), 4 * MIB),
            skip_damage=query.get("skip_damage") == "true",
        )
        if "visibility_timeout" in query:
            request.visibility_timeout.FromNanoseconds(round(parse_duration(query["visibility_timeout"]) * 1e9))
        self._changed = threading.Condition()
        self._batches: deque[Any] = deque()
        self._generation = 0
        self._error: grpc.RpcError | None = None
        self.stream = stubs.consume.Subscribe(request)
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        try:
            for response in self.stream:
                with self._changed:
                    if response.HasField("messages"):
                        self._batches.append(response.messages)
                    elif response.HasField("assignment"):
                        self._generation = response.assignment.generation
                    self._changed.notify_all()
        except grpc.RpcError as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def has_changed(self, generation: int, seconds: float) -> bool:
        """Wait for messages, another generation, or an error."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: self._batches or self._error or self._generation > generation, seconds
            )
        return bool(found)

    def poll(self, generation: int) -> httpx.Response:
        with self._changed:
            batches = [*self._batches]
            self._batches.clear()
            if self._error is not None and not batches:
                return _refused(self._error)
            now = max(self._generation, generation)
        leases = [_lease(one) for one in batches]
        head = msgspec.json.encode(PollHead(now, now != generation, leases))
        content = b"".join((LENGTH.pack(len(head)), head, *(one.frames for one in batches)))
        return _content(content, LEASES, {})


def _lease(batch: Any) -> LeaseDescription:
    lease = batch.lease
    seconds = seconds_of(lease.visibility_timeout)
    numbers = lease.first, lease.end, lease.attempt, seconds, len(batch.frames), lease.failures
    return LeaseDescription(batch.topic, batch.partition, lease.id, *numbers)


def _content(content: bytes, kind: str, headers: dict[str, str]) -> httpx.Response:
    own = {"content-type": kind, CHECKSUM: f"{crc32c(content):08x}"}
    return httpx.Response(200, content=content, headers=headers | own)


def _get(path: str) -> admin_pb2.CallRequest:
    return admin_pb2.CallRequest(method="GET", path=path)


def _seconds(given: Any) -> float:
    return parse_duration(given) if isinstance(given, str) else float(given)


def _section(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"partition": result.partition, "duplicate": result.duplicate}
    if result.HasField("error"):
        return found | {"error": _described(result.error)}
    known = result.first_offset >= 0
    found |= {"first_offset": result.first_offset, "next_offset": result.next_offset} if known else {}
    return found | ({"timestamp": time_of(result.timestamp)} if result.HasField("timestamp") else {})


def _settled(result: Any) -> dict[str, Any]:
    found = {"requeued": result.requeued, "dead_letters": result.dead_letters, "dropped": result.dropped}
    if result.dlq_topic:
        found["dlq_topic"] = result.dlq_topic
    if result.HasField("new_deadline"):
        found["new_deadline"] = time_of(result.new_deadline)
    return found | ({"error": _described(result.error)} if result.HasField("error") else {})


def _described(error: Any) -> dict[str, Any]:
    details = {name: setting_value(text) for name, text in error.details.items()}
    return {"code": error.reason, "error": error.message, "hint": details.pop("hint", None), "details": details}


def _refused(error: Any) -> httpx.Response:
    """Return the status of a call as the answer of HTTP with the same code."""
    info = ErrorInfo()
    packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    for one in Status.FromString(packed).details:
        one.Unpack(info)
    if not info.reason:
        raise httpx.ConnectError(error.details() or str(error.code()))
    details = {name: setting_value(text) for name, text in info.metadata.items()}
    body = {"code": info.reason, "error": error.details(), "hint": details.pop("hint", None), "details": details}
    return httpx.Response(status_of(KINDS[info.reason]), json=body)


class RpcClient(Client):
    """The client for threads over gRPC."""

    _addresses: ClassVar[dict[str, str]] = {}

    def __init__(self, url: str, **options: Any) -> None:
        self._own = httpx.Client(transport=RpcTransport(self._addresses[url]))
        super().__init__(url, http=self._own, **options)

    @classmethod
    def know(cls, broker: LocalBroker) -> LocalBroker:
        """Return the broker, whose address for gRPC is known from now on by its URL."""
        cls._addresses[broker.url] = str(broker.daemon.rpc_address)
        return broker

    def close(self) -> None:
        super().close()
        self._own.close()
