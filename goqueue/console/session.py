"""The session of a command: the broker it uses, how long it waits, and how it prints.

A flag takes precedence over the environment, the environment over the selected context, the context over the default.
The flags are valid before the command and behind it; behind it they take precedence.
"""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import Consent, ProgramFlags, SessionFlags, flag_parameters, with_parameters
from goqueue.console.options import OptionOrigin, ResolvedOptions, Secret, resolve_options, resolve_output
from goqueue.console.rows import FOR_PEOPLE, Column, Row, parse_sort, sort_rows, write_rows
from goqueue.errors import BrokerUnreachable
from goqueue.quantities import parse_duration, quoted

if TYPE_CHECKING:
    from goqueue.client import Client
    from goqueue.client.address import Address
    from goqueue.client.tls import TlsOptions

_CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Session:
    """The options of one call."""

    server: str | None
    output: str
    headers: bool
    timeout: float
    chose_output: bool
    """True if a flag set the output format, and not the environment or a context."""

    context: str | None = None
    """The name of the selected context."""

    broker_context: str | None = None
    """The same if its broker is used: a flag or a variable may name another."""

    guard: str | None = None
    """The protected context with this broker: dangerous commands must be confirmed by name."""

    sort_by: str | None = None
    secret: Secret = field(default_factory=Secret)
    choices: ResolvedOptions | None = None
    """Each option with its origin, for a command that uses a broker."""

    @property
    def protected(self) -> bool:
        return self.guard is not None

    @property
    def api_key(self) -> str | None:
        return self.secret.read()

    @property
    def tenant(self) -> str:
        """The tenant whose names are meant; empty for those of the broker."""
        return (self.choices.tenant.value or "") if self.choices is not None else ""

    @property
    def tls(self) -> "TlsOptions | None":
        return None if self.choices is None else self.choices.tls

    @property
    def for_people(self) -> bool:
        """True if the output format is a table, so that stderr may say more."""
        return self.output in FOR_PEOPLE

    def note(self, *lines: str) -> None:
        """Write to stderr for a reader of tables; programs get nothing."""
        if self.for_people:
            terminal.say(*lines)

    def write(self, rows: Sequence[Row], columns: Sequence[Column], *, name: str = "name") -> None:
        """Write all rows to stdout in the chosen format and order; `-o name` writes one field of each."""
        write_rows(self.ordered(rows, columns), columns, self.output, headers=self.headers, name=name)

    def ordered(self, rows: Sequence[Row], columns: Sequence[Column]) -> Sequence[Row]:
        return rows if self.sort_by is None else sort_rows(rows, columns, self.sort_by)

    @contextmanager
    def client(self) -> "Iterator[Client]":
        """Connect a client; an address without a broker is reported at once, not after the timeout."""
        from goqueue.client import Client, address  # noqa: PLC0415 - not before the command line is understood
        from goqueue.client.quota_waits import WAITS  # noqa: PLC0415 - as above

        WAITS.tell = self.note
        key = self.api_key
        servers = reach(address.parse_all(self.server), self.timeout)
        with Client(servers, self.timeout, api_key=key, tenant=self.tenant, tls=self.tls) as client:
            if key is not None or self.tenant:
                self._check_identity(client.version(), key)
            yield client

    def _check_identity(self, version: Mapping[str, Any], key: str | None) -> None:
        """Refuse a key and a tenant that the broker would ignore."""
        if key is not None and version.get("authentication", "none") == "none":
            raise UsageInvalid(
                f"the broker at {self.server} has no API keys: it would ignore the one of {self._key_origin()}",
                hint="run the command without a key",
            )
        if self.tenant and not version.get("tenants", False):
            raise UsageInvalid(
                f"the broker at {self.server} has no tenants: it would ignore {self.tenant}",
                hint="run the command without --tenant and GOQUEUE_TENANT",
            )

    def _key_origin(self) -> str:
        return self.choices.api_key.name if self.choices is not None else "this command"


_SHARED = {parameter.name: parameter for parameter in flag_parameters(SessionFlags)}
_CONTEXT = inspect.Parameter("typer_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

_Make = Callable[[dict[str, Any]], Session]


def session_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `session` by the flags of a session."""
    return _with_flags(command, tuple(_SHARED), _session)


def stream_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Do the same for a command that prints rows in the order in which they arrive."""
    return _with_flags(command, tuple(name for name in _SHARED if name != "sort_by"), _session)


def output_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Do the same for a command that uses no broker, and works whatever context is selected."""
    return _with_flags(command, ("output", "no_headers", "sort_by", "color"), _printing)


def _with_flags(command: Callable[..., None], names: Sequence[str], make: _Make) -> Callable[..., None]:
    def convert(given: dict[str, Any]) -> dict[str, Any]:
        context: typer.Context = given.pop("typer_context")
        behind = {name: given.pop(name) for name in names}
        before = context.find_root().obj or {}
        flags = {name: behind.get(name) or before.get(name) for name in _SHARED}
        terminal.set_color_mode(flags["color"] or "auto")
        return {**given, "session": make(flags)}

    return with_parameters(command, [*(_SHARED[name] for name in names), _CONTEXT], convert, replaced="session")


def root_callback(help_text: str, *, uses_broker: bool) -> Callable[..., None]:
    """Return the function behind a whole program: it keeps the flags that stand before the command."""
    shared = [one for name, one in _SHARED.items() if name != "sort_by"] if uses_broker else []

    def root(*, typer_context: typer.Context, **given: Any) -> None:
        if uses_broker:
            typer_context.obj = given
            terminal.set_color_mode(given["color"] or "auto")

    root.__doc__ = help_text
    root.__signature__ = inspect.Signature([*shared, *flag_parameters(ProgramFlags), _CONTEXT])  # type: ignore[attr-defined]
    return root


def _session(flags: dict[str, Any]) -> Session:
    chosen = resolve_options(flags, os.environ)
    parse_sort(flags["sort_by"])
    return Session(
        server=chosen.server.value,
        output=chosen.output.value,
        headers=not flags["no_headers"],
        timeout=parse_duration(chosen.timeout.value),
        chose_output=chosen.output.kind is OptionOrigin.FLAG,
        context=chosen.context.value,
        broker_context=chosen.broker_context,
        guard=chosen.guard,
        sort_by=flags["sort_by"],
        secret=chosen.api_key.value,
        choices=chosen,
    )


def _printing(flags: dict[str, Any]) -> Session:
    output = resolve_output(flags, os.environ)
    return Session(
        server=None,
        output=output.value,
        headers=not flags["no_headers"],
        timeout=_CONNECT_SECONDS,
        chose_output=output.kind is OptionOrigin.FLAG,
        sort_by=flags["sort_by"],
    )


def reach(places: "Sequence[Address]", seconds: float = _CONNECT_SECONDS, *, flag: str = "`--server URL`") -> list[str]:
    """Return the addresses, one where something listens first; raise an error if there is none.

    `flag` is what chooses another.
    """
    import socket  # noqa: PLC0415

    said: list[str] = []
    for place in places:
        try:
            socket.create_connection((place.host, place.port), min(seconds, _CONNECT_SECONDS) / len(places)).close()
        except OSError as error:
            said.append(f"{place}: {error.strerror or error}")
        else:
            return [str(place), *(str(other) for other in places if other is not place)]
    raise BrokerUnreachable(
        f"no broker answers at {'; '.join(said)}",
        hint=f"`goqueue serve` starts a broker on this machine, {flag} selects another one",
    )


# --- confirmation of dangerous commands: asked for on a terminal, given by a flag elsewhere ---


def require_confirmation(session: Session, what: str, *, name: str, consent: Consent) -> None:
    """Return if `what`, such as "delete topic orders with all messages", is confirmed for `name`.

    Several names are one text, with spaces or commas between them.
    """
    shown = f"'{name}'" if " " in name else name
    by_name = f"`--confirm {shown}` confirms it"
    if consent.confirm is not None:
        if _words(consent.confirm) != _words(name):
            raise UsageInvalid(f"--confirm is {quoted(consent.confirm)}, and this is about {name}", hint=by_name)
        return
    if consent.yes and not session.protected:
        return
    if not terminal.can_prompt():
        sentence = f"confirmation required to {what}"
        if session.protected:
            raise UsageInvalid(f"{sentence}, and context {session.guard} is protected", hint=by_name)
        raise UsageInvalid(sentence, hint="`--yes` confirms it")
    if session.protected:
        question = f"context {session.guard} is protected; to {what}, type {name}: "
        confirmed = _words(terminal.ask_text(question)) == _words(name)
    else:
        confirmed = terminal.ask_yes_no(f"{what}?")
    if not confirmed:
        terminal.say("nothing was changed")
        raise typer.Exit(exit_codes.FAILED)


def _words(names: str) -> set[str]:
    return set(names.replace(",", " ").split())
