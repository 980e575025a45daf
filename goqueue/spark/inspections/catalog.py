"""The inspections: what each takes, the fields of its rows, and how a person sees them.

A command of `goqueue spark-inspect`, a step of a pipeline, the tables and the help are all derived from these rows.
Those of messages and groups are here, those of logs in `log_catalog`.
"""

from collections.abc import Mapping
from typing import Any

from goqueue.spark.inspections.inspection import (
    COUNT,
    FLOAT,
    INT,
    INT32,
    KEY,
    KEY_LIST,
    RATE,
    SECONDS,
    SHARE,
    SIZE,
    TEXT,
    TEXT_LIST,
    TIME,
    Field,
    Inspection,
    Option,
    OptionConflict,
    at_most_one,
    choice,
    names,
    number,
    read_bucket,
    read_json_path,
    read_seconds,
    read_text,
    read_time,
    switch,
)
from goqueue.spark.inspections.log_catalog import COMPACTION, FORECAST, GAPS, SUMMARY, TRACES, VERIFY

_LOSS_SOON_SECONDS = 24 * 3600
_TOPIC, _PARTITION = Field("topic", TEXT), Field("partition", INT32)
_AT = Option("at", "Time to measure at, for a copy that is old. Default: now.", read_time, "TIME")


def _loss_style(row: Mapping[str, Any]) -> str:
    loss = row.get("loss_seconds")
    return "bad" if loss is not None and loss < _LOSS_SOON_SECONDS else ""


def _usage_conflict(given: Mapping[str, Any]) -> OptionConflict | None:
    if given.get("by") == "group" and given.get("by_header"):
        return OptionConflict("by-header", "is for messages; `by group` counts what was read", "leave out one of them")
    if given.get("by") == "tenant" and given.get("by_header"):
        return OptionConflict("by-header", "cannot be combined with `by tenant`", "leave out one of them")
    return None


DLQ = Inspection(
    "dlq",
    "Count dead letters by cause, and those that were redriven.",
    """
    \b
      goqueue spark-inspect dlq ./goqueue-data
      goqueue spark-inspect dlq ./goqueue-data jobs --since -24h
      goqueue spark-inspect dlq --url http://127.0.0.1:8080 --by origin -o json

    TOPIC is a dead-letter queue, or a topic whose dead letters are counted in all queues. Default: topics named *.dlq,
    and those that topics and groups name as their dead_letter_topic. Errors that differ only in numbers, ids or quoted
    words count as one. LEFT are dead letters that were not redriven; SAMPLES are the topic, partition and offset of
    the latest ones. `goqueue-cli dlq redrive` redrives dead letters.
    """,
    "goqueue.spark.inspections.dead_letters:inspect",
    (
        Field("error", TEXT),
        Field("origin", TEXT),
        Field("group", TEXT),
        Field("hour", TIME, format="text"),
        Field("letters", COUNT, "DEAD LETTERS"),
        Field("left", COUNT),
        Field("sent_back", COUNT, "REDRIVEN", wide=True),
        Field("new", COUNT),
        Field("attempts_mean", FLOAT, "ATTEMPTS", format="tenths"),
        Field("attempts_max", COUNT, "MAX ATTEMPTS", wide=True),
        Field("first_time", TIME, "FIRST", wide=True),
        Field("last_time", TIME, "LAST"),
        Field("oldest_left", TIME, "OLDEST LEFT", format="age"),
        Field("samples", TEXT_LIST),
    ),
    names("letters left sent_back attempts_mean attempts_max oldest_left first_time last_time samples"),
    (
        choice("by", ("error", "origin", "group", "hour"), "What dead letters are counted by.", "error"),
        Option("since", "Count dead letters since a time, a day, or -24h separately as new.", read_time, "TIME"),
        number("top", 100_000, "Maximum number of rows.", 50),
    ),
)


KEYS = Inspection(
    "keys",
    "List the most frequent keys.",
    """
    \b
      goqueue spark-inspect keys ./goqueue-data orders
      goqueue spark-inspect keys ./goqueue-data orders --top 100 -o csv
      goqueue spark-inspect keys --url http://127.0.0.1:8080 orders --approx

    A key that is not text is shown as 0x and hexadecimal digits. SHARE is the share of all messages read, including
    those without a key. With --approx the number of keys is correct within 2 %; the count of a frequent key is exact
    or, with very many keys, slightly too low. `skew` shows the effect of frequent keys on partitions.
    """,
    "goqueue.spark.inspections.keys:inspect",
    (
        _TOPIC,
        Field("key", KEY),
        Field("messages", COUNT),
        Field("bytes", SIZE, "SIZE"),
        Field("tombstones", COUNT, wide=True),
        _PARTITION,
        Field("partitions", INT32, wide=True, format="count"),
        Field("share", SHARE, format="percent"),
    ),
    names("key topic partition messages share bytes tombstones partitions"),
    (
        number("top", 100_000, "Number of keys to list.", 20),
        switch("approx", "Estimate, in bounded memory for any number of keys."),
    ),
    has_plot=True,
)


LAG = Inspection(
    "lag",
    "Show the lag of groups, and when retention overtakes them.",
    """
    \b
      goqueue spark-inspect lag ./goqueue-data
      goqueue spark-inspect lag ./goqueue-data orders --group billing --window 1h
      goqueue spark-inspect lag --url http://127.0.0.1:8080 -o json

    BEHIND is the age of the oldest message that is not acknowledged, OF RETENTION its share of the retention time or
    size. LOSES IN is the time until messages are removed unread at the speeds of the window; - is never. RATE is the
    speed of the group. DRAINS IN is - where the lag does not shrink or the group has no members. A broker is asked for
    its own numbers, with the speeds of the last minute.
    """,
    "goqueue.spark.inspections.lag:inspect",
    (
        Field("group", TEXT),
        _TOPIC,
        _PARTITION,
        Field("member_id", TEXT, "MEMBER", wide=True),
        Field("committed", COUNT),
        Field("end", COUNT),
        Field("messages", COUNT, "LAG"),
        Field("bytes", SIZE, "SIZE"),
        Field("seconds", SECONDS, "BEHIND"),
        Field("retention_seconds", FLOAT),
        Field("retention_bytes", INT),
        Field("retention_share", SHARE, "OF RETENTION"),
        Field("loss_seconds", SECONDS, "LOSES IN", style=_loss_style),
        Field("in_flight", COUNT, "IN FLIGHT", wide=True),
        Field("waiting", COUNT, wide=True),
        Field("lost", COUNT, wide=True),
        Field("rate", RATE),
        Field("incoming", RATE),
        Field("drain_seconds", SECONDS, "DRAINS IN"),
    ),
    names(
        "group topic partition committed end messages bytes seconds retention_share loss_seconds rate incoming "
        "drain_seconds in_flight waiting lost member_id"
    ),
    (
        Option("group", "Show this group only; may be repeated.", read_text, "NAME", is_list=True, short="-g"),
        Option("window", "Time over which speeds are measured.", read_seconds, "DURATION", "10m"),
        _AT,
    ),
    has_range=False,
)


LATENCY = Inspection(
    "latency",
    "Measure how long messages take to reach the log, and to be acknowledged.",
    """
    \b
      goqueue spark-inspect latency ./goqueue-data orders
      goqueue spark-inspect latency ./goqueue-data orders --header produced_at \\
        --bucket 1h
      goqueue spark-inspect latency --url http://127.0.0.1:8080 orders \\
        --field order.created -o json

    SPAN is `publish` (from the producer's own time to the log), `acknowledge` (from the log to the acknowledgement) or
    `work` (from delivery to acknowledgement). The producer's time is RFC 3339, or a number since 1970 in s, ms, µs or
    ns. Percentiles are accurate to 0.05 %. A negative latency means that the producer's clock is ahead. --plot draws
    the p99 of each bucket.
    """,
    "goqueue.spark.inspections.latency:inspect",
    (
        Field("time", TIME),
        Field("span", TEXT),
        _TOPIC,
        Field("group", TEXT),
        Field("messages", COUNT),
        *(Field(f"{name}_seconds", SECONDS, name.upper()) for name in ("p50", "p90", "p99", "max")),
        *(Field(f"{name}_seconds", SECONDS, name.upper(), wide=True) for name in ("mean", "min")),
    ),
    names("span topic group messages p50_seconds p90_seconds p99_seconds max_seconds mean_seconds min_seconds"),
    (
        Option("header", "Header with the producer's own time.", read_text, "NAME"),
        Option("field", "Field of a JSON value with the producer's time: order.created.", read_json_path, "PATH"),
        Option("bucket", "Measure over time, in steps as in 1m, 1h or 1d.", read_bucket, "DURATION"),
    ),
    at_most_one("header", "field"),
    has_plot=True,
    plot_needs="bucket",
)


SIZES = Inspection(
    "sizes",
    "Measure message sizes: percentiles, histogram, the largest messages.",
    """
    \b
      goqueue spark-inspect sizes ./goqueue-data
      goqueue spark-inspect sizes ./goqueue-data orders --histogram value
      goqueue spark-inspect sizes --url http://127.0.0.1:8080 orders \\
        --biggest 20 -o json

    The table is followed by the histogram of frames and the ten largest messages; other forms of output have these
    with --histogram and --biggest only. A frame is a message as it is stored on disk. Percentiles are exact up to 1 MiB
    and rounded up to 1 KiB above. Values that their producer compressed count with their compressed size; RATIO
    (-o wide) is the original size divided by it.
    """,
    "goqueue.spark.inspections.sizes:inspect",
    (
        _TOPIC,
        Field("part", TEXT),
        Field("messages", COUNT),
        Field("mean", FLOAT, format="mean_size"),
        *(Field(f"p{share}", SIZE) for share in (50, 90, 95, 99)),
        Field("max", SIZE),
        Field("bytes", SIZE, "TOTAL"),
        Field("compressed", COUNT, wide=True),
        Field("from", SIZE),
        Field("below", SIZE),
        Field("size", SIZE),
        Field("ratio", FLOAT, wide=True, format="hundredths"),
        _PARTITION,
        Field("offset", INT),
        Field("segment", INT),
    ),
    names("topic part messages mean p50 p90 p95 p99 max bytes compressed ratio"),
    (
        choice("histogram", ("frame", "value", "key", "headers"), "Count messages by size, in powers of two."),
        number("biggest", 1000, "List the largest messages."),
    ),
    at_most_one("histogram", "biggest"),
    has_plot=True,
)


SKEW = Inspection(
    "skew",
    "Measure how unevenly messages are spread over partitions.",
    """
    \b
      goqueue spark-inspect skew ./goqueue-data
      goqueue spark-inspect skew ./goqueue-data 'orders-*' --from -24h
      goqueue spark-inspect skew --url http://127.0.0.1:8080 orders -o json

    OF MEAN is the number of messages of a partition divided by the mean. The Gini coefficient is 0 where all
    partitions have the same number of messages, and close to 1 where one has all of them. The share of a key is its
    share of its partition.
    """,
    "goqueue.spark.inspections.skew:inspect",
    (
        _TOPIC,
        _PARTITION,
        Field("messages", COUNT),
        Field("bytes", SIZE, "SIZE"),
        Field("tombstones", INT),
        Field("without_key", INT),
        Field("share", SHARE, format="percent"),
        Field("of_mean", FLOAT, "OF MEAN", format="hundredths"),
        Field("hot_key", KEY, "HOTTEST KEY"),
        Field("hot_key_share", SHARE, "KEY SHARE", format="percent"),
        Field("hot_keys", KEY_LIST),
        Field("max_to_mean", FLOAT),
        Field("gini", FLOAT),
        Field("verdict", TEXT, is_stored=False),
    ),
    names(
        "topic partition messages share bytes of_mean hot_key hot_key_share -tombstones -without_key -hot_keys "
        "-max_to_mean -gini -verdict"
    ),
)


TIMELINE = Inspection(
    "timeline",
    "Count messages over time, and show the peak and the silent periods.",
    """
    \b
      goqueue spark-inspect timeline ./goqueue-data orders
      goqueue spark-inspect timeline ./goqueue-data --from -24h --bucket 15m \\
        --by topic
      goqueue spark-inspect timeline --url http://127.0.0.1:8080 orders \\
        --plot orders.svg

    The time of a message is its append time; buckets begin at whole multiples of their length, in UTC. PEAK is the
    busiest second of a bucket. Buckets without messages are included.
    """,
    "goqueue.spark.inspections.timeline:inspect",
    (
        _TOPIC,
        _PARTITION,
        Field("priority", TEXT),
        Field("start", TIME, "TIME"),
        Field("seconds", FLOAT),
        Field("messages", COUNT),
        Field("bytes", SIZE, "SIZE"),
        Field("rate", RATE),
        Field("byte_rate", FLOAT, "BYTES/S", wide=True, format="size_rate"),
        Field("peak_rate", RATE, "PEAK"),
        Field("peak_time", TIME),
    ),
    names("start messages rate peak_rate bytes byte_rate -seconds -peak_time"),
    (
        Option("bucket", "Length of a bucket, as in 1m. Default: fits the log.", read_bucket, "DURATION"),
        choice("by", ("topic", "partition", "priority"), "Make a timeline for each of these."),
    ),
    has_plot=True,
)


USAGE = Inspection(
    "usage",
    "Count what topics, producers and groups write and read.",
    """
    \b
      goqueue spark-inspect usage ./goqueue-data --per day
      goqueue spark-inspect usage ./goqueue-data orders --by-header tenant \\
        --per day -o csv
      goqueue spark-inspect usage --url http://127.0.0.1:8080 --by producer \\
        --from -24h
      goqueue spark-inspect usage ./goqueue-data --by group
      goqueue spark-inspect usage ./goqueue-data --by tenant

    SIZE is the size of whole messages on disk. PRODUCER is the producer id; - are messages that were published without
    one. What groups have read comes from their own log, which keeps a limited time: the start of it is printed.
    """,
    "goqueue.spark.inspections.usage:inspect",
    (
        Field("start", TIME),
        _TOPIC,
        _PARTITION,
        Field("producer", INT),
        Field("header", KEY),
        Field("messages", COUNT),
        Field("bytes", SIZE, "SIZE"),
        Field("payload_bytes", SIZE, "KEYS AND VALUES"),
        Field("day", TIME, is_stored=False, format="day"),
        Field("hour", TIME, is_stored=False, format="minute"),
        Field("group", TEXT, is_stored=False),
        Field("tenant", TEXT, is_stored=False),
        Field("recorded_messages", COUNT, "RECORDED", is_stored=False),
        Field("recorded_bytes", SIZE, "RECORDED SIZE", is_stored=False),
        Field("acknowledged", COUNT, is_stored=False),
        Field("dead_letters", COUNT, "DEAD LETTERS", is_stored=False),
    ),
    names("topic messages bytes payload_bytes"),
    (
        choice(
            "by",
            ("topic", "partition", "producer"),
            "What is counted by; group counts what was read.",
            "topic",
            command_choices=("group", "tenant"),
        ),
        Option("by_header", "Also count by the values of this header, as in tenant.", read_text, "NAME"),
        choice("per", ("day", "hour"), "Count over time, in days or hours of UTC."),
    ),
    _usage_conflict,
)

INSPECTIONS: dict[str, Inspection] = {
    one.name: one
    for one in (
        COMPACTION, DLQ, FORECAST, GAPS, KEYS, LAG, LATENCY, SIZES, SKEW, SUMMARY, TIMELINE, TRACES, USAGE, VERIFY
    )
}  # fmt: skip
