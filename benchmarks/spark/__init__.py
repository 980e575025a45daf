"""Spark over logs: questions, rows, writes and starts, and the same with the formats that Spark brings along.

`stock` makes a log, `stage` keeps it, and Spark, for a whole run, `tables` has its rows in other formats; the other
modules measure. What the start of a job takes is the same for little and for much, so the budgets of rates hold for
the whole amount.
"""

from benchmarks.harness.suite import Suite
from benchmarks.spark import inspections, memory, reads, remote, starts, typed, writes

SUITE = Suite(
    "spark",
    (
        inspections.ours,
        inspections.one_segment,
        inspections.growth,
        remote.at_work,
        reads.ours,
        writes.export,
        typed.typed,
        *inspections.peers,
        reads.parquet,
        reads.json_lines,
        reads.text,
        writes.export_parquet,
        writes.export_json,
        writes.publish,
        writes.write_json,
        writes.stream,
        writes.stream_files,
        memory.peaks,
        starts.archived,
        starts.plain,
        starts.pyspark,
    ),
)
