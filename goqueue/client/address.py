"""The addresses of brokers: their URLs, parsed."""

import os
import re
from collections.abc import Sequence

import msgspec

from goqueue.errors import RequestInvalid
from goqueue.limits import PORT
from goqueue.quantities import quoted

VARIABLE = "GOQUEUE_SERVER"
DEFAULT = "http://127.0.0.1:8080"

_URL = re.compile(r"(?:(https?)://)?(\[[0-9A-Fa-f:.]+(?:%[\w.]+)?\]|[\w.-]+)(?::([0-9]{1,5}))?(/[\w./~-]*)?")
_PLAIN = re.compile(r"[A-Za-z0-9._~-]+")
_LABEL_CHARACTERS_MAX = 63  # of the domain name system


class Address(msgspec.Struct, frozen=True):
    """Host, port, TLS, and the prefix of every path."""

    host: str
    port: int
    secure: bool = False
    base: str = ""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.base}"


def parse(url: str | None) -> Address:
    """Parse `http://host:port`. None stands for the environment's URL, then for this machine.

    A host alone has the broker's default port; a URL has the port of its scheme.
    """
    text = url or os.environ.get(VARIABLE) or DEFAULT
    return _parse(text)


def parse_all(urls: str | Sequence[str] | None) -> tuple[Address, ...]:
    """Parse one or several URLs: a list of them, or a text with commas between them. None is as for one."""
    texts = [urls or os.environ.get(VARIABLE) or DEFAULT] if urls is None or isinstance(urls, str) else list(urls)
    parts = [part.strip() for text in texts for part in text.split(",")]
    found = tuple(dict.fromkeys(_parse(part) for part in parts if part))
    if not found:
        raise RequestInvalid(f"{quoted(','.join(texts))} names no broker", hint=f"write its address as in {DEFAULT}")
    if len({one.secure for one in found}) > 1:
        raise RequestInvalid(
            f"some of the addresses {', '.join(map(str, found))} are encrypted, and others are not",
            hint="write https:// in all of them, or http://",
        )
    return found


def _parse(text: str) -> Address:
    found = _URL.fullmatch(text)
    port = int(found[3]) if found and found[3] else None
    if found is None or port == 0 or (port or 0) > 0xFFFF:
        raise RequestInvalid(f"{quoted(text)} is not the address of a broker", hint=f"write it as in {DEFAULT}")
    secure, host = found[1] == "https", found[2]
    if not host.startswith("[") and not _is_name(host):
        raise RequestInvalid(
            f"{quoted(text)} is not the address of a broker: no host has such a name",
            hint="its parts, between the dots, have 1 to 63 characters each",
        )
    usual = 443 if secure else 80 if found[1] else PORT
    return Address(host.strip("[]"), port or usual, secure, (found[4] or "").rstrip("/"))


def _is_name(host: str) -> bool:
    """Return whether the resolver can look the name up."""
    try:
        labels = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return False
    return all(0 < len(label) <= _LABEL_CHARACTERS_MAX for label in labels.removesuffix(".").split("."))


def quote(name: str) -> str:
    """Return a name as one part of a path."""
    if _PLAIN.fullmatch(name):
        return name
    from urllib.parse import quote as percent  # noqa: PLC0415 - five milliseconds that a good name never costs

    return percent(name, safe="", errors="surrogatepass")
