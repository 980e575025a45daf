"""The flags that several commands have: each is declared here once.

Flags that belong together are a frozen dataclass. A command takes it as one keyword-only parameter, and `expand_flags`
gives Typer a parameter for each of its fields.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, TypeVar

import typer

from goqueue.console.failure import UsageInvalid
from goqueue.console.rows import Output
from goqueue.console.terminal import ColorMode
from goqueue.quantities import format_duration, parse_duration

_EVERY_SECONDS_MIN = 0.1

Flags = TypeVar("Flags")


def parse_duration_flag(flag: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageInvalid(f"{flag}: {error}") from None


def duration_parser(flag: str, *, least: float = 0.0, most: float = float("inf")) -> Callable[[str | float], float]:
    """Return a Typer parser for a flag that takes a duration within bounds."""

    def parse(text: str | float) -> float:
        seconds = parse_duration_flag(flag, str(text))
        if seconds < least:
            raise UsageInvalid(f"{flag} is {text}, and must be at least {format_duration(least)}")
        if seconds > most:
            raise UsageInvalid(f"{flag} is {text}, and must be {format_duration(most)} at most")
        return seconds

    return parse


# --- any program ---

VersionFlag = Annotated[bool, typer.Option("--version", help="Print the version and exit.")]
DebugFlag = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; valid in any position.")]
ServerFlag = Annotated[
    list[str] | None,
    typer.Option("--server", "-s", metavar="URL,...", help="Broker to use (GOQUEUE_SERVER; http://127.0.0.1:8080)."),
]
ContextFlag = Annotated[
    str | None,
    typer.Option("--context", "-c", metavar="NAME", help="Context to use (GOQUEUE_CONTEXT; see `config list`)."),
]
OutputFlag = Annotated[Output | None, typer.Option("--output", "-o", help="Output format (GOQUEUE_OUTPUT; table).")]
NoHeadersFlag = Annotated[bool, typer.Option("--no-headers", help="Print no line of column titles.")]
SortFlag = Annotated[
    str | None, typer.Option("--sort-by", metavar="FIELD[:desc]", help="Sort by a field or a column title.")
]
TimeoutFlag = Annotated[
    str | None, typer.Option("--timeout", metavar="DURATION", help="Maximum time to wait (GOQUEUE_TIMEOUT; 30s).")
]
KeyFlag = Annotated[
    str | None, typer.Option("--api-key", metavar="KEY", help="API key for the broker (GOQUEUE_API_KEY).")
]
KeyFileFlag = Annotated[
    str | None,
    typer.Option("--api-key-file", metavar="FILE", help="File with the API key; - reads stdin (GOQUEUE_API_KEY_FILE)."),
]
TenantFlag = Annotated[
    str | None, typer.Option("--tenant", metavar="ID", help="Tenant whose names are meant (GOQUEUE_TENANT).")
]
CaFileFlag = Annotated[
    str | None,
    typer.Option(
        "--ca-file", metavar="FILE", help="Authorities to trust for https:// (GOQUEUE_CA_FILE; the system's)."
    ),
]
ClientCertFlag = Annotated[
    str | None,
    typer.Option("--client-cert", metavar="FILE", help="Certificate for the broker to check (GOQUEUE_CLIENT_CERT)."),
]
ClientKeyFlag = Annotated[
    str | None, typer.Option("--client-key", metavar="FILE", help="Key of that certificate (GOQUEUE_CLIENT_KEY).")
]
ColorFlag = Annotated[
    ColorMode | None, typer.Option("--color", help="Use colors (auto: on a terminal without NO_COLOR).")
]


@dataclass(frozen=True, slots=True)
class SessionFlags:
    """Flags of every command that uses a broker; they are valid before the command as well."""

    server: ServerFlag = None
    context: ContextFlag = None
    output: OutputFlag = None
    no_headers: NoHeadersFlag = False
    sort_by: SortFlag = None
    timeout: TimeoutFlag = None
    api_key: KeyFlag = None
    api_key_file: KeyFileFlag = None
    tenant: TenantFlag = None
    ca_file: CaFileFlag = None
    client_cert: ClientCertFlag = None
    client_key: ClientKeyFlag = None
    color: ColorFlag = None


@dataclass(frozen=True, slots=True)
class ProgramFlags:
    """Flags that are handled before Typer is loaded; they are declared to be listed in the help."""

    version: VersionFlag = False
    debug: DebugFlag = False


# --- danger ---

YesFlag = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
ConfirmFlag = Annotated[
    str | None,
    typer.Option("--confirm", metavar="NAME", help="Confirm by name, without asking; needed in a protected context."),
]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]


@dataclass(frozen=True, slots=True)
class Consent:
    """Flags of a command that can lose something."""

    dry_run: DryRunFlag = False
    yes: YesFlag = False
    confirm: ConfirmFlag = None

    @property
    def must_ask(self) -> bool:
        return not self.yes and self.confirm is None


# --- watching ---

WatchFlag = Annotated[bool, typer.Option("--watch", "-w", help="Repeat until ^C.")]
EveryFlag = Annotated[
    float,
    typer.Option(
        "--every",
        metavar="DURATION",
        parser=duration_parser("--every", least=_EVERY_SECONDS_MIN),
        show_default="2s",
        help="Time between two requests.",
    ),
]


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Flags of a list that can be watched."""

    watch: WatchFlag = False
    every: EveryFlag = 2.0


# --- choosing messages ---

WhereFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="FILTER", help="Only messages that match, as in 'json.total>40'; repeated: all must match."
    ),
]
PartitionsFlag = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="N", min=0, help="Only this partition; may be repeated."),
]


# --- flags as parameters ---


def expand_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give Typer the fields of the command's sets of flags as parameters of their own."""
    return with_parameters(command, (), lambda given: given)


def with_parameters(
    command: Callable[..., None],
    added: Sequence[inspect.Parameter],
    convert: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    replaced: str = "",
) -> Callable[..., None]:
    """Return `command` with its sets of flags expanded, and with parameters `added` in place of the one `replaced`.

    `convert` turns the values that Typer passes into those that the command takes.
    """
    signature = inspect.signature(command)
    sets = {name: one.annotation for name, one in signature.parameters.items() if _is_set(one) and name != replaced}
    own: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name in sets:
            own += flag_parameters(sets[name])
        elif name != replaced:
            own.append(parameter)

    @wraps(command)
    def expanded(**given: Any) -> None:
        given = convert(given)
        for name, kind in sets.items():
            given[name] = take_flags(kind, given)
        command(**given)

    expanded.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    return expanded


def flag_parameters(kind: Any) -> list[inspect.Parameter]:
    """Return the fields of a set of flags as parameters."""
    parameter, empty = inspect.Parameter, inspect.Parameter.empty
    defaults = {field.name: empty if field.default is MISSING else field.default for field in fields(kind)}
    return [
        parameter(field.name, parameter.KEYWORD_ONLY, default=defaults[field.name], annotation=field.type)
        for field in fields(kind)
    ]


def take_flags(kind: type[Flags], given: dict[str, Any]) -> Flags:
    """Remove the values of a set of flags from `given`, and return the set."""
    return kind(**{field.name: given.pop(field.name) for field in fields(kind)})  # type: ignore[arg-type]


def _is_set(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
