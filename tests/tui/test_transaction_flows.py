"""The screens of transactions at work with a real broker."""

import asyncio
import shlex

import pytest

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from tests.brokers import ask, create, publish, read
from tests.cli.programs import cli
from tests.cli.transactions import Producer
from tests.tui.fakes import dashboard
from tests.tui.pilots import press, see, see_news, see_page, shown, table, text, until
from tests.tui.transaction_fakes import TransactionClient, transaction

_LIST = Location("transactions")


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


async def test_an_open_transaction_is_found_looked_at_and_aborted(url: str, till: Producer) -> None:
    async with shown(url, Location("overview")) as pilot:
        await press(pilot, "f8")
        await see(pilot, "1 open", "4 messages held back", "till-1", "orders/0-1", "billing")
        await press(pilot, "enter")
        await see(pilot, "2 acknowledged by billing", "1 of others behind them", "without a request of its producer")
        await press(pilot, "x", *"till", "space", "4", "space", *"hangs", "enter")
        await see(
            pilot, "3 messages of the transaction discarded: orders/0-1", "2 messages acked in it by group billing"
        )
        assert read(url, "orders", 1) == []
        await press(pilot, "ctrl+y")
        told = await asyncio.to_thread(cli, url, *shlex.split(pilot.app.clipboard)[1:])
        assert "would be aborted" in told.out
        await press(pilot, "y")
        await see(pilot, f"{till.id} of till-1 is aborted, and its producer is told: till 4 hangs")
        await press(pilot, "escape")
        await see(pilot, "complete_abort", f"last      {till.id} was aborted", "Nothing is open.")
        await press(pilot, "x")
        await see_news(pilot, "there is nothing to abort")
        await press(pilot, "escape")
        await see(pilot, "No transaction is open.", "1 aborted")
    assert [message["value"] for message in read(url, "orders", 1)] == ["of another"]
    refused = till.try_to("publish", topic="orders", value="late")
    assert (refused.code, refused.json["details"]["reason"]) == ("transaction_aborted", "till 4 hangs")


async def test_the_next_transaction_is_not_hit_by_what_was_meant_for_the_one_before(url: str, till: Producer) -> None:
    begun = till.id
    async with shown(url, _LIST) as pilot:
        await see(pilot, "till-1")
        await press(pilot, "x", "enter")
        await see(pilot, f"abort {begun} of till-1 for good? (y)")
        await asyncio.to_thread(till.commit)
        await asyncio.to_thread(till.begin)
        await press(pilot, "y")
        await see(pilot, f"{begun} of till-1: transaction {begun} was committed before")
        await press(pilot, "escape", "p")
        await see_news(pilot, "paused")
        await until(pilot, lambda: pilot.app.service.is_idle)  # a round that was under way shows what it found
        await asyncio.to_thread(till.commit)
        await asyncio.to_thread(till.begin)
        await press(pilot, "x", "enter")
        await see(pilot, "of till-1 is committed already", "there is nothing to abort")
        assert "(y)" not in text(pilot.app)
    assert ask(url, "GET", "/transactions/till-1").json["state"] == "ongoing"


async def test_marked_ones_are_aborted_together_and_a_protected_context_wants_their_names(url: str) -> None:
    for name in ("till-1", "till-2", "till-3"):
        Producer(url, name).put("orders")
    async with shown(url, _LIST, protected=True) as pilot:
        await see(pilot, "till-1", "till-2", "till-3")
        await press(pilot, "space", "space", "x", "enter")
        await see(pilot, "abort 2 transactions for good? (type till-1 till-2)")
        await press(pilot, *"y", "enter")
        await see(pilot, "nothing is changed")
        await press(pilot, "backspace", *"till", "minus", "1", "space", *"till", "minus", "2", "enter")
        await see(pilot, "2 transactions aborted: an operator has ended it")
        await press(pilot, "escape")
        await until(pilot, lambda: tuple(table(pilot.app).seen_keys) == ("till-3",))


@pytest.mark.usefixtures("till")
async def test_ids_of_which_nothing_is_open_are_shown_too(url: str) -> None:
    Producer(url, "done").commit("batch 17")
    async with shown(url, _LIST) as pilot:
        await see(pilot, "till-1")
        assert "done" not in text(pilot.app)
        await press(pilot, "v")
        await see(pilot, "○ committed", "all ids · 2")
        await press(pilot, "y")
        await see_news(pilot, "goqueue-cli transaction list --all")
        await press(pilot, "colon", *"transaction", "space", *"done", "enter")
        await see(pilot, "batch 17", "which its producer has to begin")
        await press(pilot, "colon", *"transaction", "space", *"unknown", "enter")
        await see(pilot, "there is no transactional id 'unknown'")


async def test_what_it_touches_leads_to_partitions_and_groups_and_they_say_what_is_held_back(
    url: str, till: Producer
) -> None:
    async with shown(url, Location("transaction", (till.identity["transactional_id"],))) as pilot:
        await see(pilot, "orders/1")
        await press(pilot, "enter")
        await see_page(pilot, "messages")
        await press(pilot, "escape")
        await see(pilot, "◐ 3 held back", "◐ 1 held back")
        await press(pilot, "left_square_bracket", "left_square_bracket")
        await see(pilot, "orders/1")
        await press(pilot, "end", "enter")
        await see_page(pilot, "group")


async def test_of_very_many_the_oldest_are_shown_and_any_is_opened_by_its_name() -> None:
    client = TransactionClient()
    client.open = [transaction(f"till-{number}", number) for number in range(10_000)]
    client.total = len(client.open)
    async with dashboard(client, start=_LIST).run_test(size=(160, 48)) as pilot:
        await see(pilot, "10,000 open", "till-0", "500 · first of 10,000; :transaction ID opens any")
        assert "transactions open None 500" in client.asked
        await press(pilot, "colon", *"transaction", "space", *"till", "minus", *"9999", "enter")
        await see(pilot, "transaction 9999-3")


async def test_a_reason_that_is_too_long_has_no_plan() -> None:
    client = TransactionClient()
    async with dashboard(client, start=_LIST).run_test(size=(160, 48)) as pilot:
        await see(pilot, "checkout-eu-7")
        await press(pilot, "x")
        await see(pilot, "Abort 7-3 of checkout-eu-7")
        pilot.app.screen.query_one("#field-reason").value = "x" * 501  # type: ignore[attr-defined]
        await press(pilot, "enter")
        await see(pilot, "the reason has 501 characters: 500 are the most")
        assert not any(call.startswith("abort") for call in client.asked)
