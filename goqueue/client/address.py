"""Where a broker is: the URL that a person writes, taken apart."""

import os
import re
from dataclasses import dataclass

from goqueue.errors import RequestInvalid
from goqueue.quantities import quoted

VARIABLE = "GOQUEUE_SERVER"
DEFAULT = "http://127.0.0.1:8080"

_URL = re.compile(r"(?:(https?)://)?(\[[0-9A-Fa-f:.]+(?:%[\w.]+)?\]|[\w.-]+)(?::([0-9]{1,5}))?(/[\w./~-]*)?")
_PLAIN = re.compile(r"[A-Za-z0-9._~-]+")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port, whether the way there is encrypted, and what every path begins with."""

    host: str
    port: int
    secure: bool = False
    base: str = ""

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.base}"


def parse(url: str | None) -> Address:
    """`http://host:port`; None means what the environment says, and then this machine."""
    text = url or os.environ.get(VARIABLE) or DEFAULT
    found = _URL.fullmatch(text)
    port = int(found[3]) if found and found[3] else None
    if found is None or port == 0 or (port or 0) > 0xFFFF:
        raise RequestInvalid(f"{quoted(text)} is not the address of a broker", hint=f"write it as in {DEFAULT}")
    secure = found[1] == "https"
    return Address(found[2].strip("[]"), port or (443 if secure else 80), secure, (found[4] or "").rstrip("/"))


def quote(name: str) -> str:
    """A name as one part of a path."""
    if _PLAIN.fullmatch(name):
        return name
    from urllib.parse import quote as percent  # noqa: PLC0415 - five milliseconds that a good name never costs

    return percent(name, safe="", errors="surrogatepass")
