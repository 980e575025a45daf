"""Makes the pictures of the dashboard: its screens, over a demo that really runs. `make pictures` calls it.

.venv/bin/python docs/screens.py            all of them, after two minutes of traffic
.venv/bin/python docs/screens.py groups 20  one of them, after twenty seconds

Each describes itself in its `<desc>`: the screen, its size and outline. `tests/tui/test_pictures.py` compares that with
the dashboard as it is.
"""

import asyncio
import re
import subprocess
import sys
import time
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from goqueue.client import Client, transaction_requests
from goqueue.client.api_request import json_request
from goqueue.client.transaction_requests import TransactionIdentity
from goqueue.limits import DOCTOR_WARMUP_SECONDS, TRANSACTION_HUNG_SECONDS
from goqueue_admin.dashboard.app import Dashboard
from goqueue_admin.dashboard.broker.service import connect
from goqueue_admin.dashboard.screens.routes import Location
from tests.tui.pilots import text, until
from tests.tui.screenshots import outline, settle, without_fonts

IMAGES = Path(__file__).parent / "images"
LOOK_SECONDS = 4.0
RATE_TOLERANCE = 0.1
"""Between a mean of five seconds and the last second."""


class Shot(NamedTuple):
    """One picture: the screen, and its columns and lines. Those of 32 lines and more have the bar of all screens."""

    place: Location
    size: tuple[int, int]


SHOTS = {
    "overview": Shot(Location("overview"), (120, 34)),
    "groups": Shot(Location("groups"), (120, 13)),
    "group": Shot(Location("group", ("statistics",)), (120, 32)),
    "errors": Shot(Location("errors", ("payments.dlq",)), (120, 9)),
    "schedule": Shot(Location("schedule", ("reminders",)), (120, 32)),
    "trace": Shot(Location("trace", ("payments.dlq/0@0",)), (120, 24)),
    "backups": Shot(Location("backups"), (120, 14)),
    "priorities": Shot(Location("topic", ("tickets",)), (120, 14)),
    "transactions": Shot(Location("transactions"), (120, 14)),
}
"""Transactions come last: those that hang hold back what the other pictures show."""


def transact(server: str) -> None:
    """Begin two transactions that hang, and some that have just begun."""
    with Client(server) as client:
        _begun(client, "checkout-eu-3", 60, {"orders": 12})
        _begun(client, "nightly-export", 600, {"reminders": 40})
        time.sleep(TRANSACTION_HUNG_SECONDS)
        _begun(client, "checkout-eu-1", 60, {"tickets": 3})
        _begun(client, "billing-2", 60, {"payments": 2})
        _begun(client, "stock-7", 15, {"page-views": 1})


def _begun(client: Client, name: str, timeout: float, counts: dict[str, int]) -> None:
    whose = TransactionIdentity(name, *client.call(transaction_requests.init(name, timeout)))
    client.call(transaction_requests.begin(whose))
    for topic, count in counts.items():
        for number in range(count):
            message = {"topic": topic, "value": f"{name} {number}", "partition": number % 2}
            client.call(json_request("POST", "/transactions/publish", dict[str, Any], {**whose.facts(), **message}))


def agrees(shown: str) -> bool:
    """Return whether numbers agree that the broker was asked for at different moments."""
    waiting = re.findall(r"([\d,]+) messages wait", shown)
    rates = [float(rate) for rate in re.findall(r"\b(?:in|out) +(\d+)/s", shown)]  # of the header, then of a plot
    is_open = re.search(r"(\d+) open ", shown)
    return (
        all(shown.count(count) > 1 for count in waiting)
        and all(abs(plot / header - 1) <= RATE_TOLERANCE for header, plot in zip(rates[:2], rates[2:], strict=False))
        and (is_open is None or int(is_open[1]) == shown.count(" ongoing "))
    )


async def draw(name: str, shot: Shot, server: str) -> None:
    app = Dashboard(connect(server, 5.0), every=0.5, start=shot.place)
    async with app.run_test(size=shot.size) as pilot:
        await asyncio.sleep(LOOK_SECONDS)
        await until(pilot, lambda: agrees(text(app)), f"numbers on the screen {name} never agreed")
        await settle(pilot)
        drawn = app.export_screenshot(title="GoQueue", simplify=True)
        width, height = shot.size
        screen = f"{' '.join([shot.place.page, *shot.place.about])} {width}x{height}"
        described = escape("\n".join([screen, *outline(app)]), quote=False)
    picture = without_fonts(drawn).replace(">", f">\n<desc>\n{described}\n</desc>", 1)
    (IMAGES / f"dashboard-{name}.svg").write_text(picture, encoding="utf-8")


def main(names: list[str]) -> None:
    seconds = float(names.pop()) if names and names[-1].isdecimal() else DOCTOR_WARMUP_SECONDS
    command = [sys.executable, "-m", "goqueue", "demo", "--port", "0", "--rate", "300"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        try:
            server = next(line for line in demo.stderr if line.startswith("GoQueue is at")).split()[3].rstrip(",")
            time.sleep(seconds)
            for name in [name for name in SHOTS if not names or name in names]:
                if name == "transactions":
                    transact(server)
                asyncio.run(draw(name, SHOTS[name], server))
        finally:
            demo.terminate()
            demo.communicate()


if __name__ == "__main__":
    main(sys.argv[1:])
