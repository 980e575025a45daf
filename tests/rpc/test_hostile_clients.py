"""Clients that do harm on the wire: none disturbs another, and nothing of them stays."""

import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from goqueue.rpc import listener
from goqueue.rpc.v1 import consume_pb2, publish_pb2
from goqueue.testing.broker import LocalBroker
from tests.api.keys import eventually
from tests.brokers import ask, create, publish
from tests.rpc.http2 import (
    CANCEL,
    CONTINUATION,
    END_HEADERS,
    ENHANCE_YOUR_CALM,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    RawConnection,
    call_headers,
    frame,
    message,
)
from tests.rpc.stubs import Stubs, refusal, stubs_of

PUBLISH = "/goqueue.v1.PublishService/Publish"
CONSUME = "/goqueue.v1.ConsumeService/Consume"
NO_STREAM = 999_999
STREAMS = 400
OF_ONE_CONNECTION = 100
SECONDS = 10
"""For a call of another client: many times what it takes on a busy machine."""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker with short times for its clients."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_WRITE_SECONDS", "HTTP_BODY_SECONDS", "TLS_HANDSHAKE_SECONDS"):
            patch.setattr(listener, name, 1)
        directory = tmp_path_factory.mktemp("attacked") / "data"
        with LocalBroker(str(directory), grpc__port="0", grpc__streams=str(STREAMS)) as broker:
            for topic in ("large", "busy", "quiet"):
                create(broker.url, topic)
            publish(broker.url, "large", *["x" * 100_000] * 5)
            yield broker


@pytest.fixture
def other(attacked: LocalBroker) -> Iterator[Stubs]:
    with stubs_of(attacked) as stubs:
        yield stubs


@pytest.fixture
def raw(attacked: LocalBroker) -> Iterator[RawConnection]:
    with RawConnection(address_of(attacked)) as connection:
        yield connection


def address_of(broker: LocalBroker) -> str:
    return str(broker.daemon.rpc_address)


def is_served(broker: LocalBroker, other: Stubs) -> bool:
    """Return whether other clients are, over gRPC and HTTP."""
    request = publish_pb2.PublishRequest(topic="busy", value=b"x")
    stored = [other.publish.Publish(request, timeout=SECONDS).offset for _ in range(5)]
    publish(broker.url, "busy", "x")
    return stored == sorted(set(stored))


def calls_open(broker: LocalBroker) -> float:
    metrics = ask(broker.url, "GET", "/metrics").body.decode()
    return float(re.search(r"^goqueue_grpc_calls_open (\S+)", metrics, re.MULTILINE)[1])  # type: ignore[index]


def nothing_is_left(broker: LocalBroker) -> bool:
    state = broker.daemon.service.server
    return (calls_open(broker), state.answer_bytes, state.held_bytes) == (0, 0, 0)


def test_calls_that_are_reset_as_soon_as_they_begin_leave_nothing(
    attacked: LocalBroker, other: Stubs, raw: RawConnection
) -> None:
    block = call_headers(CONSUME)
    for start in range(1, 4001, 400):
        raw.send(
            *(
                frame(HEADERS, END_HEADERS, stream, block) + frame(RST_STREAM, 0, stream, CANCEL)
                for stream in range(start, start + 400, 2)
            )
        )
        assert is_served(attacked, other)
    eventually(lambda: nothing_is_left(attacked))


def test_pings_and_settings_without_end_cost_only_their_connection(attacked: LocalBroker, other: Stubs) -> None:
    with RawConnection(address_of(attacked)) as raw:
        raw.send(*[frame(PING, 0, 0, bytes(8))] * 5_000)
        ended = raw.until(GOAWAY)
        assert ended is None or struct.unpack_from(">II", ended)[1] == ENHANCE_YOUR_CALM
    with RawConnection(address_of(attacked)) as raw:
        raw.send(*[frame(SETTINGS, 0, 0)] * 5_000)
        assert is_served(attacked, other)


def test_headers_without_end_close_their_connection(attacked: LocalBroker, other: Stubs, raw: RawConnection) -> None:
    raw.send(frame(HEADERS, 0, 1, call_headers(PUBLISH)))
    more = b"\0" + b"\x01x" + b"\x64" + b"y" * 100
    raw.send(*[frame(CONTINUATION, 0, 1, more * 150)] * 500)
    assert is_served(attacked, other)
    raw.send(frame(CONTINUATION, END_HEADERS, 1, more))
    assert raw.until(HEADERS, 1) is not None or raw.until(GOAWAY) is None  # refused, or closed
    eventually(lambda: nothing_is_left(attacked))


@pytest.mark.parametrize(
    ("path", "request_of"),
    [
        (PUBLISH, publish_pb2.PublishRequest(topic="busy", value=b"x")),
        (CONSUME, consume_pb2.ConsumeRequest(topic="large", frames=True)),
    ],
)
def test_connection_with_a_window_that_stays_closed_is_closed(
    attacked: LocalBroker, other: Stubs, path: str, request_of: Any
) -> None:
    with RawConnection(address_of(attacked), {INITIAL_WINDOW_SIZE: 0}) as raw:
        for stream in range(1, 2 * OF_ONE_CONNECTION, 2):
            raw.call(stream, path, message(request_of.SerializeToString()))
        raw.send(*[frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1))] * 3)
        assert is_served(attacked, other)
        assert raw.until(RST_STREAM, NO_STREAM) is None
    eventually(lambda: nothing_is_left(attacked))


@pytest.mark.parametrize("path", [PUBLISH, CONSUME])
@pytest.mark.parametrize("sent", [b"", message(b"half", length=1000)], ids=["nothing", "half"])
def test_call_whose_request_does_not_arrive_is_ended(
    attacked: LocalBroker, other: Stubs, raw: RawConnection, path: str, sent: bytes
) -> None:
    for stream in range(1, 2 * OF_ONE_CONNECTION, 2):
        raw.call(stream, path, sent, flags=0)
    assert is_served(attacked, other)
    eventually(lambda: nothing_is_left(attacked))


def test_connections_that_say_nothing_are_closed(attacked: LocalBroker, other: Stubs) -> None:
    host, port = address_of(attacked).split(":")
    silent = [socket.create_connection((host, int(port)), timeout=SECONDS) for _ in range(100)]
    assert is_served(attacked, other)
    for connection in silent:
        while connection.recv(1024):
            pass
        connection.close()


def test_client_that_does_not_answer_pings_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "RPC_KEEPALIVE_ANSWER_SECONDS", 1)
    with (
        LocalBroker(str(tmp_path / "data"), grpc__port="0", grpc__keepalive="1s") as broker,
        RawConnection(address_of(broker)) as raw,
    ):
        assert raw.until(PING) is not None
        assert raw.until(RST_STREAM, NO_STREAM) is None


def test_deadline_of_a_call_ends_its_wait(attacked: LocalBroker, other: Stubs) -> None:
    waiting = other.consume.Consume(consume_pb2.ConsumeRequest(topic="quiet"), timeout=0.1)
    member = other.consume.Subscribe(consume_pb2.SubscribeRequest(topics=["quiet"], group_id="g"), timeout=1)
    assert refusal(lambda: waiting).code == grpc.StatusCode.DEADLINE_EXCEEDED
    assert refusal(lambda: member).code == grpc.StatusCode.DEADLINE_EXCEEDED
    eventually(lambda: ask(attacked.url, "GET", "/groups/g").json["state"] == "empty")
    eventually(lambda: nothing_is_left(attacked))


def test_streams_of_one_connection_leave_room_for_others(attacked: LocalBroker, other: Stubs) -> None:
    request = consume_pb2.ConsumeRequest(topic="quiet")
    with stubs_of(attacked) as greedy:
        streams = [greedy.consume.Consume(request) for _ in range(2 * STREAMS)]
        eventually(lambda: calls_open(attacked) == OF_ONE_CONNECTION)
        assert is_served(attacked, other)
        for stream in streams:
            stream.cancel()
    eventually(lambda: nothing_is_left(attacked))


@pytest.mark.parametrize("path", [PUBLISH, CONSUME])
def test_bytes_that_are_no_message_are_refused(other: Stubs, path: str) -> None:
    call: Any = other.channel.stream_stream(path)
    for sent, sentence in (([b"\xff\xff"], "not a message"), ([], "missing")):
        refused = refusal(call, iter(sent))
        assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "request_invalid")
        assert sentence in refused.sentence
