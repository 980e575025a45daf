"""Where each choice of a call comes from: a flag, the environment, the selected context, or nobody's wish.

The strongest that says something wins; a context that a flag names speaks with the strength of a flag. A context's
key is for the context's own broker: another one that a flag or the environment names never gets to see it. And what
protects a context protects its broker, however that is named.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum, auto
from typing import Any, NamedTuple

from goqueue.console import context_file
from goqueue.console.contexts import Context, Contexts
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import OUTPUTS
from goqueue.console.secret import Secret
from goqueue.errors import RequestInvalid
from goqueue.quantities import parse_duration, quoted

DEFAULT_SERVER = "http://127.0.0.1:8080"
DEFAULT_OUTPUT = "table"
DEFAULT_TIMEOUT = "30s"

_SAME_HOSTS = {"localhost": "127.0.0.1", "::1": "127.0.0.1"}
"""Other names of this machine: asking once too often harms nobody."""


class Kind(StrEnum):
    """Who chose."""

    FLAG = auto()
    ENVIRONMENT = auto()
    CONTEXT = auto()
    DEFAULT = auto()


class Choice(NamedTuple):
    """What was chosen, and by whom: `name` is the flag, the variable, or the place in the file."""

    value: Any
    kind: Kind = Kind.DEFAULT
    name: str = "default"


class Choices(NamedTuple):
    """All that a call depends on besides its own words."""

    context: Choice
    server: Choice
    api_key: Choice
    """Its value is a Secret."""

    timeout: Choice
    """Its value is the text, which was found to be a duration."""

    output: Choice
    guard: str | None
    """The protected context whose broker this is, if there is one."""


def choose(flags: Mapping[str, Any], environment: Mapping[str, str]) -> Choices:
    known = context_file.load(environment)
    selected = _context(flags, environment, known)
    context = known.find(selected.value) if selected.value else Context()
    pick = _Picker(flags, environment, selected, context)
    server = pick.one("server", DEFAULT_SERVER)
    return Choices(
        context=selected,
        server=server,
        api_key=pick.key(server),
        timeout=pick.one("timeout", DEFAULT_TIMEOUT, check_duration),
        output=pick.one("output", DEFAULT_OUTPUT, _check_output),
        guard=_guard(known, selected.value if context.protected else None, server.value),
    )


def _guard(known: Contexts, selected: str | None, server: str) -> str | None:
    if selected is not None:
        return selected
    shields = {name: one.server for name, one in known.contexts.items() if one.protected and one.server}
    place = _place(server) if shields else None
    return next((name for name, text in shields.items() if place and _place(text) == place), None)


def _place(server: str) -> tuple[str, int, str] | None:
    """Alike for all ways to write an address. One that cannot be one is told by whoever goes there."""
    from goqueue.client import address  # noqa: PLC0415 - only where something is protected

    try:
        found = address.parse(server)
    except RequestInvalid:
        return None
    host = found.host.lower().removesuffix(".")
    return _SAME_HOSTS.get(host, host), found.port, found.base


def chosen_output(flags: Mapping[str, Any], environment: Mapping[str, str]) -> Choice:
    """The form alone, of a command that no context matters to."""
    picker = _Picker(flags, environment, Choice(None), Context())
    return picker.one("output", DEFAULT_OUTPUT, _check_output)


def _context(flags: Mapping[str, Any], environment: Mapping[str, str], known: Contexts) -> Choice:
    if flags.get("context"):
        return Choice(flags["context"], Kind.FLAG, "--context")
    if environment.get("GOQUEUE_CONTEXT"):
        return Choice(environment["GOQUEUE_CONTEXT"], Kind.ENVIRONMENT, "GOQUEUE_CONTEXT")
    if known.current:
        return Choice(known.current, Kind.CONTEXT, f"current-context in {known.path}")
    return Choice(None)


class _Picker:
    """The sources of one call, from strong to weak."""

    def __init__(
        self, flags: Mapping[str, Any], environment: Mapping[str, str], selected: Choice, context: Context
    ) -> None:
        self._flags = flags
        self._environment = environment
        self._selected = selected
        self._context = context

    def one(self, name: str, default: str, check: Callable[[str, str], None] | None = None) -> Choice:
        """A value, which was checked if it is in use."""
        found = self._found(name) or Choice(default)
        if check is not None:
            check(found.value, found.name)
        return found

    def _found(self, name: str) -> Choice | None:
        variable, said = f"GOQUEUE_{name.upper()}", getattr(self._context, name)
        in_context = Choice(said, Kind.CONTEXT, self._place(name)) if said else None
        if self._flags.get(name):
            return Choice(self._flags[name], Kind.FLAG, f"--{name}")
        if in_context is not None and self._selected.kind is Kind.FLAG:
            return in_context
        if self._environment.get(variable):
            return Choice(self._environment[variable], Kind.ENVIRONMENT, variable)
        return in_context

    def key(self, server: Choice) -> Choice:
        flag, file, variable = self._flags.get("api_key"), self._flags.get("api_key_file"), "GOQUEUE_API_KEY"
        if flag and file:
            raise UsageInvalid("--api-key and --api-key-file are two keys", hint="leave out one of them")
        if flag or file:
            return Choice(Secret(flag, file), Kind.FLAG, "--api-key" if flag else "--api-key-file")
        in_context = self._key_in_context(server)
        if in_context is not None and self._selected.kind is Kind.FLAG:
            return in_context
        if self._environment.get(variable):
            return Choice(Secret(self._environment[variable]), Kind.ENVIRONMENT, variable)
        return in_context or Choice(Secret())

    def _key_in_context(self, server: Choice) -> Choice | None:
        context = self._context
        if context.server not in {None, server.value}:
            return None
        if context.api_key:
            return Choice(Secret(context.api_key), Kind.CONTEXT, self._place("api-key"))
        if context.api_key_file:
            return Choice(Secret(file=context.api_key_file), Kind.CONTEXT, self._place("api-key-file"))
        return None

    def _place(self, key: str) -> str:
        return f"{key} of context {self._selected.value}"


def check_duration(text: str, name: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageInvalid(f"{name}: {error}") from None
    if seconds <= 0:
        raise UsageInvalid(f"{name} is {text}, which leaves no time for an answer")


def _check_output(text: str, name: str) -> None:
    if text not in OUTPUTS:
        raise UsageInvalid(f"{name} is {quoted(text)}", hint=f"write one of {', '.join(OUTPUTS)}")
