"""The tables of endpoints and of their fields as a page has them.

`python -m goqueue.api.reference` renews them in `docs/http.md` of the directory it is started in; a test asserts
that they are current.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from goqueue.api.endpoint import Endpoint
from goqueue.api.publishing import OutgoingMessage, PublishRequest
from goqueue.api.scalars import scalar_schema
from goqueue.api.status import status_of
from goqueue.api.table import ENDPOINTS
from goqueue.api.topics import NewTopic
from goqueue.broker.topic import TopicSettings, TopicSpec

PAGE = Path("docs/http.md")
PLACES = ("endpoints", "fields")
"""What is renewed, each between a comment with its name and one with its end."""

Schema = dict[str, Any]


def table() -> str:
    """A row for each endpoint; what any request may be refused for is left out."""
    lines = ["| endpoint | what it does | parameters | refused with |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *map(_row, ENDPOINTS)]) + "\n"


def _row(row: Endpoint) -> str:
    parameters = ", ".join(f"`{name}`" for name in _parameters(row))
    return f"| `{row.method} {row.path}` | {row.summary} | {parameters} | {_refusals(row)} |"


def _parameters(row: Endpoint) -> list[str]:
    return [] if row.query is None else [field.encode_name for field in msgspec.structs.fields(row.query)]


def _refusals(row: Endpoint) -> str:
    by_status: dict[int, list[str]] = {}
    for kind in sorted(set(row.errors), key=lambda kind: kind.code):
        by_status.setdefault(status_of(kind), []).append(f"`{kind.code}`")
    return "; ".join(f"{status}: {', '.join(codes)}" for status, codes in sorted(by_status.items()))


def fields() -> str:
    """For each endpoint a table of the fields of its body and one of the parameters of its query."""
    tables = [
        f"`{row.method} {row.path}`, {place}:\n\n{_fields(kind)}"
        for row in ENDPOINTS
        for place, kind in (("query", row.query), ("body", row.body))
        if kind is not None and msgspec.structs.fields(kind)
    ]
    return "\n" + "\n".join(tables) + "\n"


def _fields(kind: type) -> str:
    schema = _schema(kind)
    defaults = _of_a_new_topic() if kind is NewTopic else {}
    lines = ["| name | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in schema["properties"].items():
        default = "required" if name in schema["required"] else _default(field, defaults.get(name, {}))
        lines.append(f"| `{name}` | {_type(field)} | {default} | {_meaning(field)} |")
    if kind is PublishRequest:
        lines += ["", "each of the `messages`:", "", _fields(OutgoingMessage).rstrip("\n")]
    return "\n".join(lines) + "\n"


def _of_a_new_topic() -> Schema:
    """What the broker takes for a topic of which it is not told more, where it is not configured otherwise."""
    settings: Schema = _schema(TopicSettings)["properties"]
    return settings | {"num_partitions": _schema(TopicSpec)["properties"]["partitions"]}


def _schema(kind: type) -> Schema:
    (reference,), components = msgspec.json.schema_components([kind], schema_hook=scalar_schema)
    found: Schema = components[reference["$ref"].rpartition("/")[2]]
    return found


def _default(field: Schema, setting: Schema) -> str:
    """The field's own, where it is something, or else the setting's."""
    found = field.get("default")
    if found is None and "default" not in setting:
        return ""
    default = setting.get("default") if found is None else found
    return f"`{default}`" if isinstance(default, str) else f"`{json.dumps(default)}`"


def _type(field: Schema) -> str:
    """With its bounds. That null stands for nothing is said only where it is something to be asked for."""
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"] if "default" not in field or one != {"type": "null"})
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    kind = str(field.get("format") or field["type"])
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
    """Of a type that something else may stand for, such as null, what is said of it."""
    inside = (one.get("description", "") for one in field.get("anyOf", ()))
    return str(field.get("description") or next(filter(None, inside), ""))


def renewed(page: str) -> str:
    """The page with the tables as they are now."""
    for place, made in zip(PLACES, (table(), fields()), strict=True):
        begin, end = f"<!-- {place} -->\n", f"<!-- end of {place} -->\n"
        before, _, rest = page.partition(begin)
        _, _, behind = rest.partition(end)
        page = f"{before}{begin}{made}{end}{behind}"
    return page


def main() -> None:
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
