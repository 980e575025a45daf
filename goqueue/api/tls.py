"""TLS of the listener: the certificate in use, and its reload."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.quantities import format_time


class CertificateJson(Struct, kw_only=True):
    path: Annotated[str, Meta(description="The file of `tls.cert`.")]
    names: Annotated[list[str], Meta(description="Host names and addresses that the certificate is for.")]
    issuer: str
    expires_at: str
    seconds_left: Annotated[float, Meta(description="Below 0 if it has expired.")]
    fingerprint: Annotated[str, Meta(description="SHA-256 of the certificate, in hexadecimal digits.")]
    client_auth: Annotated[
        Literal["none", "optional", "required"], Meta(description="Whether clients need a certificate.")
    ]
    error: Annotated[str | None, Meta(description="Why the files as they are now are not in use.")]


class TlsResponse(Struct):
    enabled: bool
    certificate: Annotated[CertificateJson | None, Meta(description="The one in use; null without TLS.")]


async def describe(call: ApiCall) -> TlsResponse:
    return _answer(call)


async def reload(call: ApiCall) -> TlsResponse:
    if call.app.certificates is not None:
        call.app.certificates.reload()
    return _answer(call)


def _answer(call: ApiCall) -> TlsResponse:
    if call.app.certificates is None:
        return TlsResponse(False, None)
    facts = call.app.certificates.facts()
    return TlsResponse(
        True,
        CertificateJson(
            path=facts.path,
            names=list(facts.names),
            issuer=facts.issuer,
            expires_at=format_time(facts.expires_ns),
            seconds_left=facts.seconds_left,
            fingerprint=facts.fingerprint,
            client_auth=facts.client_auth,
            error=facts.error,
        ),
    )
