"""Producers and consumers that are not closed: the end of the program delivers or reports, and leaves groups."""

import os
import subprocess
import sys

import pytest

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker
from tests.client.peers import Asked, Reply, peer, refusal
from tests.client.test_producer import Log

SEND = """
import os, sys
from goqueue.client import Client

producer = Client().producer(linger=60)
producer.send(sys.argv[1], "x")
"""
IN_A_CHILD = """
import sys
from multiprocessing import get_context
from goqueue.client import Client

def work():
    producer = Client().producer(linger=60)
    producer.send(sys.argv[1], "x")

child = get_context("fork").Process(target=work)
child.start()
child.join()
"""
CONSUME = """
import sys
from goqueue.client import Client

for message in Client().consumer(sys.argv[1], sys.argv[1], start="earliest"):
    if message.offset == 0:
        message.ack()
    else:
        break
"""
IN_A_LOOP = """
import asyncio, sys
from goqueue.client import AsyncClient

async def main():
    producer = AsyncClient().producer(linger=60)
    await producer.send_many(sys.argv[1], ["x", "y"])
    return producer if "keep" in sys.argv else None

"""
COLLECTED = """
import gc

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
del loop
gc.collect()
"""


def run(script: str, url: str, *words: str, warnings: str = "default") -> tuple[int, str]:
    """Run a program, and return its exit code and what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", script, *words],
        env={**os.environ, "GOQUEUE_SERVER": url},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("name", "script", "code"),
    [
        ("end", SEND, 0),
        ("exit", SEND + "sys.exit(3)", 3),
        ("error", SEND + "1 / 0", 1),
        ("fork", SEND + "if os.fork() == 0: sys.exit()\nos.wait()", 0),
        ("process", IN_A_CHILD, 0),
    ],
)
def test_the_end_of_a_program_delivers_what_is_left_once(
    module_broker: LocalBroker, name: str, script: str, code: int
) -> None:
    with Client(module_broker.url) as client:
        client.create_topic(name)
        found, said = run(script, module_broker.url, name)
        assert (found, "not delivered" in said) == (code, False), said
        assert [message.text for message in client.reader(name)] == ["x"]


def test_messages_that_no_broker_takes_are_reported_as_lost() -> None:
    log = Log()

    def answer(asked: Asked) -> Reply:
        return None if asked.body and "/messages" in asked.target else log.answer(asked)

    with peer(answer) as server:
        hurry = "from goqueue.client import unclosed\nunclosed.EXIT_SECONDS = 0.1\n"
        code, said = run(hurry + SEND, server.url, "t")
    sentence = "a producer was not closed: 1 message was not delivered: the program ended before"
    assert code == 0
    assert f"goqueue: {sentence}" in said
    assert f"ResourceWarning: {sentence}" in said
    assert "ended the connection before it answered" in said


def test_a_refusal_that_was_not_looked_at_is_reported_at_the_end() -> None:
    log = Log()
    log.troubles = [refusal("log_fenced", 503, "the disk has failed")]
    with peer(log.answer) as server:
        _, said = run(SEND + 'producer.send(sys.argv[1], "y")', server.url, "t", warnings="ignore")
    sentence = "2 messages were not delivered; the first because: the disk has failed"
    assert said == f"goqueue: a producer was not closed: {sentence}\n"


@pytest.mark.parametrize(
    "ending",
    [
        "asyncio.run(main())",
        "kept = asyncio.run(main())",
        "asyncio.new_event_loop().run_until_complete(main())",
        COLLECTED,
    ],
    ids=["run", "kept", "stopped", "collected"],
)
def test_a_loop_that_ends_with_messages_says_how_many(module_broker: LocalBroker, ending: str) -> None:
    with Client(module_broker.url) as client:
        client.create_topic("loops", exist_ok=True)
    _, said = run(IN_A_LOOP + ending, module_broker.url, "loops", *(["keep"] if "kept" in ending else []))
    reports = [line for line in said.splitlines() if line.startswith("goqueue: ")]
    assert len(reports) == 1, said
    assert "2 messages were not delivered" in reports[0]
    assert "its task ended before delivery" in reports[0]


@pytest.mark.parametrize(("name", "ending", "code"), [("left", "", 0), ("left-by-an-error", "1 / 0", 1)])
def test_a_consumer_that_is_not_closed_leaves_its_group_at_the_end_of_the_program(
    module_broker: LocalBroker, name: str, ending: str, code: int
) -> None:
    with Client(module_broker.url) as client:
        client.create_topic(name, partitions=1)
        for value in "ab":
            client.publish(name, value)
        found, said = run(CONSUME + ending, module_broker.url, name)
        assert (found, "goqueue" in said) == (code, False), said
        assert (client.group(name).members, client.group_offsets(name)) == ([], {name: {0: 1}})
        with client.consumer(name, name, until_idle="1s") as consumer:
            again = next(iter(consumer))
            assert (again.text, again.attempt, again.failures) == ("b", 2, 0)
            again.ack()


def test_an_error_of_a_callback_at_the_end_of_the_program_is_shown(module_broker: LocalBroker) -> None:
    with Client(module_broker.url) as client:
        client.create_topic("callbacks", partitions=1)
        client.publish("callbacks", "a")
        client.publish("callbacks", "b")
        script = CONSUME.replace('"earliest"', '"earliest", on_revoked=lambda places: 1 / 0')
        _, said = run(script, module_broker.url, "callbacks")
        assert said.endswith("ZeroDivisionError: division by zero\n")
        assert client.group("callbacks").members == []
