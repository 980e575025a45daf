"""The subject of a payload, by the naming strategies of Confluent's serializers."""

from typing import Literal

SubjectNaming = Literal["topic", "record", "topic-record"]
"""The subject is named after the topic, after the record, or after both."""


def topic_subject(topic: str, *, is_key: bool) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def record_subject(naming: SubjectNaming, topic: str, record: str) -> str:
    """Return the subject of a record with this full name: its message, its type or its title."""
    assert naming != "topic", "the subject of a topic does not depend on the record"
    return record if naming == "record" else f"{topic}-{record}"
