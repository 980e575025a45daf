"""The tables of endpoints and fields in `docs/http.md`."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from goqueue.api.endpoint import Endpoint
from goqueue.api.fields import scalar_schema
from goqueue.api.http.error_responses import status_of
from goqueue.api.outgoing_message import OutgoingMessage, PublishRequest
from goqueue.api.table import ENDPOINTS
from goqueue.api.topics import CreateTopicRequest
from goqueue.broker.core.topic import TopicSettings, TopicSpec

Schema = dict[str, Any]


def table() -> str:
    """Return a row for each endpoint, without the errors that the page names for all of them."""
    lines = ["| endpoint | what it does | parameters | permission | refused with |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*lines, *map(_row, ENDPOINTS)]) + "\n"


def _row(row: Endpoint) -> str:
    parameters = ", ".join(f"`{name}`" for name in _parameters(row))
    return f"| `{row.method} {row.path}` | {row.summary} | {parameters} | {row.permission} | {_refusals(row)} |"


def _parameters(row: Endpoint) -> list[str]:
    return [] if row.query is None else [field.encode_name for field in msgspec.structs.fields(row.query)]


def _refusals(row: Endpoint) -> str:
    named = _TOPIC_CODES if "{topic}" in row.path else set()
    codes = {kind.code for kind in row.errors if status_of(kind) != _UNAVAILABLE} - named
    return ", ".join(f"`{code}`" for code in sorted(codes))


_UNAVAILABLE = 503
_TOPIC_CODES = {"topic_name_invalid", "topic_not_found", "topic_busy"}
_COMMON_TABLES = 3
"""A field that looks the same in so many tables is described once, in front of them."""


def fields() -> str:
    """Return the tables of all bodies and queries, behind one of the fields that many of them share."""
    tables = list(_field_tables())
    counts = Counter(row for _, rows in tables for row in rows)
    common = sorted(row for row, count in counts.items() if count >= _COMMON_TABLES)
    parts = [f"Shared fields:\n\n{_TITLES}" + "".join(common)]
    parts += [_field_table(title, rows, common) for title, rows in tables]
    return "\n" + "\n".join(parts) + "\n"


def _field_tables() -> Iterator[tuple[str, list[str]]]:
    for row in ENDPOINTS:
        for place, kind in (("query", row.query), ("body", row.body)):
            if kind is not None and msgspec.structs.fields(kind):
                yield f"`{row.method} {row.path}`, {place}", _field_rows(kind)
            if kind is PublishRequest:
                yield "each of the `messages`", _field_rows(OutgoingMessage)


def _field_table(title: str, rows: list[str], common: list[str]) -> str:
    own = "".join(row for row in rows if row not in common)
    shared = ", ".join(row.split(" | ")[0].removeprefix("| ") for row in rows if row in common)
    mention = f" with the shared {shared}" if shared else ""
    return f"{title}{mention}" + (f":\n\n{_TITLES}{own}" if own else ".\n")


_TITLES = "| name | type | default | meaning |\n| --- | --- | --- | --- |\n"


def _field_rows(kind: type) -> list[str]:
    schema = _schema(kind)
    defaults = _of_a_new_topic() if kind is CreateTopicRequest else {}
    rows = []
    for name, field in schema["properties"].items():
        default = "required" if name in schema["required"] else _default(field, defaults.get(name, {}))
        rows.append(f"| `{name}` | {_type(field)} | {default} | {_meaning(field)} |\n")
    return rows


def _of_a_new_topic() -> Schema:
    """Return the default settings of a topic."""
    settings: Schema = _schema(TopicSettings)["properties"]
    return settings | {"num_partitions": _schema(TopicSpec)["properties"]["partitions"]}


def _schema(kind: type) -> Schema:
    (reference,), components = msgspec.json.schema_components([kind], schema_hook=scalar_schema)
    found: Schema = components[reference["$ref"].rpartition("/")[2]]
    return found


def _default(field: Schema, setting: Schema) -> str:
    """Return the default of a field, or else of the setting."""
    found = field.get("default")
    if found is None and "default" not in setting:
        return ""
    default = setting.get("default") if found is None else found
    return f"`{default}`" if isinstance(default, str) else f"`{json.dumps(default)}`"


def _type(field: Schema) -> str:
    """Return the type with its bounds; null is named only if it can be requested."""
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"] if "default" not in field or one != {"type": "null"})
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    kind = "object" if "$ref" in field else str(field.get("format") or field["type"])
    name = _NAMES.get(kind, kind)
    least, most = (field.get(first, field.get(second)) for first, second in _BOUNDS)
    return name if least is None or most is None else f"{name} ({int(least):,} to {int(most):,})"


_NAMES = {
    "string": "text",
    "boolean": "`true`, `false`",
    "array": "list",
    "date-time": "time",
    "integer": "whole number",
}
_BOUNDS = (("minimum", "minItems"), ("maximum", "maxItems"))


def _meaning(field: Schema) -> str:
    """Return the description, also of a type that may be null."""
    inside = (one.get("description", "") for one in field.get("anyOf", ()))
    return str(field.get("description") or next(filter(None, inside), ""))


def renewed(page: str) -> str:
    """Return the page with the current tables, each between a comment with its name and one with its end."""
    for place, made in (("endpoints", table()), ("fields", fields())):
        begin, end = f"<!-- {place} -->\n", f"<!-- end of {place} -->\n"
        before, _, rest = page.partition(begin)
        _, _, behind = rest.partition(end)
        page = f"{before}{begin}{made}{end}{behind}"
    return page
