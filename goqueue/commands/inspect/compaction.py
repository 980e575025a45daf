"""`goqueue spark-inspect compaction`: what compaction would gain."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.commands.inspect.texts import in_texts
from goqueue.console import terminal
from goqueue.console.rows import Column
from goqueue.quantities import format_count, format_size

if TYPE_CHECKING:
    from goqueue.spark.inspections.compaction import Gain
    from goqueue.spark.inspections.ledger import TopicFacts

_Keys = Annotated[
    bool, typer.Option("--keys", help="Tell the keys with most superseded messages, and not the partitions.")
]
_Top = Annotated[int, typer.Option("--top", metavar="N", min=1, max=100_000, help="With --keys: so many at most.")]
_Approx = Annotated[bool, typer.Option("--approx", help="Estimate the different keys, within 2 %, in little memory.")]

_BRIEF_MESSAGES = 1_000_000  # with more, what passes through the JVM is worth its better compiler
_WORTH = 0.5
"""Of a topic's bytes: from there on compaction is worth a word."""

_PARTITIONS = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("CLEANUP", "cleanup"),
    Column("MESSAGES", "messages", format_count),
    Column("KEYS", "keys", format_count),
    Column("WITHOUT KEY", "without_key", format_count, wide=True),
    Column("SUPERSEDED", "superseded", format_count),
    Column("TOMBSTONES", "tombstones", format_count),
    Column("DUE", "tombstones_due", format_count),
    Column("SIZE", "bytes", format_size),
    Column("GAIN", "gain_bytes", format_size),
    Column("SHARE", "gain_share", lambda share: f"{share:.1%}"),
    Column("CLEAN TO", "clean", format_count, wide=True),
    Column("DIRTY", "dirty_share", lambda share: f"{share:.1%}"),
)
_OF_KEYS = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("KEY", "key"),
    Column("SUPERSEDED", "superseded", format_count),
    Column("SIZE", "superseded_bytes", format_size),
)


@inquiry_flags
def compaction(keys: _Keys = False, top: _Top = 20, approx: _Approx = False, *, inquiry: Inquiry) -> None:
    """Tell what compaction would gain, and which keys are superseded most.

    \b
      goqueue spark-inspect compaction ./goqueue-data
      goqueue spark-inspect compaction ./goqueue-data 'state-*' --keys --top 50
      goqueue spark-inspect compaction --url http://127.0.0.1:8080 users \\
        --approx -o json

    It is told as if every segment were sealed: the one that is written to waits until it is. DUE are tombstones older
    than a day, which go as well. DIRTY is the part of the log where no compaction has been; a broker does not tell.
    Where many keys are different, their parts lie in Spark's directory for a while; --approx needs none of that.
    """
    from goqueue.console.groups import UsageInvalid  # noqa: PLC0415
    from goqueue.spark.inspections.compaction import INSPECTION, Findings, key_rows, rows  # noqa: PLC0415 - it needs numpy
    from goqueue.spark.inspections.compaction import compaction as find  # noqa: PLC0415
    from goqueue.spark.inspections.ledger import read_topics  # noqa: PLC0415

    if keys and approx:
        raise UsageInvalid("--approx knows no single key", hint="leave --keys or --approx out")
    logs = inquiry.logs()
    plan, topics = inquiry.plan(logs), read_topics(logs)
    found = Findings((), ())
    if plan.ranges:
        with inquiry.spark(is_brief=plan.messages < _BRIEF_MESSAGES) as spark, inquiry.progress(spark, plan):
            found = find(spark, logs, plan, now_ns=time.time_ns(), top=top if keys else 0, is_approximate=approx)
    if keys:
        inquiry.write(in_texts(key_rows(found.keys), INSPECTION.schema), _OF_KEYS)
    else:
        inquiry.write(rows(found.gains, topics), _PARTITIONS)
    inquiry.say_what_was_read(plan)
    if inquiry.for_people and not keys:
        _advise(found.gains, topics)


def _advise(gains: "tuple[Gain, ...]", topics: "Mapping[str, TopicFacts]") -> None:
    """Topics that are not compacted, and of which most would go: a person may not have thought of it."""
    sums: dict[str, Any] = {}
    for one in gains:
        gain, size = sums.get(one.topic, (0, 0))
        sums[one.topic] = gain + one.gain, size + one.bytes
    for topic, (gain, size) in sums.items():
        facts = topics.get(topic)
        if facts is None or topic.endswith(".dlq"):
            continue
        if "compact" not in facts.settings.cleanup and size and gain / size >= _WORTH:
            terminal.say(
                f"{topic} is not compacted: if only the latest message of a key is needed, "
                f"that would free {format_size(gain)} of {format_size(size)}"
            )
