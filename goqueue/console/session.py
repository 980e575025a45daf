"""What every command that speaks to a broker takes: where it is, how long to wait, how to print.

A flag is stronger than the environment, the environment than the selected context, that than the default. The
flags may stand before the command as well as behind it; behind it is stronger.
"""

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.choices import Choices, Kind, choose, chosen_output
from goqueue.console.groups import Debug, Version
from goqueue.console.nearest import nearest
from goqueue.console.order import ordered, ordering
from goqueue.console.rows import FOR_PEOPLE, Column, Output, Row, write_rows
from goqueue.console.secret import Secret
from goqueue.console.terminal import Colour
from goqueue.errors import BrokerUnreachable, GoQueueError, TopicNotFound
from goqueue.quantities import parse_duration

if TYPE_CHECKING:
    from goqueue.client import Client

_CONNECT_SECONDS = 5.0

ServerFlag = Annotated[
    str | None,
    typer.Option("--server", "-s", metavar="URL", help="The broker (GOQUEUE_SERVER; http://127.0.0.1:8080)."),
]
ContextFlag = Annotated[
    str | None,
    typer.Option("--context", "-c", metavar="NAME", help="The context to use (GOQUEUE_CONTEXT; `config list`)."),
]
OutputFlag = Annotated[Output | None, typer.Option("--output", "-o", help="How to print (GOQUEUE_OUTPUT).")]
NoHeadersFlag = Annotated[bool, typer.Option("--no-headers", help="Leave out the line of titles.")]
SortFlag = Annotated[
    str | None, typer.Option("--sort-by", metavar="FIELD[:desc]", help="Sort by a field or a title of a column.")
]
TimeoutFlag = Annotated[
    str | None, typer.Option("--timeout", metavar="DURATION", help="How long to wait (GOQUEUE_TIMEOUT; 30s).")
]
KeyFlag = Annotated[
    str | None, typer.Option("--api-key", metavar="KEY", help="What the broker knows you by (GOQUEUE_API_KEY).")
]
KeyFileFlag = Annotated[
    str | None, typer.Option("--api-key-file", metavar="FILE", help="The file that has the key; - is stdin.")
]
ColourFlag = Annotated[
    Colour | None, typer.Option("--color", help="When to use colours (auto: on a terminal, without NO_COLOR).")
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

    context: str | None = None
    """The name of the context that is selected, if there is one."""

    guard: str | None = None
    """The protected context whose broker this is: what destroys must be confirmed by name."""

    sort_by: str | None = None
    secret: Secret = field(default_factory=Secret)
    choices: Choices | None = None
    """Where each comes from, of a command that speaks to a broker."""

    @property
    def protected(self) -> bool:
        return self.guard is not None

    @property
    def api_key(self) -> str | None:
        return self.secret.read()

    @property
    def for_people(self) -> bool:
        """Whether a person reads the form that was asked for, who may be told more on stderr."""
        return self.output in FOR_PEOPLE

    def write(self, rows: Sequence[Row], columns: Sequence[Column]) -> None:
        """All rows at once on stdout, in the form and the order that were asked for."""
        write_rows(self.ordered(rows, columns), columns, self.output, headers=self.headers)

    def ordered(self, rows: Sequence[Row], columns: Sequence[Column]) -> Sequence[Row]:
        return rows if self.sort_by is None else ordered(rows, columns, self.sort_by)

    @contextmanager
    def client(self) -> "Iterator[Client]":
        """A client of a broker that is there: nobody should wait for the timeout of an address that was mistyped."""
        from goqueue.client import Client, address  # noqa: PLC0415 - not before the command line is understood

        key = self.api_key
        _reach(address.parse(self.server), min(self.timeout, _CONNECT_SECONDS))
        with Client(self.server, self.timeout, api_key=key) as client:
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
            guess = nearest(topic, client.topics())
            error.hint = f"did you mean {guess}?" if guess else _instead(topic) if creates else None
        raise


def _instead(topic: str) -> str:
    return f"`goqueue-cli topic create {topic}` creates it, `goqueue-cli topic list` shows those that there are"


def session_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `session` by the flags it is made of, as Typer reads a signature."""
    return _with_flags(command, tuple(_SHARED), _session)


def stream_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The same for a command that prints what comes as it comes, in the order in which it comes."""
    return _with_flags(command, tuple(name for name in _SHARED if name != "sort_by"), _session)


def print_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The same for a command that speaks to no broker, and works whatever is wrong with how to reach one."""
    return _with_flags(command, ("output", "no_headers", "sort_by", "color"), _printing)


def root_flags(root: Callable[[], None]) -> Callable[..., None]:
    """The flags of a whole program, which stand before the command."""
    flags = [parameter for name, parameter in _SHARED.items() if name != "sort_by"]
    flags += _keywords(_before_anything).values()

    @wraps(root)
    def remembering(*, typer_context: typer.Context, **given: Any) -> None:
        typer_context.obj = given
        _colour(given)

    remembering.__signature__ = inspect.Signature([*flags, _CONTEXT])  # type: ignore[attr-defined]
    return remembering


def _pattern(  # noqa: PLR0913 - they are as many as there are flags
    *,
    server: ServerFlag = None,
    context: ContextFlag = None,
    output: OutputFlag = None,
    no_headers: NoHeadersFlag = False,
    sort_by: SortFlag = None,
    timeout: TimeoutFlag = None,
    api_key: KeyFlag = None,
    api_key_file: KeyFileFlag = None,
    color: ColourFlag = None,
) -> None:
    """Its parameters are those that every command gets."""


def _before_anything(*, version: Version = False, debug: Debug = False) -> None:
    """Both are answered before Typer is loaded, and are listed with the others."""


def _keywords(function: Callable[..., None]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


_SHARED = _keywords(_pattern)
_CONTEXT = inspect.Parameter("typer_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

_Make = Callable[[dict[str, Any]], Session]


def _with_flags(command: Callable[..., None], names: tuple[str, ...], make: _Make) -> Callable[..., None]:
    signature = inspect.signature(command)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "session"]
    shared = [_SHARED[name] for name in names]

    @wraps(command)
    def with_session(**given: Any) -> None:
        context: typer.Context = given.pop("typer_context")
        behind = {name: given.pop(name) for name in names}
        before = context.find_root().obj or {}
        flags = {name: behind.get(name) or before.get(name) for name in _SHARED}
        _colour(flags)
        command(**given, session=make(flags))

    with_session.__signature__ = signature.replace(parameters=[*own, *shared, _CONTEXT])  # type: ignore[attr-defined]
    return with_session


def _colour(flags: dict[str, Any]) -> None:
    terminal.choose_colour(flags["color"] or "auto")


def _session(flags: dict[str, Any]) -> Session:
    chosen = choose(flags, os.environ)
    ordering(flags["sort_by"])
    return Session(
        server=chosen.server.value,
        output=chosen.output.value,
        headers=not flags["no_headers"],
        timeout=parse_duration(chosen.timeout.value),
        chose_output=chosen.output.kind is Kind.FLAG,
        context=chosen.context.value,
        guard=chosen.guard,
        sort_by=flags["sort_by"],
        secret=chosen.api_key.value,
        choices=chosen,
    )


def _printing(flags: dict[str, Any]) -> Session:
    output = chosen_output(flags, os.environ)
    return Session(
        server=None,
        output=output.value,
        headers=not flags["no_headers"],
        timeout=_CONNECT_SECONDS,
        chose_output=output.kind is Kind.FLAG,
        sort_by=flags["sort_by"],
    )


def _reach(place: Any, seconds: float) -> None:
    import socket  # noqa: PLC0415

    try:
        socket.create_connection((place.host, place.port), seconds).close()
    except OSError as error:
        raise BrokerUnreachable(
            f"nobody answers at {place}: {error.strerror or error}",
            hint="`goqueue serve` starts a broker on this machine, `--server URL` names another one",
        ) from None
