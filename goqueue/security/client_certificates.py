"""Names of client certificates, by which a certificate is found to belong to a key record.

A name is a subject alternative name with its kind: `URI:spiffe://example/billing`, `email:ops@example.com` or
`DNS:billing.example`. The first name of a certificate that belongs to a key record counts, in the order URI, email,
DNS, and within a kind in the order of the certificate. The common name never counts.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from goqueue.limits import CERTIFICATE_NAME_CHARACTERS_MAX
from goqueue.quantities import quoted

KINDS = ("URI", "email", "DNS")
_TEXT = re.compile(r"[!-~]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")


class ClientCertificate(NamedTuple):
    """The certificate of a client, verified in the handshake."""

    names: tuple[str, ...]
    """In the order in which they count."""
    expires_ns: int


def names_in_order(found: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names of a certificate from its pairs of kind and value."""
    pairs = list(found)
    return tuple(_name(kind, value) for kind in KINDS for other, value in pairs if other == kind)


def parse_certificate_name(text: str) -> str:
    """Return the name that a person has written; without a kind, it is recognized. Raises ValueError."""
    if not _TEXT.fullmatch(text) or len(text) > CERTIFICATE_NAME_CHARACTERS_MAX:
        raise ValueError(
            f"{quoted(text[:300])} is not a name of a certificate: it has 1 to {CERTIFICATE_NAME_CHARACTERS_MAX}"
            " visible ASCII characters"
        )
    kind, colon, value = text.partition(":")
    if colon and kind in KINDS:
        if not value or value.endswith("://"):
            raise ValueError(f"{quoted(text)} has no name behind the kind")
        return _name(kind, value)
    if "@" in text and "/" not in text:
        return _name("email", text)
    if text.endswith("://"):
        raise ValueError(f"{quoted(text)} has no name behind the scheme")
    return _name("URI" if _URI.fullmatch(text) else "DNS", text)


def _name(kind: str, value: str) -> str:
    """Return a name with the letters that do not matter in lower case."""
    if kind == "DNS":
        value = value.lower()
    elif kind == "email":
        local, _, domain = value.rpartition("@")
        value = f"{local}@{domain.lower()}"
    return f"{kind}:{value}"
