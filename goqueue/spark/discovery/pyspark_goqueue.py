"""Where Spark looks for `format("goqueue")`: any module at the top level whose name begins with `pyspark_`."""

from goqueue.spark.source import GoQueueSource as DefaultSource

__all__ = ["DefaultSource"]
