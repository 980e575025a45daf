"""`goqueue-cli consume`: the messages of a topic on stdout."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid, doing, suggesting
from goqueue.console.flags import Consent, PartitionsFlag, WhereFlag, parse_duration_flag
from goqueue.console.names import reject_empty_names, shorten_name
from goqueue.console.options import OptionOrigin
from goqueue.console.session import Session, require_confirmation, stream_flags
from goqueue.errors import GoQueueError, RangeDamaged, ValueUnreadable
from goqueue.limits import MIB
from goqueue.limits import OFFSET_MAX as LIMIT_MAX
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.client import Client, Message
    from goqueue_cli.consuming.output import MessageOutput
    from goqueue_cli.consuming.topic_reading import TopicReading

Isolation = Literal["read_committed", "read_uncommitted"]

_ANSWER_BYTES = 4 * MIB  # of one request: small enough to be shown at once, large enough to keep overhead low


@dataclass(frozen=True, slots=True)
class ReadFlags:
    """Flags for reading without a group."""

    partitions: PartitionsFlag = None
    until: Annotated[
        str | None, typer.Option("--to", metavar="PLACE", help="End before now, an offset, a time, a day, or -1h.")
    ] = None
    last: Annotated[
        int | None,
        typer.Option("--last", "-n", metavar="N", min=0, max=LIMIT_MAX, help="Start with the last N messages."),
    ] = None
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with new messages as they arrive.")] = False
    where: WhereFlag = None
    isolation: Annotated[
        Isolation,
        typer.Option(
            "--isolation", metavar="LEVEL", help="read_uncommitted includes messages of open and aborted transactions."
        ),
    ] = "read_committed"
    trace: Annotated[
        bool, typer.Option("--trace", help="Show what happened to each message below it, as `trace get` does.")
    ] = False


@dataclass(frozen=True, slots=True)
class MemberFlags:
    """Flags for reading as a member of a group."""

    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Join this group, and ack the messages that were written.")
    ] = None
    visibility: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Visibility timeout of the group's leases, with --group.")
    ] = None
    until_idle: Annotated[
        str | None, typer.Option(metavar="DURATION", help="End when no message arrived for this long, with --group.")
    ] = None
    confirm: Annotated[
        str | None,
        typer.Option("--confirm", metavar="GROUP", help="Confirm by name in a protected context, with --group."),
    ] = None


@stream_flags
def consume(  # noqa: PLR0913 - flags, each given by name
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    *,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help="Start at earliest, latest, an offset, a time, a day, or -1h."),
    ] = None,
    reading: ReadFlags,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=LIMIT_MAX, help="Maximum number of messages.")
    ] = None,
    member: MemberFlags,
    text: Annotated[
        str | None, typer.Option("--format", metavar="TEXT", help="Format of a message. Default: '%v\\n'.")
    ] = None,
    skip_damage: Annotated[bool, typer.Option("--skip-damage", help="Skip damaged messages.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Decode values and keys by the schemas that they name, as JSON.")
    ] = False,
    session: Session,
) -> None:
    """Read the messages of a topic.

    \b
      goqueue-cli consume orders
      goqueue-cli consume orders --last 10 --follow
      goqueue-cli consume orders --from -1h --to now -o jsonl
      goqueue-cli consume orders --where 'json.total>40' --where key=customer-4
      goqueue-cli consume orders --group billing --until-idle 5s
      goqueue-cli consume orders --last 1 --trace
      goqueue-cli consume orders --schema -o jsonl
      goqueue-cli consume orders --format '%T %k %h{source} %v\\n'

    A format has %t topic, %p partition, %o offset, %k key, %v value, %h{name} header, %T time, %P priority,
    %a attempt in a group, %%, and \\n, \\t, \\r, \\0. Messages of one partition keep their order. A pipe gets values as
    they were published; a terminal gets no control characters. With --schema, what names no schema stays as it is.

    Reading changes nothing, except with --group: then written messages are acked, and ^C releases the rest. A pipe
    counts as written: use --limit, not head. With --follow, an unreachable broker is retried for --timeout, or without
    end. In a protected context --group needs --confirm with the name of the group.
    """
    reject_empty_names(topic)
    if text is not None and session.chose_output:
        raise UsageInvalid("--format and --output exclude each other", hint="use one of them")
    decoding = _decoding_options(schema=schema)
    if member.group is not None:
        options = _member_options(start, reading, member) | {"skip_damage": skip_damage} | decoding
        if session.protected:
            what = f"consume messages of topic {shorten_name(topic)} as a member of group {shorten_name(member.group)}"
            require_confirmation(session, what, name=member.group, consent=Consent(confirm=member.confirm))
        output = _output(text, session, leased=True, decodes=schema)
        _consume_as_member(topic, member.group, options, limit, output, session)
        return
    _check_without_group(member)
    options = _reader_options(start, reading) | {"skip_damage": skip_damage} | decoding
    if reading.trace and not session.for_people:
        hint = "`goqueue-cli trace get -o json` prints traces for programs"
        raise UsageInvalid(f"--trace and --output {session.output} exclude each other", hint=hint)
    _read(topic, options, reading, limit, _output(text, session, leased=False, decodes=schema), session)


def _output(text: str | None, session: Session, *, leased: bool, decodes: bool) -> "MessageOutput":
    from goqueue_cli.consuming.output import MessageOutput, form_of  # noqa: PLC0415 - with the SDK, as below

    return MessageOutput(form_of(text, session, leased=leased), decodes=decodes)


def _decoding_options(*, schema: bool) -> dict[str, Any]:
    if not schema:
        return {}
    from goqueue_cli.consuming.decoding import decoding_options  # noqa: PLC0415 - for schemas alone

    return decoding_options()


@contextmanager
def _reporting(client: "Client", topic: str, output: "MessageOutput") -> Iterator[None]:
    """Complete the output before an error is reported, and add hints in terms of this command."""
    try:
        with suggesting(client):
            yield
    except GoQueueError as error:
        output.give_up()
        if isinstance(error, RangeDamaged):
            error.hint = _skip_hint(topic, error)
        elif isinstance(error, ValueUnreadable):
            error.hint = _behind_hint(error)
        raise


def _skip_hint(topic: str, error: RangeDamaged) -> str:
    """Name the flags that continue behind the damage; only the path of the file tells the partition."""
    behind = error.details.get("next_offset")
    found = re.search(rf"/{re.escape(topic)}/([0-9]+)/", error.sentence)
    partition = f"--partition {found[1]} " if found else ""
    return "`--skip-damage` skips it" + ("" if behind is None else f", `{partition}--from {behind}` starts behind it")


def _behind_hint(error: ValueUnreadable) -> str:
    partition, offset = error.details.get("partition"), error.details.get("offset", 0)
    return f"without `--schema` it is shown as it is; `--partition {partition} --from {offset + 1}` starts behind it"


# --- without a group ---


def _reader_options(start: str | None, reading: ReadFlags) -> dict[str, Any]:
    """Return the arguments of `client.reader`."""
    last, follow, until = reading.last, reading.follow, reading.until
    if last is not None and (start or until):
        raise UsageInvalid("--last excludes --from and --to", hint="leave out --from and --to")
    from goqueue.console.positions import is_past, parse_end, parse_start  # noqa: PLC0415

    if follow and until is not None and is_past(until):
        raise UsageInvalid(
            f"--follow waits for new messages, and --to {until} ends before them", hint="use one of them"
        )
    begin, end = parse_start(start or "earliest"), None if until is None else parse_end(until)
    if isinstance(begin, int) and type(begin) is type(end) and end <= begin:
        raise UsageInvalid(f"--to {until} is not behind --from {start}", hint="the range is empty")
    return {
        "start": begin,
        "until": end,
        "follow": follow,
        "max_bytes": _ANSWER_BYTES,
        "partitions": reading.partitions or None,
        "filters": reading.where or [],
        "isolation": reading.isolation,
    }


def _read(
    topic: str, options: dict[str, Any], flags: ReadFlags, limit: int | None, output: "MessageOutput", session: Session
) -> None:
    from goqueue_cli.consuming.topic_reading import TopicReading, limited  # noqa: PLC0415

    reading: TopicReading | None = None
    held_back = 0
    try:
        with (
            doing(f"consume topic {shorten_name(topic)}"),
            session.client() as client,
            _reporting(client, topic, output),
        ):
            reading = TopicReading(client, topic, options, _retry_seconds(session))
            with _search_status(reading, output):
                chosen = reading.all() if flags.last is None else reading.last(flags.last)
                for messages in limited(chosen, limit):
                    if flags.trace:
                        _put_with_traces(client, topic, messages, output, session)
                    else:
                        output.put(messages)
            if limit is None and options["until"] is None and options["isolation"] == "read_committed":
                held_back = reading.held_back()
    except KeyboardInterrupt:
        found = f", {reading.found}" if reading is not None and reading.searches else ""
        _exit_interrupted(output, found)
    output.finish()
    if reading.searches:
        terminal.say(reading.found)
    elif not output.count:
        terminal.say("no messages")
    if held_back:
        terminal.say(
            f"{format_count(held_back, 'message')} held back by open transactions; `goqueue-cli transaction list "
            f"--topic {topic}` shows which"
        )


def _put_with_traces(
    client: "Client", topic: str, messages: "list[Message]", output: "MessageOutput", session: Session
) -> None:
    from goqueue_cli.traces.show import write_waterfall  # noqa: PLC0415 - for this flag alone

    for message in messages:
        output.put([message])
        write_waterfall(dict(client.message_trace(topic, message.partition, message.offset)), session)


def _exit_interrupted(output: "MessageOutput", more: str = "") -> NoReturn:
    output.finish()
    terminal.say(f"interrupted: {format_count(output.count, 'message')}{more}")
    raise typer.Exit(exit_codes.INTERRUPTED) from None


def _retry_seconds(session: Session) -> float | None:
    """Return how long --follow retries an unreachable broker: without end, unless a timeout was chosen."""
    chosen = session.choices
    return session.timeout if chosen is not None and chosen.timeout.kind is not OptionOrigin.DEFAULT else None


@contextmanager
def _search_status(reading: "TopicReading", output: "MessageOutput") -> Iterator[None]:
    """Show the progress of a search, which may take long before it finds anything."""
    if not reading.searches:
        yield
        return
    from goqueue_cli.consuming.output import SearchStatus  # noqa: PLC0415

    status = SearchStatus(lambda: reading.found)
    output.beside = status.beside
    with status.shown():
        yield


# --- with a group ---


def _consume_as_member(
    topic: str, group: str, options: dict[str, Any], limit: int | None, output: "MessageOutput", session: Session
) -> None:
    from goqueue_cli.consuming.group_member import show_as_member  # noqa: PLC0415

    what = f"consume topic {shorten_name(topic)} as a member of group {shorten_name(group)}"
    try:
        with doing(what), session.client() as client, _reporting(client, topic, output):
            show_as_member(client, topic, group, options, limit, output)
    except KeyboardInterrupt:
        _exit_interrupted(output)
    output.finish()
    if not output.count:
        terminal.say("no messages")


def _member_options(start: str | None, reading: ReadFlags, member: MemberFlags) -> dict[str, Any]:
    """Return the arguments of `client.consumer`."""
    if sys.stdout is None:
        raise UsageInvalid("stdout is closed, and --group acks messages that were written", hint="write to /dev/null")
    _refuse(
        {
            "--partition": reading.partitions,
            "--to": reading.until,
            "--last": reading.last,
            "--where": reading.where,
            "--trace": reading.trace or None,
            "--isolation": reading.isolation if reading.isolation != "read_committed" else None,
        },
        "{flag} cannot be used with --group: a member receives what the group has not finished",
        "leave out {flag}, or --group",
    )
    options: dict[str, Any] = {"visibility_timeout": member.visibility, "until_idle": member.until_idle}
    for flag, given in (("--visibility", member.visibility), ("--until-idle", member.until_idle)):
        if given is not None:
            parse_duration_flag(flag, given)
    if start not in {None, "earliest", "latest"}:
        raise UsageInvalid(
            f"--from {start}: a new group starts at earliest or latest, and any other at its offsets",
            hint="`goqueue-cli group reset` moves a group",
        )
    options["start"] = start
    return {name: value for name, value in options.items() if value is not None}


def _check_without_group(member: MemberFlags) -> None:
    flags = {"--visibility": member.visibility, "--until-idle": member.until_idle, "--confirm": member.confirm}
    _refuse(flags, "{flag} needs --group", "name a group, or leave it out")


def _refuse(flags: Mapping[str, Any], sentence: str, hint: str) -> None:
    for flag, given in flags.items():
        if given is not None:
            raise UsageInvalid(sentence.format(flag=flag), hint=hint.format(flag=flag))
