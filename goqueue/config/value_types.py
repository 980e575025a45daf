"""Types of setting values: how each is parsed and formatted."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from goqueue.config.export_targets import ExportTarget, parse_metrics_target, parse_trace_target
from goqueue.config.store_address import is_store_address, parse_endpoint, parse_region, parse_store_address
from goqueue.quantities import format_duration, format_size, parse_duration, parse_size, quoted

SettingValue = str | int | float  # a bool is an int
PATH_CHARACTERS_MAX = 4096  # the kernel's PATH_MAX
HOST_CHARACTERS_MAX = 253  # of a DNS name
INTEGER_DIGITS_MAX = 9
LIST_ITEMS_MAX = 100
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[a-z0-9_.-]+))(?::([0-9]{1,5}))?")
_PORTS = {"http": "80", "https": "443"}
"""Default ports, which browsers omit."""
_NODE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_ADDRESS = re.compile(r"(\[[0-9a-f:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")
_SHARE = re.compile(r"[0-9]{1,3}(\.[0-9]{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ValueType:
    """One type of values; `parse` reads what `format` writes."""

    name: str
    metavar: str
    parse: Callable[[str], SettingValue]
    format: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class SettingRule:
    """Description, type and bounds of a setting, in the metadata of its field."""

    sentence: str
    kind: ValueType
    least: SettingValue | None = None
    most: SettingValue | None = None
    flag: str | None = None
    """Set if the derived flag would be too long to type."""


def _parse_host(text: str) -> str:
    if not text or len(text) > HOST_CHARACTERS_MAX or not all(c.isalnum() or c in ".:-_" for c in text):
        raise ValueError(f"{quoted(text)} is not a host: write an address such as 127.0.0.1, ::1 or a name")
    return text


_NONE = "none"  # an empty list; an empty text would look like a missing value


def _parse_list(text: str, parse_item: Callable[[str], str]) -> str:
    """Normalize a comma-separated list; drop duplicates."""
    if text.strip() == _NONE:
        return _NONE
    items = [item.strip().lower() for item in text.split(",")]
    if len(items) > LIST_ITEMS_MAX:
        raise ValueError(f"has {len(items):,} items: at most {LIST_ITEMS_MAX}")
    return ", ".join(dict.fromkeys(item if item == "*" else parse_item(item) for item in items))


def list_items(text: str) -> tuple[str, ...]:
    """Split the normalized text of a list."""
    return () if text == _NONE else tuple(text.split(", "))


def _parse_host_name(text: str) -> str:
    if not _HOST_NAME.fullmatch(text) or len(text) > HOST_CHARACTERS_MAX:
        raise ValueError(f"{quoted(text)} is not a host name: write a name without a port, such as queue.example")
    return text


def _parse_origin(text: str) -> str:
    found = _ORIGIN.fullmatch(text)
    if found is None or len(text) > HOST_CHARACTERS_MAX:
        raise ValueError(f"{quoted(text)} is not an origin: write scheme, host and port, such as http://localhost:3000")
    return found[1] if found[2] == _PORTS.get(text.partition(":")[0]) else text


def _parse_targets(text: str, parse_target: Callable[[str], ExportTarget]) -> str:
    if text.strip() == _NONE:
        return _NONE
    items = text.split(",")
    if len(items) > LIST_ITEMS_MAX:
        raise ValueError(f"has {len(items):,} items: at most {LIST_ITEMS_MAX}")
    return ", ".join(dict.fromkeys(str(parse_target(item)) for item in items))


def _parse_node(text: str) -> str:
    if not _NODE.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not a node id: write 1 to 64 of A-Z a-z 0-9 . _ -, such as n1")
    return text


def _parse_peers(text: str) -> str:
    if text.strip() == _NONE:
        return _NONE
    peers = dict(_parse_peer(item.strip()) for item in text.split(","))
    if len(peers) != text.count(",") + 1:
        raise ValueError(f"{quoted(text)} names a node twice")
    if len(peers) not in (1, 3, 5):
        raise ValueError(f"{quoted(text)} has {len(peers)} nodes: 1, 3 or 5 can elect a controller by majority")
    return ", ".join(f"{node}={peers[node]}" for node in sorted(peers))


def _parse_peer(item: str) -> tuple[str, str]:
    node, equals, address = item.partition("=")
    if not equals:
        raise ValueError(f"{quoted(item)} is not a peer: write id=host:port, such as n1=10.0.0.1:7090")
    return _parse_node(node), _parse_address(address)


def _parse_address(text: str) -> str:
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[2]) < 65536:
        raise ValueError(f"{quoted(text)} is not an address: write host:port, such as 10.0.0.1:7090")
    return text


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of an address of `cluster.peers`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def split_peers(text: str) -> dict[str, str]:
    """Return the addresses of `cluster.peers`, by node."""
    return dict(_parse_peer(item) for item in list_items(text))


def _parse_integer(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= INTEGER_DIGITS_MAX):
        raise ValueError(f"{quoted(text)} is not a whole number")
    return int(text)


def _parse_share(text: str) -> float:
    if not _SHARE.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not a share: write it as in 0.25")
    return float(text)


def _parse_switch(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        raise ValueError(f"{quoted(text)} is neither true nor false") from None


def _parse_path(text: str) -> str:
    if not text:
        raise ValueError("the path is empty: write ./ for the current directory")
    if len(text) > PATH_CHARACTERS_MAX:
        raise ValueError(f"{quoted(text)} is too long for a path: at most {PATH_CHARACTERS_MAX:,} characters")
    if text.startswith("~"):
        raise ValueError(f"{quoted(text)} begins with ~, which only a shell expands: write the full path")
    if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text):
        raise ValueError(f"{quoted(text)} contains a control character")
    if any(0xD800 <= ord(character) < 0xE000 for character in text):
        raise ValueError(f"{quoted(text)} is not valid Unicode")
    return text


def _parse_backup_target(text: str) -> str:
    return str(parse_store_address(text)) if is_store_address(text) else _parse_path(text)


def _optional(parse: Callable[[str], SettingValue]) -> Callable[[str], SettingValue]:
    """Also accept `none`."""
    return lambda text: _NONE if text == _NONE else str(parse(text))


def choice(*names: str) -> ValueType:
    def parse(text: str) -> str:
        if text in names:
            return text
        meant = next((f": write {name}" for name in names if name == text.strip().lower()), "")
        raise ValueError(f"{quoted(text)} is not one of {', '.join(names)}{meant}")

    return ValueType(f"one of {', '.join(names)}", "|".join(names), parse, str)


PATH = ValueType("path", "PATH", _parse_path, str)
OPTIONAL_PATH = ValueType("path or none", "PATH", _optional(_parse_path), str)
BACKUP_TARGET = ValueType("path, address or none", "TARGET", _optional(_parse_backup_target), str)
OPTIONAL_ENDPOINT = ValueType("URL or none", "URL", _optional(parse_endpoint), str)
OPTIONAL_REGION = ValueType("region or none", "REGION", _optional(parse_region), str)
OPTIONAL_NUMBER = ValueType("number or none", "NUMBER", _optional(_parse_integer), str)
SIZE = ValueType("size", "SIZE", parse_size, lambda value: format_size(value, exact=True))
DURATION = ValueType("duration", "DURATION", parse_duration, lambda value: format_duration(value, exact=True))
HOST = ValueType("host", "HOST", _parse_host, str)
HOST_NAMES = ValueType("list of names", "NAME,...", lambda text: _parse_list(text, _parse_host_name), str)
ORIGINS = ValueType("list of origins", "ORIGIN,...", lambda text: _parse_list(text, _parse_origin), str)
TRACE_TARGETS = ValueType("list of targets", "TARGET,...", lambda text: _parse_targets(text, parse_trace_target), str)
METRICS_TARGETS = ValueType(
    "list of targets", "TARGET,...", lambda text: _parse_targets(text, parse_metrics_target), str
)
NODE = ValueType("node id or none", "NODE", _optional(_parse_node), str)
PEERS = ValueType("list of peers", "ID=HOST:PORT,...", _parse_peers, str)
OPTIONAL_ADDRESS = ValueType("address or none", "HOST:PORT", _optional(_parse_address), str)
INTEGER = ValueType("number", "NUMBER", _parse_integer, str)
SHARE = ValueType("share", "SHARE", _parse_share, lambda value: f"{value:g}")
BOOLEAN = ValueType("true or false", "true|false", _parse_switch, lambda value: "true" if value else "false")


def setting(
    default: Any,
    kind: ValueType,
    sentence: str,
    bounds: tuple[SettingValue | None, SettingValue | None] = (None, None),
    *,
    flag: str | None = None,
) -> Any:
    """Declare a field of a section."""
    return field(default=default, metadata={"rule": SettingRule(sentence, kind, *bounds, flag)})
