"""Delayed logs in Spark: each message with when it is due and what became of it, as its broker knows it."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue import delay
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.delay import records
from goqueue.broker.delay.schedule import CANCELLED, DELIVERED, EXPIRED
from goqueue.errors import RangeDamaged, RequestInvalid, SegmentNotFound
from goqueue.spark.inspections.catalog import INSPECTIONS
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.port import LogSource, OpenSegment
from goqueue.spark.logs.splits import Split
from goqueue.spark.pipeline.run import PipelineContext
from goqueue.spark.reading.columns import DEFAULT_COLUMNS, DELAYED_COLUMNS
from goqueue.spark.reading.plan import TopicSelection, make_plan
from goqueue.spark.reading.tasks import Extract
from goqueue.storage import frame, scan
from goqueue.storage.log import Log
from goqueue.storage.log_view import SegmentView
from goqueue.storage.transaction_marker import TransactionMarker
from goqueue.testing.broker import LocalBroker
from goqueue.wire.sections import PRODUCER_HEADER
from tests.api.wire import until
from tests.brokers import ask, create, publish
from tests.spark import naive
from tests.spark.stock import Sent, Stock
from tests.spark.test_source import collected, load, refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Row = dict[str, Any]

ALL = tuple(DELAYED_COLUMNS)
HOUR_NS = 3600 * 10**9
MADE, AT_NS = "2026-11-18T12:00:00Z", 2_000_000_000 * 10**9


def rows(
    logs: LogSource, *, split_bytes: int | None = None, names: tuple[str, ...] = ALL, fails: bool = True
) -> list[Row]:
    """All columns of all messages of topics of users, as tasks make them."""
    planned = make_plan(logs, TopicSelection()).splits(logs, split_bytes=split_bytes)
    return [row for split in planned for row in rows_of(logs, split, names=names, fails=fails)]


def rows_of(logs: LogSource, split: Split, *, names: tuple[str, ...] = ALL, fails: bool = True) -> Iterator[Row]:
    for batch in Extract(logs, names, fails).batches(split):
        yield from batch.to_pylist()


def delayed(path: Path) -> DirectoryLogs:
    return DirectoryLogs.at(str(path), is_delayed=True)


# --- any log ---


@dataclass
class Inbox:
    """The delayed log of partition 0 of topic t, written without a broker."""

    stock: Stock
    log: Log
    offsets: list[int] = field(default_factory=list)
    open: list[list[int]] = field(default_factory=list)
    """The offsets of each transaction that has not ended."""

    @classmethod
    def of(cls, stock: Stock) -> "Inbox":
        stock.create("t")
        return cls(stock, stock.store.create(f"t/0/{delay.LOG_NAME}"))

    def append(self, *frames: bytes) -> list[int]:
        self.stock.clock.advance(1.000001001)
        appended = self.log.append(scan.check_batch(bytearray(b"".join(frames))))
        self.stock.store.flush()
        return list(range(appended.first_offset, appended.next_offset))

    def schedule(self, *messages: Sent) -> None:
        self.offsets += self.append(*(one.encode() for one in messages))

    def begin(self, *messages: Sent) -> None:
        self.open.append(self.append(*(replace(one, is_transactional=True).encode() for one in messages)))
        self.offsets += self.open[-1]

    def end(self, number: int, *, is_commit: bool) -> None:
        """One of those that are open, each offset as a range of its own."""
        if self.open:
            ended = self.open.pop(number % len(self.open))
            self.append(*TransactionMarker(7, 0, is_commit, tuple((offset, offset + 1) for offset in ended)).encode())

    def chosen(self, numbers: set[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        return np.array([offset for number, offset in enumerate(self.offsets) if number in numbers], np.int64)


def message(number: int, due: int, *, is_after: bool = False, is_marked: bool = False, priority: int = 2) -> Sent:
    mark = ((PRODUCER_HEADER, ProducerMark(7, 0, number, 1).encode()),) if is_marked else ()
    when = delay.deliver_in_header(due) if is_after else delay.deliver_at_header(due)
    return Sent(b"%d" % number + b"x" * 100, b"k", (*mark, when, ("shown", b"1")), priority)


dues = st.integers(0, 2**60)
messages = st.builds(
    message,
    st.integers(0, 9), dues, is_after=st.booleans(), is_marked=st.booleans(), priority=st.integers(0, 4),
)  # fmt: skip
numbers = st.sets(st.integers(0, 30), min_size=1)
steps = st.one_of(
    st.tuples(st.just("schedule"), st.lists(messages, min_size=1, max_size=12)),
    st.tuples(st.just("begin"), st.lists(messages, min_size=1, max_size=5)),
    st.tuples(st.sampled_from(["commit", "abort"]), st.integers(0, 3)),
    st.tuples(st.sampled_from([DELIVERED, CANCELLED, EXPIRED]), numbers),
    st.tuples(st.just("move"), st.dictionaries(st.integers(0, 30), dues, min_size=1)),
)


def do(delayed_log: Inbox, step: tuple[Any, Any]) -> None:
    what, told = step
    if what in ("schedule", "begin"):
        (delayed_log.schedule if what == "schedule" else delayed_log.begin)(*told)
        return
    if what in ("commit", "abort"):
        delayed_log.end(told, is_commit=what == "commit")
        return
    chosen = delayed_log.chosen(set(told))
    if not len(chosen):
        return
    if what == "move":
        times = [told[number] for number in sorted(told) if number < len(delayed_log.offsets)]
        delayed_log.append(records.encode_rescheduled(chosen, np.array(times)))
    else:
        delayed_log.append(records.encode_settled(what, chosen, 5 if what == DELIVERED else None))


@given(st.lists(steps, min_size=1, max_size=14), st.none() | st.integers(1, 5000), st.booleans())
def test_each_message_is_told_of_as_its_records_say_however_a_log_is_cut(
    done: list[tuple[Any, Any]], split_bytes: int | None, is_live: bool
) -> None:
    with tempfile.TemporaryDirectory() as place, Stock(Path(place) / "d", segment_bytes=1024) as stock:
        delayed_log = Inbox.of(stock)
        for step in done:
            do(delayed_log, step)
        if not is_live:
            stock.close()
        expected = naive.delayed_rows(stock.path, "t")
        assert rows(delayed(stock.path), split_bytes=split_bytes) == expected
        plain = [{name: row[name] for name in DEFAULT_COLUMNS} for row in expected]
        assert rows(delayed(stock.path), split_bytes=split_bytes, names=DEFAULT_COLUMNS) == plain


def test_a_topic_is_read_as_if_there_were_no_delayed_log_below_it(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        Inbox.of(stock).schedule(message(1, 5))
        stock.append("t", Sent(b"at once"))
        logs = DirectoryLogs.at(str(stock.path))
        assert logs.topics() == {"t": (0,)}
        assert [row["value"] for row in rows(logs, names=DEFAULT_COLUMNS)] == [b"at once"]


def test_where_nothing_was_ever_scheduled_there_are_no_rows(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        stock.create("t", 2).append("t", Sent(b"at once"))
        assert rows(delayed(stock.path)) == []


def test_what_a_frame_says_by_itself_costs_no_second_reading(tmp_path: Path) -> None:
    opened: list[SegmentView] = []
    with Stock(tmp_path / "d", segment_bytes=1024) as stock:
        delayed_log = Inbox.of(stock)
        for number in range(20):
            delayed_log.schedule(message(number, number))
        logs = interrupted(delayed(stock.path), opened.append)
        segments = len(logs.view("t", 0).segments)
        found = rows(logs, names=("offset", "priority", "timestamp", "headers"))
        assert (len(found), len(opened)) == (20, segments)
        assert found[0]["headers"] == [{"key": "shown", "value": b"1"}]


# --- damage ---


def damaged(stock: Stock, offset: int) -> None:
    for segment, position, one in naive.frames(stock.path, "t", f"0/{delay.LOG_NAME}"):
        if one.offset == offset:
            with (stock.directory("t") / delay.LOG_NAME / f"{segment:020d}.log").open("r+b") as file:
                file.seek(position + 40)
                file.write(b"\xee\xee")


def test_a_record_in_damage_may_have_said_anything_so_a_strict_reader_stops(tmp_path: Path) -> None:
    with Stock(tmp_path / "d", segment_bytes=1024) as stock:
        delayed_log = Inbox.of(stock)
        delayed_log.schedule(message(0, 5), message(1, 6))
        (record,) = delayed_log.append(records.encode_settled(CANCELLED, np.array([0])))
        delayed_log.schedule(message(2, 7))
        damaged(stock, record)
    logs = delayed(stock.path)
    first = make_plan(logs, TopicSelection()).splits(logs, split_bytes=1)[0]
    with pytest.raises(RangeDamaged, match=r"t/0/delayed/0+\.log is damaged"):
        list(rows_of(logs, first))
    found = rows(logs, names=("offset", "state"), fails=False)
    assert [(row["offset"], row["state"]) for row in found] == [(0, "pending"), (1, "pending"), (3, "pending")]


def test_a_damaged_message_has_no_deadline(tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        delayed_log = Inbox.of(stock)
        delayed_log.schedule(message(0, 5), message(1, 6))
        damaged(stock, 1)
        delayed_log.schedule(message(2, 7))
    found = rows(delayed(stock.path), names=("offset", "crc_ok", "deliver_at", "state"), fails=False)
    assert [(row["offset"], row["crc_ok"], row["state"]) for row in found] == [
        (0, True, "pending"), (1, False, None), (2, True, "pending"),
    ]  # fmt: skip
    assert [row["deliver_at"] for row in found] == [naive.moment(5), None, naive.moment(7)]


# --- a broker at work ---


def worked(url: str, count: int = 60) -> str:
    """A topic whose delayed logs have messages in all states, in several segments; when the moved ones are due."""
    create(url, "t", 2, segment_bytes=4096)
    publish(url, "t", "at once", partition=0)
    for partition in range(2):
        at, scheduled = f"/topics/t/delayed/{partition}", list[int]()
        for number in range(count // 10):
            values = [f"{number}-{one}" + "x" * 200 for one in range(10)]
            options = {"delay": "1h", "partition": partition, "priority": number % 5, "headers": {"h": "v"}}
            scheduled += [one["offset"] for one in publish(url, "t", *values, **options)]
            if number == 0:
                moved = ask(url, "PATCH", f"{at}/2", {"delay": "100d"})
        for offset in scheduled[::3]:
            assert ask(url, "DELETE", f"{at}/{offset}").status == 200
        for offset in scheduled[1::3]:
            assert ask(url, "POST", f"{at}/{offset}/deliver").status == 200
    return str(moved.json["deliver_at"])


def told(url: str) -> dict[tuple[int, int], tuple[str, str]]:
    """Return what the broker reports of each message."""
    return {
        (one["partition"], one["offset"]): (one["state"], one["deliver_at"])
        for state in ("pending", "delivered", "cancelled", "expired")
        for one in ask(url, "GET", f"/topics/t/delayed?limit=1000&state={state}").json["messages"]
    }


def in_short(found: list[Row]) -> dict[tuple[int, int], tuple[str, str]]:
    """The same of rows; their times end with the microsecond."""
    return {
        (row["partition"], row["offset"]): (row["state"], row["deliver_at"].strftime("%Y-%m-%dT%H:%M:%S.%f"))
        for row in found
    }


def micros(known: dict[tuple[int, int], tuple[str, str]]) -> dict[tuple[int, int], tuple[str, str]]:
    return {place: (state, due[: len("2026-11-18T12:00:00.000000")]) for place, (state, due) in known.items()}


@contextmanager
def connected(url: str) -> Iterator[BrokerLogs]:
    logs = BrokerLogs(url, is_delayed=True)
    try:
        yield logs
    finally:
        logs.client.close()


def test_a_broker_its_directory_and_a_copy_are_read_alike_and_as_the_broker_tells(
    broker: LocalBroker, tmp_path: Path
) -> None:
    moved = worked(broker.url)
    path = tmp_path / "data"
    known = micros(told(broker.url))
    assert told(broker.url)[1, 2] == ("pending", moved)
    with connected(broker.url) as remote:
        for split_bytes in (None, 3000):
            found = rows(remote, split_bytes=split_bytes)
            assert found == rows(delayed(path), split_bytes=split_bytes)
            assert found == naive.delayed_rows(path, "t") + naive.delayed_rows(path, "t", 1)
            assert in_short(found) == known
    broker.stop()
    copy = Path(shutil.copytree(path, tmp_path / "copy"))
    assert rows(delayed(copy)) == found
    states = [row["state"] for row in found]
    assert {state: states.count(state) for state in states} == {"cancelled": 40, "delivered": 40, "pending": 40}
    assert {row["priority"] for row in found} == set(frame.PRIORITIES)


def test_headers_of_the_brokers_own_are_seen_on_neither_side(broker: LocalBroker, tmp_path: Path) -> None:
    worked(broker.url)
    logs = DirectoryLogs.at(str(tmp_path / "data"))
    shown = [{"key": "h", "value": b"v"}]
    found = rows(logs, names=("value", "headers", "priority"))
    assert [row["headers"] for row in found if row["value"] != b"at once"] == [shown] * 40
    assert all(row["headers"] == shown for row in rows(delayed(tmp_path / "data")))


def interrupted(logs: LogSource, act: Callable[[SegmentView], None]) -> Any:
    """Return these logs; something happens each time that a segment is opened."""

    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            return getattr(logs, name)

        def open(self, topic: str, partition: int, segment: SegmentView) -> OpenSegment:
            act(segment)
            return logs.open(topic, partition, segment)

    return Interrupted()


class Sweeping:
    """Has the broker sweep its delayed logs when the time has come."""

    def __init__(self, url: str, at: int) -> None:
        self.url, self.left = url, at

    def size(self) -> int:
        segments = ask(self.url, "GET", "/topics/t/partitions/0/segments?delayed=true").json["segments"]
        return sum(one["size_bytes"] for one in segments[:3])

    def __call__(self, _: SegmentView) -> None:
        self.left -= 1
        if self.left == 0:
            before = self.size()
            assert ask(self.url, "POST", "/admin/topics/other/compact").status == 200  # wakes who looks at all
            until(self.url, lambda: self.size() < before)


@pytest.mark.parametrize("at", [1, 2, 4, 8])
@pytest.mark.parametrize("is_remote", [True, False])
def test_a_sweep_meanwhile_takes_only_what_is_settled_and_no_new_deadline(
    broker: LocalBroker, tmp_path: Path, at: int, is_remote: bool
) -> None:
    create(broker.url, "other", cleanup="compact")
    worked(broker.url, 120)
    known = micros(told(broker.url))
    with connected(broker.url) as remote:
        sweep = Sweeping(broker.url, at)
        logs = interrupted(remote if is_remote else delayed(tmp_path / "data"), sweep)
        planned = make_plan(logs, TopicSelection(("t",))).splits(logs, split_bytes=2**63)
        found = in_short([row for split in planned for row in rows_of(logs, split, fails=False)])
    assert sweep.left <= 0
    assert found.items() <= known.items()
    assert {place for place, (state, _) in known.items() if state == "pending"} <= found.keys()


def test_a_topic_deleted_meanwhile_is_told_as_any_other(broker: LocalBroker) -> None:
    worked(broker.url)
    with connected(broker.url) as logs:
        planned = make_plan(logs, TopicSelection()).splits(logs)
        assert ask(broker.url, "DELETE", "/topics/t").status == 200
        with pytest.raises(SegmentNotFound, match="of t/0 were removed while they were to be read"):
            list(rows_of(logs, planned[0]))


# --- with Spark ---


def test_spark_reads_them_by_an_option_from_both_places(
    spark: "SparkSession", broker: LocalBroker, tmp_path: Path
) -> None:
    worked(broker.url)
    path = tmp_path / "data"
    rows = naive.delayed_rows(path, "t") + naive.delayed_rows(path, "t", 1)
    usual = load(spark, path, subscribe="t", delayed="true")
    assert usual.columns == [*DEFAULT_COLUMNS, "deliver_at", "state"]
    assert collected(usual) == [{name: row[name] for name in usual.columns} for row in rows]
    options = {"goqueue.url": broker.url, "delayed": "TRUE", "columns": ",".join(ALL), "minPartitions": "4"}
    remote = spark.read.format("goqueue").options(**options).load()
    assert remote.rdd.getNumPartitions() >= 4
    assert collected(remote) == rows
    counted = load(spark, path, "state string", delayed="true").groupBy("state").count().collect()
    assert {row["state"]: row["count"] for row in counted} == {"pending": 40, "delivered": 40, "cancelled": 40}
    at = naive.frames(path, "t", f"0/{delay.LOG_NAME}")[25][2].timestamp_ns // 10**6
    late = load(spark, path, "offset bigint, partition int, timestamp timestamp", delayed="true",
                startingTimestamp=str(at + 1), assign='{"t": [0]}')  # fmt: skip
    since = naive.first_since(path, "t", f"0/{delay.LOG_NAME}", (at + 1) * 10**6, 2**62)
    assert [row["offset"] for row in collected(late)] == [
        row["offset"] for row in rows if row["partition"] == 0 and row["offset"] >= since
    ]


def test_inspections_tell_of_topics_whatever_stands_beside_their_segments(
    spark: "SparkSession", broker: LocalBroker, tmp_path: Path
) -> None:
    create(broker.url, "other", cleanup="compact")
    worked(broker.url)
    for number in range(40):
        publish(broker.url, "t", "x" * 300, "short", key=f"k{number % 5}", priority=number % 5, headers={"made": MADE})
    path = tmp_path / "data"
    assert ask(broker.url, "POST", "/admin/topics/other/compact").status == 200
    until(broker.url, lambda: list(path.rglob("*.lanes")))
    broker.stop()
    before = inspected(spark, path)
    assert {name for name, rows in before.items() if not rows} == {"dlq", "gaps", "lag", "verify"}
    for cache in path.rglob("*.lanes"):
        cache.unlink()
    for directory in list(path.rglob(delay.LOG_NAME)):
        shutil.rmtree(directory)
    assert inspected(spark, path) == before


def inspected(spark: "SparkSession", path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each inspection of a directory."""
    logs = DirectoryLogs.at(str(path))
    options: dict[str, dict[str, Any]] = {
        "forecast": {"disk": 10**9, "at": AT_NS}, "lag": {"at": AT_NS}, "latency": {"header": "made"},
        "timeline": {"bucket": HOUR_NS},
    }  # fmt: skip
    plan = make_plan(logs, TopicSelection())
    context = PipelineContext(spark, logs, plan)
    return {name: one.run(context, options.get(name, {})).rows for name, one in INSPECTIONS.items()}


def test_what_delayed_logs_alone_have_is_told_of_and_streams_are_refused(spark: "SparkSession", tmp_path: Path) -> None:
    with Stock(tmp_path / "d") as stock:
        Inbox.of(stock).schedule(message(0, HOUR_NS))
    error = refused(load(spark, stock.path, "offset bigint, state string").collect)
    assert (type(error), error.hint) == (
        RequestInvalid, "messages of delayed logs have it: set the option delayed to true",
    )  # fmt: skip
    error = refused(lambda: load(spark, stock.path, columns="offset, deliver_at"))
    assert error.sentence == "columns: 'deliver_at' is no column"
    stream = spark.readStream.format("goqueue").options(path=str(stock.path), subscribe="t", delayed="true").load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    error = refused(lambda: writer.trigger(availableNow=True).start().awaitTermination())
    assert isinstance(error, RequestInvalid)
    assert "delayed is for batch reads: what becomes of a message is recorded after" in error.sentence
