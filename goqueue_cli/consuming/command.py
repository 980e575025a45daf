"""`goqueue-cli consume`: the messages of a topic on stdout."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goqueue.console import exits, terminal
from goqueue.console.choices import Kind
from goqueue.console.danger import agree
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import refuse_empty, short
from goqueue.console.session import Session, stream_flags, suggesting
from goqueue.errors import GoQueueError, RangeDamaged
from goqueue.limits import MIB
from goqueue.limits import OFFSET_MAX as LIMIT_MAX
from goqueue.quantities import format_count, parse_duration

if TYPE_CHECKING:
    from goqueue.client import Client
    from goqueue_cli.consuming.outlet import Outlet
    from goqueue_cli.consuming.reading import Reading

Isolation = Literal["read_committed", "read_uncommitted"]

_ANSWER_BYTES = 4 * MIB  # of a request: few enough to be shown at once, enough that asking costs nothing

_Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="N", min=0, help="Read only this one; may be given more than once."),
]
_From = Annotated[
    str | None,
    typer.Option("--from", metavar="PLACE", help="Begin at earliest, latest, an offset, a time, a day, or -1h."),
]
_To = Annotated[
    str | None, typer.Option("--to", metavar="PLACE", help="End before now, an offset, a time, a day, or -1h.")
]
_Last = Annotated[
    int | None, typer.Option("--last", "-n", metavar="N", min=0, max=LIMIT_MAX, help="Begin with the last N messages.")
]
_Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with messages as they come.")]
_Limit = Annotated[int | None, typer.Option(metavar="N", min=0, max=LIMIT_MAX, help="End after N messages.")]
_Where = Annotated[
    list[str] | None,
    typer.Option(metavar="FILTER", help="Only messages like key=tea or json.total>40; all of several must hold."),
]
_Group = Annotated[str | None, typer.Option(metavar="NAME", help="Join this group, and acknowledge what was written.")]
_Visibility = Annotated[
    str | None, typer.Option(metavar="DURATION", help="How long the group waits for an acknowledgement, with --group.")
]
_Confirm = Annotated[
    str | None,
    typer.Option("--confirm", metavar="GROUP", help="Do not ask in a protected context, with --group: its name again."),
]
_UntilIdle = Annotated[
    str | None, typer.Option(metavar="DURATION", help="End when nothing has come for so long, with --group.")
]
_Format = Annotated[
    str | None, typer.Option("--format", metavar="TEXT", help="How to print a message; '%v\\n' unless told.")
]
_Isolation = Annotated[
    Isolation,
    typer.Option(
        "--isolation", metavar="LEVEL", help="read_uncommitted shows messages of open and aborted transactions too."
    ),
]
_SkipDamage = Annotated[bool, typer.Option("--skip-damage", help="Read around what cannot be read.")]


@stream_flags
def consume(  # noqa: PLR0913 - flags, each given by name
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    *,
    partitions: _Partitions = None,
    start: _From = None,
    until: _To = None,
    last: _Last = None,
    follow: _Follow = False,
    limit: _Limit = None,
    where: _Where = None,
    group: _Group = None,
    visibility: _Visibility = None,
    until_idle: _UntilIdle = None,
    confirm: _Confirm = None,
    text: _Format = None,
    isolation: _Isolation = "read_committed",
    skip_damage: _SkipDamage = False,
    session: Session,
) -> None:
    """Read the messages of a topic.

    \b
      goqueue-cli consume orders
      goqueue-cli consume orders --last 10 --follow
      goqueue-cli consume orders --from -1h --to now -o jsonl
      goqueue-cli consume orders --where 'json.total>40' --where key=customer-4
      goqueue-cli consume orders --group billing --until-idle 5s
      goqueue-cli consume orders --format '%T %k %h{source} %v\\n'

    A format has %t topic, %p partition, %o offset, %k key, %v value, %h{name} header, %T time, %P priority,
    %a attempt in a group, %%, and \\n, \\t, \\r, \\0. Messages of one partition come in their order. Whatever -o says,
    a pipe gets values as they were published, and a terminal nothing that it would obey.

    Reading changes nothing, unless it is done with --group: then what was written is acknowledged, and ^C gives the
    rest back. What a pipe has taken was written: use --limit, and not head. With --follow, a broker that goes away is
    waited for, as long as --timeout says or for ever. In a protected context --group wants the name of the group.
    """
    refuse_empty(topic)
    if text is not None and session.chose_output:
        raise UsageInvalid("--format and --output both say how to print", hint="give one of the two")
    for_members = {"--visibility": visibility, "--until-idle": until_idle}
    if group is not None:
        if sys.stdout is None:
            raise UsageInvalid("stdout is closed, and --group acknowledges what was written", hint="write to /dev/null")
        alone = {"--partition": partitions, "--to": until, "--last": last, "--where": where}
        _check_for_groups(alone | {"--isolation": isolation if isolation != "read_committed" else None})
        options = _member_options(start, for_members) | {"skip_damage": skip_damage}
        if session.protected:
            what = f"take messages of topic {short(topic)} as a member of group {short(group)}"
            agree(session, what, name=group, yes=False, confirm=confirm)
        _show_as_member(topic, group, options, limit, _outlet(text, session, leased=True), session)
        return
    _check_without_group(for_members | {"--confirm": confirm})
    wish = _wish(start, until, last, follow=follow) | {
        "partitions": partitions or None,
        "skip_damage": skip_damage,
        "filters": where or [],
        "isolation": isolation,
    }
    _show(topic, wish, last, limit, _outlet(text, session, leased=False), session)


def _wish(start: str | None, until: str | None, last: int | None, *, follow: bool) -> dict[str, Any]:
    """What `client.reader` takes, as far as it is about places."""
    if last is not None and (start or until):
        raise UsageInvalid("--last says where reading begins and ends", hint="leave out --from and --to")
    from goqueue.console.places import is_past, parse_end, parse_start  # noqa: PLC0415 - with the SDK, as what follows

    if follow and until is not None and is_past(until):
        raise UsageInvalid(
            f"--follow waits for what comes, and --to {until} ends before it", hint="give one of the two"
        )
    begin, end = parse_start(start or "earliest"), None if until is None else parse_end(until)
    if isinstance(begin, int) and type(begin) is type(end) and end <= begin:
        raise UsageInvalid(f"--to {until} is not behind --from {start}", hint="there is nothing between the two")
    return {
        "start": begin,
        "until": end,
        "follow": follow,
        "max_bytes": _ANSWER_BYTES,
    }


def _outlet(text: str | None, session: Session, *, leased: bool) -> "Outlet":
    from goqueue_cli.consuming.outlet import Outlet, form_of  # noqa: PLC0415

    return Outlet(form_of(text, session, leased=leased))


def _show(
    topic: str, wish: dict[str, Any], last: int | None, limit: int | None, outlet: "Outlet", session: Session
) -> None:
    """Until there is no more, there is enough, or somebody interrupts it."""
    from goqueue_cli.consuming.reading import Reading, limited  # noqa: PLC0415

    reading: Reading | None = None
    held_back = 0
    try:
        with doing(f"consume topic {short(topic)}"), session.client() as client, _told(client, topic, outlet):
            reading = Reading(client, topic, wish, _patience(session))
            with _watched(reading, outlet):
                for messages in limited(reading.all() if last is None else reading.last(last), limit):
                    outlet.put(messages)
            if limit is None and wish["until"] is None and wish["isolation"] == "read_committed":
                held_back = reading.held_back()
    except KeyboardInterrupt:
        outlet.finish()
        found = f", {reading.found}" if reading is not None and reading.searches else ""
        terminal.say(f"interrupted: {format_count(outlet.count, 'message')}{found}")
        raise typer.Exit(exits.INTERRUPTED) from None
    outlet.finish()
    if reading.searches:
        terminal.say(reading.found)
    elif not outlet.count:
        terminal.say("no messages")
    if held_back:
        terminal.say(
            f"{format_count(held_back, 'message')} held back by open transactions; `goqueue-cli transaction list "
            f"--topic {topic}` shows which"
        )


def _patience(session: Session) -> float | None:
    """An outage is waited out by who follows, unless it was said for how long."""
    chosen = session.choices
    return session.timeout if chosen is not None and chosen.timeout.kind is not Kind.DEFAULT else None


def _show_as_member(
    topic: str, group: str, options: dict[str, Any], limit: int | None, outlet: "Outlet", session: Session
) -> None:
    from goqueue_cli.consuming.member import show_as_member  # noqa: PLC0415

    what = f"consume topic {short(topic)} as a member of group {short(group)}"
    try:
        with doing(what), session.client() as client, _told(client, topic, outlet):
            show_as_member(client, topic, group, options, limit, outlet)
    except KeyboardInterrupt:
        outlet.finish()
        terminal.say(f"interrupted: {format_count(outlet.count, 'message')}")
        raise typer.Exit(exits.INTERRUPTED) from None
    outlet.finish()
    if not outlet.count:
        terminal.say("no messages")


@contextmanager
def _watched(reading: "Reading", outlet: "Outlet") -> Iterator[None]:
    """A search may take a while before it finds anything, and a person may want to know that it goes on."""
    if not reading.searches:
        yield
        return
    from goqueue_cli.consuming.status import Status  # noqa: PLC0415

    status = Status(lambda: reading.found)
    outlet.beside = status.beside
    with status.shown():
        yield


@contextmanager
def _told(client: "Client", topic: str, outlet: "Outlet") -> Iterator[None]:
    """A failure leaves whole what was shown before it, and says how to go on in the words of this command."""
    try:
        with suggesting(client):
            yield
    except GoQueueError as error:
        outlet.give_up()
        if isinstance(error, RangeDamaged):
            error.hint = _around(topic, error)
        raise


def _around(topic: str, error: RangeDamaged) -> str:
    """The flags that go on. Which partition it is, only the path of the file tells."""
    behind = error.details.get("next_offset")
    found = re.search(rf"/{re.escape(topic)}/([0-9]+)/", error.sentence)
    place = f"--partition {found[1]} " if found else ""
    return "`--skip-damage` reads around it" + (
        "" if behind is None else f", `{place}--from {behind}` begins behind it"
    )


# --- groups ---


def _check_for_groups(flags: Mapping[str, Any]) -> None:
    for flag, given in flags.items():
        if given is not None:
            raise UsageInvalid(
                f"{flag} is for reading without a group: a member gets what the group has not done yet",
                hint=f"leave out {flag}, or --group",
            )


def _check_without_group(flags: Mapping[str, str | None]) -> None:
    for flag, given in flags.items():
        if given is not None:
            raise UsageInvalid(f"{flag} means something with --group alone", hint="name a group, or leave it out")


def _member_options(start: str | None, durations: Mapping[str, str | None]) -> dict[str, Any]:
    """What `client.consumer` takes."""
    options: dict[str, Any] = {}
    for flag, given in durations.items():
        if given is not None:
            try:
                parse_duration(given)
            except ValueError as error:
                raise UsageInvalid(f"{flag}: {error}") from None
    if durations["--visibility"] is not None:
        options["visibility_timeout"] = durations["--visibility"]
    if durations["--until-idle"] is not None:
        options["until_idle"] = durations["--until-idle"]
    if start is not None:
        if start not in {"earliest", "latest"}:
            raise UsageInvalid(
                f"--from {start}: a new group begins at earliest or latest, and any other goes on where it is",
                hint="`goqueue-cli group reset` moves a group",
            )
        options["start"] = start
    return options
