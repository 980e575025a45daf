"""Settings of TLS and of access."""

from dataclasses import dataclass
from typing import Literal

from goqueue.config.value_types import BOOLEAN, PATH, choice, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """TLS of the listener, and certificates of clients. The files are read again when they change."""

    cert: str = setting(
        "none",
        PATH,
        "PEM file with the certificate of the broker and those between it and its authority. With it, whatever the"
        " broker listens on speaks TLS 1.2 or 1.3, a Unix socket and an inherited listener included; `none` is plain"
        " HTTP.",
    )
    key: str = setting(
        "none", PATH, "PEM file with the private key of `cert`, not encrypted; `none` if `cert` has it as well."
    )
    client_ca: str = setting(
        "none",
        PATH,
        "PEM file with the authorities whose certificates clients may present; `none` asks clients for none.",
    )
    client_auth: Literal["required", "optional"] = setting(
        "required",
        choice("required", "optional"),
        "Whether a client needs a certificate of `client_ca`; with `optional` it may connect without one, and send an"
        " API key instead.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """API keys, and who may reach the broker."""

    authentication: Literal["none", "keys"] = setting(
        "none",
        choice("none", "keys"),
        "With `keys`, each request needs an API key, whose roles and rules decide what it may do; `none` accepts"
        " every request. `goqueue serve --auth` is short for `keys`.",
    )
    insecure: bool = setting(
        False,
        BOOLEAN,
        "Listen on addresses that other machines reach without authentication or without TLS. `goqueue serve"
        " --insecure` is short for `true`.",
    )
    audit_file: str = setting(
        "none",
        PATH,
        "File that gets a copy of the audit trail, one JSON object per line; `none` writes no file. The topic `__audit`"
        " always has it when `authentication` is `keys`.",
    )
