"""API keys in the SDK: its methods, and its producers, readers and consumers against a broker that needs keys."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.client import AsyncClient, Client
from goqueue.errors import PermissionDenied, RequestInvalid, TopicNotFound, Unauthenticated
from tests.api.keys import SecuredBroker, secured


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecuredBroker]:
    with secured(tmp_path) as found:
        yield found


@pytest.fixture
def client(broker: SecuredBroker) -> Iterator[Client]:
    with Client(broker.url, api_key=broker.admin) as made:
        made.create_topic("orders", 1)
        yield made


def test_keys_roles_and_rules_are_managed_through_a_client(client: Client) -> None:
    client.create_role("team", [{"kind": "topic", "pattern": "orders", "actions": ["read"]}])
    made = client.create_api_key("till", ["team"], expires_in="1d")
    assert made.key is not None
    assert made.key not in repr(made)
    rule = client.create_access_rule("key:till", "topic", ["write"], "ord", match="prefix")
    decision = client.test_access("key:till", "write", "topic", "orders")
    assert (decision.allowed, decision.source) == (True, f"rule {rule.id}")
    assert [one.name for one in client.api_keys()] == ["bootstrap", "till"]
    assert [one.key for one in client.api_keys()] == [None, None]
    assert client.access_rules() == [rule]
    rotated = client.rotate_api_key("till")
    assert rotated.key != made.key
    client.delete_access_rule(rule.id)
    client.revoke_api_key("till")
    client.delete_role("team")
    assert "team" not in [one.name for one in client.roles()]


@pytest.mark.usefixtures("client")
def test_programs_with_fitting_keys_do_their_work(broker: SecuredBroker) -> None:
    with Client(broker.url, api_key=broker.new_key("p", "producer")) as publishing:
        with publishing.producer() as producer:
            producer.send("orders", "paid").result()
        with publishing.producer(transactional_id="orders-1") as producer, producer.transaction():
            producer.send("orders", "sent")
        with pytest.raises(PermissionDenied, match="may not read topic 'orders'"):
            list(publishing.reader("orders"))
    with Client(broker.url, api_key=broker.new_key("c", "consumer")) as consuming:
        assert [one.text for one in consuming.reader("orders")] == ["paid", "sent"]
        with consuming.consumer("billing", ["orders"]) as consumer:
            message = next(iter(consumer))
            message.ack()
        with pytest.raises(PermissionDenied, match="may not write topic 'orders'"):
            consuming.publish("orders", "x")
        with pytest.raises(PermissionDenied):
            consuming.delete_topic("orders")


def test_iteration_of_a_consumer_ends_when_its_key_is_revoked(client: Client, broker: SecuredBroker) -> None:
    with Client(broker.url, api_key=broker.new_key("c", "consumer")) as consuming:
        consumer = consuming.consumer("billing", ["orders"])
        messages = iter(consumer)
        client.publish("orders", "x")
        next(messages).ack()
        client.revoke_api_key("c")
        with pytest.raises(Unauthenticated):
            next(messages)


def test_key_is_taken_from_the_environment(
    broker: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(broker.url) as client, pytest.raises(Unauthenticated):
        client.topics()
    file = tmp_path / "key"
    file.write_text(f"{broker.admin}\n")
    monkeypatch.setenv("GOQUEUE_API_KEY_FILE", str(file))
    with Client(broker.url) as client:
        assert client.topics() == []
    monkeypatch.setenv("GOQUEUE_API_KEY", broker.new_key("c"))
    with Client(broker.url) as client, pytest.raises(TopicNotFound):
        client.topic("orders")
    with Client(broker.url, api_key=broker.admin) as client:
        assert [one.name for one in client.api_keys()] == ["bootstrap", "c"]


def test_unreadable_key_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOQUEUE_API_KEY_FILE", str(tmp_path / "none"))
    with pytest.raises(RequestInvalid, match="cannot be read"):
        Client("http://127.0.0.1:1")


def test_async_client_sends_its_key_and_manages_keys(broker: SecuredBroker) -> None:
    async def work() -> list[str]:
        async with AsyncClient(broker.url, api_key=broker.admin) as client:
            await client.create_api_key("till", ["producer"])
            return [one.name for one in await client.api_keys()]

    assert asyncio.run(work()) == ["bootstrap", "till"]
