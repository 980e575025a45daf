"""The pictures of the dashboard in the documentation show the dashboard as it is."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from html import unescape
from pathlib import Path

import pytest

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from tests.tui.pilots import shown, until
from tests.tui.screenshots import described_texts, outline, svg_lines

ROOT = Path(__file__).resolve().parent.parent.parent
PICTURES = sorted((ROOT / "docs/images").glob("dashboard-*.svg"))
SECONDS = 10.0
"""For the first answers of the broker."""
STALE = "docs/images/{} does not show the dashboard as it is: run `make pictures`"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with everything of which there are pictures, as `goqueue demo` has it."""
    with LocalBroker(str(tmp_path_factory.mktemp("shop") / "data")) as broker, Client(broker.url) as client:
        for topic in ("page-views", "payments", "reminders", "tickets"):
            client.create_topic(topic)
            client.publish(topic, "one", delay="1h" if topic == "reminders" else None)
        client.publish("tickets", "urgent", priority="critical")
        with client.consumer("billing", ["payments"]) as consumer:
            next(iter(consumer)).reject("cents is null")
        with client.consumer("statistics", ["page-views"]) as consumer:
            next(iter(consumer)).ack()
        yield broker.url


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
async def test_picture_has_the_outline_of_its_screen(shop: str, picture: Path) -> None:
    drawn = picture.read_text(encoding="utf-8")
    described = re.search(r"<desc>\n(\S+)(.*) (\d+)x(\d+)\n(.*?)\n</desc>", drawn, re.DOTALL)
    assert described is not None, STALE.format(picture.name)
    page, about, width, height, promised = described.groups()
    place, promise = Location(page, tuple(about.split())), unescape(promised).splitlines()
    text = "\n".join(svg_lines(drawn))
    assert [one for one in described_texts(promise) if one not in text] == [], STALE.format(picture.name)
    async with shown(shop, place, size=(int(width), int(height))) as pilot:
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                await until(pilot, lambda: outline(pilot.app) == promise)
        assert outline(pilot.app) == promise, STALE.format(picture.name)


def test_every_picture_is_on_a_page() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {name for page in pages for name in re.findall(r"!\[[^]]+\]\((?:docs/)?images/([^)]+)\)", page.read_text())}
    assert named == {picture.name for picture in (ROOT / "docs/images").iterdir()}
