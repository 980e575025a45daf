"""The certificate of the broker: loaded, checked, and replaced while connections stay open.

What must stay true: a certificate counts only when all of it has been loaded, so a broken file leaves the one before it
in use. Each load makes another `SSLContext`: connections keep the one that they began with, and tickets of sessions
that an earlier one has issued are not accepted, so that authorities that were removed are not trusted any longer.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import CertificateInvalid
from goqueue.limits import TLS_WATCH_SECONDS
from goqueue.observe.facts import TlsFacts
from goqueue.quantities import format_time
from goqueue.runtime.tls_alerts import ServerContext
from goqueue.security.client_certificates import ClientCertificate, names_in_order

_log = logging.getLogger("goqueue.tls")

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2: forward secrecy and authenticated encryption only. TLS 1.3 has no others."""
_GROUP = "prime256v1"
"""The only group of key exchanges, which every implementation of TLS 1.3 has (RFC 8446, 9.1). The defaults of OpenSSL
include ffdhe8192, with which a client occupies the broker for 90 ms by one packet; Python can set one group or all.
"""
_FILE_BYTES_MAX = 1 << 20
_CERTIFICATE_HINT = "tls.cert names a file in PEM form, which begins with -----BEGIN CERTIFICATE-----"
_CLIENT_CA_HINT = "tls.client_ca names a file with the certificates of authorities in PEM form"
_KEY_HINT = "tls.key names the private key in PEM form, not encrypted; `openssl pkey -in KEY -noout` checks it"


class TlsFiles(NamedTuple):
    """The files of the settings; what is None is not used."""

    cert: str
    key: str | None = None
    client_ca: str | None = None
    client_auth: Literal["required", "optional"] = "required"

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path in (self.cert, self.key, self.client_ca) if path is not None)


@dataclass(frozen=True, slots=True)
class LoadedCertificate:
    """A certificate with its key, ready for handshakes."""

    context: ssl.SSLContext
    names: tuple[str, ...]
    """Host names and addresses that it is for."""
    issuer: str
    begins_ns: int
    expires_ns: int
    fingerprint: str
    """SHA-256, in hexadecimal digits."""
    client_auth: Literal["none", "optional", "required"]
    pem: tuple[bytes, bytes, bytes | None] = field(repr=False)
    """The chain, its key, and the authorities of clients, for a TLS that is not of `ssl`."""


def load_certificate(files: TlsFiles) -> LoadedCertificate:
    """Load all files. Raises CertificateInvalid."""
    from cryptography import x509  # noqa: PLC0415 - 80 ms that only TLS costs
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    content = _read(files.cert, "the TLS certificate", _CERTIFICATE_HINT)
    try:
        chain = x509.load_pem_x509_certificates(content)
    except ValueError:
        raise CertificateInvalid(f"there is no TLS certificate in {files.cert}", hint=_CERTIFICATE_HINT) from None
    own = chain[0]
    try:
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = (*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress)))
    except (x509.ExtensionNotFound, ValueError):
        hosts = ()
    return LoadedCertificate(
        _context(files),
        hosts,
        own.issuer.rfc4514_string(),
        _nanoseconds(own.not_valid_before_utc),
        _nanoseconds(min(one.not_valid_after_utc for one in chain)),
        own.fingerprint(SHA256()).hex(),
        "none" if files.client_ca is None else files.client_auth,
        (
            content,
            content if files.key is None else _read(files.key, "the TLS key", _KEY_HINT),
            None if files.client_ca is None else _read(files.client_ca, "the authorities in", _CLIENT_CA_HINT),
        ),
    )


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_COMPRESSION
    context.set_ecdh_curve(_GROUP)
    context.set_alpn_protocols(["http/1.1"])
    if files.key is not None:
        _read(files.key, "the TLS key", _KEY_HINT)
    try:
        context.load_cert_chain(files.cert, files.key, password=_refuse_encrypted)
    except ssl.SSLError as error:
        raise _unusable(files, error) from None
    if files.client_ca is not None:
        _read(files.client_ca, "the authorities of clients in", _CLIENT_CA_HINT)
        try:
            context.load_verify_locations(files.client_ca)
        except ssl.SSLError:
            raise CertificateInvalid(
                f"there is no certificate of an authority in {files.client_ca}", hint=_CLIENT_CA_HINT
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED if files.client_auth == "required" else ssl.CERT_OPTIONAL
    return context


def _read(path: str, noun: str, hint: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_FILE_BYTES_MAX)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CertificateInvalid(f"{noun} {path} cannot be read: {reason}", hint=hint) from None


def _refuse_encrypted() -> str:
    """Stand in for a password: without it, OpenSSL would ask for one on the terminal."""
    raise CertificateInvalid("the TLS key is encrypted, and the broker has no password for it", hint=_KEY_HINT)


def _unusable(files: TlsFiles, error: ssl.SSLError) -> CertificateInvalid:
    key = files.key or files.cert
    if error.reason == "KEY_VALUES_MISMATCH":
        return CertificateInvalid(
            f"the TLS key {key} does not belong to the certificate {files.cert}",
            hint="both files must be of the same request; the first certificate in the file must be the broker's own",
        )
    if error.reason in {"EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"}:
        return CertificateInvalid(
            f"the TLS certificate {files.cert} is too weak: {error.reason.replace('_', ' ').lower()}",
            hint="make one with an ECDSA key (P-256) or an RSA key of at least 2048 bits, signed with SHA-256",
        )
    return CertificateInvalid(f"there is no usable TLS key in {key}", hint=_KEY_HINT)


def _nanoseconds(time: datetime) -> int:
    return round(time.timestamp()) * NANOSECONDS


class CertificateStore:
    """The certificate in use. `reload` replaces it, by request or when its files have changed."""

    def __init__(self, files: TlsFiles, clock: Clock) -> None:
        """Load the files. Raises CertificateInvalid; one that has expired can only be replaced while a broker runs."""
        self._files = files
        self._clock = clock
        self._seen = self._signature()
        self.current = load_certificate(files)
        self.error: CertificateInvalid | None = None
        """Why the files as they are now are not in use."""
        self._watch: asyncio.TimerHandle | None = None
        self._on_load: Callable[[LoadedCertificate], object] = lambda _: None
        if reason := self._not_valid_now(self.current):
            _log.error("%s: clients will refuse it", reason)

    @property
    def context(self) -> ssl.SSLContext:
        """The context of the next handshake."""
        return self.current.context

    def reload(self) -> LoadedCertificate:
        """Load the files and use them from the next connection on.

        If they are broken, logs and raises CertificateInvalid; the certificate before stays in use.
        """
        self._seen = self._signature()
        try:
            loaded = load_certificate(self._files)
            if reason := self._not_valid_now(loaded):
                raise CertificateInvalid(reason, hint="put a certificate there that is valid now, and reload again")
        except CertificateInvalid as error:
            self.error = error.without_tracebacks()
            _log.error("the former TLS certificate stays in use: %s", error.sentence)
            raise
        is_new, self.current, self.error = loaded.fingerprint != self.current.fingerprint, loaded, None
        _log.info(
            "%s TLS certificate %s, valid until %s",
            "loaded a new" if is_new else "loaded the same",
            loaded.fingerprint[:16],
            format_time(loaded.expires_ns),
        )
        self._on_load(loaded)
        return loaded

    def on_load(self, listener: Callable[[LoadedCertificate], object]) -> None:
        """Call a function with the certificate in use, now and whenever it is replaced."""
        self._on_load = listener
        listener(self.current)

    def start_watching(self) -> None:
        """Reload whenever a file has changed, until `stop_watching`."""
        self._watch = asyncio.get_running_loop().call_later(TLS_WATCH_SECONDS, self._look)

    def stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    def _look(self) -> None:
        self.start_watching()
        if self._signature() != self._seen:
            with suppress(CertificateInvalid):
                self.reload()

    def _signature(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_signature(path) for path in self._files.paths)

    def _not_valid_now(self, loaded: LoadedCertificate) -> str | None:
        now_ns, path = self._clock.now_ns(), self._files.cert
        if loaded.expires_ns <= now_ns:
            return f"the TLS certificate {path} expired at {format_time(loaded.expires_ns)}"
        if loaded.begins_ns > now_ns:
            return f"the TLS certificate {path} is not valid before {format_time(loaded.begins_ns)}"
        return None

    def facts(self) -> TlsFacts:
        current = self.current
        return TlsFacts(
            path=self._files.cert,
            names=current.names,
            issuer=current.issuer,
            expires_ns=current.expires_ns,
            seconds_left=(current.expires_ns - self._clock.now_ns()) / NANOSECONDS,
            fingerprint=current.fingerprint,
            client_auth=current.client_auth,
            error=None if self.error is None else self.error.sentence,
        )


def _signature(path: str) -> tuple[int, int, int] | None:
    """Return what changes with a file; symbolic links are followed, as Kubernetes replaces only these."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def client_certificate(found: Mapping[str, Any]) -> ClientCertificate:
    """Return what counts of a client's certificate, as `ssl` describes a verified one."""
    return ClientCertificate(
        names_in_order(pair for pair in found.get("subjectAltName", ()) if len(pair) == 2),
        round(ssl.cert_time_to_seconds(found["notAfter"])) * NANOSECONDS,
    )


def read_client_certificate(pem: bytes) -> ClientCertificate:
    """Return what counts of a client's certificate, verified by a TLS that is not of `ssl`."""
    from cryptography import x509  # noqa: PLC0415 - as above

    own = x509.load_pem_x509_certificate(pem)
    try:
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    pairs = [
        *(("URI", value) for value in names.get_values_for_type(x509.UniformResourceIdentifier)),
        *(("email", value) for value in names.get_values_for_type(x509.RFC822Name)),
        *(("DNS", value) for value in names.get_values_for_type(x509.DNSName)),
    ]
    return ClientCertificate(names_in_order(pairs), _nanoseconds(own.not_valid_after_utc))
