"""Refuses requests of foreign web pages to a broker that a browser can reach, such as one on localhost.

A browser sends requests for any page it shows. A page cannot forge two headers:

    host      a page whose name resolves to the broker (DNS rebinding) has that name here. IP addresses cannot be
              rebound, so only names are checked.
    origin    the site of the page, in every request that is not a plain GET of the same site. If it is missing,
              `sec-fetch-site` shows a request for another site, such as an image.

Clients other than browsers send neither origin nor sec-fetch-site.
"""

import re
from collections.abc import Collection, Sequence
from ipaddress import ip_address

from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.errors import HostNotAllowed, OriginNotAllowed
from goqueue.limits import HTTP_KNOWN_HOSTS, HTTP_PREFLIGHT_SECONDS
from goqueue.quantities import quoted

ANY = "*"

_HOST = re.compile(r"(?:\[([0-9a-f:.]+(?:%[a-z0-9._%-]+)?)\]|([^\[\]:/@]*))(?::[0-9]*)?", re.IGNORECASE)
_HEADER_NAMES = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z, -]{1,1000}")


class OriginGuard:
    """Admits requests, or refuses them with 403."""

    def __init__(self, *, hosts: Collection[str], origins: Collection[str]) -> None:
        self._hosts = frozenset(name.lower() for name in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)
        self._known: set[str | None] = {None}
        """Host headers that were allowed before. HTTP/1.0 may have none; browsers do not use it."""

    def allow(self, hosts: Collection[str]) -> None:
        """Allow more host names."""
        self._hosts |= {name.lower() for name in hosts if ANY not in name}

    def admit(self, request: HttpRequest) -> HttpResponse | None:
        """Admit a request, or raise an error. Return the answer if it is a preflight of an allowed page."""
        headers = request.headers
        if headers.get("host") not in self._known:
            self._check_host(headers["host"])
        if "origin" in headers:
            return self._admit_page(request, headers["origin"])
        if headers.get("sec-fetch-site") == "cross-site" and ANY not in self._origins:
            raise _foreign("the browser sent this request for a page of another site")
        return None

    def _check_host(self, header: str) -> None:
        if ANY not in self._hosts and not self._is_allowed(header):
            raise HostNotAllowed(
                f"the host {quoted(header[:300])} is not a name of this broker",
                hint="add the name to the setting server.allowed_hosts, or use an IP address or localhost",
            )
        if len(self._known) < HTTP_KNOWN_HOSTS:
            self._known.add(header)

    def _is_allowed(self, header: str) -> bool:
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = (found[1] or found[2] or "").lower().removesuffix(".")
        return not name or name in self._hosts or _is_address(name)

    def _admit_page(self, request: HttpRequest, origin: str) -> HttpResponse | None:
        """Admit a request that has the site of its page, and let the page read the answer."""
        if _is_same(origin, request.headers.get("host")):
            return None
        if ANY not in self._origins and origin.lower() not in self._origins:
            raise _foreign(f"pages of the origin {quoted(origin[:300])} may not use this broker")
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return _preflight(request, origin)
        request.grants = (*_grant(origin), ("access-control-expose-headers", "*"))
        return None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_same(origin: str, host: str | None) -> bool:
    """Return whether a page came from this broker, or through a TLS proxy that keeps the host header."""
    scheme, _, authority = origin.partition("://")
    return host is not None and scheme in {"http", "https"} and authority.lower() == host.lower()


def _foreign(sentence: str) -> OriginNotAllowed:
    hint = "add the page's origin, such as http://localhost:3000, to the setting server.allowed_origins"
    return OriginNotAllowed(sentence, hint=hint)


def _preflight(request: HttpRequest, origin: str) -> HttpResponse:
    """Return what pages of an allowed origin may send."""
    asked = request.headers.get("access-control-request-headers", "")
    allowed = [
        ("access-control-allow-methods", "GET, HEAD, POST, PUT, PATCH, DELETE"),
        ("access-control-max-age", str(HTTP_PREFLIGHT_SECONDS)),
    ]
    if _HEADER_NAMES.fullmatch(asked):
        allowed.append(("access-control-allow-headers", asked))
    return HttpResponse(204, headers=(*_grant(origin), *allowed))


def _grant(origin: str) -> Sequence[tuple[str, str]]:
    return ("access-control-allow-origin", origin), ("vary", "origin")
