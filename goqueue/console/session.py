"""What every command that speaks to a broker takes: where it is, how long to wait, how to print.

A flag is stronger than the environment, the environment than the default. The flags may stand before the
command as well as behind it; behind it is stronger.
"""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import OUTPUTS, Output
from goqueue.errors import BrokerUnreachable, GoQueueError, TopicNotFound
from goqueue.quantities import parse_duration, quoted

if TYPE_CHECKING:
    from goqueue.client import Client

_TIMEOUT = "30s"
_CONNECT_SECONDS = 5.0

ServerFlag = Annotated[
    str | None,
    typer.Option("--server", "-s", metavar="URL", help="The broker (GOQUEUE_SERVER; http://127.0.0.1:8080)."),
]
OutputFlag = Annotated[Output | None, typer.Option("--output", "-o", help="How to print (GOQUEUE_OUTPUT).")]
NoHeadersFlag = Annotated[bool, typer.Option("--no-headers", help="Leave out the line of titles.")]
TimeoutFlag = Annotated[
    str | None, typer.Option("--timeout", metavar="DURATION", help="How long to wait (GOQUEUE_TIMEOUT; 30s).")
]


@dataclass(frozen=True, slots=True)
class Session:
    """The choices of one call."""

    server: str | None
    output: str
    headers: bool
    timeout: float
    chose_output: bool
    """Whether the form was asked for by a flag, and does not come from the environment."""

    @contextmanager
    def client(self) -> "Iterator[Client]":
        """A client of a broker that is there: nobody should wait for the timeout of an address that was mistyped."""
        from goqueue.client import Client, address  # noqa: PLC0415 - not before the command line is understood

        _reach(address.parse(self.server), min(self.timeout, _CONNECT_SECONDS))
        with Client(self.server, self.timeout) as client:
            yield client


@contextmanager
def suggesting(client: "Client", *, creates: bool = False) -> Iterator[None]:
    """Whoever mistypes the name of a topic is told the one that comes nearest.

    Where none comes near, somebody who `creates` is told how to create it, anybody else how to list the topics.
    """
    try:
        yield
    except TopicNotFound as error:
        with suppress(GoQueueError):
            topic = str(error.details.get("topic", ""))
            names = {name.lower(): name for name in client.topics()}
            guess = get_close_matches(topic.lower()[:100], names, n=1)
            error.hint = f"did you mean {names[guess[0]]}?" if guess else _instead(topic) if creates else None
        raise


def _instead(topic: str) -> str:
    return f"`goqueue-cli topic create {topic}` creates it, `goqueue-cli topic list` shows those that there are"


def session_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `session` by the flags it is made of, as Typer reads a signature."""
    signature = inspect.signature(command)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "session"]
    shared = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in _SHARED]

    @wraps(command)
    def with_session(**given: Any) -> None:
        context: typer.Context = given.pop("context")
        flags = {parameter.name: given.pop(parameter.name) for parameter in _SHARED if parameter.name != "context"}
        command(**given, session=_session(flags, context.find_root().obj or {}))

    with_session.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    return with_session


def remember(context: typer.Context, **flags: Any) -> None:
    """Keep the flags that stood before the command."""
    context.obj = flags


def _pattern(
    context: typer.Context,
    server: ServerFlag = None,
    output: OutputFlag = None,
    no_headers: NoHeadersFlag = False,
    timeout: TimeoutFlag = None,
) -> None:
    """Its parameters are those that every command gets."""


_SHARED = tuple(inspect.signature(_pattern).parameters.values())


def _session(flags: dict[str, Any], before: dict[str, Any]) -> Session:
    def chosen(name: str) -> Any:
        return flags[name] or before.get(name)

    output = chosen("output")
    return Session(
        chosen("server"),
        output or _from_environment("GOQUEUE_OUTPUT", OUTPUTS) or "table",
        not chosen("no_headers"),
        _seconds(chosen("timeout")),
        output is not None,
    )


def _from_environment(variable: str, allowed: tuple[str, ...]) -> str | None:
    text = os.environ.get(variable)
    if text and text not in allowed:
        raise UsageInvalid(f"{variable} is {quoted(text)}", hint=f"write one of {', '.join(allowed)}")
    return text


def _seconds(flag: str | None) -> float:
    name, text = ("--timeout", flag) if flag else ("GOQUEUE_TIMEOUT", os.environ.get("GOQUEUE_TIMEOUT") or _TIMEOUT)
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageInvalid(f"{name}: {error}") from None
    if seconds <= 0:
        raise UsageInvalid(f"{name} is {text}, which leaves no time for an answer")
    return seconds


def _reach(place: Any, seconds: float) -> None:
    import socket  # noqa: PLC0415

    try:
        socket.create_connection((place.host, place.port), seconds).close()
    except OSError as error:
        raise BrokerUnreachable(
            f"nobody answers at {place}: {error.strerror or error}",
            hint="`goqueue serve` starts a broker on this machine, `--server URL` names another one",
        ) from None
