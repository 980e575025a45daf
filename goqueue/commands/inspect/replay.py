"""`goqueue spark-inspect replay`: messages, or rows of a query, back into a topic."""

import os
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.commands.inspect.request import InspectRequest, SkipFlag, with_request
from goqueue.commands.inspect.sql import InferFlag, SchemaFlag, checked_query, json_fields, shown_value
from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import Consent
from goqueue.console.options import ResolvedOptions, resolve_options
from goqueue.console.positions import is_past
from goqueue.console.rows import Column
from goqueue.console.session import Session, require_confirmation
from goqueue.quantities import format_count, format_duration, quoted

if TYPE_CHECKING:
    from goqueue.spark.logs.port import LogSource
    from goqueue.spark.queries.schemas import JsonFields
    from goqueue.spark.reading.plan import ReadPlan
    from goqueue.spark.session import SparkSession
    from goqueue.spark.transfer.replay import TopicDestination

ServerFlag = Annotated[
    list[str] | None,
    typer.Option("--server", "-s", metavar="URL,...", help="The broker that has the topic (GOQUEUE_SERVER)."),
]
ServerKeyFlag = Annotated[
    str | None, typer.Option("--server-key", metavar="KEY", help="API key of that broker (GOQUEUE_API_KEY).")
]
KeepFlag = Annotated[bool, typer.Option("--keep-partitions", help="Into the partition of the same number.")]


@dataclass(frozen=True, slots=True)
class ReplayFlags:
    """Flags of `replay` alone."""

    into: Annotated[str, typer.Option("--into", metavar="TOPIC", help="Where the messages go.")]
    server: ServerFlag = None
    server_key: ServerKeyFlag = None
    query: Annotated[str | None, typer.Option("--query", metavar="SQL|@FILE|-", help="Replay the rows of a query.")] = (
        None
    )
    keep_partitions: KeepFlag = False
    rate: Annotated[float | None, typer.Option("--rate", metavar="N", help="At most so many messages a second.")] = None
    identity: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="What was stored under this id is not stored again.")
    ] = None
    json_schema: SchemaFlag = None
    infer: InferFlag = 1000
    skip_damage: SkipFlag = False


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


@with_request
def replay(*, flags: ReplayFlags, consent: Consent, request: InspectRequest) -> None:
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
    _check(request, flags)
    wanted = None if flags.query is None else checked_query(flags.query)
    fields = json_fields(flags.json_schema, flags.infer, no_json=False)
    chosen = resolve_options({"server": flags.server, "api_key": flags.server_key, **request.tls_flags}, os.environ)
    to = destination(chosen, flags.into, flags.keep_partitions, flags.identity, flags.rate)
    logs = request.logs()
    plan = None if wanted is not None else request.plan(logs)

    from goqueue.spark.transfer.replay import check_destination  # noqa: PLC0415 - it needs Arrow

    check_destination(to, plan)
    amount = "the rows of the query" if plan is None else f"about {format_count(plan.messages, 'message')}"
    if not consent.dry_run:
        what = f"publish {amount} into {to.topic} of {to.server}"
        require_confirmation(_session(request, chosen), what, name=to.topic, consent=consent)
    began = time.monotonic()
    with closing(logs), request.spark() as spark:
        source = _ReplaySource(logs, plan, wanted, fields, flags.skip_damage)
        found, first = _replay(request, spark, to, source, consent.dry_run)
    if consent.dry_run:
        _tell(request, to, found, first)
        return
    row = {"topic": to.topic, "server": to.server, "messages": found, "seconds": round(time.monotonic() - began, 3)}
    request.write([row], _COLUMNS)


@dataclass(frozen=True, slots=True)
class _ReplaySource:
    """The messages of a plan, or the rows of a query."""

    logs: "LogSource"
    plan: "ReadPlan | None"
    query: str | None
    fields: "JsonFields"
    skips_damage: bool


def _replay(
    request: InspectRequest, spark: "SparkSession", to: "TopicDestination", source: _ReplaySource, dry_run: bool
) -> tuple[int, list[dict[str, object]]]:
    """Publish the messages, or in a dry run count them; return the number, and in a dry run the first of them."""
    from goqueue.spark.queries.views import TopicViews  # noqa: PLC0415
    from goqueue.spark.transfer.replay import messages_of, messages_of_query  # noqa: PLC0415
    from goqueue.spark.transfer.replay import replay as publish  # noqa: PLC0415

    tasks: int | None = None
    if source.query is not None:
        views = TopicViews(spark, source.logs, source.fields, *request.bounds(), source.skips_damage)
        messages = messages_of_query(views, source.query, to)
        plan = views.plan
    else:
        assert source.plan is not None
        plan, tasks = source.plan, len(source.plan.ranges)
        messages = messages_of(spark, source.logs, plan, to, skips_damage=source.skips_damage)
    with request.progress(spark, plan, "counting" if dry_run else "publishing"):
        if not dry_run:
            return publish(messages, to, tasks=tasks), []
        return messages.count(), [row.asDict(recursive=True) for row in messages.limit(_FIRST).collect()]


def _check(request: InspectRequest, flags: ReplayFlags) -> None:
    if flags.query is None and not request.topics:
        raise UsageInvalid("nothing to replay was named", hint="name topics behind the directory, or give --query")
    if flags.query is not None and request.topics:
        raise UsageInvalid(
            f"--query and {quoted(request.topics[0])} exclude each other",
            hint="the query names the topics that it reads",
        )
    if flags.rate is not None and not flags.rate > 0:
        raise UsageInvalid(f"--rate {flags.rate} lets nothing through", hint="write it as in --rate 500")
    if flags.identity is not None and (not flags.identity or is_past(request.flags.last or "now")):
        raise UsageInvalid(
            "--id needs an end that stays where it is, or a second call would read more",
            hint="give --to an offset, a time or a day",
        )


def destination(
    chosen: ResolvedOptions, into: str, keep_partitions: bool, identity: str | None = None, rate: float | None = None
) -> "TopicDestination":
    from goqueue.spark.transfer.replay import TopicDestination  # noqa: PLC0415 - it needs Arrow

    return TopicDestination(
        chosen.server.value, into, chosen.api_key.value.read(), identity, rate, keep_partitions, chosen.tls
    )


def _session(request: InspectRequest, chosen: ResolvedOptions) -> Session:
    """Return what decides whether and how a person is asked to confirm."""
    return Session(
        server=chosen.server.value,
        output=request.flags.output,
        headers=not request.flags.no_headers,
        timeout=0.0,
        chose_output=True,
        context=chosen.context.value,
        guard=chosen.guard,
    )


def _tell(request: InspectRequest, to: "TopicDestination", found: int, first: list[dict[str, object]]) -> None:
    if request.for_people:
        request.write(first, _SAMPLE if to.keeps_partitions else _SAMPLE[:2])
        terminal.say(f"{format_count(found, 'message')} would go into {to.topic} of {to.server}; nothing was sent")
        return
    rows = [{name: None if value is None else shown_value(value) for name, value in one.items()} for one in first]
    request.write([{"topic": to.topic, "server": to.server, "messages": found, "first": rows}], _COLUMNS[:3])
