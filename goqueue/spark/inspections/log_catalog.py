"""The inspections of logs: their content, damage, gaps, growth, and what compaction would free."""

from collections.abc import Mapping
from typing import Any

from goqueue.spark.inspections.inspection import (
    COUNT,
    FLAG,
    INT,
    INT32,
    KEY,
    SECONDS,
    SHARE,
    SIZE,
    TEXT,
    TIME,
    WHOLE_SECONDS,
    Field,
    Inspection,
    Option,
    OptionConflict,
    choice,
    names,
    number,
    read_size,
    read_time,
    switch,
)

REPEATS_MAX = 10_000
"""Repeated contents that are listed: the key of each is looked up in the log."""
_TOPIC, _PARTITION = Field("topic", TEXT), Field("partition", INT32)
_AT = Option("at", "Time to measure at, for a copy that is old. Default: now.", read_time, "TIME")


def _gap_style(row: Mapping[str, Any]) -> str:
    return "faint" if row["what"] in {"compacted", "removed"} else "bad"


def _fault_style(row: Mapping[str, Any]) -> str:
    return "bad" if row["damage"] else "moving"


def _gaps_conflict(given: Mapping[str, Any]) -> OptionConflict | None:
    if given.get("content") and (given.get("max") or 0) > REPEATS_MAX:
        return OptionConflict("max", f"is too large beside content, which lists {REPEATS_MAX:,} at most", "lower it")
    return None


def _compaction_conflict(given: Mapping[str, Any]) -> OptionConflict | None:
    if given.get("keys") and given.get("approx"):
        return OptionConflict("approx", "counts keys without listing them", "leave out keys or approx")
    return None


COMPACTION = Inspection(
    "compaction",
    "Estimate what compaction would free, and list superseded keys.",
    """
    \b
      goqueue spark-inspect compaction ./goqueue-data
      goqueue spark-inspect compaction ./goqueue-data 'state-*' --keys --top 50
      goqueue spark-inspect compaction --url http://127.0.0.1:8080 users \\
        --approx -o json

    The estimate counts every segment as if it were sealed; the active segment is compacted only after it is. DUE are
    tombstones older than a day, which are removed as well. DIRTY is the part of the log that has not been compacted;
    it is unknown for a broker. With many different keys, Spark needs temporary disk space; --approx does not.
    """,
    "goqueue.spark.inspections.compaction:inspect",
    (
        _TOPIC,
        _PARTITION,
        Field("cleanup", TEXT),
        Field("messages", COUNT),
        Field("bytes", SIZE, "SIZE"),
        Field("keys", COUNT),
        Field("without_key", COUNT, "WITHOUT KEY", wide=True),
        Field("superseded", COUNT),
        Field("superseded_bytes", SIZE, "SIZE"),
        Field("tombstones", COUNT),
        Field("tombstones_due", COUNT, "DUE"),
        Field("gain_bytes", SIZE, "GAIN"),
        Field("gain_share", SHARE, "SHARE"),
        Field("clean", COUNT, "CLEAN TO", wide=True),
        Field("dirty_bytes", SIZE),
        Field("dirty_share", SHARE, "DIRTY"),
        Field("key", KEY),
    ),
    names(
        "topic partition cleanup messages keys without_key superseded tombstones tombstones_due bytes gain_bytes "
        "gain_share clean dirty_share"
    ),
    (
        switch("keys", "List the keys with most superseded messages instead of the partitions."),
        number("top", 100_000, "Number of keys to list with --keys.", 20),
        switch("approx", "Estimate the number of different keys within 2 %, in little memory."),
    ),
    _compaction_conflict,
)


FORECAST = Inspection(
    "forecast",
    "Forecast how topics grow, and when the disk will be full.",
    """
    \b
      goqueue spark-inspect forecast ./goqueue-data
      goqueue spark-inspect forecast ./goqueue-data --disk 500GB
      goqueue spark-inspect forecast --url http://127.0.0.1:8080 --disk 2TB \\
        -o json

    STEADY SIZE is the size of a topic once retention removes as much as is published. TREND is the growth of the daily
    volume per day, or `steady` where it cannot be told from chance; it needs four whole days, and tells days of the
    week apart from two weeks on. MAX holds in 19 of 20 cases if the trend continues. Compaction is not included.
    """,
    "goqueue.spark.inspections.forecast:inspect",
    (
        _TOPIC,
        Field("messages", INT),
        Field("bytes", SIZE, "SIZE"),
        Field("bytes_per_day", SIZE, "PER DAY"),
        Field("messages_per_day", COUNT, "MESSAGES PER DAY"),
        Field("trend", TEXT),
        Field("trend_bytes_per_day", INT),
        Field("trend_error_bytes_per_day", INT),
        Field("kept", TEXT, "RETENTION"),
        Field("balance_bytes", SIZE, "STEADY SIZE"),
        Field("bytes_in_30_days", SIZE, "IN 30 DAYS"),
        Field("bytes_in_30_days_least", SIZE, "MIN", wide=True),
        Field("bytes_in_30_days_most", SIZE, "MAX"),
        Field("hours", INT, "HISTORY", format="hours"),
        Field("free_bytes", INT),
        Field("full_seconds", WHOLE_SECONDS, "FULL IN"),
        Field("full_seconds_earliest", INT),
        Field("full_seconds_latest", INT),
    ),
    names(
        "topic bytes bytes_per_day messages_per_day trend kept balance_bytes bytes_in_30_days bytes_in_30_days_least "
        "bytes_in_30_days_most hours full_seconds"
    ),
    (
        Option("disk", "Space for all topics, as in 500GB. Default: what is free on their disk.", read_size, "SIZE"),
        _AT,
    ),
)


GAPS = Inspection(
    "gaps",
    "Find missing offsets, broken order and messages that were published twice.",
    """
    \b
      goqueue spark-inspect gaps ./goqueue-data
      goqueue spark-inspect gaps ./goqueue-data orders --max 1000 -o csv
      goqueue spark-inspect gaps --url http://127.0.0.1:8080 orders --content

    Compaction and retention explain gaps; gaps without an explanation are listed first when --max cuts, and make the
    exit code 1. In a topic that a broker compacts, all gaps below its last segment count as explained. Repeated
    offsets and falling times are reported as damage, because readers refuse them.
    """,
    "goqueue.spark.inspections.gaps:inspect",
    (
        Field("what", TEXT, format="code", style=_gap_style),
        _TOPIC,
        _PARTITION,
        Field("path", TEXT, "FILE", wide=True),
        Field("first_offset", INT, "FIRST"),
        Field("next_offset", INT),
        Field("reason", TEXT),
        Field("position", INT),
        Field("end", INT),
        Field("last_offset", INT, "LAST"),
        Field("count", COUNT, "OFFSETS"),
        Field("explained", FLAG),
        Field("key", KEY),
        Field("value_bytes", SIZE, "VALUE"),
        Field("copies", COUNT),
        Field("first_partition", INT32),
        Field("first_time", TIME, "FIRST TIME", format="millisecond"),
        Field("last_partition", INT32),
        Field("last_time", TIME, "LAST TIME", format="millisecond"),
        Field("first", TEXT, "FIRST AT", is_stored=False),
        Field("last", TEXT, "LAST AT", is_stored=False),
    ),
    names("what topic partition first_offset last_offset count explained reason path -next_offset -position -end"),
    (
        number("max", 1_000_000, "Maximum number of rows.", 100),
        switch("content", "Find messages with the same key and value instead."),
    ),
    _gaps_conflict,
    reads_all_frames=True,
)


SUMMARY = Inspection(
    "summary",
    "Show what topics hold, with every frame verified.",
    """
    \b
      goqueue spark-inspect summary ./goqueue-data
      goqueue spark-inspect summary ./goqueue-data 'orders-*' --from -24h
      goqueue spark-inspect summary --url http://127.0.0.1:8080 orders -o json

    A broker may use the directory at the same time. `verify` lists the damaged byte ranges.
    """,
    "goqueue.spark.inspections.summary:inspect",
    (
        _TOPIC,
        _PARTITION,
        Field("segments", COUNT),
        Field("first_offset", INT),
        Field("next_offset", INT),
        Field("messages", COUNT),
        Field("bytes", SIZE, "SIZE"),
        Field("value_bytes", INT),
        Field("without_key", COUNT, "WITHOUT KEY", wide=True),
        Field("with_headers", INT),
        Field("compressed", INT),
        Field("tombstones", COUNT, wide=True),
        Field("control_records", INT),
        Field("uncommitted", COUNT, wide=True),
        Field("first_time", TIME, "FIRST"),
        Field("last_time", TIME, "LAST"),
        Field("damages", COUNT),
        Field("lost", INT),
        Field("offsets", TEXT, is_stored=False),
    ),
    names(
        "topic partition messages bytes segments offsets first_time last_time damages tombstones without_key "
        "uncommitted"
    ),
)


TRACES = Inspection(
    "traces",
    "Measure how long storing and handling take, and count what fails and why.",
    """
    \b
      goqueue spark-inspect traces ./goqueue-data
      goqueue spark-inspect traces ./goqueue-data orders --by reason --from -24h
      goqueue spark-inspect traces ./goqueue-data --slowest 20 -o json

    It reads the trace files of a data directory, also while a broker writes them. An event with a duration is
    `publish.persisted` (from the append until it is committed), or one that ends a delivery, such as `consume.acked`.
    Percentiles count each message, and are accurate to 0.1 %. Only what is sampled is there; --slowest names messages
    as `goqueue-cli trace get` takes them.
    """,
    "goqueue.spark.inspections.traces:inspect",
    (
        _TOPIC,
        Field("group", TEXT),
        Field("event", TEXT),
        Field("reason", TEXT),
        Field("member", TEXT),
        Field("messages", COUNT),
        Field("records", COUNT, wide=True),
        *(Field(f"{name}_seconds", SECONDS, name.upper()) for name in ("p50", "p90", "p99", "max")),
        Field("first_time", TIME, "FIRST", wide=True),
        Field("last_time", TIME, "LAST", format="millisecond"),
        _PARTITION,
        Field("first", INT, "FIRST OFFSET"),
        Field("end", INT),
        Field("attempt", INT),
        Field("seconds", SECONDS, "TOOK"),
        Field("message", TEXT, is_stored=False),
    ),
    names("topic group event messages p50_seconds p90_seconds p99_seconds max_seconds last_time records first_time"),
    (
        choice("by", ("event", "reason", "member"), "What is counted by, besides topic, group and event.", "event"),
        number("slowest", 1000, "List the slowest batches instead."),
        number("top", 100_000, "Maximum number of rows.", 100),
    ),
)


VERIFY = Inspection(
    "verify",
    "Check every frame and the order of messages, and list damage.",
    """
    \b
      goqueue spark-inspect verify ./goqueue-data
      goqueue spark-inspect verify ./goqueue-data 'orders-*' --index
      goqueue spark-inspect verify --url http://127.0.0.1:8080 orders -o json

    It reports the same byte ranges as `goqueue fsck`, also while a broker uses the directory. The exit code is 1 where
    messages are damaged or missing, or an index is wrong. Nothing is changed: `goqueue fsck --repair` repairs.
    """,
    "goqueue.spark.inspections.verify:inspect",
    (
        Field("code", TEXT, "FINDING", style=_fault_style),
        _TOPIC,
        _PARTITION,
        Field("path", TEXT, "FILE"),
        Field("reason", TEXT),
        Field("position", INT),
        Field("end", INT),
        Field("first_offset", INT),
        Field("next_offset", INT),
        Field("damage", FLAG),
        Field("offsets", TEXT, is_stored=False),
        Field("range", TEXT, "BYTES", is_stored=False),
    ),
    names("code topic partition offsets range reason path -position -end -first_offset -next_offset -damage"),
    (switch("index", "Also compare each index with its log, which reads the log twice."),),
    file_options=frozenset({"index"}),
    reads_all_frames=True,
)
