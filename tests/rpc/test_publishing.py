"""Typed messages as the endpoint takes them."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from goqueue.rpc.publishing import _messages, outgoing
from goqueue.rpc.v1.publish_pb2 import OutgoingMessage
from goqueue.rpc.v1.types_pb2 import Header

FIELDS: list[dict[str, Any]] = [
    {},
    {"partition": 0},
    {"priority": 0},
    {"headers": {"a": "b"}},
    {"raw_headers": [Header(name="a", value=b"b")]},
    {"delay": Duration()},
    {"tombstone": True},
]


@pytest.mark.parametrize("fields", FIELDS, ids=str)
@pytest.mark.parametrize("key", [b"", b"k", b"k" * 128])
@pytest.mark.parametrize("value", [b"", b"v", b"v" * 127, b"v" * 128, b"v" * 16_384])
def test_message_of_a_batch_is_read_as_one_alone(value: bytes, key: bytes, fields: dict[str, Any]) -> None:
    message = OutgoingMessage(value=value, key=key, **fields)
    assert _messages([message]) == [outgoing(message)]
