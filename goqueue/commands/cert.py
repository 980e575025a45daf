"""`goqueue cert dev`: certificates for trying TLS, of an authority that only this directory has."""

import os
import shlex
import socket
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.config.value_types import NODE
from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.errors import PathInvalid
from goqueue.limits import PORT
from goqueue.quantities import quoted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, ExtensionType, GeneralName

    Authority = tuple[Certificate, EllipticCurvePrivateKey]

_CA_DAYS = 3650
_SLACK = timedelta(hours=1)
"""Before now, for machines whose clock is behind."""
_LOCAL = ("localhost", "127.0.0.1", "::1")


def dev(
    directory: Annotated[str, typer.Option("--dir", metavar="DIR", help="Directory for the files.")],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="Another host name or address of the broker; may be repeated."),
    ] = None,
    client: Annotated[
        str, typer.Option("--client", metavar="NAME", help="DNS name in the certificate of the client.")
    ] = "dev-client",
    node: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="ID", help="Also make a certificate for a node of a cluster; may be repeated."),
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=825, help="Lifetime of the certificates.")] = 90,
) -> None:
    """Make an authority, a server and a client certificate for trying TLS.

    \b
      goqueue cert dev --dir tls
      goqueue cert dev --dir tls --host queue.example --host 192.0.2.7
      goqueue cert dev --dir tls --client billing
      goqueue cert dev --dir tls --node n1 --node n2 --node n3

    The server certificate is always for localhost, 127.0.0.1, ::1 and the name of this machine. If the directory has an
    authority, it signs again: a running broker takes the new certificate within seconds. Do not use this authority in
    production: its key lies in a file.
    """
    place, nodes = Path(directory), [_node_id(one) for one in node or ()]
    had_authority = (place / "ca.pem").exists()
    try:
        make_dev_certificates(place, host or (), client, days, nodes)
    except OSError as error:
        raise PathInvalid(
            f"{error.filename or directory} cannot be written: {error.strerror or error}",
            hint="--dir names a directory",
        ) from None
    names = {name: shlex.quote(str(place / name)) for name in ("ca.pem", "server.pem", "server.key", "client.pem")}
    shown = (host or _LOCAL)[0]
    files = f"--admin-key-file admin.key --tls-cert {names['server.pem']} --tls-key {names['server.key']}"
    serve = f"goqueue serve --auth {files}"
    certificates = "a server and a client certificate"
    if nodes:
        certificates = f"certificates of the nodes {', '.join(nodes)}, {certificates}"
    made = f"{certificates} of the authority" if had_authority else f"an authority, {certificates}"
    terminal.say(f"made {made} in {directory}, for {days} days; next:")
    terminal.write(
        f"{serve}{' --host 0.0.0.0' if host else ''}\n"
        f"export GOQUEUE_SERVER=https://{f'[{shown}]' if ':' in shown else shown}:{PORT} "
        f"GOQUEUE_CA_FILE={names['ca.pem']} GOQUEUE_API_KEY_FILE=admin.key\n"
        "goqueue-cli topic create orders\n"
    )


def make_dev_certificates(
    directory: Path,
    hosts: Sequence[str] = (),
    client: str = "dev-client",
    days: int = 90,
    nodes: Sequence[str] = (),
) -> None:
    """Write `ca`, `server`, `client` and the nodes, each with `.pem` and `.key`; an authority that is there is kept."""
    from cryptography import x509  # noqa: PLC0415 - 80 ms that only this command costs
    from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = _authority(directory)
    names = [_general_name(one) for one in dict.fromkeys((*hosts, *_LOCAL, socket.gethostname()))]
    both = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    for name, usages, found in (
        ("server", both[:1], names),
        ("client", both[1:], [_general_name(client)]),
        *((node, both, [_general_name(node)]) for node in nodes),
    ):
        extensions = (x509.SubjectAlternativeName(found), x509.ExtendedKeyUsage(usages))
        _issue(directory, name, days, authority, extensions)


def _authority(directory: Path) -> "Authority":
    """Return the authority of the directory; make one if there is none."""
    from cryptography import x509  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    certificate, key = directory / "ca.pem", directory / "ca.key"
    if not certificate.exists() and not key.exists():
        return _issue(directory, "ca", _CA_DAYS, None, ())
    with suppress(OSError, ValueError):
        found, secret = (
            x509.load_pem_x509_certificate(certificate.read_bytes()),
            load_pem_private_key(key.read_bytes(), None),
        )
        if isinstance(secret, EllipticCurvePrivateKey) and secret.public_key() == found.public_key():
            return found, secret
    raise PathInvalid(
        f"{directory} has files of an authority that cannot be used",
        hint="remove ca.pem and ca.key, or name another --dir",
    )


def _issue(
    directory: Path, name: str, days: int, authority: "Authority | None", extensions: "Sequence[ExtensionType]"
) -> "Authority":
    """Make a key and its certificate, and write both; without an authority the certificate is one itself."""
    from cryptography import x509  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"GoQueue development {name}")])
    issuer, signer = (subject, key) if authority is None else (authority[0].subject, authority[1])
    is_authority = authority is None
    usage = x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(directory / f"{name}.key", secret)
    _write(directory / f"{name}.pem", certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def _node_id(text: str) -> str:
    try:
        if NODE.parse(text) in ("none", "ca", "server", "client"):
            raise ValueError(f"{quoted(text)} is the name of another file here")
    except ValueError as error:
        raise UsageInvalid(f"--node: {error}", hint="write the cluster.node_id of the node") from None
    return text


def _general_name(text: str) -> "GeneralName":
    from cryptography import x509  # noqa: PLC0415 - as above

    with suppress(ValueError):
        return x509.IPAddress(ip_address(text))
    try:
        return x509.DNSName(text)
    except ValueError:
        raise UsageInvalid(
            f"{quoted(text)} is not a host name", hint="write it in ASCII, such as queue.example"
        ) from None


def _write(path: Path, content: bytes) -> None:
    """Replace a file as a whole: a broker that reads it meanwhile gets the old or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(content)
    os.replace(beside, path)
