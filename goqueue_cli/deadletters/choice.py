"""Which dead letters: the flags that choose them, and what is said where there are none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import short
from goqueue.console.session import Session
from goqueue_cli.nearest import naming_dead_letters

if TYPE_CHECKING:
    from goqueue.client import Client

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic, or that of its dead letters.")]
ErrorFlag = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only those that failed with this in it.")
]
GroupFlag = Annotated[
    str | None, typer.Option("--group", metavar="GROUP", help="Only those that failed in this group.")
]
FromFlag = Annotated[str | None, typer.Option("--from", metavar="TIME", help="Only those since a time, a day, or -1h.")]
ToFlag = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only those before a time, a day, or -1h.")]

WhereFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="FILTER", help="Only those that fit, as in 'json.total>40'; more than one must all."
    ),
]


def times(start: str | None, until: str | None) -> dict[str, Any]:
    """The bounds of a choice by time, as a request has them."""
    from goqueue.console.places import parse_end, parse_start  # noqa: PLC0415 - with the SDK, once it is needed

    chosen = {
        "from_time": None if start in {None, "earliest"} else _moment("--from", start, parse_start(start)),
        "to_time": None if until in {None, "now", "latest"} else _moment("--to", until, parse_end(until)),
    }
    return {name: moment for name, moment in chosen.items() if moment is not None}


def _moment(flag: str, text: str, place: Any) -> int:
    """Dead letters are chosen by when they came: an offset would mean something else in each partition."""
    from goqueue.client import Nanoseconds  # noqa: PLC0415 - as above

    if isinstance(place, Nanoseconds):
        return place
    raise UsageInvalid(f"{flag} {text} is no time", hint=f"write it as in {flag} -1h, or {flag} 2026-03-01T12:00:00Z")


@contextmanager
def looking(session: Session, topic: str) -> "Iterator[Client]":
    what = f"look at the dead letters of topic {short(topic)}"
    with doing(what), session.client() as client, naming_dead_letters(client):
        yield client


def tell_none(session: Session, topic: str, *, chosen: bool = False) -> None:
    if session.for_people:
        terminal.say(f"no such dead letters of {topic}" if chosen else f"there are no dead letters of {topic}")
