"""Settings that are valid alone but not together, and addresses that other machines must not reach as they are."""

import os.path
from collections.abc import Iterator, Mapping

from goqueue.config.settings import SETTINGS
from goqueue.config.store_address import is_store_address
from goqueue.config.value_types import SettingValue
from goqueue.quantities import format_duration, quoted

_NONE = "none"


def conflicts(values: Mapping[str, SettingValue]) -> Iterator[tuple[str, str]]:
    """Find settings that are valid alone but not together: the key to change, and why."""
    merged = {setting.key: setting.default for setting in SETTINGS} | dict(values)

    def shorter(key: str, other: str, consequence: str = "") -> Iterator[tuple[str, str]]:
        one, least = float(merged[key]), float(merged[other])
        if one < least:
            found, wanted = format_duration(one, exact=True), format_duration(least, exact=True)
            yield key, f"{found} is shorter than {other} ({wanted}){consequence}"

    yield from shorter("groups.max_retry_delay", "groups.retry_delay")
    yield from _exposures(merged)
    yield from _tls_conflicts(merged)
    yield from _backup_conflicts(merged)
    yield from _cluster_conflicts(merged)
    yield from shorter("cluster.suspect_timeout", "cluster.heartbeat_interval")
    yield from shorter("cluster.dead_timeout", "cluster.suspect_timeout")
    if merged["storage.flush"] == "interval":
        consequence = ": segments would end before their first sync"
        yield from shorter("storage.segment_age", "storage.flush_interval", consequence)


def _backup_conflicts(merged: Mapping[str, SettingValue]) -> Iterator[tuple[str, str]]:
    """Find a target that goes with the data directory, or that looks like a part of it."""
    target, data = str(merged["backup.target"]), os.path.abspath(str(merged["data_dir"]))
    endpoint = str(merged["backup.endpoint"])
    if endpoint.startswith("http://") and not merged["backup.allow_http"]:
        yield (
            "backup.endpoint",
            f"{quoted(endpoint)} has no TLS, so others can read and change what is sent: write https://, or accept it "
            "with `backup.allow_http: true`",
        )
    key_file = str(merged["backup.key_file"])
    if key_file != _NONE and _is_in(key_file, data):
        yield "backup.key_file", f"{quoted(key_file)} is in the data directory: what loses one would lose the other"
    if is_store_address(target):
        return
    if _NONE not in (key_file, target) and _is_in(key_file, os.path.abspath(target)):
        yield "backup.key_file", f"{quoted(key_file)} is beside the backups: it would be read with them"
    if target != _NONE and _is_in(target, data):
        yield "backup.target", f"{quoted(target)} is in the data directory: what loses one would lose the other"


def _is_in(path: str, directory: str) -> bool:
    return os.path.commonpath((os.path.abspath(path), directory)) == directory


def _tls_conflicts(merged: Mapping[str, SettingValue]) -> Iterator[tuple[str, str]]:
    if merged["tls.cert"] == _NONE:
        for key in ("tls.key", "tls.client_ca"):
            if merged[key] != _NONE:
                yield key, f"{quoted(str(merged[key]))} is of no use without tls.cert, the certificate of the broker"


def _cluster_conflicts(merged: Mapping[str, SettingValue]) -> Iterator[tuple[str, str]]:
    if int(merged["cluster.min_isr"]) > int(merged["cluster.replication_factor"]):
        yield (
            "cluster.min_isr",
            f"{merged['cluster.min_isr']} is more than cluster.replication_factor: name at most that",
        )
    tls = ("cluster.tls_cert", "cluster.tls_key", "cluster.tls_ca")
    if merged["cluster.peers"] == _NONE:
        for key in ("cluster.node_id", "cluster.listen", "cluster.advertise", "cluster.secret_file", *tls):
            if merged[key] != _NONE:
                yield key, f"{quoted(str(merged[key]))} is of no use without cluster.peers, the nodes of the cluster"
    elif any(merged[key] != _NONE for key in tls):
        for key in tls:
            if merged[key] == _NONE:
                yield key, "is missing: TLS between nodes needs a certificate, its key and the authorities"
    elif merged["cluster.secret_file"] == _NONE:
        yield (
            "cluster.secret_file",
            "is missing: nodes must prove by it, or by cluster.tls_cert, who they are",
        )


def _exposures(merged: Mapping[str, SettingValue]) -> Iterator[tuple[str, str]]:
    """Find an address that other machines reach, while something that protects it is off."""
    ports = ("schemas.registry_port", "grpc.port")
    if merged["server.uds"] == _NONE or any(
        merged[port] != _NONE for port in ports
    ):  # a socket file is for this machine
        sentence = exposure_of(
            str(merged["server.host"]),
            has_keys=merged["security.authentication"] == "keys",
            has_tls=merged["tls.cert"] != _NONE,
            insecure=bool(merged["security.insecure"]),
        )
        if sentence is not None:
            yield "server.host", sentence


def exposure_of(host: str, *, has_keys: bool, has_tls: bool, insecure: bool) -> str | None:
    """Return why the broker must not listen on an address, or None if it may."""
    missing = [] if has_keys else ["authentication (`goqueue serve --auth`)"]
    missing += [] if has_tls else ["TLS (`--tls-cert FILE --tls-key FILE`)"]
    if insecure or not missing or _is_loopback(host):
        return None
    return (
        f"other machines could use {quoted(host)} without {' and '.join(missing)}: add"
        f" {'both' if missing[1:] else 'it'}, listen on 127.0.0.1, or accept it with `goqueue serve --insecure`"
    )


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    from ipaddress import ip_address  # noqa: PLC0415 - commands that only print help start sooner without it

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
