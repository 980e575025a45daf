"""`consumer.run`: handlers fail, take too long, run at the same time and are stopped, in threads and in event loops."""

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from goqueue.client import Client, Delivered
from goqueue.errors import HandlerStuck, RequestInvalid
from tests.client.bridge import Bridge

NEVER_SECONDS = 600.0


def run(consumer: Any, handle: Callable[[Delivered], object], **options: Any) -> None:
    """Run a plain function as the handler of either kind of consumer."""

    async def handle_in_loop(message: Delivered) -> None:
        handle(message)

    consumer.run(handle_in_loop if isinstance(consumer, Bridge) else handle, **options)


def run_forever(consumer: Any, begun: Callable[[Delivered], object], **options: Any) -> None:
    """Run a handler that does not return before the test has ended, unless `begun` returns True."""
    released = threading.Event()

    def handle(message: Delivered) -> None:
        if not begun(message):
            released.wait()

    async def handle_in_loop(message: Delivered) -> None:
        if not begun(message):
            await asyncio.sleep(NEVER_SECONDS)

    try:
        consumer.run(handle_in_loop if isinstance(consumer, Bridge) else handle, **options)
    finally:
        released.set()


def stop_after(event: threading.Event, consumer: Any) -> None:
    def wait() -> None:
        event.wait()
        consumer.stop()

    threading.Thread(target=wait).start()


def fill(client: Client, *values: str, keys: list[str] | None = None) -> None:
    client.create_topic("t", partitions=1)
    with client.producer() as producer:
        producer.send_many("t", list(values), keys=keys)


def of_worker(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "goqueue.worker"]


def test_failing_message_is_logged_with_its_retries_and_dead_lettered_while_others_are_acked(
    connected: Client, caplog: pytest.LogCaptureFixture
) -> None:
    fill(connected, "good", "bad", "good")
    attempts: list[int] = []

    def handle(message: Delivered) -> None:
        if message.value == b"bad":
            attempts.append(message.attempt)
            raise ValueError("no such customer")

    run(connected.consumer("g", ["t"], until_idle="300ms"), handle, backoff=0.01)
    assert attempts == [1, 2, 3, 4]
    records = of_worker(caplog)
    assert [record.getMessage() for record in records] == [
        *(f"t/0@1 failed at attempt {n}: ValueError: no such customer; next retry in 0.01 s" for n in (1, 2, 3)),
        "t/0@1 failed at attempt 4: ValueError: no such customer; "
        "no retry, since it was the last attempt that the group allows",
    ]
    assert records[0].exc_info is not None
    (letter,) = connected.dead_letters("t")["messages"]
    assert (letter["error"], letter["attempts"]) == ("ValueError: no such customer", 4)
    assert connected.group_offsets("g") == {"t": {0: 3}}


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError])
def test_exit_or_cancellation_in_a_handler_is_a_failure_of_its_message(
    connected: Client, raised: type[BaseException], concurrency: int
) -> None:
    fill(connected, "bad", "good")
    handled: list[bytes | None] = []

    def handle(message: Delivered) -> None:
        handled.append(message.value)
        if message.value == b"bad":
            raise raised("7")

    consumer = connected.consumer("g", ["t"], until_idle="300ms")
    run(consumer, handle, concurrency=concurrency, max_retries=1, backoff=0.01)
    assert sorted(filter(None, handled)) == [b"bad", b"bad", b"good"]
    (letter,) = connected.dead_letters("t")["messages"]
    assert letter["error"] == f"{raised.__name__}: 7"


def test_error_of_several_lines_is_logged_in_one(connected: Client, caplog: pytest.LogCaptureFixture) -> None:
    fill(connected, "bad")

    def handle(_: Delivered) -> None:
        raise ValueError("no such customer:\n  mallory")

    run(connected.consumer("g", ["t"], until_idle="300ms"), handle, max_retries=0)
    (record,) = of_worker(caplog)
    assert record.getMessage() == (
        "t/0@0 failed at attempt 1: ValueError: no such customer: mallory; dead letter, since max_retries is 0"
    )


def test_policy_of_a_handler_decides_about_retries(connected: Client) -> None:
    fill(connected, "retried", "rejected", "settled")
    attempts: dict[bytes | None, list[int]] = defaultdict(list)
    asked: list[int] = []

    def backoff(failures: int) -> str:
        asked.append(failures)
        return "10ms"

    def handle(message: Delivered) -> None:
        attempts[message.value].append(message.attempt)
        if message.value == b"settled":
            message.reject("by hand")
            return
        raise LookupError if message.value == b"rejected" else ValueError

    options: dict[str, Any] = {"max_retries": 1, "backoff": backoff, "reject_on": (LookupError, KeyError)}
    run(connected.consumer("g", ["t"], until_idle="300ms"), handle, **options)
    assert attempts == {b"retried": [1, 2], b"rejected": [1], b"settled": [1]}
    assert asked == [1]
    letters = connected.dead_letters("t")["messages"]
    assert {letter["value"]: letter["error"] for letter in letters} == {
        "retried": "ValueError",
        "rejected": "LookupError",
        "settled": "by hand",
    }


def test_backoff_that_cannot_be_used_leaves_the_delay_to_the_broker(
    blocking: Client, caplog: pytest.LogCaptureFixture
) -> None:
    fill(blocking, "bad")
    consumer = blocking.consumer("g", ["t"])

    def handle(message: Delivered) -> None:
        consumer.stop()
        raise ValueError(message.value)

    consumer.run(handle, backoff=lambda failures: -failures)
    records = of_worker(caplog)
    assert [record.levelname for record in records] == ["ERROR", "ERROR"]
    assert records[1].getMessage().endswith("next retry in 1 s")


def test_call_that_takes_too_long_is_a_failure_and_others_go_on(
    connected: Client, caplog: pytest.LogCaptureFixture
) -> None:
    fill(connected, "slow", "quick")
    begun: list[int] = []
    consumer = connected.consumer("g", ["t"])
    done = threading.Event()

    def begin(message: Delivered) -> bool:
        begun.append(message.offset)
        if message.value == b"quick":
            done.set()
        return message.value == b"quick"

    stop_after(done, consumer)
    run_forever(consumer, begin, timeout="50ms", max_retries=0, grace="1s")
    assert begun == [0, 1]
    assert "t/0@0 failed at attempt 1: TimeoutError" in caplog.text
    assert connected.dead_letter_errors("t")["errors"]


def test_consumer_ends_when_more_threads_hang_than_it_has(blocking: Client) -> None:
    fill(blocking, "a", "b", "c")
    with pytest.raises(HandlerStuck, match="2 calls of handlers of t did not return in time"):
        run_forever(blocking.consumer("g", ["t"]), print, timeout="20ms", max_retries=0, grace=0)


def test_messages_of_a_key_keep_their_order_in_concurrent_calls(connected: Client) -> None:
    keys = [f"k{number % 3}" for number in range(60)]
    fill(connected, *(str(number) for number in range(60)), keys=keys)
    done: dict[bytes | None, list[int]] = defaultdict(list)
    running: set[bytes | None] = set()
    together: set[int] = set()
    lock = threading.Lock()

    def handle(message: Delivered) -> None:
        with lock:
            assert message.key not in running
            running.add(message.key)
            together.add(len(running))
        try:
            if message.offset % 7 == 0 and message.failures == 0:
                raise ValueError
            with lock:
                done[message.key].append(message.offset)
        finally:
            with lock:
                running.remove(message.key)

    run(connected.consumer("g", ["t"], order="key", until_idle="300ms"), handle, concurrency=4, backoff="1ms")
    assert done == {key.encode(): [n for n in range(60) if keys[n] == key] for key in ("k0", "k1", "k2")}


def test_concurrent_calls_overlap_and_few_messages_are_in_hand(connected: Client) -> None:
    fill(connected, *("x" * 50))
    in_hand: list[int] = []
    begun = 0
    consumer = connected.consumer("g", ["t"])
    lock, all_begun = threading.Lock(), threading.Event()

    def begin(_: Delivered) -> None:
        nonlocal begun
        with lock:
            begun += 1
            if begun == 3:
                all_begun.set()

    def look() -> None:
        all_begun.wait()
        (partition,) = connected.group("g")["lag"]["t"].values()
        in_hand.append(partition["in_flight"])
        consumer.stop()

    watcher = threading.Thread(target=look)
    watcher.start()
    run_forever(consumer, begin, concurrency=3, grace=0)
    watcher.join()
    assert 3 <= in_hand[0] <= 9


def test_stop_releases_what_is_in_hand_without_a_failure(connected: Client, caplog: pytest.LogCaptureFixture) -> None:
    fill(connected, "unfinished", "unread")
    consumer = connected.consumer("g", ["t"])
    begun = threading.Event()
    stop_after(begun, consumer)
    run_forever(consumer, lambda _: begun.set(), grace="50ms")
    assert "releasing 1 unfinished message: t/0@0" in caplog.text
    assert connected.group("g")["members"] == []
    found = []
    run(connected.consumer("g", ["t"], until_idle=0), lambda message: found.append((message.offset, message.failures)))
    assert sorted(found) == [(0, 0), (1, 0)]


def test_messages_in_hand_are_done_before_their_partition_is_given_to_another_member(connected: Client) -> None:
    connected.create_topic("t", partitions=2)
    for partition in (0, 1):
        connected.publish("t", "x", partition=partition)
    attempts: list[int] = []
    both_begun, joined, stolen = threading.Barrier(3), threading.Event(), threading.Event()
    consumer = connected.consumer("g", ["t"])

    def handle(message: Delivered) -> None:
        attempts.append(message.attempt)
        both_begun.wait()
        stolen.wait(0.5)

    async def handle_in_loop(message: Delivered) -> None:
        await asyncio.to_thread(handle, message)

    def join() -> None:
        both_begun.wait()
        with connected.consumer("g", ["t"], until_idle="1s", on_assigned=lambda _: joined.set()) as other:
            for message in other:
                attempts.append(message.attempt)
                stolen.set()
                message.ack()
        consumer.stop()

    other = threading.Thread(target=join)
    other.start()
    consumer.run(handle_in_loop if isinstance(consumer, Bridge) else handle, concurrency=3)
    other.join()
    assert joined.is_set()
    assert attempts == [1, 1]


def test_hooks_enclose_each_call(connected: Client, caplog: pytest.LogCaptureFixture) -> None:
    fill(connected, "good", "bad")
    seen: list[Any] = []

    class Outer:
        def before(self, message: Delivered) -> None:
            seen.append(("before", message.offset))

        def after(self, message: Delivered, error: BaseException | None, seconds: float) -> None:
            seen.append(("after", message.offset, type(error).__name__, seconds < NEVER_SECONDS))
            raise RuntimeError("a broken hook")

    class Inner:
        def after(self, message: Delivered, *_: object) -> None:
            seen.append(("inner", message.offset))

    def handle(message: Delivered) -> None:
        if message.value == b"bad":
            raise ValueError

    consumer = connected.consumer("g", ["t"], until_idle="100ms")
    run(consumer, handle, max_retries=0, middleware=[Outer(), Inner()])
    expected = [("NoneType", 0), ("ValueError", 1)]
    assert seen == [
        step
        for kind, offset in expected
        for step in (("before", offset), ("inner", offset), ("after", offset, kind, True))
    ]
    assert caplog.text.count("a hook failed after t/0@") == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"concurrency": 0}, "concurrency is 0, and must be a number: 1 to 1,000"),
        ({"max_retries": -1}, "max_retries is -1, and must be a number: 0 or more"),
        ({"backoff": "soon"}, "soon"),
        ({"reject_on": "ValueError"}, "reject_on has 'ValueError', which is not a class of exceptions"),
        ({"timeout": 0}, "a timeout of 0 leaves a handler no time"),
        ({"middleware": [print]}, "has no hook"),
        ({"retries": 3}, "a handler has no option retries"),
    ],
)
def test_option_that_cannot_be_used_is_refused(blocking: Client, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        blocking.consumer("g", ["t"]).run(print, **options)
    assert sentence in refusal.value.sentence


def test_handler_of_the_other_kind_is_refused(connected: Client) -> None:
    async def coroutine(message: Delivered) -> None:
        del message

    consumer: Any = connected.consumer("g", ["t"])
    with pytest.raises(RequestInvalid, match="coroutine function"):
        consumer.run(print if isinstance(consumer, Bridge) else coroutine)
