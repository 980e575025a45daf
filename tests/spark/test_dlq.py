"""Dead letters: classes, origins, what was sent back and what is new."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.errors import TopicNotFound
from goqueue.spark.inspections.dead_letters import (
    By,
    DeadLetterClass,
    count_dead_letters,
    dead_letter_topics,
    error_class,
)
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import TopicSelection, make_plan
from tests.spark import naive
from tests.spark.traffic import SENT_BACK, Traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def found(spark: "SparkSession", path: Path, by: By, since_ns: int | None = None) -> list[DeadLetterClass]:
    logs = DirectoryLogs.at(str(path))
    plan = make_plan(logs, TopicSelection(dead_letter_topics(logs, ())))
    return count_dead_letters(spark, logs, plan.splits(logs), by=by, since_ns=since_ns)


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
    logs = DirectoryLogs.at(str(worked.path))
    assert (
        dead_letter_topics(logs, ("jobs",))
        == dead_letter_topics(logs, ("jobs.dlq",))
        == dead_letter_topics(logs, ())
        == ("jobs.dlq",)
    )
    assert dead_letter_topics(logs, ("state",)) == ()
    with pytest.raises(TopicNotFound, match="nothing"):
        dead_letter_topics(logs, ("nothing",))


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
