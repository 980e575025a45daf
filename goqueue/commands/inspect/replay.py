"""`goqueue spark-inspect replay`: messages, or rows of a query, back into a topic."""

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.commands.inspect.inquiry import Inquiry, SkipFlag, inquiry_flags
from goqueue.commands.inspect.sql import InferFlag, SchemaFlag, checked_query, json_fields, shown_value
from goqueue.console import terminal
from goqueue.console.choices import Choices, choose
from goqueue.console.danger import ConfirmFlag, DryRunFlag, YesFlag, agree
from goqueue.console.groups import UsageInvalid
from goqueue.console.places import is_past
from goqueue.console.rows import Column
from goqueue.console.session import Session
from goqueue.quantities import format_count, format_duration, quoted

if TYPE_CHECKING:
    from goqueue.spark.logs.port import Logs
    from goqueue.spark.plan import Plan
    from goqueue.spark.queries.schemas import JsonFields
    from goqueue.spark.session import SparkSession
    from goqueue.spark.transfer.replay import Destination

IntoFlag = Annotated[str, typer.Option("--into", metavar="TOPIC", help="Where the messages go.")]
ServerFlag = Annotated[
    str | None,
    typer.Option("--server", "-s", metavar="URL", help="The broker that has the topic (GOQUEUE_SERVER)."),
]
ServerKeyFlag = Annotated[
    str | None, typer.Option("--server-key", metavar="KEY", help="What that broker knows you by (GOQUEUE_API_KEY).")
]
QueryFlag = Annotated[str | None, typer.Option("--query", metavar="SQL|@FILE|-", help="Replay the rows of a query.")]
RateFlag = Annotated[float | None, typer.Option("--rate", metavar="N", help="At most so many messages a second.")]
IdFlag = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="What was stored under this id is not stored again.")
]
KeepFlag = Annotated[bool, typer.Option("--keep-partitions", help="Into the partition of the same number.")]

_FIRST = 3
_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("SERVER", "server"),
    Column("MESSAGES", "messages", format_count),
    Column("TIME", "seconds", format_duration),
)
_SAMPLE = (
    Column("KEY", "key", shown_value),
    Column("VALUE", "value", shown_value),
    Column("PARTITION", "partition"),
)


@inquiry_flags
def replay(  # noqa: PLR0913 - they are as many as there are flags
    *,
    into: IntoFlag,
    server: ServerFlag = None,
    server_key: ServerKeyFlag = None,
    query: QueryFlag = None,
    keep_partitions: KeepFlag = False,
    rate: RateFlag = None,
    identity: IdFlag = None,
    json_schema: SchemaFlag = None,
    infer: InferFlag = 1000,
    skip_damage: SkipFlag = False,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    confirm: ConfirmFlag = None,
    inquiry: Inquiry,
) -> None:
    """Publish messages of a log, or the rows of a query, into a topic.

    \b
      goqueue spark-inspect replay ./backup orders --into orders-again --dry-run
      goqueue spark-inspect replay ./backup orders --into orders \\
        --keep-partitions --from -2h --to -1h --yes
      goqueue spark-inspect replay ./backup \\
        --query "SELECT * FROM orders WHERE total > 100" --into large --rate 500

    Messages keep key, value, headers and priority; they get new offsets and times. Those of one partition stay in
    their order. Of a query, the columns key, value, headers and priority are taken; without a value, all others
    become one as JSON.

    With --id the same call may be repeated after whatever went wrong: each message is stored once. It has to read
    the same again, so --to must be an offset or a time.
    """
    _check(inquiry, query, rate, identity)
    wanted = None if query is None else checked_query(query)
    fields = json_fields(json_schema, infer, no_json=False)
    chosen = choose({"server": server, "api_key": server_key}, os.environ)
    to = _destination(chosen, into, identity, rate, keep_partitions)
    logs = inquiry.logs()
    plan = None if wanted is not None else inquiry.plan(logs)

    from goqueue.spark.transfer.replay import check_destination  # noqa: PLC0415 - it needs Arrow

    check_destination(to, plan)
    amount = "the rows of the query" if plan is None else f"about {format_count(plan.messages, 'message')}"
    if not dry_run:
        what = f"publish {amount} into {into} of {to.server}"
        agree(_session(inquiry, chosen), what, name=into, yes=yes, confirm=confirm)
    began = time.monotonic()
    with inquiry.spark() as spark:
        found, first = _replay(inquiry, spark, to, _Source(logs, plan, wanted, fields, skip_damage), dry_run)
    if dry_run:
        _tell(inquiry, to, found, first)
        return
    row = {"topic": into, "server": to.server, "messages": found, "seconds": round(time.monotonic() - began, 3)}
    inquiry.write([row], _COLUMNS)


@dataclass(frozen=True, slots=True)
class _Source:
    """The messages of a plan, or the rows of a query."""

    logs: "Logs"
    plan: "Plan | None"
    query: str | None
    fields: "JsonFields"
    skips_damage: bool


def _replay(
    inquiry: Inquiry, spark: "SparkSession", to: "Destination", source: _Source, dry_run: bool
) -> tuple[int, list[dict[str, object]]]:
    """How many messages there are, and in a dry run the first of them."""
    from goqueue.spark.queries.views import Views  # noqa: PLC0415
    from goqueue.spark.transfer.replay import messages_of, messages_of_query  # noqa: PLC0415
    from goqueue.spark.transfer.replay import replay as publish  # noqa: PLC0415

    tasks: int | None = None
    if source.query is not None:
        views = Views(spark, source.logs, source.fields, *inquiry.bounds(), source.skips_damage)
        messages = messages_of_query(views, source.query, to)
        plan = views.plan
    else:
        assert source.plan is not None
        plan, tasks = source.plan, len(source.plan.ranges)
        messages = messages_of(spark, source.logs, plan, to, skips_damage=source.skips_damage)
    with inquiry.progress(spark, plan, "counting" if dry_run else "publishing"):
        if not dry_run:
            return publish(messages, to, tasks=tasks), []
        return messages.count(), [row.asDict(recursive=True) for row in messages.limit(_FIRST).collect()]


def _check(inquiry: Inquiry, query: str | None, rate: float | None, identity: str | None) -> None:
    if query is None and not inquiry.topics:
        raise UsageInvalid("nothing to replay was named", hint="name topics behind the directory, or give --query")
    if query is not None and inquiry.topics:
        raise UsageInvalid(
            f"--query and {quoted(inquiry.topics[0])} exclude each other",
            hint="the query names the topics that it reads",
        )
    if rate is not None and not rate > 0:
        raise UsageInvalid(f"--rate {rate} lets nothing through", hint="write it as in --rate 500")
    if identity is not None and (not identity or is_past(inquiry.last or "now")):
        raise UsageInvalid(
            "--id needs an end that stays where it is, or a second call would read more",
            hint="give --to an offset, a time or a day",
        )


def _destination(
    chosen: Choices, into: str, identity: str | None, rate: float | None, keep_partitions: bool
) -> "Destination":
    from goqueue.spark.transfer.replay import Destination  # noqa: PLC0415 - it needs Arrow

    return Destination(chosen.server.value, into, chosen.api_key.value.read(), identity, rate, keep_partitions)


def _session(inquiry: Inquiry, chosen: Choices) -> Session:
    """What decides whether somebody has to be asked, and how."""
    return Session(
        server=chosen.server.value,
        output=inquiry.output,
        headers=inquiry.headers,
        timeout=0.0,
        chose_output=True,
        context=chosen.context.value,
        guard=chosen.guard,
    )


def _tell(inquiry: Inquiry, to: "Destination", found: int, first: list[dict[str, object]]) -> None:
    if inquiry.for_people:
        inquiry.write(first, _SAMPLE if to.keeps_partitions else _SAMPLE[:2])
        terminal.say(f"{format_count(found, 'message')} would go into {to.topic} of {to.server}; nothing was sent")
        return
    rows = [{name: None if value is None else shown_value(value) for name, value in one.items()} for one in first]
    inquiry.write([{"topic": to.topic, "server": to.server, "messages": found, "first": rows}], _COLUMNS[:3])
