"""Somebody at the keys, and a real broker."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.app import Dashboard
from goqueue_admin.dashboard.pages import HOME, Place
from goqueue_admin.dashboard.screens.window import Window
from goqueue_admin.dashboard.service import connect
from goqueue_admin.dashboard.widgets.tail import Tail
from tests.brokers import create, publish
from tests.tui.pilots import news, page_name, table, text, until

Steps = Callable[["Pilot[Any]", Dashboard], Awaitable[None]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker for those that do not disturb each other."""
    with LocalBroker(str(tmp_path_factory.mktemp("flows") / "data")) as broker:
        create(broker.url, "orders", 3)
        create(broker.url, "payments", 1)
        for number in range(40):
            value = json.dumps({"id": number, "total": number})
            publish(broker.url, "orders", value, key=f"customer-{number % 4}", headers={"source": "shop"})
        publish(broker.url, "payments", "paid \x1b[31mred")
        yield broker.url


def play(url: str, steps: Steps, *, start: Place = HOME, size: tuple[int, int] = (120, 40), **options: Any) -> None:
    async def run() -> None:
        app = Dashboard(connect(url, 5), start=start, every=0.1, **options)
        async with app.run_test(size=size) as pilot:
            await steps(pilot, app)

    asyncio.run(run())


def test_from_the_overview_to_a_message_and_back(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: "2 topics" in text(app) and "● ok" in text(app))
        await pilot.press("f3")
        await until(pilot, lambda: table(app).current_key == "orders")
        await pilot.press("enter")
        await until(pilot, lambda: page_name(app) == "topic" and len(table(app).records) == 3)
        await pilot.press("m")
        await until(pilot, lambda: len(app.screen.query_one(Tail).ring) == 40)
        await pilot.press("up", "enter")
        await until(pilot, lambda: isinstance(app.screen, Window) and "header source" in text(app))
        await pilot.press("escape", "escape", "escape", "escape")
        await until(pilot, lambda: page_name(app) == "overview")
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: page_name(app) == "topics")
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: page_name(app) == "overview")

    play(url, steps)


def test_a_place_is_typed_and_completed(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await pilot.press("f3")
        await until(pilot, lambda: table(app).current_key == "orders")
        await pilot.press("colon", *"topic", "space", "p")
        await until(pilot, lambda: "topic payments" in text(app))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: page_name(app) == "topic" and len(table(app).records) == 1)
        await pilot.press("colon", *"nowhere", "enter")
        await until(pilot, lambda: "there is no screen 'nowhere'" in news(app))

    play(url, steps)


def test_what_is_new_appears_with_an_arrow_and_the_cursor_stays_on_its_line(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "orders", 1)
        create(broker.url, "payments", 1)
        publish(broker.url, "payments", "first")

        async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
            await until(pilot, lambda: table(app).current_key == "orders")
            await pilot.press("down")
            assert table(app).current_key == "payments"
            await asyncio.to_thread(create, broker.url, "invoices", 1)
            await until(pilot, lambda: "invoices" in text(app))
            assert table(app).current_key == "payments"
            await pilot.press("p")
            await until(pilot, lambda: "paused" in news(app))
            await asyncio.to_thread(publish, broker.url, "payments", "second")
            await pilot.press("r")
            await until(pilot, lambda: "2 ↑" in text(app))

        play(broker.url, steps, start=Place("topics"))


def test_lines_are_filtered_sorted_marked_and_copied(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: table(app).current_key == "orders")
        await pilot.press("slash", "exclamation_mark", *"order", "enter")
        await until(pilot, lambda: table(app).summary.startswith("1 of 2 · /!order"))
        await pilot.press("slash", *["backspace"] * 6, "enter")
        await until(pilot, lambda: table(app).summary.startswith("2 ·"))
        await pilot.press("S")
        await until(pilot, lambda: table(app).sorting.falling)
        await pilot.press("home", "space", "space")
        await until(pilot, lambda: "2 marked" in table(app).summary)
        await pilot.press("c")
        await until(pilot, lambda: app.clipboard == "orders\npayments")
        assert news(app) == "copied by the terminal (OSC 52): orders and 1 more"
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == f"goqueue-cli topic describe orders payments --server {url}")

    play(url, steps, start=Place("topics"))


def test_messages_are_filtered_by_the_broker(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: len(app.screen.query_one(Tail).ring) == 40)
        await pilot.press("slash", *"json.total", "greater_than_sign", *"37", "enter")
        await until(pilot, lambda: len(app.screen.query_one(Tail).ring) == 2)
        assert '"total": 38' in text(app)
        await until(pilot, lambda: "2 of 40 fit" in text(app))
        await pilot.press("y")
        await until(pilot, lambda: "--filter 'json.total>37' --follow" in app.clipboard)
        await pilot.press("slash", *["backspace"] * 20, *"priority", "greater_than_sign", "x", "enter")
        await until(pilot, lambda: news(app) != "" and "copied" not in news(app))

    play(url, steps, start=Place("messages", ("orders",)))


def test_messages_of_one_partition_from_a_time_on(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        tail = app.screen.query_one(Tail)
        await until(pilot, lambda: len(tail.ring) == 40)
        await pilot.press("n")
        await until(pilot, lambda: 0 < len(tail.ring) < 40 and "partition 0" in text(app))
        await pilot.press("t", *"nonsense", "enter")
        await until(pilot, lambda: "is not a time" in news(app))
        await pilot.press("t", "minus", *"1h", "enter")
        await until(pilot, lambda: len(tail.ring) > 0 and "from 2" in text(app) and not tail.follows)
        assert tail.ring[tail.ring.first].offset == 0
        await pilot.press("l")
        await until(pilot, lambda: tail.follows and "live" in text(app))

    play(url, steps, start=Place("messages", ("orders",)))


def test_new_messages_arrive_while_somebody_looks_and_wait_while_they_are_held(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "orders", 1)

        async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
            await until(pilot, lambda: "no message yet" in text(app))
            await asyncio.to_thread(publish, broker.url, "orders", "first")
            await until(pilot, lambda: "first" in text(app))
            await pilot.press("space")
            await until(pilot, lambda: "held" in text(app))
            await asyncio.to_thread(publish, broker.url, "orders", "second")
            await pilot.press("space")
            await until(pilot, lambda: "second" in text(app))

        play(broker.url, steps, start=Place("messages", ("orders",)))


def test_a_payload_cannot_tell_the_terminal_what_to_do(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: "paid \\x1b[31mred" in text(app))
        await pilot.press("up", "enter")
        await until(pilot, lambda: isinstance(app.screen, Window) and "paid \\x1b[31mred" in text(app))

    play(url, steps, start=Place("messages", ("payments",)))


def test_a_topic_that_is_not_there_is_told(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: "there is no topic" in text(app).lower() or "not" in news(app))

    play(url, steps, start=Place("topic", ("nothing",)))


def test_a_broker_that_goes_away_is_missed_and_comes_back_by_itself(tmp_path: Path) -> None:
    broker = LocalBroker(str(tmp_path / "data")).start()
    port = broker.url.rpartition(":")[2]
    create(broker.url, "orders", 1)
    again = LocalBroker(str(tmp_path / "data"), server__port=port)

    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: "orders" in text(app) and "● ok" in text(app))
        await asyncio.to_thread(broker.stop)
        await until(pilot, lambda: "broker is away since" in text(app))
        assert "orders" in text(app)
        assert app.screen.has_class("-away")
        await asyncio.to_thread(again.start)
        await until(pilot, lambda: "● ok" in text(app) and "away" not in text(app))

    try:
        play(broker.url, steps, start=Place("topics"))
    finally:
        broker.stop()
        again.stop()


def test_the_first_picture_needs_no_broker() -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        assert "overview" in text(app)
        await until(pilot, lambda: "broker is away since" in text(app))
        await pilot.press("f3")
        await until(pilot, lambda: page_name(app) == "topics" and "does not answer" in text(app))

    play("http://127.0.0.1:9", steps)


def test_the_palette_of_a_dashboard_that_only_reads_changes_nothing(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await pilot.pause()
        offered = {one.title for one in app.get_system_commands(app.screen)}
        assert {"goqueue-cli topic list", "goqueue-admin doctor", "Go to topics"} <= offered
        assert not {one for one in offered if "delete" in one or "publish" in one}

    play(url, steps, read_only=True)


def test_the_palette_says_what_is_dangerous(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await pilot.pause()
        offered = {one.title: one.help for one in app.get_system_commands(app.screen)}
        assert offered["goqueue-cli topic delete"].endswith("(danger)")

    play(url, steps)


def test_the_mouse_sorts_chooses_and_climbs(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: table(app).current_key == "orders")
        await pilot.click("#table", offset=(4, 0))
        await until(pilot, lambda: table(app).current_key == "orders" and table(app).sorting.falling)
        await pilot.click("#table", offset=(4, 1))
        await until(pilot, lambda: table(app).current_key == "payments")
        await pilot.click("#table", offset=(4, 1))
        await until(pilot, lambda: page_name(app) == "topic")
        await pilot.click("Crumbs", offset=(3, 0))
        await until(pilot, lambda: page_name(app) == "overview")

    play(url, steps, start=Place("topics"))
