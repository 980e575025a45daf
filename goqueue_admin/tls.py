"""`goqueue-admin tls`: the TLS certificate of a broker, and its reload."""

from collections.abc import Iterator
from typing import Any

from goqueue.console import terminal
from goqueue.console.failure import doing
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.quantities import format_duration

_COLUMNS = (
    Column("CERTIFICATE", "path"),
    Column("EXPIRES", "expires_at"),
    Column("NAMES", "names", ", ".join),
    Column("CLIENTS", "client_auth"),
    Column("ERROR", "error"),
    Column("ISSUER", "issuer", wide=True),
    Column("FINGERPRINT", "fingerprint", wide=True),
)
_CLIENTS = {
    "none": "clients need no certificate",
    "optional": "clients may present a certificate",
    "required": "clients need a certificate",
}
_HOUR = 3600


@session_flags
def describe(*, session: Session) -> None:
    """Show the TLS certificate that a broker uses, and when it expires.

    \b
      goqueue-admin tls describe
      goqueue-admin tls describe -o json
    """
    with doing("describe the TLS certificate"), session.client() as client:
        found = client.certificate()
    _write(session, found)


@session_flags
def reload(*, session: Session) -> None:
    """Let a broker load its TLS certificate again.

    \b
      goqueue-admin tls reload

    The broker looks at the files every few seconds by itself, and on SIGHUP. New connections get the new certificate;
    those that are open go on. If a file is broken, the former certificate stays in use, and the command fails.
    """
    with doing("reload the TLS certificate"), session.client() as client:
        found = client.reload_certificate()
    _write(session, found)


def _write(session: Session, found: dict[str, Any]) -> None:
    certificate = found["certificate"]
    if not session.for_people:
        session.write([] if certificate is None else [{"name": certificate["path"], **certificate}], _COLUMNS)
    elif certificate is None:
        terminal.write("the broker listens without TLS\n")
    else:
        terminal.write_lines(_sentences(certificate))


def _sentences(certificate: dict[str, Any]) -> Iterator[str]:
    left = certificate["seconds_left"]
    when = f"in {format_duration(round(left / _HOUR) * _HOUR)}" if left >= _HOUR else "within the hour"
    yield f"{certificate['path']}: {', '.join(certificate['names']) or 'without names'}"
    yield f"  {f'expires {when}, at' if left > 0 else 'EXPIRED at'} {certificate['expires_at']}"
    yield f"  issued by {certificate['issuer']}; {_CLIENTS[certificate['client_auth']]}"
    yield f"  SHA-256 {certificate['fingerprint']}"
    if certificate["error"] is not None:
        yield f"  the files as they are now are not in use: {certificate['error']}"
