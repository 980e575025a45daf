"""Compatibility levels: which earlier versions a new schema is compared with, and in which direction."""

from collections.abc import Sequence
from enum import StrEnum

from goqueue.schemas.schema_format import Incompatibility, ParsedSchema, SchemaFormat


class CompatibilityLevel(StrEnum):
    """The promise that a new version of a schema must keep.

    BACKWARD: consumers with the new schema read earlier data. FORWARD: consumers with earlier schemas read new data.
    FULL: both. Without TRANSITIVE only the latest earlier version counts.
    """

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.name.endswith("_TRANSITIVE")

    @property
    def reads_earlier_data(self) -> bool:
        return self.name.startswith(("BACKWARD", "FULL"))

    @property
    def is_read_by_earlier(self) -> bool:
        return self.name.startswith(("FORWARD", "FULL"))


def incompatibility_messages(
    rules: SchemaFormat, level: CompatibilityLevel, new: ParsedSchema, earlier: Sequence[ParsedSchema]
) -> list[str]:
    """Return why `new` may not follow the earlier versions (oldest first); an empty list allows it.

    The newest version that differs comes first. A version of another format is incompatible in every direction.
    """
    if level is CompatibilityLevel.NONE or not earlier:
        return []
    compared = list(reversed(earlier)) if level.is_transitive else [earlier[-1]]
    return [
        message for before, old in enumerate(compared, start=1) for message in _messages(rules, level, new, old, before)
    ]


def _messages(
    rules: SchemaFormat, level: CompatibilityLevel, new: ParsedSchema, old: ParsedSchema, before: int
) -> list[str]:
    version = "the latest version" if before == 1 else f"the version {before} before this one"
    if old.kind is not new.kind:
        return [f"{version} is {old.kind}, this one is {new.kind}"]
    found = []
    if level.reads_earlier_data:
        found += _told(rules.incompatibilities(new, old), f"the new schema cannot read data of {version}")
    if level.is_read_by_earlier:
        found += _told(rules.incompatibilities(old, new), f"the schema of {version} cannot read new data")
    return found


def _told(reasons: list[Incompatibility], subject: str) -> list[str]:
    return [f"{subject}: {reason}" for reason in reasons]
