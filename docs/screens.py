"""Makes the pictures of the dashboard: every screen, over a demo that really runs. `make pictures` calls it.

.venv/bin/python docs/screens.py            all of them, after two minutes of traffic
.venv/bin/python docs/screens.py groups 20  one of them, after twenty seconds
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from goqueue.client import Client, transaction_requests
from goqueue.client.api_request import json_request
from goqueue.client.message_encoding import PriorityName
from goqueue.client.transaction_requests import TransactionIdentity
from goqueue.limits import TRANSACTION_HUNG_SECONDS
from goqueue_admin.dashboard.app import Dashboard
from goqueue_admin.dashboard.broker.service import connect
from goqueue_admin.dashboard.screens.routes import Location
from tests.tui.screenshots import settle, without_fonts

IMAGES = Path(__file__).parent / "images"
TRAFFIC_SECONDS = 120.0
LOOK_SECONDS = 4.0
WINDOW_SECONDS = 0.5
WAITS = (20, 90, 900, 5_000, 30_000, 90_000, 500_000, 2_000_000)
"""The longest delays of messages, in seconds."""
PRIORITIES: tuple[PriorityName, ...] = ("critical", "high", "normal", "normal", "normal", "background")


class Shot(NamedTuple):
    """One picture: where to go, what to press there, how large, in which colours."""

    place: Location
    keys: tuple[str, ...] = ()
    size: tuple[int, int] = (120, 34)
    theme: str = "goqueue-dark"


SHOTS = {
    "overview": Shot(Location("overview")),
    "overview-wide": Shot(Location("overview"), size=(200, 60)),
    "overview-light": Shot(Location("overview"), theme="goqueue-light"),
    "overview-small": Shot(Location("overview"), size=(80, 24)),
    "topics": Shot(Location("topics")),
    "topic": Shot(Location("topic", ("page-views",))),
    "messages": Shot(Location("messages", ("orders",))),
    "message": Shot(Location("messages", ("orders",)), ("up", "enter")),
    "groups": Shot(Location("groups")),
    "group": Shot(Location("group", ("statistics",))),
    "rebalances": Shot(Location("rebalances")),
    "dead-letters": Shot(Location("dlq")),
    "errors": Shot(Location("errors", ("payments.dlq",))),
    "letters": Shot(Location("letters", ("payments.dlq",))),
    "help": Shot(Location("groups"), ("question_mark",)),
}
PREPARED = {
    "delayed": Shot(Location("delayed")),
    "schedule": Shot(Location("schedule", ("reminders",))),
    "priorities": Shot(Location("topic", ("parcels",))),
    "transactions": Shot(Location("transactions")),
}
"""Those that need what the traffic of the demo does not bring. They come last, so that the others do not show it."""


def prepare(server: str) -> None:
    """More messages that wait, and several priorities."""
    chance = random.Random(17)
    with Client(server) as client:
        client.create_topic("parcels", 3)
        for number in range(600):
            customer, priority = f"customer-{number % 40:03d}", chance.choice(PRIORITIES)
            wait = 2 * LOOK_SECONDS + chance.choice(WAITS) * chance.random()
            value = json.dumps({"customer": customer, "text": "your basket waits", "number": number})
            topic = "parcels" if number % 6 == 0 else "reminders"
            client.publish(topic, value, customer, {"source": "web"}, priority=priority, delay=wait)
        _send_parcels(client, chance)
        with client.consumer("loading-dock", ["parcels"], until_idle="300ms") as consumer:
            for message in consumer:
                message.ack()
        _send_parcels(client, chance)


def _send_parcels(client: Client, chance: random.Random) -> None:
    with client.producer() as producer:
        for number in range(900):
            producer.send(
                "parcels", json.dumps({"parcel": number}), f"parcel-{number}", priority=chance.choice(PRIORITIES)
            )


def transact(server: str) -> None:
    """Transactions that have ended, two that hang, and some that have just begun."""
    with Client(server) as client:
        for number in range(60):
            whose = _begun(client, f"billing-{number % 4 + 1}", 60, {"page-views": 3})
            client.call(
                transaction_requests.commit(whose)
                if number % 20
                else transaction_requests.abort(whose, "the card was refused")
            )
        _begun(client, "checkout-eu-3", 60, {"orders": 12, "parcels": 2})
        _begun(client, "nightly-export", 600, {"reminders": 40})
        time.sleep(TRANSACTION_HUNG_SECONDS)
        _begun(client, "checkout-eu-1", 60, {"orders": 3, "payments": 1})
        _begun(client, "billing-2", 60, {"payments": 2})
        _begun(client, "stock-7", 15, {"parcels": 1})


def _begun(client: Client, name: str, timeout: float, counts: dict[str, int]) -> TransactionIdentity:
    whose = TransactionIdentity(name, *client.call(transaction_requests.init(name, timeout)))
    client.call(transaction_requests.begin(whose))
    for topic, count in counts.items():
        for number in range(count):
            message = {"topic": topic, "value": f"{name} {number}", "partition": number % 3}
            client.call(json_request("POST", "/transactions/publish", dict[str, Any], {**whose.facts(), **message}))
    return whose


async def draw(name: str, shot: Shot, server: str) -> None:
    app = Dashboard(connect(server, 5.0), theme=shot.theme, every=0.5, start=shot.place)
    async with app.run_test(size=shot.size) as pilot:
        await asyncio.sleep(LOOK_SECONDS)
        await pilot.press(*shot.keys)
        await asyncio.sleep(WINDOW_SECONDS)
        await settle(pilot)
        drawn = app.export_screenshot(title="GoQueue", simplify=True)
    (IMAGES / f"dashboard-{name}.svg").write_text(without_fonts(drawn), encoding="utf-8")


def main(names: list[str]) -> None:
    seconds = float(names.pop()) if names and names[-1].isdecimal() else TRAFFIC_SECONDS
    command = [sys.executable, "-m", "goqueue", "demo", "--port", "0", "--rate", "300"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        try:
            server = next(line for line in demo.stderr if line.startswith("GoQueue is at")).split()[3].rstrip(",")
            time.sleep(seconds)
            for name in [name for name in SHOTS if not names or name in names]:
                asyncio.run(draw(name, SHOTS[name], server))
            prepare(server)
            for name in [name for name in PREPARED if not names or name in names]:
                if name == "transactions":
                    transact(server)
                asyncio.run(draw(name, PREPARED[name], server))
        finally:
            demo.terminate()
            demo.communicate()


if __name__ == "__main__":
    main(sys.argv[1:])
