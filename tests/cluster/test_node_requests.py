"""Questions of nodes to each other."""

import asyncio
from types import SimpleNamespace
from typing import Any

from goqueue.cluster.peer_messages import TenantAnswered, TenantAsked
from goqueue.errors import RangeDamaged
from goqueue.events import Signal
from goqueue.runtime.cluster.node_requests import NodeRequests


def test_node_that_cannot_answer_a_question_goes_on() -> None:
    async def asked() -> None:
        failures: list[str] = []
        sent: list[int] = []
        member: Any = SimpleNamespace(handlers={}, network=SimpleNamespace(links={}), on_disconnected=Signal())
        requests = NodeRequests(member, lambda: failures.append("defect"))
        damaged, answered = asyncio.Event(), asyncio.Event()

        async def find(question: TenantAsked) -> TenantAnswered:
            if question.number == 1:
                damaged.set()
                raise RangeDamaged("the log is damaged")
            return TenantAnswered(question.number, {}, (), (), ())

        requests.serve(TenantAsked, TenantAnswered, find)

        def send(answer: TenantAnswered) -> None:
            sent.append(answer.number)
            answered.set()

        link = SimpleNamespace(node="n2", send=send)
        member.handlers[TenantAsked](link, TenantAsked(1, "a", False))
        await damaged.wait()
        member.handlers[TenantAsked](link, TenantAsked(2, "a", False))
        await answered.wait()
        await requests.stop()
        assert (failures, sent) == ([], [2])

    asyncio.run(asked())
