"""Messages between a broker and a pipe, start of the program included."""

from collections.abc import Iterator

from benchmarks.broker.rows import BATCH, RATE, REPEATS, values
from benchmarks.broker.server import program
from benchmarks.harness.suite import Bench, Budget, Figure, Measurement, Sample, at_least, measurement
from benchmarks.toolkit.program import CLI, Caller, calling, installed

LINE_BYTES = 100
TOPIC = "orders"
FORMAT = "%t %p %o %k %v\\n"
SEARCHED = "7f7f"
"""In the values as hexadecimal digits, so that some have it."""


def _lines(bench: Bench) -> list[bytes]:
    """Values without a newline in them."""
    return [value.hex().encode() for value in values(bench, size=LINE_BYTES // 2)]


def _messages(bench: Bench) -> int:
    return bench.size(3_000_000, 300_000)


def _consume(name: str, words: tuple[str, ...], budget: Budget | None, *, is_searched: bool = False) -> Measurement:
    """The rate counts what the broker looked at."""

    @measurement(f"consume to a pipe, {name}", Figure(RATE, budget=budget), repeats=REPEATS)
    def measure(bench: Bench) -> Iterator[Sample]:
        lines, count = _lines(bench), _messages(bench)
        expected = sum(SEARCHED.encode() in line for line in lines) * count // BATCH if is_searched else count
        with calling(bench) as (broker, caller):
            broker.create(TOPIC)
            broker.publish_bulk(TOPIC, lines, count // BATCH)
            while True:
                command = [installed(CLI), "consume", TOPIC, *words]
                seconds, told = caller.piped(command, [program("wc"), "-l"], CLI)
                assert int(told) == expected, f"{told!r} lines instead of {expected}"
                yield count / seconds

    return measure


def _publish(name: str, words: tuple[str, ...], template: bytes, budget: Budget | None) -> Measurement:
    @measurement(f"publish from a pipe, {name}", Figure(RATE, budget=budget), repeats=REPEATS)
    def measure(bench: Bench) -> Iterator[Sample]:
        lines, count = _lines(bench), _messages(bench)
        path = bench.room()
        with open(path, "wb") as file:
            content = b"".join(template % line + b"\n" for line in lines)
            file.writelines(content for _ in range(count // BATCH))
        with calling(bench) as (broker, caller):
            for number in range(REPEATS):
                topic = f"{TOPIC}-{number}"
                broker.create(topic)
                yield count / _published(caller, path, topic, words)
                assert broker.client.topic(topic).total_messages == count, "every line is a message"

    return measure


def _published(caller: Caller, path: str, topic: str, words: tuple[str, ...]) -> float:
    seconds, _ = caller.piped([program("cat"), path], [installed(CLI), "publish", topic, *words], CLI)
    return seconds


consumes = (
    _consume("a format string", ("--format", FORMAT), at_least(400_000)),
    _consume("values", (), None),
    _consume("JSON lines", ("-o", "jsonl"), None),
    _consume("filtered", ("--where", f"value~{SEARCHED}"), None, is_searched=True),
)
publishes = (
    _publish("lines", (), b"%b", at_least(300_000)),
    _publish("JSON lines", ("--jsonl",), b'{"key":"customer-4","value":"%b"}', None),
)
