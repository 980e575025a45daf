"""The stream of a topic as Spark's driver and its tasks ask for it; with Spark it is read in test_sink."""

import shutil
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from goqueue.client import Client
from goqueue.errors import OffsetOutOfRange, RequestInvalid, SegmentNotFound, TopicNotFound
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.source import GoQueueSource
from goqueue.spark.stream import reader as stream
from goqueue.spark.stream.reader import GoQueueStreamReader
from goqueue.testing.broker import LocalBroker

OPENED: list[GoQueueStreamReader] = []


@pytest.fixture(autouse=True)
def connections() -> Iterator[None]:
    """Those of readers end with the process of Spark that they live in; here that goes on."""
    yield
    while OPENED:
        logs = OPENED.pop()._logs
        if isinstance(logs, BrokerLogs):
            logs.client.close()


def reader(**options: str) -> GoQueueStreamReader:
    source = GoQueueSource({name.replace("__", "."): text for name, text in options.items()})
    OPENED.append(source.streamReader(source.schema()))
    return OPENED[-1]


def of_broker(url: str, **options: str) -> GoQueueStreamReader:
    return reader(**{"goqueue__url": url, "subscribe": "orders", "startingOffsets": "earliest"} | options)


def send(url: str, topic: str, values: Iterable[int], partition: int = 0) -> None:
    with Client(url) as client, client.producer() as producer:
        producer.send_many(topic, [b"%d" % value for value in values], partition=partition)


def tasks(given: GoQueueStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[list[int]]:
    """Return what each task of a batch reads."""
    return [
        [int(value) for table in given.read(one) for value in pa.table(table.to_pydict())["value"].to_pylist()]
        for one in given.partitions(start, end)
    ]


def batches(given: GoQueueStreamReader) -> list[list[int]]:
    """Return what the batches of a query read, until there is nothing new."""
    found, start = [], given.initialOffset()
    while (end := given.latestOffset(start, given.getDefaultReadLimit())) != start:
        found.append(sorted(value for task in tasks(given, start, end) for value in task))
        start = end
    return found


@pytest.fixture
def url(broker: LocalBroker) -> str:
    with Client(broker.url) as client:
        client.create_topic("orders", 2)
    return broker.url


def test_a_stream_begins_at_the_latest_unless_it_is_told_otherwise(url: str) -> None:
    send(url, "orders", range(10))
    latest = reader(goqueue__url=url, subscribe="orders")
    assert latest.initialOffset() == {"orders": {"0": 10, "1": 0}}
    assert of_broker(url).initialOffset() == {"orders": {"0": 0, "1": 0}}
    assert of_broker(url, startingOffsets='{"orders": {"0": 4}}').initialOffset() == {"orders": {"0": 4, "1": 0}}


def test_the_beginning_is_found_out_once(url: str) -> None:
    latest = reader(goqueue__url=url, subscribe="orders")
    first = latest.initialOffset()
    send(url, "orders", range(10))
    assert latest.initialOffset() == first


def test_a_first_batch_that_is_planned_again_begins_where_it_began(url: str) -> None:
    send(url, "orders", range(10))
    latest = reader(goqueue__url=url, subscribe="orders")
    start = latest.initialOffset()
    send(url, "orders", range(10, 15))
    end = latest.latestOffset(start, ReadAllAvailable())
    send(url, "orders", range(15, 20))
    restarted = reader(goqueue__url=url, subscribe="orders")
    assert tasks(restarted, restarted.initialOffset(), end) == tasks(latest, start, end) == [list(range(10, 15))]
    behind = restarted.latestOffset(end, ReadAllAvailable())
    assert (behind, tasks(restarted, end, behind)) == ({"orders": {"0": 20, "1": 0}}, [list(range(15, 20))])


def test_where_nothing_is_new_the_offset_stays_as_it_is(url: str) -> None:
    given = of_broker(url)
    start = given.initialOffset()
    assert given.latestOffset(start, ReadAllAvailable()) == start
    assert given.partitions(start, start) == []
    send(url, "orders", range(3))
    end = given.latestOffset(start, ReadAllAvailable())
    assert given.latestOffset(end, ReadAllAvailable()) == end
    assert given.reportLatestOffset() == {"orders": {"0": 3, "1": 0}}


def test_a_batch_takes_no_more_than_it_may(url: str) -> None:
    send(url, "orders", range(30), 0)
    send(url, "orders", range(30, 40), 1)
    found = batches(of_broker(url, maxOffsetsPerTrigger="8"))
    assert sorted(chain.from_iterable(found)) == list(range(40))
    assert [len(batch) for batch in found] == [8] * 5


def test_a_batch_takes_no_more_bytes_than_it_may(url: str) -> None:
    send(url, "orders", range(100, 200))
    found = batches(of_broker(url, maxBytesPerTrigger="500B"))
    assert sorted(chain.from_iterable(found)) == list(range(100, 200))
    assert max(map(len, found)) * 34 < 500
    assert len(found) < 15


def test_all_is_taken_where_spark_says_so(url: str) -> None:
    send(url, "orders", range(30))
    given = of_broker(url, maxOffsetsPerTrigger="8")
    assert given.latestOffset(given.initialOffset(), ReadAllAvailable())["orders"] == {"0": 30, "1": 0}


def test_a_batch_waits_until_it_has_enough(url: str) -> None:
    given = of_broker(url, minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    start = given.initialOffset()
    send(url, "orders", range(4))
    assert given.latestOffset(start, given.getDefaultReadLimit()) == start
    send(url, "orders", range(1), 1)
    assert given.latestOffset(start, given.getDefaultReadLimit())["orders"] == {"0": 4, "1": 1}


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5)),
        ({"maxBytesPerTrigger": "1KiB"}, ReadMaxBytes(1024)),
        ({"maxBytesPerTrigger": "1KiB", "maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
    ],
)
def test_spark_is_told_of_a_limit_where_there_is_one(url: str, options: dict[str, str], limit: object) -> None:
    assert of_broker(url, **options).getDefaultReadLimit() == limit


def test_with_available_now_the_end_is_fixed_when_the_query_begins(url: str) -> None:
    send(url, "orders", range(10))
    given = of_broker(url, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="100")
    given.prepareForTriggerAvailableNow()
    send(url, "orders", range(10, 20))
    assert batches(given) == [list(range(6)), list(range(6, 10))]


def test_new_topics_that_match_are_read_from_their_beginning(url: str) -> None:
    given = reader(goqueue__url=url, subscribePattern="or.*")
    start = given.initialOffset()
    with Client(url) as client:
        client.create_topic("order-lines", 1)
    send(url, "order-lines", range(5))
    send(url, "orders", range(5, 10))
    end = given.latestOffset(start, ReadAllAvailable())
    assert tasks(given, start, end) == [list(range(5)), list(range(5, 10))]
    again = reader(goqueue__url=url, subscribePattern="or.*")
    assert tasks(again, again.initialOffset(), end) == [list(range(5)), list(range(5, 10))]


def test_new_partitions_are_read_from_their_beginning(url: str) -> None:
    send(url, "orders", range(5), 1)
    start = {"orders": {"0": 0}}
    given = of_broker(url)
    end = given.latestOffset(start, ReadAllAvailable())
    assert end == {"orders": {"0": 0, "1": 5}, "@from": {"orders": {"1": 0}}}
    assert tasks(given, start, end) == [list(range(5))]


def test_a_batch_is_cut_by_its_offsets_alone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send(url, "orders", range(25))
    start, end = {"orders": {"0": 2, "1": 0}}, {"orders": {"0": 25, "1": 0}}
    finer = [list(range(first, min(first + 6, 25))) for first in range(2, 25, 6)]
    assert tasks(of_broker(url, minPartitions="4"), start, end) == finer
    monkeypatch.setattr(stream, "SPLIT_MESSAGES", 20)
    assert tasks(of_broker(url), start, end) == [list(range(2, 22)), [22, 23, 24]]
    send(url, "orders", range(25, 500))
    assert tasks(of_broker(url), start, end) == [list(range(2, 22)), [22, 23, 24]]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("splitBytes", "1MiB"),
        ("delayed", "true"),
        ("endingOffsets", "latest"),
        ("endingTimestamp", "1760000000000"),
        ("endingOffsetsByTimestamp", '{"orders": {"0": 1760000000000}}'),
    ],
)
def test_what_is_for_batch_reads_alone_is_refused(url: str, option: str, text: str) -> None:
    with pytest.raises(RequestInvalid, match=f"{option} is for batch reads"):
        of_broker(url, **{option: text})


def test_progress_is_told_as_that_of_a_group(url: str) -> None:
    send(url, "orders", range(10))
    of_broker(url, groupId="copies").commit({"orders": {"0": 7, "1": 0}})
    with Client(url) as client:
        assert client.group_offsets("copies") == {"orders": {0: 7, 1: 0}}


def test_a_group_that_cannot_be_told_ends_no_query(broker: LocalBroker, url: str) -> None:
    given = of_broker(url, groupId="__copies")
    given.commit({"orders": {"0": 7}, "gone": {"0": 1}})
    broker.stop()


def test_a_group_with_members_keeps_its_own_progress(url: str) -> None:
    send(url, "orders", range(10))
    with Client(url) as client, client.consumer("copies", ["orders"]) as consumer:
        next(iter(consumer))
        of_broker(url, groupId="copies").commit({"orders": {"0": 7, "1": 0}})
        assert client.group_offsets("copies")["orders"].get(0, 0) < 7


def test_a_topic_that_was_deleted_is_a_loss(url: str) -> None:
    with Client(url) as client:
        client.create_topic("order-lines", 1)
        send(url, "order-lines", range(5))
        strict = reader(goqueue__url=url, subscribePattern="or.*", startingOffsets="earliest")
        start = strict.initialOffset()
        client.delete_topic("order-lines")
    with pytest.raises(TopicNotFound, match="order-lines was deleted while it was read"):
        strict.latestOffset(start, ReadAllAvailable())
    send(url, "orders", range(3))
    lenient = reader(goqueue__url=url, subscribePattern="or.*", failOnDataLoss="false")
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert tasks(lenient, start, end) == [[0, 1, 2]]


def test_the_progress_of_another_stream_is_no_loss_but_a_mistake(url: str) -> None:
    with Client(url) as client:
        client.create_topic("order-lines", 1)
    start = reader(goqueue__url=url, subscribe="order-lines", startingOffsets="earliest").initialOffset()
    with pytest.raises(RequestInvalid, match="that of a stream of topic order-lines, which is not read here"):
        of_broker(url).latestOffset(start, ReadAllAvailable())


def test_a_topic_that_was_created_anew_is_a_loss(url: str) -> None:
    send(url, "orders", range(3))
    start = {"orders": {"0": 100, "1": 0}}
    with pytest.raises(OffsetOutOfRange, match="orders/0 ends at offset 3, it was read up to 100 already"):
        of_broker(url).latestOffset(start, ReadAllAvailable())
    lenient = of_broker(url, failOnDataLoss="false")
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert (end["orders"], tasks(lenient, start, end)) == ({"0": 3, "1": 0}, [[0, 1, 2]])


@pytest.fixture
def aged(tmp_path: Path) -> str:
    """A data directory from which retention has removed the first segments of a partition."""
    path = tmp_path / "aged"
    with LocalBroker(str(path)) as local, Client(local.url) as client:
        client.create_topic("orders", 1, segment_bytes=4096)
        send(local.url, "orders", range(100))
        for first in range(100, 300, 20):
            send(local.url, "orders", range(first, first + 20))
    logs = path / "logs" / "orders" / "0"
    bases = sorted({one.name.partition(".")[0] for one in logs.iterdir() if one.name[:1].isdigit()})
    for one in logs.glob(f"{bases[0]}*"):
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    return str(path)


def test_messages_that_retention_has_removed_are_a_loss(aged: str) -> None:
    start, limit = {"orders": {"0": 0}}, ReadAllAvailable()
    strict = reader(path=aged, subscribe="orders")
    with pytest.raises(SegmentNotFound, match=r"offsets 0 to \d+ of orders/0 were removed"):
        strict.latestOffset(start, limit)
    with pytest.raises(SegmentNotFound):
        strict.partitions(start, {"orders": {"0": 300}})
    lenient = reader(path=aged, subscribe="orders", failOnDataLoss="false")
    end = lenient.latestOffset(start, limit)
    (found,) = tasks(lenient, start, end)
    assert (end["orders"], found) == ({"0": 300}, list(range(found[0], 300)))
    assert found[0] > 0
