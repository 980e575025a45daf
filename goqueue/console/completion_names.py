"""Names of topics, groups and the like for completion: asked from the broker at once, or kept from a moment ago."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from goqueue.console import contexts
from goqueue.console.contexts import Context

if TYPE_CHECKING:
    import socket

TOPICS, GROUPS, TRANSACTIONS, OPERATIONS = "topics", "groups", "transactions", "operations"
CONTEXTS, SUBJECTS, TENANTS, BACKUPS = "contexts", "subjects", "tenants", "backups"
VERSIONS = "versions"
"""Followed by a slash and the subject."""

_SECONDS_MAX = 0.3  # longer, and the shell seems to hang
_KEPT_SECONDS = 5.0  # as long as it takes to choose one
_ANSWER_BYTES_MAX = 8 * 2**20
_NAMES_MAX = 1000  # more are no choice
_PATHS = {
    "topics": "topics",
    "groups": "groups",
    "transactions": f"transactions?state=all&limit={_NAMES_MAX}",
    "operations": "operations",
    "subjects": "subjects",
    "tenants": "admin/tenants",
    "backups": "admin/backup",
}


def names(kind: str, prefix: str, line: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the names of a kind that begin with `prefix`; the words of the `line` may select the broker."""
    try:
        if kind == CONTEXTS:
            found = _context_names(environment)
        elif kind == BACKUPS and (target := _flag_value(line, "--from", "")):
            found = os.listdir(os.path.join(target, "backups"))
        else:
            found = _broker_names(kind, line, environment)
    except Exception:
        return []
    return [name for name in sorted(found) if name.startswith(prefix) and name.isprintable()][:_NAMES_MAX]


def _context_names(environment: Mapping[str, str]) -> list[str]:
    return list(contexts.load(environment).contexts)


def _broker_names(kind: str, line: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    path = _path(kind)
    if path is None:
        return []
    broker = _broker(line, environment)
    if kind in (TENANTS, BACKUPS):  # which no tenant has
        broker = broker._replace(tenant=None)
    directory = os.path.join(environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "goqueue")
    noun = kind.partition("/")[0]
    file = os.path.join(directory, f"{noun}-{crc32(repr((path, broker)).encode()):08x}.json")
    kept = _kept(file)
    if kept is not None:
        return kept
    found = _asked(noun, path, broker)
    _keep(directory, file, found)
    return found


def _path(kind: str) -> str | None:
    noun, _, subject = kind.partition("/")
    if noun != VERSIONS:
        return _PATHS.get(kind)
    from urllib.parse import quote  # noqa: PLC0415 - not for other names

    return f"subjects/{quote(subject, safe='')}/versions"


class _Broker(NamedTuple):
    """The broker of a line, with what it takes to ask it."""

    servers: Sequence[str]
    key: str | None
    ca_file: str | None
    tenant: str | None

    @property
    def headers(self) -> str:
        secret = f"authorization: Bearer {self.key}\r\n" if self.key else ""
        return f"{secret}x-tenant: {self.tenant}\r\n" if self.tenant else secret


def _broker(line: Sequence[str], environment: Mapping[str, str]) -> _Broker:
    """Return the broker of the line. The key, authority and tenant of a context are for its own broker only."""
    known = contexts.load(environment)
    context_name = _flag_value(line, "--context", "-c") or environment.get("GOQUEUE_CONTEXT") or known.current
    context = known.contexts.get(context_name, Context()) if context_name else Context()
    server = _flag_value(line, "--server", "-s") or environment.get("GOQUEUE_SERVER") or context.server
    key = _flag_value(line, "--api-key", "") or environment.get("GOQUEUE_API_KEY")
    if key is None and (name := environment.get("GOQUEUE_API_KEY_FILE")):
        key = _read_key(name)
    ca_file = _flag_value(line, "--ca-file", "") or environment.get("GOQUEUE_CA_FILE")
    tenant = _flag_value(line, "--tenant", "") or environment.get("GOQUEUE_TENANT")
    servers = (server or "").split(",")
    if context.server is None or set(servers) <= set(context.server.split(",")):
        tenant = tenant or context.tenant
        key = key or context.api_key
        ca_file = ca_file or context.ca_file
        if key is None and context.api_key_file:
            key = _read_key(context.api_key_file)
    return _Broker(servers if server else ["http://127.0.0.1:8080"], key, ca_file, tenant)


def _read_key(name: str) -> str:
    with open(os.path.expanduser(name), encoding="utf-8") as file:
        return file.read().strip()


def _flag_value(line: Sequence[str], long: str, short: str) -> str | None:
    """Return the last value of a flag."""
    text = None
    for number, word in enumerate(line):
        if word in {long, short}:
            text = next(iter(line[number + 1 :]), text)
        elif word.startswith(f"{long}="):
            text = word.removeprefix(f"{long}=")
    return text


def _kept(path: str) -> list[str] | None:
    try:
        if not 0 <= time.time() - os.stat(path).st_mtime < _KEPT_SECONDS:
            return None
        with open(path, encoding="utf-8") as file:
            names: list[str] = json.load(file)
            return names
    except (OSError, ValueError):
        return None


def _keep(directory: str, path: str, names: list[str]) -> None:
    beside = f"{path}.{os.getpid()}"
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(names, file)
        os.replace(beside, path)
    except OSError:
        return  # the next completion asks the broker again


def _asked(kind: str, path: str, broker: _Broker) -> list[str]:
    """Return the names, from the first address that accepts a connection."""
    end = time.monotonic() + _SECONDS_MAX
    for server in broker.servers[:-1]:
        try:
            return _asked_at(server, kind, path, broker, end)
        except OSError:
            continue
    return _asked_at(broker.servers[-1], kind, path, broker, end)


def _asked_at(server: str, kind: str, path: str, broker: _Broker, end: float) -> list[str]:
    """Send one request over a plain socket: loading the client would take longer than the answer."""
    import re  # noqa: PLC0415 - not with a kept answer
    import socket  # noqa: PLC0415

    found = re.fullmatch(r"(?:(https?)://)?(\[[^\]]+\]|[^:/]+)(?::(\d+))?(/.*)?", server)
    if found is None:
        return []
    host, port = found[2], int(found[3] or (443 if found[1] == "https" else 80))
    line = f"GET {(found[4] or '').rstrip('/')}/{path} HTTP/1.1\r\nhost: {host}:{port}\r\n"
    request = f"{line}{broker.headers}connection: close\r\n\r\n"
    with socket.create_connection((host.strip("[]"), port), _SECONDS_MAX / len(broker.servers)) as plain:
        connection = plain
        if found[1] == "https":
            import ssl  # noqa: PLC0415

            trust = ssl.create_default_context(cafile=os.path.expanduser(broker.ca_file) if broker.ca_file else None)
            connection = trust.wrap_socket(plain, server_hostname=host.strip("[]"))
        connection.sendall(request.encode())
        content = _received(connection, end)
    head, _, body = content.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        return []
    found = json.loads(body)
    if kind in (SUBJECTS, VERSIONS):
        return list(map(str, found))
    found = found[kind]
    if kind == OPERATIONS:
        return [str(one["id"]) for one in found if one["undoable"]]
    if kind in (TENANTS, BACKUPS):
        return [one["id"] for one in found]
    return [one["transactional_id"] if isinstance(one, dict) else one for one in found]


def _received(connection: "socket.socket", end: float) -> bytes:
    content = b""
    while len(content) < _ANSWER_BYTES_MAX:
        connection.settimeout(max(0.001, end - time.monotonic()))
        piece = connection.recv(65536)
        if not piece:
            break
        content += piece
    return content
