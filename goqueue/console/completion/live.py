"""Names that are proposed while somebody types, each on a line: of topics, groups, transactional ids, contexts.

It is asked for at every press of a key, before Typer is loaded, and never says what went wrong: a broker that is
slow or away has no names. What it answers is kept for some seconds.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from goqueue.console import context_file
from goqueue.console.contexts import Context

if TYPE_CHECKING:
    import socket

_SECONDS_MAX = 0.3  # longer, and the shell seems to hang
_KEPT_SECONDS = 5.0  # as long as it takes to choose one
_ANSWER_BYTES_MAX = 8 * 2**20
_NAMES_MAX = 1000  # more are no choice
_PATHS = {"topics": "topics", "groups": "groups", "transactions": f"transactions?state=all&limit={_NAMES_MAX}"}


def names(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """What fits behind `__complete`: a kind, what is typed of the name, and all words of the line."""
    kind, prefix, *line = words
    try:
        found = _context_names(environment) if kind == "contexts" else _broker_names(kind, line, environment)
    except Exception:
        return []
    return [name for name in sorted(found) if name.startswith(prefix) and name.isprintable()][:_NAMES_MAX]


def _context_names(environment: Mapping[str, str]) -> list[str]:
    return list(context_file.load(environment).contexts)


def _broker_names(kind: str, line: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    if kind not in _PATHS:
        return []
    server, key = _broker(line, environment)
    directory = os.path.join(environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "goqueue")
    path = os.path.join(directory, f"{kind}-{crc32(f'{server} {key}'.encode()):08x}.json")
    kept = _kept(path)
    if kept is not None:
        return kept
    found = _asked(kind, server, key)
    _keep(directory, path, found)
    return found


def _broker(line: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str | None]:
    """Where the line goes, and with which key: as for the command itself, a context's key is for its own broker."""
    known = context_file.load(environment)
    name = _said(line, "--context", "-c") or environment.get("GOQUEUE_CONTEXT") or known.current
    context = known.contexts.get(name, Context()) if name else Context()
    server = _said(line, "--server", "-s") or environment.get("GOQUEUE_SERVER") or context.server
    key = _said(line, "--api-key", "") or environment.get("GOQUEUE_API_KEY")
    if key is None and context.server in {None, server}:
        key = context.api_key
        if key is None and context.api_key_file:
            with open(os.path.expanduser(context.api_key_file), encoding="utf-8") as file:
                key = file.read().strip()
    return server or "http://127.0.0.1:8080", key


def _said(line: Sequence[str], long: str, short: str) -> str | None:
    """The last value of a flag."""
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
        return  # it is asked again, that is all


def _asked(kind: str, server: str, key: str | None) -> list[str]:
    """One request by hand: the client would take longer to load than the answer to come."""
    import re  # noqa: PLC0415 - not for what was kept
    import socket  # noqa: PLC0415

    end = time.monotonic() + _SECONDS_MAX
    found = re.fullmatch(r"(?:(https?)://)?(\[[^\]]+\]|[^:/]+)(?::(\d+))?(/.*)?", server)
    if found is None:
        return []
    host, port = found[2], int(found[3] or (443 if found[1] == "https" else 80))
    secret = f"authorization: Bearer {key}\r\n" if key else ""
    line = f"GET {(found[4] or '').rstrip('/')}/{_PATHS[kind]} HTTP/1.1\r\nhost: {host}:{port}\r\n"
    request = f"{line}{secret}connection: close\r\n\r\n"
    with socket.create_connection((host.strip("[]"), port), _SECONDS_MAX) as plain:
        connection = plain
        if found[1] == "https":
            import ssl  # noqa: PLC0415

            connection = ssl.create_default_context().wrap_socket(plain, server_hostname=host.strip("[]"))
        connection.sendall(request.encode())
        content = _received(connection, end)
    head, _, body = content.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        return []
    return [one["transactional_id"] if isinstance(one, dict) else one for one in json.loads(body)[kind]]


def _received(connection: "socket.socket", end: float) -> bytes:
    content = b""
    while len(content) < _ANSWER_BYTES_MAX:
        connection.settimeout(max(0.001, end - time.monotonic()))
        piece = connection.recv(65536)
        if not piece:
            break
        content += piece
    return content


def answer(words: Sequence[str]) -> None:
    if len(words) >= 2 and sys.stdout is not None:
        sys.stdout.write("".join(f"{name}\n" for name in names(words, os.environ)))
        sys.stdout.flush()
