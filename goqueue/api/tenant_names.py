"""Names in requests and answers: found by the types of the fields, and replaced by the full or the short ones.

A field that holds the name of a topic, group, transactional id or subject is recognized by its own name, which is the
same in every request and answer (`NAME_FIELDS`), or stands in `FIELDS_OF` with its type. Nothing is changed in place:
an answer may share parts with the state of the broker.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Struct

NameKind = Literal["topic", "new_topic", "group", "transactional_id", "subject", "prefix", "target", "other", "text"]
"""The kind of a name. A `target` is a dead-letter topic or `none`, a `prefix` the beginning of a name, `other` is text
that begins with a name, and `text` are sentences.
"""

Rename = Callable[[NameKind, str], str]

_TOPICS = "topic topics topic_name target_topic origin_topic dlq_topic target lag delivery"
NAME_FIELDS: dict[str, NameKind] = {
    **dict.fromkeys(_TOPICS.split(), "topic"),
    **dict.fromkeys(("offsets", "next_offset"), "topic"),  # mappings by topic; a number is no name
    **dict.fromkeys(("group", "groups", "group_id", "consumer_group", "pledged"), "group"),
    "dead_letter_topic": "target",
    "transactional_id": "transactional_id",
    "subject": "subject",
    "subject_prefix": "prefix",
    "after": "prefix",
    **dict.fromkeys(("receipt_handle", "receipt_handles", "receipts", "assigned_partitions"), "other"),
    **dict.fromkeys(("fault", "faults", "obstacle"), "text"),
}
"""The kinds of the names that fields hold: as text, in lists, or as the keys of mappings."""

FIELDS_OF: dict[tuple[str, str], NameKind] = {
    ("CreateTopicRequest", "name"): "new_topic",
    **dict.fromkeys(
        (
            (kind, "name")
            for kind in (
                "CreateTopicResponse", "DeleteTopicResponse", "TopicResponse", "AlterTopicResponse", "TopicSummaryJson",
                "MetadataTopicJson",
            )
        ),
        "topic",
    ),
    ("CooperativeGroupResponse", "id"): "group",
    ("SummariesQuery", "prefix"): "prefix",
    ("CompatibilityJson", "messages"): "text",
    ("TraceEventJson", "details"): "text",
    **dict.fromkeys((("ErrorJson", field) for field in ("error", "hint", "details")), "text"),
}  # fmt: skip
"""The fields whose own names do not say it, by the names of their types."""

ANSWERS: dict[str, NameKind] = {"GET /subjects": "subject", "GET /schemas/ids/{id}/subjects": "subject"}
"""The endpoints whose answers are lists of names."""

OWN_NAMES: frozenset[str] = frozenset({"POST /topics/{topic}/messages"})
"""The endpoints whose handlers write names in answers as their senders know them: too many requests have none."""

PARAMETERS: dict[str, NameKind] = {
    "topic": "topic",
    "group": "group",
    "transactional_id": "transactional_id",
    "subject": "subject",
}
"""The parameters of paths that are names."""


@dataclass(frozen=True, slots=True)
class NamePlan:
    """Where a type has names: in itself, below its fields, or below the values of a mapping."""

    kind: NameKind | None = None
    fields: tuple[tuple[str, str, "NamePlan"], ...] = ()
    """The name of the attribute, that in JSON, and the plan of its content."""
    values: "NamePlan | None" = None


@cache
def plan_of(kind: Any) -> NamePlan | None:
    """Return where values of a type have names; None if they have none."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return plan_of(inner[0])
    if isinstance(kind, type) and issubclass(kind, Struct):
        found = [(one.name, one.encode_name, _plan_of_field(kind, one)) for one in msgspec.structs.fields(kind)]
        fields = tuple((name, encoded, plan) for name, encoded, plan in found if plan is not None)
        return NamePlan(fields=fields) if fields else None
    if origin is dict:
        values = plan_of(inner[1])
        return None if values is None else NamePlan(values=values)
    if origin in (list, tuple, Union, UnionType):
        return next((plan for plan in map(plan_of, inner) if plan is not None), None)
    return None


def _plan_of_field(owner: type[Struct], field: Any) -> NamePlan | None:
    below = plan_of(field.type)
    kind = FIELDS_OF.get((owner.__name__, field.name)) or NAME_FIELDS.get(field.name)
    if kind is None or not _may_hold_names(field.type):
        return below
    return NamePlan(kind, below.fields if below is not None else (), None if below is None else below.values)


def _may_hold_names(kind: Any) -> bool:
    """Return whether a type is of text, of lists of it, or of mappings with keys of text."""
    if get_origin(kind) is Annotated:
        return _may_hold_names(get_args(kind)[0])
    if kind is str or get_origin(kind) is dict:
        return True
    return any(map(_may_hold_names, get_args(kind))) if get_origin(kind) is not Literal else False


def rename(plan: NamePlan, value: Any, name: Rename) -> Any:
    """Return a value with all its names replaced. It may be an object, or what its JSON decodes to."""
    if isinstance(value, Struct):
        return _rename_struct(plan, value, name)
    if isinstance(value, list | tuple):
        return _rename_items(plan, value, name)
    if isinstance(value, str):
        return value if plan.kind is None else name(plan.kind, value)
    if not isinstance(value, dict):
        return value
    if plan.kind == "text":
        return {key: rename(plan, one, name) for key, one in value.items()}
    if plan.kind is not None:
        below = plan.values or NamePlan(fields=plan.fields)
        return {name(plan.kind, key): rename(below, one, name) for key, one in value.items()}
    if plan.values is not None:
        return {key: rename(plan.values, one, name) for key, one in value.items()}
    changed = dict(value)
    for _, encoded, below in plan.fields:
        if changed.get(encoded) is not None:
            changed[encoded] = rename(below, changed[encoded], name)
    return changed


def _rename_struct(plan: NamePlan, value: Struct, name: Rename) -> Struct:
    changes = None
    for attribute, _, below in plan.fields:
        former = getattr(value, attribute)
        if former and former is not msgspec.UNSET:
            new = rename(below, former, name)
            if new is not former:
                changes = {attribute: new} if changes is None else changes | {attribute: new}
    return value if changes is None else msgspec.structs.replace(value, **changes)


def _rename_items(plan: NamePlan, values: list[Any] | tuple[Any, ...], name: Rename) -> Any:
    changed = None
    for number, former in enumerate(values):
        new = rename(plan, former, name)
        if new is not former:
            if changed is None:
                changed = list(values)
            changed[number] = new
    return values if changed is None else changed
