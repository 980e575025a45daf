"""`goqueue-cli publish --transactional-id`: all messages of one call, or none of them."""

import os
import signal

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.wire import until
from tests.brokers import ask, create, read
from tests.cli.programs import cli, on_a_terminal, running
from tests.cli.transactions import Producer, described


@pytest.fixture
def url(broker: LocalBroker) -> str:
    create(broker.url, "orders")
    return broker.url


def published(url: str) -> list[str]:
    return [message["value"] for message in read(url, "orders")]


def test_the_lines_of_a_pipe_are_one_transaction(url: str) -> None:
    done = cli(url, "publish", "orders", "--transactional-id", "import-7", given="a\nb\nc\n")
    assert (done.code, done.out) == (0, "")
    last = described(url, "import-7")["last"]
    assert done.err == f"3 messages published to orders in transaction {last['transaction_id']}\n"
    assert (last["state"], published(url)) == ("complete_commit", ["a", "b", "c"])


def test_arguments_are_one_transaction_and_each_tells_where_it_is(url: str) -> None:
    done = cli(url, "publish", "orders", "a", "b", "--transactional-id", "import-7", "-o", "name")
    assert (done.code, done.out.split(), done.err) == (0, ["orders/0@0", "orders/0@1"], "")
    assert published(url) == ["a", "b"]


def test_a_line_that_cannot_be_published_keeps_all_others_from_being_so(url: str) -> None:
    words = ("publish", "orders", "--key-separator", ":", "--transactional-id", "import-7")
    done = cli(url, *words, given="k:a\nk:b\nwrong\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("nothing was published to orders: the transaction was aborted\nerror: ")
    assert "message 3 has no ':' between its key and its value" in done.err
    assert published(url) == []
    assert cli(url, *words, given="k:a\nk:b\n").code == 0
    assert published(url) == ["a", "b"]


def test_a_message_that_the_broker_refuses_keeps_all_others_from_being_published(url: str) -> None:
    large = "x" * 2_000_000
    done = cli(url, "publish", "orders", "--transactional-id", "import-7", given=f"a\n{large}\n")
    assert done.code == 1
    assert done.err.startswith("nothing was published to orders: the transaction was aborted\n")
    assert published(url) == []


def test_an_interruption_aborts_it(broker: LocalBroker, url: str) -> None:
    with running(url, "publish", "orders", "--transactional-id", "import-7") as process:
        os.write(process.stdin.fileno(), b"a\nb\n")
        partition = broker.daemon.runtime.broker.topic("orders").partition(0)
        until(url, lambda: partition.high_watermark == 2)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode()
        assert process.wait() == 130
    assert said == "interrupted: nothing was published to orders: the transaction was aborted\n"
    assert (described(url, "import-7")["state"], published(url)) == ("complete_abort", [])


def test_transaction_aborted_by_an_operator_reports_the_reason(broker: LocalBroker, url: str) -> None:
    with running(url, "publish", "orders", "--transactional-id", "import-7") as process:
        os.write(process.stdin.fileno(), b"a\nb\n")
        partition = broker.daemon.runtime.broker.topic("orders").partition(0)
        until(url, lambda: partition.high_watermark == 2)
        assert cli(url, "transaction", "abort", "import-7", "--yes", "--reason", "not today").code == 0
        process.stdin.close()
        said = process.stderr.read().decode()
        assert process.wait() == 5
    assert said.startswith("nothing was published to orders: the transaction was aborted\nerror: ")
    assert "was aborted: not today" in said
    assert published(url) == []


def test_a_second_one_with_the_same_id_takes_over(url: str) -> None:
    producer = Producer(url, "import-7")
    producer.put("orders", value="of the first")
    assert cli(url, "publish", "orders", "b", "--transactional-id", "import-7").code == 0
    assert published(url) == ["b"]
    assert producer.try_to("commit").code == "producer_fenced"


def test_delayed_messages_are_a_part_of_it(url: str) -> None:
    done = cli(url, "publish", "orders", "--delay", "1h", "--transactional-id", "import-7", given="a\nb\n")
    assert done.code == 0
    assert ask(url, "GET", "/topics/orders/delayed").json["total"] == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--template", "%n", "--rate", "5"], "error: --template with --rate continues until ^C"),
        (["x", "--transactional-id", "a b"], "which is not a valid transactional id"),
    ],
)
def test_invalid_flags_are_refused(url: str, flags: list[str], said: str) -> None:
    done = cli(url, "publish", "orders", "--transactional-id", "import-7", *flags)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert published(url) == []


def test_a_template_with_a_count_ends_and_is_committed(url: str) -> None:
    words = ("publish", "orders", "--template", "%n", "--count", "3", "--rate", "1000", "--transactional-id", "i")
    assert on_a_terminal(url, *words).code == 0
    assert published(url) == ["1", "2", "3"]
