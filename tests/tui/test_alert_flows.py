"""Alerts are listed and silenced in the dashboard, with a real broker that sends them."""

from pathlib import Path

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from tests.api.test_alerts import listed, make_trouble, sending
from tests.api.webhooks import receiver
from tests.tui.pilots import press, see, shown


async def test_alert_is_silenced_after_it_was_shown(tmp_path: Path) -> None:
    with receiver() as webhook, sending(tmp_path, webhook) as broker:
        make_trouble(broker)
        async with shown(broker.url, Location("alerts"), size=(100, 24)) as pilot:
            await see(pilot, "dead_letters_waiting", "orders.dlq", "firing")
            await press(pilot, "home", "m")
            await see(pilot, "1,000 dead letters", "(y)")
            await press(pilot, "y")
            await see(pilot, "is silenced for 1h")
        (silence,) = listed(broker)["silences"]
        assert (silence["code"], silence["subject"]) == ("dead_letters_waiting", "orders.dlq")


async def test_screen_says_that_the_broker_has_no_webhook(broker: LocalBroker) -> None:
    async with shown(broker.url, Location("alerts"), size=(100, 24)) as pilot:
        await see(pilot, "alerts.webhook_file names no file")
