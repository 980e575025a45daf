"""TLS of clients: whom they trust, what they present, and the errors of handshakes."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from goqueue.client.address import Address
from goqueue.errors import BrokerUnreachable, RequestInvalid

if TYPE_CHECKING:
    import ssl

CA_FILE, CLIENT_CERT, CLIENT_KEY = "GOQUEUE_CA_FILE", "GOQUEUE_CLIENT_CERT", "GOQUEUE_CLIENT_KEY"


class TlsOptions(NamedTuple):
    """Files in PEM form."""

    ca_file: str | None = None
    """The authorities to trust instead of those of the system."""
    client_cert: str | None = None
    """The certificate to present, for brokers with `tls.client_ca`."""
    client_key: str | None = None
    """Its private key; None if the file of the certificate has it as well."""

    def or_environment(self, environment: Mapping[str, str] = os.environ) -> "TlsOptions":
        """Take from the environment what is not given. A key is of use with its certificate only."""
        cert, key = self.client_cert, self.client_key
        if cert is None:
            cert, key = environment.get(CLIENT_CERT) or None, key or environment.get(CLIENT_KEY) or None
        return TlsOptions(self.ca_file or environment.get(CA_FILE) or None, cert, key)


def tls_context(address: Address, given: "ssl.SSLContext | TlsOptions | None") -> "ssl.SSLContext | None":
    """Return what verifies the broker at an address; None without TLS. Raises RequestInvalid for unusable files."""
    if not address.secure:
        return None
    if given is not None and not isinstance(given, TlsOptions):
        return given
    return _context((given or TlsOptions()).or_environment())


def _context(files: TlsOptions) -> "ssl.SSLContext":
    import ssl  # noqa: PLC0415 - eight milliseconds that only https costs

    ca_file, cert, key = (None if path is None else os.path.expanduser(path) for path in files)
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        raise _unusable("the authorities of", ca_file, error) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        try:
            context.load_cert_chain(cert, key, password=_refuse_encrypted)
        except (OSError, ValueError) as error:
            raise _unusable(
                "the client certificate", cert if key is None else f"{cert} with the key {key}", error
            ) from None
    elif key is not None:
        raise RequestInvalid(
            f"the key {key} of a client certificate is of no use without the certificate",
            hint="client_cert=, --client-cert or GOQUEUE_CLIENT_CERT names it",
        )
    return context


def _refuse_encrypted() -> str:
    raise ValueError("the key is encrypted")


def _unusable(noun: str, path: str | None, error: Exception) -> RequestInvalid:
    is_content = getattr(error, "library", None) is not None or getattr(error, "reason", None) is not None
    reason = _words(getattr(error, "reason", None)) if is_content else getattr(error, "strerror", None) or error
    hint = "it must be a file in PEM form, which begins with -----BEGIN"
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        hint = "certificate and key do not belong together: name the key that the certificate was made for"
    return RequestInvalid(f"{noun} {path} cannot be used: {reason or 'it is not in PEM form'}", hint=hint)


def _words(reason: object) -> str:
    return str(reason or "").replace("_", " ").lower()


# --- errors of handshakes ---

_NOT_YET_VALID, _EXPIRED, _HOST_MISMATCH, _ADDRESS_MISMATCH = 9, 10, 62, 64
"""Codes of OpenSSL's verification."""


def tls_error(address: Address, error: OSError, *, took_too_long: bool) -> BrokerUnreachable:
    """Return the error for a failed handshake. Repeating it is useless, unless the connection only broke."""
    verdict = getattr(error, "verify_message", None)
    if verdict:
        return BrokerUnreachable(
            f"the certificate of the broker at {address} is not accepted: {verdict}",
            hint=_verification_hint(getattr(error, "verify_code", 0)),
            unsent=True,
            foreign=True,
        )
    reason = getattr(error, "reason", None)
    why = "it took too long" if took_too_long else _words(reason) or error.strerror or str(error)
    if not is_lasting(error):
        return BrokerUnreachable(
            f"no TLS with the broker at {address}: {why}",
            hint="does it speak plain HTTP? write http://",
            unsent=True,
        )
    hint = "does it speak plain HTTP? write http://"
    if "ALERT" in str(reason):
        why = (
            f"the broker refused this client ({why.replace('tlsv13 ', '').replace('tlsv1 ', '').replace('sslv3 ', '')})"
        )
        hint = (
            "does it need a client certificate? client_cert= and client_key=, --client-cert and --client-key, or "
            f"{CLIENT_CERT} and {CLIENT_KEY} name one of an authority that it trusts"
        )
    return BrokerUnreachable(f"no TLS with the broker at {address}: {why}", hint=hint, unsent=True, foreign=True)


def is_lasting(error: BaseException | None) -> bool:
    """Return whether an error is one of TLS that comes again, and no connection that broke."""
    return getattr(error, "library", None) is not None and "EOF" not in str(getattr(error, "reason", None))


def _verification_hint(code: int) -> str:
    if code in {_HOST_MISMATCH, _ADDRESS_MISMATCH}:
        return "use a host name or address of the certificate, or make one for this host"
    if code == _EXPIRED:
        return "the broker needs a new certificate; it takes it without a restart"
    if code == _NOT_YET_VALID:
        return "is the clock of this machine right?"
    return (
        f"ca_file=, --ca-file or {CA_FILE} names the file of its authority; "
        "a file that was given does not hold this authority"
    )
