"""The calls about topics and the broker itself, as values, and what comes back, as types.

Those that carry messages are in `publications` and `fetches`: a script that only looks at topics need not load what
they need; those about the state of the broker are in `insight`.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from goqueue.client import refusals
from goqueue.client.address import quote
from goqueue.client.calls import Answer, Call
from goqueue.client.times import Moment, to_text
from goqueue.limits import FRAME_BYTES_MAX, FRAME_HEADER_BYTES, MIB

T = TypeVar("T")

JSON = (("content-type", "application/json"), ("accept", "application/json"))
FRAMES = "application/vnd.goqueue.frames"
ANSWER_BYTES = MIB
ANSWER_BYTES_MAX = 16 * MIB


class Offsets(msgspec.Struct, frozen=True):
    """What a partition holds: from `earliest` up to, and not with, `latest`."""

    earliest: int
    latest: int


class TopicInfo(msgspec.Struct, frozen=True):
    """A topic as the broker describes it."""

    name: str
    partitions: int
    total_messages: int = 0
    total_size_bytes: int = 0
    partition_offsets: dict[str, Offsets] = {}
    config: dict[str, Any] = {}
    created_at: str = ""
    """In RFC 3339."""

    @property
    def partitioner(self) -> str:
        return str(self.config.get("partitioner", "murmur3"))

    @property
    def message_bytes_max(self) -> int:
        """What key, value and encoded headers of a message may have together."""
        most = self.config.get("max_message_bytes")
        return most if isinstance(most, int) else FRAME_BYTES_MAX - FRAME_HEADER_BYTES


class _Topics(msgspec.Struct):
    topics: list[str]


class _Offset(msgspec.Struct):
    offset: int


class _Groups(msgspec.Struct):
    groups: list[str]


class _GroupOffsets(msgspec.Struct):
    offsets: dict[str, dict[str, int]]


GroupOffsets = dict[str, dict[int, int]]
"""By topic and partition the offset where a group goes on."""


def decoded(answer: Answer, kind: type[T]) -> T:
    """The answer as what it should be; a refusal is raised as its error."""
    if answer.status >= 300:
        raise refusals.of_answer(answer)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise refusals.unreadable(answer, error) from None


def ask(method: str, path: str, kind: type[T], body: object = None, *, idempotent: bool = True) -> Call[T]:
    parts = () if body is None else (msgspec.json.encode(body),)
    return Call(method, path, lambda answer: decoded(answer, kind), parts, JSON, idempotent)


# --- topics ---


def create_topic(name: str, partitions: int | None, settings: dict[str, Any]) -> Call[dict[str, Any]]:
    count = {} if partitions is None else {"num_partitions": partitions}
    return ask("POST", "/topics", dict[str, Any], {"name": name} | count | settings, idempotent=False)


def create_on_publish(name: str) -> Call[dict[str, Any]]:
    """For a producer: have the topic made, if the broker makes topics when they are published to."""
    return ask("POST", "/topics", dict[str, Any], {"name": name, "auto": True}, idempotent=False)


def topics(internal: bool) -> Call[list[str]]:
    path = "/topics?internal=true" if internal else "/topics"
    return Call("GET", path, lambda answer: decoded(answer, _Topics).topics, headers=JSON)


def topic(name: str) -> Call[TopicInfo]:
    return ask("GET", f"/topics/{quote(name)}", TopicInfo)


def alter_topic(name: str, settings: dict[str, Any]) -> Call[TopicInfo]:
    return ask("PATCH", f"/admin/topics/{quote(name)}", TopicInfo, settings)


def delete_topic(name: str) -> Call[dict[str, Any]]:
    return ask("DELETE", f"/topics/{quote(name)}", dict[str, Any], idempotent=False)


def offset_at(name: str, partition: int, time: Moment) -> Call[int]:
    path = f"/topics/{quote(name)}/partitions/{partition}/offset?time={to_text(time)}"
    return Call("GET", path, lambda answer: decoded(answer, _Offset).offset, headers=JSON)


# --- groups ---


def groups() -> Call[list[str]]:
    return Call("GET", "/groups", lambda answer: decoded(answer, _Groups).groups, headers=JSON)


def group(name: str) -> Call[dict[str, Any]]:
    return ask("GET", f"/groups/{quote(name)}", dict[str, Any])


def delete_group(name: str) -> Call[dict[str, Any]]:
    return ask("DELETE", f"/groups/{quote(name)}", dict[str, Any], idempotent=False)


def group_offsets(name: str, topic: str | None) -> Call[GroupOffsets]:
    chosen = "" if topic is None else f"?topic={quote(topic)}"
    path = f"/groups/{quote(name)}/offsets{chosen}"
    return Call("GET", path, _group_offsets, headers=JSON)


def commit_offsets(name: str, member_id: str, offsets: GroupOffsets, generation: int | None) -> Call[GroupOffsets]:
    body: dict[str, Any] = {"member_id": member_id, "offsets": offset_texts(offsets)}
    if generation is not None:
        body["generation"] = generation
    content = (msgspec.json.encode(body),)
    return Call("POST", f"/groups/{quote(name)}/offsets", _group_offsets, content, JSON)


def reset_offsets(name: str, topic: str, to: str, wishes: dict[str, Any]) -> Call[dict[str, Any]]:
    """A shift that is repeated shifts again, so that is not; with any other place it would do no harm."""
    given = {word: value for word, value in wishes.items() if value is not None}
    if "time" in given:
        given["time"] = to_text(given["time"])
    body = {"topic": topic, "to": to} | given
    return ask("POST", f"/groups/{quote(name)}/offsets/reset", dict[str, Any], body, idempotent=to != "shift")


def redrive(topic: str, wishes: dict[str, Any]) -> Call[dict[str, Any]]:
    """Not repeated when nobody knows whether it was done: each would move as many as `limit` says."""
    given = _timed(wishes)
    if isinstance(given.get("key"), (bytes, bytearray, memoryview)):
        given |= _key(bytes(given["key"]))
    if "start" in given:
        given["start"] = {str(partition): offset for partition, offset in given["start"].items()}
    if "filters" in given:
        given["filter"] = filter_texts(given.pop("filters"))
    path = f"/topics/{quote(topic)}/redrive"
    hint = "call it again: what was moved already is not moved a second time, and the rest goes on"
    call = ask("POST", path, dict[str, Any], given, idempotent=False)
    return msgspec.structs.replace(call, unsure_hint=hint)


def _timed(wishes: Mapping[str, Any]) -> dict[str, Any]:
    """What was wished for, with times as the broker reads them."""
    given = {word: value for word, value in wishes.items() if value is not None}
    return given | {word: to_text(given[word]) for word in ("from_time", "to_time") if word in given}


def _key(key: bytes) -> dict[str, str]:
    """As the broker reads keys: text where it is text."""
    try:
        return {"key": key.decode(), "key_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"key": b64encode(key).decode(), "key_encoding": "base64"}


def dead_letters(
    topic: str,
    limit: int,
    wishes: dict[str, Any],
    start: Mapping[Any, int] | None,
    filters: Iterable[str] | str = (),
) -> Call[dict[str, Any]]:
    """`start` is `next` of the answer before."""
    given = {"limit": str(limit)} | {word: str(value) for word, value in _timed(wishes).items()}
    if start:
        given["start"] = ",".join(f"{partition}:{offset}" for partition, offset in start.items())
    pairs = [*given.items(), *(("filter", text) for text in filter_texts(filters))]
    query = "&".join(f"{word}={quote(value)}" for word, value in pairs)
    return ask("GET", f"/topics/{quote(topic)}/dead-letters?{query}", dict[str, Any])


def filter_texts(filters: Iterable[str] | str) -> list[str]:
    return [filters] if isinstance(filters, str) else list(filters)


def dead_letter_errors(topic: str) -> Call[dict[str, Any]]:
    return ask("GET", f"/topics/{quote(topic)}/dead-letters/errors", dict[str, Any])


def _group_offsets(answer: Answer) -> GroupOffsets:
    found = decoded(answer, _GroupOffsets).offsets
    return {topic: {int(partition): offset for partition, offset in held.items()} for topic, held in found.items()}


def offset_texts(offsets: GroupOffsets) -> dict[str, dict[str, int]]:
    return {topic: {str(partition): offset for partition, offset in held.items()} for topic, held in offsets.items()}


# --- the broker ---


def version() -> Call[dict[str, Any]]:
    return ask("GET", "/version", dict[str, Any])


def health() -> Call[dict[str, Any]]:
    return ask("GET", "/healthz", dict[str, Any])
