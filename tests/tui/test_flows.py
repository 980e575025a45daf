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
from goqueue_admin.dashboard.screens.help import HelpScreen
from goqueue_admin.dashboard.screens.window import Window
from goqueue_admin.dashboard.service import connect
from goqueue_admin.dashboard.widgets.tail import Tail
from tests.brokers import ask, create, publish
from tests.tui.pilots import news, page_name, press, table, text, until

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
        await until(pilot, lambda: "2 topics" in text(app) and "checks at" in text(app))
        await press(pilot, "f3")
        await until(pilot, lambda: table(app).current_key == "orders")
        await press(pilot, "enter")
        await until(pilot, lambda: page_name(app) == "topic" and len(table(app).records) == 3)
        await press(pilot, "m")
        await until(pilot, lambda: len(app.screen.query_one(Tail).ring) == 40)
        await press(pilot, "up", "enter")
        await until(pilot, lambda: isinstance(app.screen, Window) and "header source" in text(app))
        await press(pilot, "escape", "escape", "escape", "escape")
        await until(pilot, lambda: page_name(app) == "overview")
        await press(pilot, "left_square_bracket")
        await until(pilot, lambda: page_name(app) == "topics")
        await press(pilot, "right_square_bracket")
        await until(pilot, lambda: page_name(app) == "overview")

    play(url, steps)


def test_a_place_is_typed_and_completed(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await press(pilot, "f3")
        await until(pilot, lambda: table(app).current_key == "orders")
        await press(pilot, "colon", *"topic", "space", "p")
        await until(pilot, lambda: "topic payments" in text(app))
        await press(pilot, "tab", "enter")
        await until(pilot, lambda: page_name(app) == "topic" and len(table(app).records) == 1)
        await press(pilot, "colon", *"nowhere", "enter")
        await until(pilot, lambda: "there is no screen 'nowhere'" in news(app))

    play(url, steps)


def test_what_is_typed_at_once_is_done_one_after_the_other(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: page_name(app) == "overview")
        await press(pilot, "colon", *"topic", "space", *"orders", "enter", "m", *["escape"] * 9, "f3", "slash", *"paq")
        assert page_name(app) == "topics"
        assert table(app).chosen.text == "paq"
        await press(pilot, "backspace", "y", "escape", "colon", *"messages", "space", *"pay", "tab", "enter")
        assert app.page is not None
        assert app.page.place == Place("messages", ("payments",))

    play(url, steps)


def test_what_is_new_appears_with_an_arrow_and_the_cursor_stays_on_its_line(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "orders", 1)
        create(broker.url, "payments", 1)
        publish(broker.url, "payments", "first")

        async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
            await until(pilot, lambda: table(app).current_key == "orders")
            await press(pilot, "down")
            assert table(app).current_key == "payments"
            await asyncio.to_thread(create, broker.url, "invoices", 1)
            await until(pilot, lambda: "invoices" in text(app))
            assert table(app).current_key == "payments"
            await press(pilot, "p")
            await until(pilot, lambda: "paused" in news(app))
            await asyncio.to_thread(publish, broker.url, "payments", "second")
            await press(pilot, "r")
            await until(pilot, lambda: "2 ↑" in text(app))

        play(broker.url, steps, start=Place("topics"))


def test_lines_are_filtered_sorted_marked_and_copied(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: table(app).current_key == "orders")
        await press(pilot, "slash", "exclamation_mark", *"order", "enter")
        await until(pilot, lambda: table(app).summary.startswith("1 of 2 · /!order"))
        await press(pilot, "slash", *["backspace"] * 6, "enter")
        await until(pilot, lambda: table(app).summary.startswith("2 ·"))
        await press(pilot, "S")
        await until(pilot, lambda: table(app).sorting.falling)
        await press(pilot, "home", "space", "space")
        await until(pilot, lambda: "2 marked" in table(app).summary)
        await press(pilot, "c")
        await until(pilot, lambda: app.clipboard == "orders\npayments")
        assert news(app) == "copied by the terminal (OSC 52): orders and 1 more"
        await press(pilot, "y")
        await until(pilot, lambda: app.clipboard == f"goqueue-cli topic describe orders payments --server {url}")

    play(url, steps, start=Place("topics"))


def test_messages_are_filtered_by_the_broker(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: len(app.screen.query_one(Tail).ring) == 40)
        await press(pilot, "slash", *"json.total", "greater_than_sign", *"37", "enter")
        await until(pilot, lambda: len(app.screen.query_one(Tail).ring) == 2)
        assert '"total": 38' in text(app)
        await until(pilot, lambda: "2 of 40 fit" in text(app))
        await press(pilot, "y")
        await until(pilot, lambda: "--filter 'json.total>37' --follow" in app.clipboard)
        await press(pilot, "slash", *["backspace"] * 20, *"priority", "greater_than_sign", "x", "enter")
        await until(pilot, lambda: news(app) != "" and "copied" not in news(app))

    play(url, steps, start=Place("messages", ("orders",)))


def test_messages_of_one_partition_from_a_time_on(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        tail = app.screen.query_one(Tail)
        await until(pilot, lambda: len(tail.ring) == 40)
        await press(pilot, "n")
        await until(pilot, lambda: 0 < len(tail.ring) < 40 and "partition 0" in text(app))
        await press(pilot, "t", *"nonsense", "enter")
        await until(pilot, lambda: "is not a time" in news(app))
        await press(pilot, "t", "minus", *"1h", "enter")
        await until(pilot, lambda: len(tail.ring) > 0 and "from 2" in text(app) and not tail.follows)
        assert tail.ring[tail.ring.first].offset == 0
        await press(pilot, "l")
        await until(pilot, lambda: tail.follows and "live" in text(app))

    play(url, steps, start=Place("messages", ("orders",)))


def test_new_messages_arrive_while_somebody_looks_and_wait_while_they_are_held(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "orders", 1)

        async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
            await until(pilot, lambda: "no message yet" in text(app))
            await asyncio.to_thread(publish, broker.url, "orders", "first")
            await until(pilot, lambda: "first" in text(app))
            await press(pilot, "space")
            await until(pilot, lambda: "held" in text(app))
            await asyncio.to_thread(publish, broker.url, "orders", "second")
            await press(pilot, "space")
            await until(pilot, lambda: "second" in text(app))

        play(broker.url, steps, start=Place("messages", ("orders",)))


def test_a_payload_cannot_tell_the_terminal_what_to_do(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: "paid \\x1b[31mred" in text(app))
        await press(pilot, "up", "enter")
        await until(pilot, lambda: isinstance(app.screen, Window) and "paid \\x1b[31mred" in text(app))

    play(url, steps, start=Place("messages", ("payments",)))


def test_a_topic_that_is_not_there_is_told(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: "there is no topic" in text(app).lower() or "not" in news(app))

    play(url, steps, start=Place("topic", ("nothing",)))


def test_what_is_deleted_while_somebody_looks_is_not_shown_any_more(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "orders", 2)

        async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
            await until(pilot, lambda: len(table(app).records) == 2)
            await asyncio.to_thread(ask, broker.url, "DELETE", "/topics/orders")
            await until(pilot, lambda: news(app) == "there is no topic 'orders'" and not table(app).records)
            await asyncio.to_thread(create, broker.url, "orders", 3)
            await until(pilot, lambda: news(app) == "" and len(table(app).records) == 3)

        play(broker.url, steps, start=Place("topic", ("orders",)))


def test_messages_of_a_topic_that_is_deleted_and_comes_back(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "orders", 1)
        publish(broker.url, "orders", "first")

        async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
            await until(pilot, lambda: "first" in text(app))
            await asyncio.to_thread(ask, broker.url, "DELETE", "/topics/orders")
            await until(pilot, lambda: "stopped" in text(app) and "l tries again" in news(app))
            await asyncio.to_thread(create, broker.url, "orders", 1)
            await asyncio.to_thread(publish, broker.url, "orders", "second")
            await press(pilot, "l")
            await until(pilot, lambda: "second" in text(app) and news(app) == "")

        play(broker.url, steps, start=Place("messages", ("orders",)))


def test_a_message_that_went_while_it_was_on_the_screen_is_told(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        tail = app.screen.query_one(Tail)
        await until(pilot, lambda: len(tail.ring) == 40)
        tail.add([tail.ring[0]._replace(offset=10_000)])
        await press(pilot, "end", "up", "down", "enter")
        await until(pilot, lambda: "orders/" in news(app) and "is not there any more" in news(app))

    play(url, steps, start=Place("messages", ("orders",)))


def test_a_click_on_a_key_at_the_foot_presses_it(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: table(app).current_key == "orders")
        line = text(app).splitlines()[-1]
        await pilot.click("Foot", offset=(line.index("? Help"), 0))
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))

    play(url, steps, start=Place("topics"))


def test_a_narrow_foot_keeps_what_only_this_screen_can_do(url: str) -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: "0 groups" in text(app) or "there are no groups" in text(app))
        foot = text(app).splitlines()[-1]
        assert " ".join(foot.split()) == "o Reset offsets x Delete : Go ? Help esc Up q Quit"

    play(url, steps, start=Place("groups"), size=(60, 20))


def test_a_broker_that_goes_away_is_missed_and_comes_back_by_itself(tmp_path: Path) -> None:
    broker = LocalBroker(str(tmp_path / "data")).start()
    port = broker.url.rpartition(":")[2]
    create(broker.url, "orders", 1)
    again = LocalBroker(str(tmp_path / "data"), server__port=port)

    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        await until(pilot, lambda: "orders" in text(app))
        await asyncio.to_thread(broker.stop)
        await until(pilot, lambda: "broker is away since" in text(app))
        assert "orders" in text(app)
        assert app.screen.has_class("-away")
        await asyncio.to_thread(again.start)
        await until(pilot, lambda: "away" not in text(app) and not app.screen.has_class("-away"))

    try:
        play(broker.url, steps, start=Place("topics"))
    finally:
        broker.stop()
        again.stop()


def test_the_first_picture_needs_no_broker() -> None:
    async def steps(pilot: "Pilot[Any]", app: Dashboard) -> None:
        assert "overview" in text(app)
        await until(pilot, lambda: "broker is away since" in text(app))
        await press(pilot, "f3")
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
