"""Real brokers killed with SIGKILL while tenants are created, changed and deleted; their usage survives it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from random import Random
from typing import Any

from tests.api.keys import eventually
from tests.brokers import Answer, ask, create, publish
from tests.crash.life import telling
from tests.processes import Served

SHARE = 20
PUBLISHED, POLLED = 5, 3
TENANT, TEAM = "/admin/tenants/a", {"x-tenant": "a"}
Step = tuple[str, str, Any, Callable[[Any], bool]]
STEPS: tuple[Step, ...] = (
    ("PUT", f"{TENANT}/quotas", {"max_topics": 7}, lambda one: one["quotas"] == {"max_topics": 7}),
    ("POST", f"{TENANT}/suspend", {"reason": "unpaid"}, lambda one: one["status"] == "suspended"),
    ("POST", f"{TENANT}/activate", {}, lambda one: one["status"] == "active"),
)
"""Changes of a tenant, and whether it has them."""


class Broker:
    """A broker with tenants that is killed and started again."""

    def __init__(self, path: Path, chance: Random) -> None:
        self._data, self._chance = path / "data", chance
        self._served = self._start()

    def _start(self) -> Served:
        return Served("--data-dir", str(self._data), "--tenants-enabled", "true").launch().await_start()

    @property
    def url(self) -> str:
        return self._served.url

    def kill(self) -> None:
        self._served.kill()

    def restart(self) -> None:
        self.kill()
        self._served = self._start()

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self._data.glob("logs/__tenants/0/*.log"))

    def killed_during(self, method: str, path: str, body: Any) -> Answer | None:
        """Make a request, and kill the broker meanwhile: at once, or when something was recorded."""
        size, waits = self._size(), self._chance.random() < 0.7
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(ask, self.url, method, path, body)
            while waits and self._size() == size and not asked.done():
                pass
            self.kill()
            answer = None
            with suppress(OSError, HTTPException):
                answer = asked.result()
        self._served = self._start()
        return answer


def test_killed_broker_has_a_change_of_a_tenant_or_has_it_not_and_counts_exactly(
    tmp_path: Path, seed: str, kills: int
) -> None:
    chance = Random(seed)
    broker = Broker(tmp_path, chance)
    try:
        with telling(f"seed {seed}, in {tmp_path}"):
            for _ in range(kills):
                live_through(broker)
    finally:
        broker.kill()


def live_through(broker: Broker) -> None:
    answer = broker.killed_during("POST", "/admin/tenants", {"name": "a"})
    if ask(broker.url, "GET", TENANT).status == 404:
        assert answer is None
        assert ask(broker.url, "POST", "/admin/tenants", {"name": "a"}).status == 201
    before = usage(broker)
    work(broker)
    broker.restart()
    after = usage(broker)
    assert after["published_messages"] == before["published_messages"] + PUBLISHED
    assert after["consumed_messages"] == before["consumed_messages"] + POLLED
    for method, path, body, is_made in STEPS:
        answer = broker.killed_during(method, path, body)
        found = ask(broker.url, "GET", TENANT).json
        assert is_made(found) or answer is None, (path, found)
    answer = broker.killed_during("DELETE", TENANT, None)
    if answer is None and ask(broker.url, "GET", TENANT).json.get("status") in ("active", "suspended"):
        assert ask(broker.url, "DELETE", TENANT).status == 200
    eventually(lambda: ask(broker.url, "GET", TENANT).status == 404)
    assert [one for one in ask(broker.url, "GET", "/topics").json["topics"] if one.startswith("a.")] == []
    assert ask(broker.url, "GET", "/groups").json["groups"] == []
    periods = ask(broker.url, "GET", "/admin/usage?by=total").json["periods"]
    assert [one["published_messages"] for one in periods] == [after["published_messages"]]


def usage(broker: Broker) -> Any:
    return ask(broker.url, "GET", f"{TENANT}/usage").json


def work(broker: Broker) -> None:
    """Publish and poll a little."""
    create(broker.url, "a.orders")
    publish(broker.url, "a.orders", *("x" * number for number in range(PUBLISHED)))
    joined = ask(broker.url, "POST", "/groups/billing/join", {"client_id": "c", "topics": ["orders"]}, TEAM).json
    path = f"/groups/billing/poll?member_id={joined['member_id']}&timeout=30s&max_messages={POLLED}"
    assert len(ask(broker.url, "GET", path, headers=TEAM).json["messages"]) == POLLED
