"""The options of a call: from flags, the environment, the selected context, or the defaults."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.console import contexts
from goqueue.console.contexts import Context, Contexts
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import parse_duration_flag
from goqueue.console.rows import OUTPUTS
from goqueue.errors import AccessDenied, PathInvalid, RequestInvalid
from goqueue.quantities import quoted

if TYPE_CHECKING:
    from goqueue.client.tls import TlsOptions

MASK = "********"
STDIN = "-"

_BYTES_MAX = 16 * 1024  # a larger file is not a key


class Secret:
    """A text, or the file that contains it; `-` is stdin."""

    def __init__(self, text: str | None = None, file: str | None = None) -> None:
        self._text = text
        self._file = file

    def read(self) -> str | None:
        """Return the secret, or None; its file is read once."""
        if self._text is None and self._file is not None:
            self._text = _from_stdin() if self._file == STDIN else _from_file(self._file)
        return self._text

    @property
    def shown(self) -> str | None:
        """Return what may be shown: a mask, or the name of the file."""
        return self._file if self._file is not None else None if self._text is None else MASK

    def __repr__(self) -> str:
        return f"<Secret {self.shown}>"


def _from_stdin() -> str:
    """Read one line and no byte more: the rest may be messages to publish."""
    line = b""
    with suppress(OSError):
        while len(line) < _BYTES_MAX and (byte := os.read(0, 1)) not in {b"", b"\n"}:
            line += byte
    text = line.decode(errors="replace").strip()
    if not text:
        raise UsageInvalid("stdin has no API key", hint="use `goqueue-cli --api-key-file - ... < key`")
    return text


def _from_file(name: str) -> str:
    path = os.path.expanduser(name)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_BYTES_MAX).strip()
    except PermissionError:
        raise AccessDenied(f"the API key in {name} may not be read", hint="check owner and mode") from None
    except UnicodeDecodeError:
        raise PathInvalid(f"the API key in {name} is not text", hint="the file must contain only the key") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PathInvalid(f"the API key in {name} cannot be read: {reason}", hint=_FILE_HINT) from None
    if not text:
        raise PathInvalid(f"{name} is empty, and must contain the API key", hint=_EMPTY_HINT)
    return text


_EMPTY_HINT = (
    "write the key there again; if it is lost, make another one while the broker is stopped: "
    "`goqueue key create NAME --role admin --data-dir DIR --save FILE`"
)
_FILE_HINT = "--api-key-file takes the file with the key, or - for stdin"


DEFAULT_SERVER = "http://127.0.0.1:8080"
DEFAULT_OUTPUT = "table"
DEFAULT_TIMEOUT = "30s"

_SAME_HOSTS = {"localhost": "127.0.0.1", "::1": "127.0.0.1"}
"""Other names of this machine."""


class OptionOrigin(StrEnum):
    """The origin of an option."""

    FLAG = auto()
    ENVIRONMENT = auto()
    CONTEXT = auto()
    DEFAULT = auto()


class ResolvedOption(NamedTuple):
    """A value with its origin: `name` is the flag, the variable, or the key of the context."""

    value: Any
    kind: OptionOrigin = OptionOrigin.DEFAULT
    name: str = "default"


class ResolvedOptions(NamedTuple):
    """All options of a call besides its own arguments and flags."""

    context: ResolvedOption
    server: ResolvedOption
    api_key: ResolvedOption
    """The value is a Secret."""

    timeout: ResolvedOption
    """The value is the text of a valid duration."""

    output: ResolvedOption
    guard: str | None
    """The protected context with this broker."""

    ca_file: ResolvedOption = ResolvedOption(None)
    client_cert: ResolvedOption = ResolvedOption(None)
    client_key: ResolvedOption = ResolvedOption(None)
    tenant: ResolvedOption = ResolvedOption(None)
    broker_context: str | None = None
    """The selected context, unless a flag or a variable names another broker than it does."""

    @property
    def tls(self) -> "TlsOptions":
        """The files of TLS, for a client."""
        from goqueue.client.tls import TlsOptions  # noqa: PLC0415 - not before the command line is understood

        return TlsOptions(self.ca_file.value, self.client_cert.value, self.client_key.value)


def resolve_options(flags: Mapping[str, Any], environment: Mapping[str, str]) -> ResolvedOptions:
    known = contexts.load(environment)
    selected = _context(flags, environment, known)
    context = known.find(selected.value) if selected.value else Context()
    pick = _OptionResolver(flags, environment, selected, context)
    server = pick.one("server", DEFAULT_SERVER)
    return ResolvedOptions(
        context=selected,
        server=server,
        api_key=pick.key(server),
        timeout=pick.one("timeout", DEFAULT_TIMEOUT, check_duration),
        output=pick.one("output", DEFAULT_OUTPUT, _check_output),
        guard=_guard(known, selected.value if context.protected else None, server.value),
        **pick.tls_files(server),
        tenant=pick.of_broker("tenant", server),
        broker_context=selected.value if is_broker_of(context, server.value) else None,
    )


def is_broker_of(context: Context, server: str | None) -> bool:
    """Return whether all addresses of `server` are of the context's broker, or it names none."""
    if context.server in {None, server}:
        return True
    places = _places(server or "")
    return bool(places) and places <= _places(context.server or "")


def _guard(known: Contexts, selected: str | None, server: str) -> str | None:
    if selected is not None:
        return selected
    shields = {name: one.server for name, one in known.contexts.items() if one.protected and one.server}
    places = _places(server) if shields else set()
    return next((name for name, text in shields.items() if places & _places(text)), None)


def _places(server: str) -> set[tuple[str, int, str]]:
    """Return a normal form of each address; invalid ones are reported when they are used."""
    from goqueue.client import address  # noqa: PLC0415 - only where something is protected

    try:
        found = address.parse_all(server)
    except RequestInvalid:
        return set()
    hosts = [one.host.lower().removesuffix(".") for one in found]
    return {(_SAME_HOSTS.get(host, host), one.port, one.base) for host, one in zip(hosts, found, strict=True)}


def resolve_output(flags: Mapping[str, Any], environment: Mapping[str, str]) -> ResolvedOption:
    """Resolve the output format only, for a command without a context."""
    picker = _OptionResolver(flags, environment, ResolvedOption(None), Context())
    return picker.one("output", DEFAULT_OUTPUT, _check_output)


def _context(flags: Mapping[str, Any], environment: Mapping[str, str], known: Contexts) -> ResolvedOption:
    if flags.get("context"):
        return ResolvedOption(flags["context"], OptionOrigin.FLAG, "--context")
    if environment.get("GOQUEUE_CONTEXT"):
        return ResolvedOption(environment["GOQUEUE_CONTEXT"], OptionOrigin.ENVIRONMENT, "GOQUEUE_CONTEXT")
    if known.current:
        return ResolvedOption(known.current, OptionOrigin.CONTEXT, f"current-context in {known.path}")
    return ResolvedOption(None)


class _OptionResolver:
    """The sources of the options of one call."""

    def __init__(
        self, flags: Mapping[str, Any], environment: Mapping[str, str], selected: ResolvedOption, context: Context
    ) -> None:
        self._flags = flags
        self._environment = environment
        self._selected = selected
        self._context = context

    def one(self, name: str, default: str, check: Callable[[str, str], None] | None = None) -> ResolvedOption:
        """Resolve an option, and check its value."""
        found = self._found(name) or ResolvedOption(default)
        if check is not None:
            check(found.value, found.name)
        return found

    def _found(self, name: str) -> ResolvedOption | None:
        variable, said = f"GOQUEUE_{name.upper()}", getattr(self._context, name)
        in_context = ResolvedOption(said, OptionOrigin.CONTEXT, self._place(name.replace("_", "-"))) if said else None
        if given := self._flags.get(name):
            value = ",".join(given) if isinstance(given, list) else given
            return ResolvedOption(value, OptionOrigin.FLAG, f"--{name.replace('_', '-')}")
        if in_context is not None and self._selected.kind is OptionOrigin.FLAG:
            return in_context
        if self._environment.get(variable):
            return ResolvedOption(self._environment[variable], OptionOrigin.ENVIRONMENT, variable)
        return in_context

    def key(self, server: ResolvedOption) -> ResolvedOption:
        flag, file, variable = self._flags.get("api_key"), self._flags.get("api_key_file"), "GOQUEUE_API_KEY"
        if flag and file:
            raise UsageInvalid("--api-key and --api-key-file exclude each other", hint="leave out one of them")
        if flag or file:
            return ResolvedOption(Secret(flag, file), OptionOrigin.FLAG, "--api-key" if flag else "--api-key-file")
        in_context = self._key_in_context(server)
        if in_context is not None and self._selected.kind is OptionOrigin.FLAG:
            return in_context
        if self._environment.get(variable):
            return ResolvedOption(Secret(self._environment[variable]), OptionOrigin.ENVIRONMENT, variable)
        if named := self._environment.get(f"{variable}_FILE"):
            return ResolvedOption(Secret(file=named), OptionOrigin.ENVIRONMENT, f"{variable}_FILE")
        return in_context or ResolvedOption(Secret())

    def tls_files(self, server: ResolvedOption) -> dict[str, ResolvedOption]:
        """Resolve the files of TLS. Those of a context are for its broker; a key is from where its certificate is."""
        found = {name: self.of_broker(name, server) for name in ("ca_file", "client_cert", "client_key")}
        cert, key = found["client_cert"], found["client_key"]
        if key.value is not None and cert.value is not None and key.kind is not cert.kind:
            found["client_key"] = ResolvedOption(None)
        return found

    def of_broker(self, name: str, server: ResolvedOption) -> ResolvedOption:
        """Resolve an option that, in a context, is for the broker of the context only."""
        found = self._found(name) or ResolvedOption(None)
        is_of_another = found.kind is OptionOrigin.CONTEXT and not is_broker_of(self._context, server.value)
        return ResolvedOption(None) if is_of_another else found

    def _key_in_context(self, server: ResolvedOption) -> ResolvedOption | None:
        context = self._context
        if not is_broker_of(context, server.value):
            return None
        if context.api_key:
            return ResolvedOption(Secret(context.api_key), OptionOrigin.CONTEXT, self._place("api-key"))
        if context.api_key_file:
            return ResolvedOption(Secret(file=context.api_key_file), OptionOrigin.CONTEXT, self._place("api-key-file"))
        return None

    def _place(self, key: str) -> str:
        return f"{key} of context {self._selected.value}"


def check_duration(text: str, name: str) -> None:
    if parse_duration_flag(name, text) <= 0:
        raise UsageInvalid(f"{name} is {text}, and must be above 0")


def _check_output(text: str, name: str) -> None:
    if text not in OUTPUTS:
        raise UsageInvalid(f"{name} is {quoted(text)}", hint=f"use one of {', '.join(OUTPUTS)}")
