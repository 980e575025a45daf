"""Answers of the other nodes of a cluster to a request that asks for what each node has of its own."""

import asyncio
from dataclasses import replace
from typing import TypeVar

import msgspec

from goqueue.api.endpoint import ApiCall
from goqueue.api.http.message import HttpResponse
from goqueue.errors import GoQueueError

T = TypeVar("T")

_ANSWER_SECONDS = 5.0


async def ask_others(call: ApiCall, kind: type[T]) -> tuple[list[T], list[str]]:
    """Return what the other nodes answer to the same request, and the nodes that did not answer."""
    led, member = call.app.led, call.app.cluster
    if led is None or member is None or call.request.is_forwarded or not led.logs.may_ask_others:
        return [], []
    nodes = sorted(node for node in member.log.state.nodes if node != member.settings.node)
    headers = {name: text for name, text in call.request.headers.items() if name != "accept"}
    request = replace(call.request, headers=headers, world=None, endpoint=None)
    found = await asyncio.gather(
        *(led.ask_node(node, request, _ANSWER_SECONDS) for node in nodes), return_exceptions=True
    )
    answers, missing = [], []
    for node, answer in zip(nodes, found, strict=True):
        if isinstance(answer, HttpResponse) and answer.status == 200:
            answers.append(msgspec.json.decode(bytes(answer.body), type=kind))  # type: ignore[arg-type]
        elif isinstance(answer, BaseException) and not isinstance(answer, GoQueueError):
            raise answer
        else:
            missing.append(node)
    return answers, missing
