"""Dead letters: classes, origins, what was sent back and what is new."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.client import Client, ConsumerArguments
from goqueue.errors import TopicNotFound
from goqueue.spark.inspections.dead_letter_queues import Origins, find_queues
from goqueue.spark.inspections.dead_letters import (
    By,
    DeadLetterClass,
    DeadLetterScan,
    count_dead_letters,
    error_class,
)
from goqueue.spark.inspections.internal_logs import read_group_logs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import TopicSelection, make_plan
from goqueue.testing.broker import LocalBroker
from tests.spark import naive
from tests.spark.traffic import SENT_BACK, Traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def found(spark: "SparkSession", path: Path, by: By, *names: str, since_ns: int | None = None) -> list[DeadLetterClass]:
    logs = DirectoryLogs.at(str(path))
    groups = read_group_logs(logs)
    queues = find_queues(logs, groups, names)
    plan = make_plan(logs, TopicSelection(tuple(queues)))
    return count_dead_letters(spark, plan.splits(logs), DeadLetterScan(logs, by, since_ns, groups.sent_back(), queues))


def queues_of(path: Path, *names: str) -> dict[str, Origins]:
    logs = DirectoryLogs.at(str(path))
    return find_queues(logs, read_group_logs(logs), names)


def times(path: Path) -> list[int]:
    return [one.timestamp_ns for number in range(2) for _, _, one in naive.frames(path, "jobs.dlq", number)]


def test_errors_that_differ_in_a_number_are_one_class(spark: "SparkSession", worked: Traffic) -> None:
    (one,) = found(spark, worked.path, "error")
    assert (one.what, one.letters, one.sent_back, one.left) == (
        "no such form …", worked.rejected, SENT_BACK, worked.rejected - SENT_BACK
    )  # fmt: skip
    assert (one.attempts, one.attempts_max) == (worked.rejected, 1)
    assert (one.first_ns, one.last_ns) == (min(times(worked.path)), max(times(worked.path)))
    assert all(place.startswith("jobs.dlq/") for place in one.samples)


def test_origins_are_topics_with_their_partitions(spark: "SparkSession", worked: Traffic) -> None:
    counts = {one.what: one.letters for one in found(spark, worked.path, "origin")}
    expected = {f"jobs/{number}": len(naive.frames(worked.path, "jobs.dlq", number)) for number in range(2)}
    assert counts == {place: count for place, count in expected.items() if count}


def test_what_is_new_is_counted_apart(spark: "SparkSession", worked: Traffic) -> None:
    latest = max(times(worked.path))
    (one,) = found(spark, worked.path, "group", since_ns=latest)
    assert (one.what, one.fresh) == ("billing", times(worked.path).count(latest))


def test_hours_begin_at_whole_hours(spark: "SparkSession", worked: Traffic) -> None:
    classes = found(spark, worked.path, "hour")
    assert all(int(one.what) % 3_600_000_000_000 == 0 and one.first_ns >= int(one.what) for one in classes)
    assert sum(one.letters for one in classes) == worked.rejected


def test_a_topic_stands_for_its_dead_letters(worked: Traffic) -> None:
    assert queues_of(worked.path) == queues_of(worked.path, "jobs.dlq") == {"jobs.dlq": None}
    assert queues_of(worked.path, "jobs") == {"jobs.dlq": frozenset({"jobs"})}
    assert queues_of(worked.path, "state") == {}
    with pytest.raises(TopicNotFound, match="nothing"):
        queues_of(worked.path, "nothing")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics with one queue for both, which has other messages too, and a group with a queue of its own."""
    path = tmp_path_factory.mktemp("shared") / "data"
    with LocalBroker(str(path)) as broker, Client(broker.url) as client:
        client.create_topic("failed", 1)
        for topic in ("orders", "payments"):
            client.create_topic(topic, 1, dead_letter_topic="failed")
            client.publish(topic, "x")
        client.publish("failed", "not a dead letter")
        for group, queue in (("billing", None), ("audit", "audit-failed"), ("former", "former-failed")):
            options: ConsumerArguments = {"until_idle": "200ms", "dead_letter_topic": queue}
            with client.consumer(group, ["orders", "payments"], **options) as consumer:
                for message in consumer:
                    message.reject(f"{group} failed")
        client.alter_group("former", dead_letter_topic=None)
    return path


def test_queues_that_settings_of_topics_and_groups_name_are_found(spark: "SparkSession", shared: Path) -> None:
    assert queues_of(shared) == {"audit-failed": None, "failed": None}
    orders = frozenset({"orders"})
    assert queues_of(shared, "orders") == {"audit-failed": orders, "failed": orders}
    assert queues_of(shared, "orders", "failed") == {"audit-failed": orders, "failed": None}
    counts = {one.what: one.letters for one in found(spark, shared, "group")}
    assert counts == {"audit": 2, "billing": 2}, "other messages of the queue do not count"


def test_dead_letters_of_one_topic_are_counted_in_a_shared_queue(spark: "SparkSession", shared: Path) -> None:
    counts = {one.what: one.letters for one in found(spark, shared, "origin", "orders")}
    assert counts == {"orders/0": 2}


def test_queue_that_no_setting_names_any_more_is_found_by_its_headers(spark: "SparkSession", shared: Path) -> None:
    assert queues_of(shared, "former-failed") == {"former-failed": None}
    (one,) = found(spark, shared, "group", "former-failed")
    assert (one.what, one.letters) == ("former", 2)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("no such form 17", "no such form …"),
        ("order 6f1c2e9a-0b1d-4c5e-8f90-112233445566 is unknown", "order … is unknown"),
        ("KeyError: 'customer'", "KeyError: …"),
        ("timeout after 30.5 s", "timeout after … s"),
        ("bad face", "bad face"),
        ("", ""),
    ],
)
def test_what_varies_in_an_error_is_left_out(error: str, expected: str) -> None:
    assert error_class(error) == expected
