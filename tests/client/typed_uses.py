"""Right and wrong uses of the client, as type checkers see them. Nothing runs this.

`make check` runs mypy over it, which complains of each `ignore` that it does not need: a wrong use that is accepted
fails there.
"""

import json
from dataclasses import dataclass
from typing import Unpack, assert_type

from goqueue.client import (
    AsyncClient,
    AsyncConsumer,
    AsyncReader,
    Client,
    Consumer,
    ConsumerArguments,
    Delivered,
    Message,
    Producer,
    ProducerArguments,
    TopicInfo,
    Worker,
    WorkerArguments,
)


@dataclass
class Order:
    total: int


def topics(client: Client) -> None:
    assert_type(client.create_topic("orders", 3, exist_ok=True, cleanup="compact", retention_hours=None), TopicInfo)
    client.alter_topic("orders", retention_hours=48, lane_weights=(50, 25, 15, 7, 3))
    client.create_topic("orders", num_partitions=3)  # type: ignore[call-arg]
    client.create_topic("orders", cleanup="shrink")  # type: ignore[arg-type]
    client.alter_topic("orders", retention="2d")  # type: ignore[call-arg]
    client.redrive("orders", error="timeout", key=b"anna", filters=["json.total>4"], dry_run=True)
    client.redrive("orders", limits=4)  # type: ignore[call-arg]


def producers(client: Client) -> None:
    plain = client.producer(linger="4ms", compression="zstd", acks="all")
    plain.send("orders", "text", key=b"k", priority="high")
    plain.send_many("orders", [b"a", "b", None])
    plain.send("orders", {"total": 4})  # type: ignore[arg-type]
    plain.send("orders", "text", priority="urgent")  # type: ignore[arg-type]
    client.publish("orders", "text", priority="urgent")  # type: ignore[arg-type]
    client.producer(linger_ms=4)  # type: ignore[call-overload]
    client.producer(compression="gzip")  # type: ignore[call-overload]
    client.producer(serializer=4)  # type: ignore[call-overload]


def serializers(client: Client) -> None:
    client.producer(serializer="json").send("orders", {"total": 4})
    client.producer(serializer=json.dumps).send_many("orders", [{"total": 4}, None])
    with client.producer(transactional_id="shop-1", serializer="json").transaction() as tx:
        tx.send("orders", {"total": 4})
    with client.producer(transactional_id="shop-1").transaction() as tx:
        tx.send("orders", b"bytes")


def consumers(client: Client) -> None:
    client.consumer("billing", ["orders"], order="key", start="latest", max_messages=10)
    client.consumer("billing", ["orders"], max_message=10)  # type: ignore[call-arg]
    client.consumer("billing", ["orders"], order="time")  # type: ignore[arg-type]


def handlers(consumer: Consumer) -> None:
    consumer.run(print, concurrency=4, backoff=lambda failures: f"{failures}s", reject_on=(ValueError, KeyError))
    consumer.run(print, max_retries="unlimited")  # type: ignore[arg-type]
    consumer.run(print, backof=1)  # type: ignore[call-arg]
    consumer.run(lambda: None)  # type: ignore[misc, arg-type]


async def coroutine_handlers(consumer: AsyncConsumer) -> None:
    async def handle(message: Delivered) -> None: ...

    await consumer.run(handle, timeout="10s")
    await consumer.run(print)  # type: ignore[arg-type]
    await consumer.run(handle, timeouts="10s")  # type: ignore[call-arg]


def workers() -> None:
    app = Worker("billing", max_retries=3, order="key", session_timeout="10s")
    Worker("billing", max_retries="x")  # type: ignore[arg-type]
    Worker("billing", orders="key")  # type: ignore[call-arg]

    @app.handler("payments", "refunds", backoff="200ms", max_messages=10)
    def charge(message: Delivered) -> None: ...

    charge("payment 7")  # type: ignore[arg-type]

    @app.handler("payments")
    async def record(message: Message) -> int:
        return message.offset

    app.handler("payments", max_retries="x")  # type: ignore[arg-type]
    app.handler("payments", backof=1)  # type: ignore[call-arg]
    app.handler("payments", reject_on=[ValueError])  # type: ignore[arg-type]
    app.handler("payments", order="time")  # type: ignore[arg-type]

    @app.handler("payments")  # type: ignore[type-var]
    def charge_nothing() -> None: ...

    @app.every("15m")
    def remind() -> None: ...

    @app.cron("@daily")  # type: ignore[type-var]
    def clean_up(message: Delivered) -> None: ...


def messages(read: Message, delivered: Delivered) -> None:
    assert_type(read.text, str)
    assert_type(delivered.json(Order), Order)


def readers(client: Client) -> None:
    client.reader("orders", on_missing="latest", isolation="read_uncommitted")
    client.reader("orders", on_missing="skip")  # type: ignore[arg-type]


async def loops(client: AsyncClient) -> None:
    assert_type(client.reader("orders"), AsyncReader)
    assert_type(await client.reader("orders"), AsyncReader)
    await client.create_topic("orders", exist_ok=True)
    client.producer(linger_ms=4)  # type: ignore[call-overload]


def wrapped_producer(client: Client, **options: Unpack[ProducerArguments]) -> Producer:
    return client.producer(**options)


def wrapped_consumer(client: Client, **options: Unpack[ConsumerArguments]) -> Consumer:
    return client.consumer("billing", ["orders"], **options)


def wrapped_worker(**options: Unpack[WorkerArguments]) -> Worker:
    return Worker("billing", **options)
