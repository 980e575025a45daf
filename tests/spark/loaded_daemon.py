"""The modules of Spark's Python workers, and a daemon of workers that has loaded them: each is forked from it.

A short task spends most of its time on loading them. Users' workers load them after the fork, as is Spark's way.
"""

import os
from importlib import import_module

MODULES = (
    "pandas",
    "pyarrow",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "goqueue.spark.source",
    "goqueue.spark.logs.broker",
    "goqueue.spark.logs.directory",
    "goqueue.spark.sink.transactional",
    "goqueue.spark.stream.reader",
    "goqueue.spark.typed.columns",
)


def load() -> None:
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # a fork has its own thread alone
    for name in MODULES:
        import_module(name)


if __name__ == "__main__":
    from pyspark.daemon import manager

    load()
    manager()
