"""The screens of transactions at work with a real broker."""

import asyncio
import shlex

import pytest

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.screens.page import Page
from tests.brokers import ask, broker, create, publish, read
from tests.cli.programs import cli
from tests.cli.transactions import Producer
from tests.tui.fakes import dashboard
from tests.tui.pilots import news, page_name, press, table, text, until
from tests.tui.test_group_flows import see, shown
from tests.tui.transaction_fakes import TransactionClient, transaction

__all__ = ["broker"]

_LIST = Place("transactions")


@pytest.fixture
def url(broker: LocalBroker) -> str:
    create(broker.url, "orders", partitions=2)
    create(broker.url, "payments")
    publish(broker.url, "payments", *"abcde")
    return broker.url


@pytest.fixture
def till(url: str) -> Producer:
    """Three messages of its own, one of another behind them, and two that are acknowledged."""
    producer = Producer(url, "till-1")
    for partition in (0, 1, 1):
        producer.put("orders", partition)
    producer.ack("billing", "payments", 2)
    publish(url, "orders", "of another", partition=1)
    return producer


def test_an_open_transaction_is_found_looked_at_and_aborted(url: str, till: Producer) -> None:
    async def flow() -> None:
        async with shown(url, Place("overview")) as pilot:
            await press(pilot, "f8")
            await see(pilot, "1 open", "4 messages held back", "till-1", "orders/0-1", "billing")
            await press(pilot, "enter")
            await see(pilot, "2 acknowledged by billing", "1 of others behind them", "unless something is heard of it")
            await press(pilot, "x", *"till", "space", "4", "space", *"hangs", "enter")
            await see(pilot, "3 messages of its own gone: orders/0-1", "2 messages handed out again")
            assert read(url, "orders", 1) == []
            await press(pilot, "ctrl+y")
            told = await asyncio.to_thread(cli, url, *shlex.split(pilot.app.clipboard)[1:])
            assert "would be aborted" in told.out
            await press(pilot, "y")
            await see(pilot, f"{till.id} of till-1 is aborted, and its producer is told: till 4 hangs")
            await press(pilot, "escape")
            await see(pilot, "complete_abort", f"last      {till.id} was aborted", "Nothing is open.")
            await press(pilot, "x")
            await until(pilot, lambda: "there is nothing to abort" in news(pilot.app))  # type: ignore[arg-type]
            await press(pilot, "escape")
            await see(pilot, "No transaction is open.", "1 aborted")

    asyncio.run(flow())
    assert [message["value"] for message in read(url, "orders", 1)] == ["of another"]
    refused = till.try_to("publish", topic="orders", value="late")
    assert (refused.code, refused.json["details"]["reason"]) == ("transaction_aborted", "till 4 hangs")


def test_the_next_transaction_is_not_hit_by_what_was_meant_for_the_one_before(url: str, till: Producer) -> None:
    async def flow() -> None:
        async with shown(url, _LIST) as pilot:
            await see(pilot, "till-1")
            await press(pilot, "x", "enter")
            await see(pilot, f"abort {begun} of till-1 for good? (y)")
            await asyncio.to_thread(till.commit)
            await asyncio.to_thread(till.begin)
            await press(pilot, "y")
            await see(pilot, f"{begun} of till-1: transaction {begun} was committed before")
            await press(pilot, "escape", "p")
            await until(pilot, lambda: "paused" in news(pilot.app))  # type: ignore[arg-type]
            await asyncio.to_thread(till.commit)
            await asyncio.to_thread(till.begin)
            await press(pilot, "x", "enter")
            await see(pilot, "of till-1 is committed already", "there is nothing to abort")
            assert "(y)" not in text(pilot.app)

    begun = till.id
    asyncio.run(flow())
    assert ask(url, "GET", "/transactions/till-1").json["state"] == "ongoing"


def test_marked_ones_are_aborted_together_and_a_protected_context_wants_their_names(url: str) -> None:
    async def flow() -> None:
        async with shown(url, _LIST, protected=True) as pilot:
            await see(pilot, "till-1", "till-2", "till-3")
            await press(pilot, "space", "space", "x", "enter")
            await see(pilot, "abort 2 transactions for good? (type till-1 till-2)")
            await press(pilot, *"y", "enter")
            await see(pilot, "nothing is changed")
            await press(pilot, "backspace", *"till", "minus", "1", "space", *"till", "minus", "2", "enter")
            await see(pilot, "2 transactions aborted: an operator has ended it")
            await press(pilot, "escape")
            await until(pilot, lambda: tuple(table(pilot.app).seen_keys) == ("till-3",))  # type: ignore[arg-type]

    for name in ("till-1", "till-2", "till-3"):
        Producer(url, name).put("orders")
    asyncio.run(flow())


@pytest.mark.usefixtures("till")
def test_ids_of_which_nothing_is_open_are_shown_too(url: str) -> None:
    async def flow() -> None:
        async with shown(url, _LIST) as pilot:
            await see(pilot, "till-1")
            assert "done" not in text(pilot.app)
            await press(pilot, "v")
            await see(pilot, "○ committed", "all ids · 2")
            await press(pilot, "y")
            await until(pilot, lambda: "goqueue-cli transaction list --all" in news(pilot.app))  # type: ignore[arg-type]
            await press(pilot, "colon", *"transaction", "space", *"done", "enter")
            await see(pilot, "batch 17", "which begins when its producer wants")
            await press(pilot, "colon", *"transaction", "space", *"nobody", "enter")
            await see(pilot, "there is no transactional id 'nobody'")

    Producer(url, "done").commit("batch 17")
    asyncio.run(flow())


def test_what_it_touches_leads_to_partitions_and_groups_and_they_say_what_is_held_back(
    url: str, till: Producer
) -> None:
    async def flow() -> None:
        async with shown(url, Place("transaction", (till.whose["transactional_id"],))) as pilot:
            await see(pilot, "orders/1")
            await press(pilot, "enter")
            await until(pilot, lambda: page_name(pilot.app) == "messages")  # type: ignore[arg-type]
            await press(pilot, "escape")
            await see(pilot, "◐ 3 held back", "◐ 1 held back")
            await press(pilot, "left_square_bracket", "left_square_bracket")
            await see(pilot, "orders/1")
            await press(pilot, "end", "enter")
            await until(pilot, lambda: page_name(pilot.app) == "group")  # type: ignore[arg-type]

    asyncio.run(flow())


@pytest.mark.usefixtures("till")
def test_where_nothing_may_be_changed_there_is_no_key_for_it(url: str) -> None:
    async def flow(place: Place) -> None:
        async with shown(url, place, read_only=True) as pilot:
            await see(pilot, "till-1", "orders/")
            await press(pilot, "x")
            await pilot.pause()
            assert isinstance(pilot.app.screen, Page)
            await press(pilot, "question_mark")
            await see(pilot, "esc closes", "Everywhere")
            assert "Abort" not in text(pilot.app)

    asyncio.run(flow(_LIST))
    asyncio.run(flow(Place("transaction", ("till-1",))))


def test_of_very_many_the_oldest_are_shown_and_any_is_opened_by_its_name() -> None:
    async def flow() -> None:
        client = TransactionClient()
        client.open = [transaction(f"till-{number}", number) for number in range(10_000)]
        client.total = len(client.open)
        async with dashboard(client, start=_LIST).run_test(size=(160, 48)) as pilot:
            await see(pilot, "10,000 open", "till-0", "500 · first of 10,000; :transaction ID opens any")
            assert "transactions open None 500" in client.asked
            await press(pilot, "colon", *"transaction", "space", *"till", "minus", *"9999", "enter")
            await see(pilot, "transaction 9999-3")

    asyncio.run(flow())


def test_a_reason_that_is_too_long_has_no_plan() -> None:
    async def flow() -> None:
        client = TransactionClient()
        async with dashboard(client, start=_LIST).run_test(size=(160, 48)) as pilot:
            await see(pilot, "checkout-eu-7")
            await press(pilot, "x")
            await see(pilot, "Abort 7-3 of checkout-eu-7")
            pilot.app.screen.query_one("#field-reason").value = "x" * 501  # type: ignore[attr-defined]
            await press(pilot, "enter")
            await see(pilot, "the reason has 501 characters: 500 are the most")
            assert not any(call.startswith("abort") for call in client.asked)

    asyncio.run(flow())
