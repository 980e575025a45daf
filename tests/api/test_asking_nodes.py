"""Requests of clients that other nodes of a cluster answer."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.api.led_requests import LedRequests
from goqueue.errors import LeaderUnavailable

REQUEST = HttpRequest("GET", "/topics/orders/delayed", "", {}, bytearray(), "", "", 0)


def test_node_is_not_asked_before_all_nodes_know_the_question() -> None:
    async def asked() -> None:
        logs: Any = SimpleNamespace(may_ask_others=False)
        requests: Any = SimpleNamespace(serve=lambda *_: None)  # asking fails
        led = LedRequests(logs, requests, lambda _: HttpResponse(200))
        with pytest.raises(LeaderUnavailable, match="node n2 cannot be asked before all nodes"):
            await led.ask_node("n2", REQUEST)

    asyncio.run(asked())
