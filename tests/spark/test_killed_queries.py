"""Streams between topics whose process is killed on the way, and whose tasks fail at their first attempt."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.client import Client
from tests.spark import loaded_daemon, test_sink, test_transactional_sink
from tests.spark.programs import relatives
from tests.spark.shared_jvm import SETTINGS
from tests.spark.test_sink import fill, url, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["url"]

ROOT = Path(__file__).resolve().parents[2]
COPIES = """
import json, sys
from pyspark import TaskContext
from goqueue.spark.session import Cluster, session

url, checkpoint, settings = sys.argv[1:]
conf = {**json.loads(settings), "spark.sql.execution.arrow.maxRecordsPerBatch": "100"}

def fails_at_first(batches):
    for number, batch in enumerate(batches):
        if TaskContext.get().attemptNumber() == 0 and number == 8:
            raise OSError("the first attempt fails")
        yield batch

def copy(topic, **options):
    rows = spark.readStream.format("goqueue").option("goqueue.url", url).option("subscribe", "orders")
    rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "2000").load()
    rows = rows.select("key", "value").mapInArrow(fails_at_first, "key binary, value binary")
    out = rows.writeStream.format("goqueue").options(**{"goqueue.url": url, "topic": topic}, **options)
    return out.option("checkpointLocation", f"{checkpoint}/{topic}").start()

with session(Cluster("local[2,3]", conf=conf), name="copy", is_brief=True) as spark:
    copy("copy", transactional_id="copies")
    copy("other").awaitTermination()
"""


@pytest.mark.slow
def test_killed_queries_leave_no_process_and_continue_with_each_message_once(
    spark: "SparkSession", url: str, tmp_path: Path
) -> None:
    """One query writes in transactions: its readers see whole batches at all times."""
    with Client(url) as client:
        client.create_topic("other", 2)
    fill(url, 0, 5000, 5000)
    seen = set[int]()
    settings = {**SETTINGS, "spark.python.daemon.module": loaded_daemon.__name__}
    process = subprocess.Popen(
        [sys.executable, "-c", COPIES, url, str(tmp_path), json.dumps(settings)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "KILLED": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with Client(url) as client:
            while min(client.topic(topic).total_messages for topic in ("copy", "other")) < 2500:
                seen.add(len(values(url, "copy")))
                with pytest.raises(subprocess.TimeoutExpired):  # it would copy for ever
                    process.wait(0.2)
        others = [os.pidfd_open(other) for other in relatives(f"KILLED={tmp_path}") if other != process.pid]
    finally:
        process.kill()
        process.wait()
    assert len(others) >= 3  # the JVM, the daemon, the worker
    assert all(map(ends, others))
    assert seen | {len(values(url, "copy"))} <= {0, 2000, 4000, 5000}  # the last batch may come before the kill
    test_transactional_sink.copy(spark, url, tmp_path / "copy")
    test_sink.copy(spark, url, tmp_path / "other", topic="other")
    assert values(url, "copy") == values(url, "other") == values(url, "orders")


def ends(process: int) -> bool:
    """Wait for the end of a process that is not a child."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    try:
        return bool(poll.poll(30_000))
    finally:
        os.close(process)
