"""The trace of a message, from the screens that show messages, with a real broker."""

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from tests.tui.pilots import press, see, shown, table, text, until

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_traces_are_listed_searched_and_opened(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        for topic in ("orders", "payments"):
            client.create_topic(topic, partitions=1)
            client.publish(topic, "one")
        with client.consumer("billing", ["orders"], start="earliest", until_idle="0.3s") as consumer:
            next(iter(consumer)).reject("no such order")
    async with shown(broker.url, Location("traces"), size=(160, 40)) as pilot:
        await see(pilot, "orders/0@0", "payments/0@0", "error ", "completed ", "records in memory")
        await press(pilot, "v")
        await until(pilot, lambda: {one["status"] for one in table(pilot.app).records} == {"error"})
        await press(pilot, "slash", *"payments from=-1h", "enter")
        await until(pilot, lambda: [one["topic"] for one in table(pilot.app).records] == ["payments"])
        await see(pilot, "/payments from=-1h")
        await press(pilot, "slash", *" colour=red", "enter")
        await see(pilot, "'colour=red' is not a condition")
        await press(pilot, "enter")
        await see(pilot, "completed trace", "publish.persisted")
        await press(pilot, "escape")
        await see(pilot, "records in memory")


async def test_trace_of_a_message_is_a_waterfall(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        client.create_topic("orders", partitions=1)
        client.publish("orders", "one", headers={"traceparent": PARENT})
        later = client.publish("orders", "later", delay="1h")
        with client.consumer("billing", ["orders"], start="earliest", until_idle="0.3s") as consumer:
            for message in consumer:
                message.reject("no such order")
    async with shown(broker.url, Location("messages", ("orders",)), size=(160, 40)) as pilot:
        await see(pilot, "one")
        await press(pilot, "T")
        await see(pilot, "error trace", "0af7651916cd43dd8448eb211c80319c", "span b7ad6b7169203331", "dlq.routed")
        await see(pilot, "orders.dlq/0@0", "dead letter of orders/0@0")
        await until(pilot, lambda: any(row.event == "consume.rejected" for row in table(pilot.app).records))
        number = next(row.number for row in table(pilot.app).records if row.event == "consume.rejected")
        await press(pilot, "home", *["down"] * number, "enter")
        await see(pilot, "no such order", "billing", "esc closes")
        await press(pilot, "escape", "colon", *"letters orders.dlq", "enter")
        await see(pilot, "no such order")
        await until(pilot, lambda: len(table(pilot.app).records) == 1)
        await press(pilot, "T")
        await see(pilot, "orders.dlq/0@0", "publish.received")
        await press(pilot, "colon", *"schedule orders", "enter")
        await until(pilot, lambda: len(table(pilot.app).records) == 1)
        await press(pilot, "T")
        await see(pilot, "pending trace", f"orders/0@{later.offset} (delayed)", "delay.scheduled")
        await press(pilot, "colon", *"trace orders/0@99", "enter")
        await see(pilot, "nothing is known of a message 99")
        assert "waterfall" not in text(pilot.app)
