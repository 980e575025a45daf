"""What both clients ask about the transactions of others, word for word."""

from typing import Any

import msgspec
import pytest

from goqueue.errors import RequestInvalid
from tests.client.either import KINDS, run, settled
from tests.client.peers import peer, reply

WHOSE = {"transactional_id": "p", "producer_id": 7, "epoch": 3}
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str, Any]] = [
    ("transactions", (), {}, "GET /transactions", None),
    ("transactions", ("ongoing",), {"limit": 3}, "GET /transactions?state=ongoing&limit=3", None),
    ("transactions", (), {"transactional_id": "a b&c"}, "GET /transactions?transactional_id=a%20b%26c", None),
    ("transaction", ("a/b",), {}, "GET /transactions/a%2Fb", None),
    ("abort_transaction", ("p", 7, 3), {"reason": "why"}, "POST /transactions/abort", {**WHOSE, "reason": "why"}),
    ("abort_transaction", ("p", 7, 3), {}, "POST /transactions/abort", WHOSE),
    ("transaction_stats", (), {}, "GET /transactions/stats", None),
]


@KINDS
@pytest.mark.parametrize(("method", "given", "wishes", "asked", "body"), CALLS)
def test_a_call_is_what_the_broker_understands(
    kind: Any, method: str, given: tuple[Any, ...], wishes: dict[str, Any], asked: str, body: Any
) -> None:
    with peer(lambda _: reply({"transactions": [{"epoch": 1}]})) as server:

        async def scenario(client: Any) -> Any:
            return await settled(getattr(client, method)(*given, **wishes))

        found = run(kind, server.url, scenario)
        (request,) = server.asked
        assert f"{request.method} {request.target}" == asked
        assert (msgspec.json.decode(request.body) if request.body else None) == body
        assert found == ([{"epoch": 1}] if method == "transactions" else {"transactions": [{"epoch": 1}]})


@KINDS
def test_a_reason_is_text(kind: Any) -> None:
    with peer(lambda _: reply({})) as server:

        async def scenario(client: Any) -> None:
            with pytest.raises(RequestInvalid, match="the reason is int"):
                await settled(client.abort_transaction("p", 7, 3, reason=7))

        run(kind, server.url, scenario)
        assert server.asked == []
