"""`config`: manage contexts, and show the options in effect; the same commands in every program for a broker."""

import os
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import typer

from goqueue.console import contexts, terminal
from goqueue.console.contexts import Context, Contexts
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import Consent, expand_flags
from goqueue.console.options import STDIN, OptionOrigin, ResolvedOption, Secret, check_duration
from goqueue.console.rows import Column, Output, Row
from goqueue.console.session import Session, output_flags, require_confirmation, session_flags
from goqueue.nearest import nearest
from goqueue.quantities import quoted

_Name = Annotated[str, typer.Argument(metavar="CONTEXT", help="Name of the context.")]
_Names = Annotated[list[str], typer.Argument(metavar="CONTEXT...", help="Names of contexts.")]


@dataclass(frozen=True, slots=True)
class ContextFlags:
    """A flag for each setting of a context."""

    server: Annotated[
        list[str] | None,
        typer.Option(
            "--server", "-s", metavar="URL,...", help="Address of the broker, or of several nodes of a cluster."
        ),
    ] = None
    api_key: Annotated[str | None, typer.Option("--api-key", metavar="KEY", help="API key for the broker.")] = None
    api_key_file: Annotated[
        str | None, typer.Option("--api-key-file", metavar="FILE", help="File with the key; - stores that of stdin.")
    ] = None
    ca_file: Annotated[
        str | None, typer.Option("--ca-file", metavar="FILE", help="File of the authorities to trust for https://.")
    ] = None
    client_cert: Annotated[
        str | None,
        typer.Option("--client-cert", metavar="FILE", help="File of the certificate for the broker to check."),
    ] = None
    client_key: Annotated[
        str | None, typer.Option("--client-key", metavar="FILE", help="File of the key of that certificate.")
    ] = None
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="ID", help="Tenant whose names are meant.")] = None
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="Maximum time to wait for the broker.")
    ] = None
    output: Annotated[Output | None, typer.Option("--output", "-o", help="Output format.")] = None
    protected: Annotated[
        bool | None, typer.Option("--protected/--no-protected", help="Confirm dangerous commands by name.")
    ] = None

    def values(self) -> dict[str, Any]:
        """Return the settings that were given, checked: one key at most, and only usable values."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if self.server is not None:
            given["server"] = ",".join(self.server)
        return _checked(given)


def _readable(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _name_style(row: Row) -> str:
    return "protected" if row.get("protected") else ""


_CONTEXT = (
    Column("CONTEXT", "name", style=_name_style),
    Column("CURRENT", "current", lambda current: "*" if current else ""),
    Column("SERVER", "server"),
    Column("PROTECTED", "protected", _readable),
    Column("API KEY", "api-key", wide=True),
    Column("KEY FILE", "api-key-file", wide=True),
    Column("CA FILE", "ca-file", wide=True),
    Column("CLIENT CERT", "client-cert", wide=True),
    Column("TENANT", "tenant", wide=True),
    Column("TIMEOUT", "timeout", wide=True),
    Column("OUTPUT", "output", wide=True),
)
_RESULT = (Column("CONTEXT", "name"), Column("RESULT", "result"))
_ORIGIN = Column("ORIGIN", "from")


@session_flags
def view(
    show_origin: Annotated[bool, typer.Option("--show-origin", help="Show the origin of each value.")] = False,
    *,
    session: Session,
) -> None:
    """Show the options in effect and their origin.

    \b
      PROGRAM config view
      PROGRAM config view --show-origin
      PROGRAM config view -c production -o json

    A flag takes precedence over a variable (GOQUEUE_...), a variable over the context, the context over the default.
    Keys are masked.
    """
    chosen = session.choices
    assert chosen is not None
    path = contexts.path_of(os.environ)
    named = bool(os.environ.get(contexts.VARIABLE))
    file = ResolvedOption(path, OptionOrigin.ENVIRONMENT, contexts.VARIABLE) if named else ResolvedOption(path)
    shield = (
        ResolvedOption(True, OptionOrigin.CONTEXT, f"context {chosen.guard}") if chosen.guard else ResolvedOption(False)
    )
    picked = {
        "file": file,
        "context": chosen.context,
        "server": chosen.server,
        "api-key": chosen.api_key._replace(value=chosen.api_key.value.shown),
        "ca-file": chosen.ca_file,
        "client-cert": chosen.client_cert,
        "client-key": chosen.client_key,
        "tenant": chosen.tenant,
        "timeout": chosen.timeout,
        "output": chosen.output,
        "protected": shield,
    }
    rows = [
        {"name": name, "value": choice.value, "origin": str(choice.kind), "from": choice.name}
        for name, choice in picked.items()
    ]

    def style(row: Row) -> str:
        return "protected" if row["name"] == "context" and session.protected else ""

    columns = Column("SETTING", "name"), Column("VALUE", "value", _readable, style=style)
    session.write(rows, (*columns, _ORIGIN) if show_origin else columns)


@output_flags
def list_contexts(*, session: Session) -> None:
    """List the contexts.

    \b
      PROGRAM config list
      PROGRAM config list -o wide
    """
    known = contexts.load(os.environ)
    session.write([_record(known, name) for name in sorted(known.contexts)], _CONTEXT)
    if not known.contexts:
        session.note("there are no contexts; `goqueue-cli config create NAME --server URL` creates one")


@output_flags
def describe(names: _Names, *, session: Session) -> None:
    """Show all settings of contexts.

    \b
      PROGRAM config describe production
      PROGRAM config describe local production -o json

    Keys are masked.
    """
    known = contexts.load(os.environ)
    for name in names:
        known.find(name)
    output = "wide" if session.output == "table" else session.output
    replace(session, output=output).write([_record(known, name) for name in dict.fromkeys(names)], _CONTEXT)


@expand_flags
def create(name: _Name, *, flags: ContextFlags) -> None:
    """Create a context.

    \b
      PROGRAM config create local --server http://127.0.0.1:8080
      PROGRAM config create production -s https://q.example.com --protected
      PROGRAM config create test -s http://test:8080 --api-key-file - < key

    The first context becomes the current one. Other users of this machine can see a key in --api-key: prefer a file
    or stdin.
    """
    known = contexts.load(os.environ).added(name, Context(**flags.values()))
    contexts.save(known)
    terminal.say(f"created context {name}{', the current one' if known.current == name else ''}")


@expand_flags
def edit(
    name: _Name,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Setting to remove; may be repeated.")
    ] = None,
    *,
    flags: ContextFlags,
) -> None:
    """Change a context.

    \b
      PROGRAM config edit production --timeout 1m
      PROGRAM config edit production --no-protected --unset timeout

    Other settings stay unchanged.
    """
    values = flags.values()
    known = contexts.load(os.environ)
    known.find(name)
    cleared = {key.replace("-", "_"): getattr(Context(), key.replace("-", "_")) for key in map(_key, unset or ())}
    both = next((key for key in cleared if values.get(key) is not None), None)
    if both is not None:
        raise UsageInvalid(f"{both.replace('_', '-')} is both set and unset", hint="leave out one of them")
    if not values and not cleared:
        raise UsageInvalid("no setting to change", hint=f"use `config edit {name} --timeout 1m`")
    contexts.save(known.changed(name, **{**cleared, **values}))
    terminal.say(f"changed context {name}")


@output_flags
def delete(names: _Names, *, consent: Consent, session: Session) -> None:
    """Delete contexts and the keys in them.

    \b
      PROGRAM config delete staging
      PROGRAM config delete staging old --yes

    The brokers and their data stay unchanged.
    """
    known = left = contexts.load(os.environ)
    unique = list(dict.fromkeys(names))
    for name in unique:
        left = left.without(name)
    shield = next((name for name in unique if known.find(name).protected), None)
    what = f"delete context{'s' if len(unique) > 1 else ''} {', '.join(unique)}"
    asking = replace(session, guard=shield)
    require_confirmation(asking, what, name=" ".join(unique), consent=consent)
    contexts.save(left)
    session.write([{"name": name, "result": "deleted"} for name in unique], _RESULT)
    if known.current in unique:
        terminal.say("there is no current context now; `config use` selects one")


def use(name: _Name) -> None:
    """Select the current context.

    \b
      PROGRAM config use production

    It applies unless -c or GOQUEUE_CONTEXT names another one.
    """
    contexts.save(contexts.load(os.environ).using(name))
    terminal.say(f"{name} is the current context")


def _record(known: Contexts, name: str) -> dict[str, Any]:
    context = known.find(name)
    return {
        "name": name,
        "current": name == known.current,
        **{key: getattr(context, key.replace("-", "_")) for key in contexts.KEYS},
        "api-key": Secret(context.api_key).shown,
    }


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        if isinstance(value, str) and (not value or not value.isprintable()):
            raise UsageInvalid(f"--{name.replace('_', '-')} is empty or not printable", hint=_EDIT)
    if "api_key" in values and "api_key_file" in values:
        raise UsageInvalid("--api-key and --api-key-file exclude each other", hint="leave out one of them")
    if values.get("api_key_file") == STDIN:
        values = {**values, "api_key": Secret(file=STDIN).read(), "api_key_file": None}
    elif "api_key" in values or "api_key_file" in values:
        values = {"api_key": None, "api_key_file": None, **values}
    if values.get("api_key") is not None:
        from goqueue.client.api_request import check_api_key  # noqa: PLC0415 - as below

        with doing("use that key"):
            check_api_key(values["api_key"])
    if "server" in values:
        from goqueue.client import address  # noqa: PLC0415 - only here

        with doing("use that server"):
            address.parse_all(values["server"])
    if "timeout" in values:
        check_duration(values["timeout"], "--timeout")
    return values


_EDIT = "`config edit NAME --unset KEY` removes a setting"


def _key(text: str) -> str:
    if text in contexts.KEYS:
        return text
    near = nearest(text.replace("_", "-"), contexts.KEYS)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(contexts.KEYS)}"
    raise UsageInvalid(f"--unset: a context has no {quoted(text)}", hint=hint)
