"""The dashboard with a real broker."""

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.screens.windows import DetailWindow, HelpDialog
from goqueue_admin.dashboard.widgets.message_tail import MessageTail
from tests.api.members import Member
from tests.brokers import ask, create, publish
from tests.client.relay import relay
from tests.tui.pilots import news, page_name, press, see, see_news, see_page, shown, table, text, until


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


async def test_from_the_overview_to_a_message_and_back(url: str) -> None:
    async with shown(url) as pilot:
        await until(pilot, lambda: "checks at" in text(pilot.app))
        await press(pilot, "f3")
        await until(pilot, lambda: table(pilot.app).current_key == "orders")
        await press(pilot, "enter")
        await until(pilot, lambda: page_name(pilot.app) == "topic" and len(table(pilot.app).records) == 3)
        await press(pilot, "m")
        await until(pilot, lambda: len(pilot.app.screen.query_one(MessageTail).ring) == 40)
        await press(pilot, "up", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, DetailWindow) and "header source" in text(pilot.app))
        await press(pilot, "escape", "escape", "escape", "escape")
        await see_page(pilot, "overview")
        await press(pilot, "left_square_bracket")
        await see_page(pilot, "topics")
        await press(pilot, "right_square_bracket")
        await see_page(pilot, "overview")


async def test_plots_show_another_time_on_all_screens(url: str) -> None:
    Member(url, "billing").join()
    async with shown(url) as pilot:
        await until(pilot, lambda: "checks at" in text(pilot.app))
        await press(pilot, "t")
        await see_news(pilot, "plots show the last hour")
        await see(pilot, "-30m", "-1h")
        await press(pilot, "t", "t")
        await see(pilot, "-12h", "-24h")
        await press(pilot, "colon", *"group", "space", *"billing", "enter")
        await see_page(pilot, "group")
        await see(pilot, "-24h")
        await press(pilot, "t")
        await see_news(pilot, "plots show the last 5 minutes")
        await until(pilot, lambda: "-24h" not in text(pilot.app))


async def test_a_place_is_typed_and_completed(url: str) -> None:
    async with shown(url) as pilot:
        await press(pilot, "f3")
        await until(pilot, lambda: table(pilot.app).current_key == "orders")
        await press(pilot, "colon", *"topic", "space", "p")
        await see(pilot, "topic payments")
        await press(pilot, "tab", "enter")
        await until(pilot, lambda: page_name(pilot.app) == "topic" and len(table(pilot.app).records) == 1)
        await press(pilot, "colon", *"nowhere", "enter")
        await see_news(pilot, "there is no screen 'nowhere'")


async def test_what_is_typed_at_once_is_done_one_after_the_other(url: str) -> None:
    async with shown(url) as pilot:
        await see_page(pilot, "overview")
        await press(pilot, "colon", *"topic", "space", *"orders", "enter", "m", *["escape"] * 9, "f3", "slash", *"paq")
        assert page_name(pilot.app) == "topics"
        assert table(pilot.app).chosen.text == "paq"
        await until(pilot, lambda: len(table(pilot.app).records) > 0)  # a tab completes known names
        await press(pilot, "backspace", "y", "escape", "colon", *"messages", "space", *"pay", "tab", "enter")
        assert pilot.app.page is not None
        assert pilot.app.page.place == Location("messages", ("payments",))


async def test_what_is_new_appears_with_an_arrow_and_the_cursor_stays_on_its_line(broker: LocalBroker) -> None:
    create(broker.url, "orders", 1)
    create(broker.url, "payments", 1)
    publish(broker.url, "payments", "first")
    async with shown(broker.url, Location("topics")) as pilot:
        await until(pilot, lambda: table(pilot.app).current_key == "orders")
        await press(pilot, "down")
        assert table(pilot.app).current_key == "payments"
        await asyncio.to_thread(create, broker.url, "invoices", 1)
        await see(pilot, "invoices")
        assert table(pilot.app).current_key == "payments"
        await press(pilot, "p")
        await see_news(pilot, "paused")
        await asyncio.to_thread(publish, broker.url, "payments", "second")
        await press(pilot, "r")
        await see(pilot, "2 ↑")


async def test_lines_are_filtered_sorted_marked_and_copied(url: str) -> None:
    async with shown(url, Location("topics")) as pilot:
        await until(pilot, lambda: table(pilot.app).current_key == "orders")
        await press(pilot, "slash", "exclamation_mark", *"order", "enter")
        await until(pilot, lambda: table(pilot.app).summary.startswith("1 of 2 · /!order"))
        await press(pilot, "slash", *["backspace"] * 6, "enter")
        await until(pilot, lambda: table(pilot.app).summary.startswith("2 ·"))
        await press(pilot, "S")
        await until(pilot, lambda: table(pilot.app).sorting.falling)
        await press(pilot, "home", "space", "space")
        await until(pilot, lambda: "2 marked" in table(pilot.app).summary)
        await press(pilot, "c")
        await until(pilot, lambda: pilot.app.clipboard == "orders\npayments")
        assert news(pilot.app) == "copied by the terminal (OSC 52): orders and 1 more"
        await press(pilot, "y")
        await until(pilot, lambda: pilot.app.clipboard == f"goqueue-cli topic describe orders payments --server {url}")


async def test_messages_are_filtered_by_the_broker(url: str) -> None:
    async with shown(url, Location("messages", ("orders",))) as pilot:
        await until(pilot, lambda: len(pilot.app.screen.query_one(MessageTail).ring) == 40)
        await press(pilot, "slash", *"json.total", "greater_than_sign", *"37", "enter")
        await until(pilot, lambda: len(pilot.app.screen.query_one(MessageTail).ring) == 2)
        assert '"total": 38' in text(pilot.app)
        await see(pilot, "2 of 40 fit")
        await press(pilot, "y")
        await until(pilot, lambda: "--where 'json.total>37' --follow" in pilot.app.clipboard)
        await press(pilot, "slash", *["backspace"] * 20, *"priority", "greater_than_sign", "x", "enter")
        await until(pilot, lambda: news(pilot.app) != "" and "copied" not in news(pilot.app))


async def test_messages_of_one_partition_from_a_time_on(url: str) -> None:
    async with shown(url, Location("messages", ("orders",))) as pilot:
        tail = pilot.app.screen.query_one(MessageTail)
        await until(pilot, lambda: len(tail.ring) == 40)
        await press(pilot, "n")
        await until(pilot, lambda: 0 < len(tail.ring) < 40 and "partition 0" in text(pilot.app))
        await press(pilot, "t", *"nonsense", "enter")
        await see_news(pilot, "is not a time")
        await press(pilot, "t", "minus", *"1h", "enter")
        await until(pilot, lambda: len(tail.ring) > 0 and "from 2" in text(pilot.app) and not tail.follows)
        assert tail.ring[tail.ring.first].offset == 0
        await press(pilot, "l")
        await until(pilot, lambda: tail.follows and "live" in text(pilot.app))


async def test_new_messages_appear_and_wait_while_paused(
    shared_broker: LocalBroker, new_name: Callable[[str], str]
) -> None:
    url, topic = shared_broker.url, new_name("orders")
    create(url, topic, 1)
    async with shown(url, Location("messages", (topic,))) as pilot:
        await see(pilot, "no message yet")
        await asyncio.to_thread(publish, url, topic, "first")
        await see(pilot, "first")
        await press(pilot, "space")
        await see(pilot, "held")
        await asyncio.to_thread(publish, url, topic, "second")
        await press(pilot, "space")
        await see(pilot, "second")


async def test_a_payload_cannot_tell_the_terminal_what_to_do(url: str) -> None:
    async with shown(url, Location("messages", ("payments",))) as pilot:
        await see(pilot, "paid \\x1b[31mred")
        await press(pilot, "up", "enter")
        await until(
            pilot, lambda: isinstance(pilot.app.screen, DetailWindow) and "paid \\x1b[31mred" in text(pilot.app)
        )


async def test_a_topic_that_is_not_there_is_told(url: str) -> None:
    async with shown(url, Location("topic", ("nothing",))) as pilot:
        await until(pilot, lambda: "there is no topic" in text(pilot.app).lower() or "not" in news(pilot.app))


async def test_deleted_topic_disappears(shared_broker: LocalBroker, new_name: Callable[[str], str]) -> None:
    url, topic = shared_broker.url, new_name("orders")
    create(url, topic, 2)
    async with shown(url, Location("topic", (topic,))) as pilot:
        await until(pilot, lambda: len(table(pilot.app).records) == 2)
        await asyncio.to_thread(ask, url, "DELETE", f"/topics/{topic}")
        await until(pilot, lambda: news(pilot.app) == f"there is no topic '{topic}'" and not table(pilot.app).records)
        await asyncio.to_thread(create, url, topic, 3)
        await until(pilot, lambda: news(pilot.app) == "" and len(table(pilot.app).records) == 3)


async def test_messages_of_a_topic_that_is_deleted_and_comes_back(
    shared_broker: LocalBroker, new_name: Callable[[str], str]
) -> None:
    url, topic = shared_broker.url, new_name("orders")
    create(url, topic, 1)
    publish(url, topic, "first")
    async with shown(url, Location("messages", (topic,))) as pilot:
        await see(pilot, "first")
        await asyncio.to_thread(ask, url, "DELETE", f"/topics/{topic}")
        await until(pilot, lambda: "stopped" in text(pilot.app) and "l tries again" in news(pilot.app))
        await asyncio.to_thread(create, url, topic, 1)
        await asyncio.to_thread(publish, url, topic, "second")
        await press(pilot, "l")
        await until(pilot, lambda: "second" in text(pilot.app) and news(pilot.app) == "")


async def test_a_message_that_went_while_it_was_on_the_screen_is_told(url: str) -> None:
    async with shown(url, Location("messages", ("orders",))) as pilot:
        tail = pilot.app.screen.query_one(MessageTail)
        await until(pilot, lambda: len(tail.ring) == 40)
        tail.add([tail.ring[0]._replace(offset=10_000)])
        await press(pilot, "end", "up", "down", "enter")
        await until(pilot, lambda: "orders/" in news(pilot.app) and "is not there any more" in news(pilot.app))


async def test_a_click_on_a_key_at_the_foot_presses_it(url: str) -> None:
    async with shown(url, Location("topics")) as pilot:
        await until(pilot, lambda: table(pilot.app).current_key == "orders")
        line = text(pilot.app).splitlines()[-1]
        await pilot.click("KeyBar", offset=(line.index("? Help"), 0))
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpDialog))


async def test_narrow_key_bar_takes_a_second_line_instead_of_hiding_keys(url: str) -> None:
    async with shown(url, Location("groups"), size=(60, 20)) as pilot:
        await see(pilot, "GROUP", "? Help")
        first, second = text(pilot.app).splitlines()[-2:]
        assert " ".join(first.split()) == "⏎ Open / Filter s Sort ␣ Mark o Reset offsets"
        assert " ".join(second.split()) == "x Delete : Go ? Help esc Up q Quit"
        await pilot.click("KeyBar", offset=(second.index("? Help"), 1))
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpDialog))


async def test_the_first_picture_needs_no_broker() -> None:
    async with shown("http://127.0.0.1:9") as pilot:
        assert "overview" in text(pilot.app)
        await see(pilot, "broker is away since")
        await press(pilot, "f3")
        await until(pilot, lambda: page_name(pilot.app) == "topics" and "does not answer" in text(pilot.app))


async def test_palette_marks_dangerous_commands_and_has_none_in_read_only_mode(url: str) -> None:
    async with shown(url, read_only=True) as pilot:
        await pilot.pause()
        offered = {one.title for one in pilot.app.get_system_commands(pilot.app.screen)}
        assert {"goqueue-cli topic list", "goqueue-admin doctor", "Go to topics"} <= offered
        assert not {one for one in offered if "delete" in one or "publish" in one}
        pilot.app.read_only = False
        helps = {one.title: one.help for one in pilot.app.get_system_commands(pilot.app.screen)}
        assert helps["goqueue-cli topic delete"].endswith("(danger)")


async def test_the_mouse_sorts_chooses_and_climbs(url: str) -> None:
    async with shown(url, Location("topics")) as pilot:
        await until(pilot, lambda: table(pilot.app).current_key == "orders")
        await pilot.click("#table", offset=(4, 0))
        await until(pilot, lambda: table(pilot.app).current_key == "orders" and table(pilot.app).sorting.falling)
        await pilot.click("#table", offset=(4, 1))
        await until(pilot, lambda: table(pilot.app).current_key == "payments")
        await pilot.click("#table", offset=(4, 1))
        await see_page(pilot, "topic")
        await see(pilot, "topics › payments")
        await pilot.click("Breadcrumbs", offset=(3, 0))
        await see_page(pilot, "overview")


async def test_dashboard_goes_on_at_the_next_address_when_its_node_is_lost(url: str) -> None:
    """Two addresses of one broker, the first of which goes away."""
    with relay(url) as first:
        async with shown(f"{first.peer.url},{url}") as pilot:
            await until(pilot, lambda: "checks at" in text(pilot.app))
            assert first.peer.asked
            await asyncio.to_thread(first.peer.close)
            create(url, "refunds")
            await until(pilot, lambda: "3 topics" in text(pilot.app))
            assert "away" not in text(pilot.app)
            ask(url, "DELETE", "/topics/refunds")
