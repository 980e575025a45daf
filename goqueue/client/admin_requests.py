"""The client's methods for topics, groups and the broker itself, and the types of their answers.

What only messages need is imported where it is used: a script that only reads topics need not load it.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.client.address import quote
from goqueue.client.answers import (
    BrokerStats,
    Diagnosis,
    GroupInfo,
    OffsetsReset,
    PartitionInfo,
    ScaledTopic,
    ScalingStatus,
)
from goqueue.client.api_request import (
    JSON,
    ApiRequest,
    ApiResponse,
    decode_json,
    error_of_response,
    json_request,
    operation,
    with_query,
)
from goqueue.client.times import Moment, to_text
from goqueue.limits import FRAME_BYTES_MAX, FRAME_HEADER_BYTES, MIB

if TYPE_CHECKING:
    from typing import Unpack

    from goqueue.client.delivery import Stored
    from goqueue.client.message_encoding import Headers, Key, Priority, Value
    from goqueue.client.settings import GroupSettings, TopicSettings
    from goqueue.client.times import Delay, DeliverAt

ANSWER_BYTES = MIB
ANSWER_BYTES_MAX = 16 * MIB
_COMPACTION_SECONDS = 3600.0  # a topic of a terabyte takes a while

JsonObject = dict[str, Any]

GroupOffsets = dict[str, dict[int, int]]
"""By topic and partition the committed offset of a group."""


class Offsets(msgspec.Struct, frozen=True):
    """The offsets of a partition, from `earliest` up to but without `latest`."""

    earliest: int
    latest: int


class TopicInfo(msgspec.Struct, frozen=True):
    """A topic as the broker describes it."""

    name: str
    partitions: int
    total_messages: int = 0
    other_records: int = 0
    """Offsets without a message that readers see, such as control records and aborted messages."""
    total_size_bytes: int = 0
    partition_offsets: dict[str, Offsets] = {}
    config: dict[str, Any] = {}
    created_at: str = ""
    """A time in RFC 3339."""
    dlq_topic: str = ""
    """Where its dead letters are, once there are any; its own name if it is a dead-letter topic."""
    etag: str = ""
    """It stands for the settings."""
    operation: int | None = None  # that altered it, in the answer to that

    @property
    def partitioner(self) -> str:
        return str(self.config.get("partitioner", "murmur3"))

    @property
    def message_bytes_max(self) -> int:
        """The limit for key, value and encoded headers of a message together."""
        most = self.config.get("max_message_bytes")
        return most if isinstance(most, int) else FRAME_BYTES_MAX - FRAME_HEADER_BYTES


class TopicDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in the list of all.

    Rates are those of the last seconds. They are None for topics that the broker does not count by name.
    """

    name: str
    partitions: int
    total_messages: int = 0
    other_records: int = 0
    """Offsets without a message that readers see, such as control records and aborted messages."""
    total_size_bytes: int = 0
    created_at: str = ""
    config: dict[str, Any] = {}
    published_per_second: float | None = 0.0
    bytes_per_second: float | None = 0.0
    read_per_second: float | None = 0.0
    faults: int = 0
    """The number of partitions that refuse messages."""
    held_back: int = 0
    """The number of offsets that open transactions hide from readers."""
    dlq_topic: str = ""
    """Where its dead letters are, once there are any; its own name if it is a dead-letter topic."""
    etag: str = ""
    """It stands for the settings."""


class GroupDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A group in the list of all; `members` is their number."""

    group_id: str
    state: str = ""
    condition: str = ""
    """keeping_up, lagging, behind, falling_behind, unattended or stuck."""
    generation: int = 0
    rebalance_state: str = ""
    members: int = 0
    topics: list[str] = []
    total_lag: int = 0
    lag_seconds: float = 0.0
    rate: float = 0.0
    incoming: float = 0.0
    drain_seconds: float | None = None
    """The seconds until the lag is 0 at the current rates; None: never."""
    in_flight: int = 0
    lost: int = 0


def topic_info(name: str) -> ApiRequest[TopicInfo]:
    return json_request("GET", f"/topics/{quote(name)}", TopicInfo)


def create_topic(
    name: str, partitions: int | None, settings: Mapping[str, object], *, exist_ok: bool = False
) -> ApiRequest[JsonObject]:
    """Return the request. With `exist_ok` it may be repeated when it is unknown whether it arrived."""
    count = {} if partitions is None else {"num_partitions": partitions}
    return json_request("POST", "/topics", JsonObject, {"name": name, **count, **settings}, idempotent=exist_ok)


def create_on_publish(name: str) -> ApiRequest[JsonObject]:
    """Create a topic for a producer, if the broker is configured to do so."""
    return create_topic(name, None, {"auto": True})


def first_offset_at(name: str, partition: int, time: Moment) -> ApiRequest[int]:
    path = f"/topics/{quote(name)}/partitions/{partition}/offset?time={to_text(time)}"
    return json_request("GET", path, int, field="offset", place=(name, partition))


class TopicAdmin:
    """Topics, and publishing one message."""

    @operation
    def topics(self, internal: bool = False) -> ApiRequest[list[str]]:
        """Return the names of all topics; with `internal` also of the broker's own."""
        return json_request("GET", with_query("/topics", internal=internal), list[str], field="topics")

    @operation
    def topic(self, name: str) -> ApiRequest[TopicInfo]:
        """Return a topic with its offsets and settings."""
        return topic_info(name)

    @operation
    def alter_topic(self, /, name: str, **settings: "Unpack[TopicSettings]") -> ApiRequest[TopicInfo]:
        """Change settings of a topic; the others stay as they are."""
        return json_request("PATCH", f"/admin/topics/{quote(name)}", TopicInfo, settings)

    @operation
    def delete_topic(self, name: str) -> ApiRequest[JsonObject]:
        """Delete a topic with its messages; `delayed_deleted` is the number of pending delayed messages."""
        return json_request("DELETE", f"/topics/{quote(name)}", JsonObject, idempotent=False)

    @operation
    def offset_at(self, topic: str, partition: int, time: Moment) -> ApiRequest[int]:
        """Return the offset of the first message at or after that time."""
        return first_offset_at(topic, partition, time)

    @operation
    def topic_details(self, internal: bool = False) -> ApiRequest[list[TopicDetails]]:
        """Return all topics with their numbers and rates, in one request."""
        path = with_query("/topics", details=True, internal=internal)
        return json_request("GET", path, list[TopicDetails], field="details")

    @operation
    def partitions(self, topic: str) -> ApiRequest[list[PartitionInfo]]:
        """Return positions, sizes and faults of each partition."""
        return json_request("GET", f"/topics/{quote(topic)}/partitions", list[PartitionInfo], field="partitions")

    @operation
    def compact_topic(self, name: str) -> ApiRequest[JsonObject]:
        """Compact all partitions of a compacted topic now, and wait until that is done."""
        path = f"/admin/topics/{quote(name)}/compact"
        return json_request("POST", path, JsonObject, patience=_COMPACTION_SECONDS)

    @operation
    def scale_topic(
        self, name: str, partitions: int, *, accept_key_moves: bool = False, dry_run: bool = False
    ) -> ApiRequest[ScaledTopic]:
        """Add partitions to a topic, which cannot be undone. A multiple of the present number keeps the order of keys
        in groups; other numbers need `accept_key_moves`, unless the topic is empty.
        """
        fields = {"count": partitions, "accept_key_moves": accept_key_moves, "dry_run": dry_run}
        path = f"/admin/topics/{quote(name)}/partitions"
        return json_request("POST", path, ScaledTopic, fields, idempotent=dry_run)

    @operation
    def scaling_status(self, topic: str) -> ApiRequest[ScalingStatus]:
        """Return the added partitions of a topic, and the groups that do not read them yet."""
        return json_request("GET", f"/admin/topics/{quote(topic)}/scaling-status", ScalingStatus)

    @operation
    def publish(  # noqa: PLR0913 - independent options, mostly given by name
        self,
        topic: str,
        value: "Value",
        key: "Key" = None,
        headers: "Headers | None" = None,
        partition: int | None = None,
        priority: "Priority" = "normal",
        *,
        delay: "Delay | None" = None,
        deliver_at: "DeliverAt | None" = None,
    ) -> "ApiRequest[Stored]":
        """Publish one message, durable when this returns. With `delay` or `deliver_at` it is delivered later.

        When the connection breaks, the message may or may not be stored. A producer retries without duplicates, and is
        faster for two messages or more.
        """
        from goqueue.client import publish_requests  # noqa: PLC0415 - saves ten milliseconds where it is not needed

        return publish_requests.publish(
            topic, value, key, headers, partition, priority, delay=delay, deliver_at=deliver_at
        )


class GroupAdmin:
    """Groups and their offsets."""

    @operation
    def groups(self) -> ApiRequest[list[str]]:
        """Return the names of all groups."""
        return json_request("GET", "/groups", list[str], field="groups")

    @operation
    def group(self, name: str) -> ApiRequest[GroupInfo]:
        """Return the state, members, lag and delivery settings of a group."""
        return json_request("GET", f"/groups/{quote(name)}", GroupInfo)

    @operation
    def alter_group(self, /, name: str, **settings: "Unpack[GroupSettings]") -> ApiRequest[GroupInfo]:
        """Change `max_retries`, `retry_delay`, `max_retry_delay`, `visibility_timeout` or `dead_letter_topic`.

        None leaves a setting to the group's topics and to the broker again; the others stay as they are.
        """
        return json_request("PATCH", f"/groups/{quote(name)}", GroupInfo, settings)

    @operation
    def group_details(self, limit: int = 1000, after: str | None = None) -> ApiRequest[list[GroupDetails]]:
        """Return groups by name, with their lag; `after` is the last name of the previous list."""
        path = with_query("/groups", details=True, limit=limit, after=after)
        return json_request("GET", path, list[GroupDetails], field="details")

    @operation
    def cooperative_group(self, name: str) -> ApiRequest[JsonObject]:
        """Return the assignment of a group and how its rebalances went."""
        return json_request("GET", f"/groups/{quote(name)}/cooperative", JsonObject)

    @operation
    def rebalance_stats(self, group: str | None = None) -> ApiRequest[JsonObject]:
        """Return the rebalances of one group, or of all, since the broker started."""
        path = "/rebalance/stats" if group is None else f"/groups/{quote(group)}/rebalance/stats"
        return json_request("GET", path, JsonObject)

    @operation
    def priority_stats(self, topic: str | None = None, group: str | None = None) -> ApiRequest[JsonObject]:
        """Return the ready, in-flight and delivered messages of each priority, by topic and partition."""
        return json_request("GET", with_query("/priority/stats", topic=topic, group=group), JsonObject)

    @operation
    def delete_group(self, name: str) -> ApiRequest[JsonObject]:
        """Delete a group and its offsets; it must have no members."""
        return json_request("DELETE", f"/groups/{quote(name)}", JsonObject, idempotent=False)

    @operation
    def group_offsets(self, group: str, topic: str | None = None) -> ApiRequest[GroupOffsets]:
        """Return the committed offsets of a group by topic and partition."""
        return json_request("GET", with_query(_offsets_path(group), topic=topic), GroupOffsets, field="offsets")

    @operation
    def commit_offsets(
        self, group: str, member_id: str | None, offsets: GroupOffsets, generation: int | None = None
    ) -> ApiRequest[GroupOffsets]:
        """Commit offsets of a group, and return them as they are afterwards.

        A program that assigns partitions itself and never joins passes None as the member.
        """
        body: JsonObject = {"member_id": member_id, "offsets": offsets}
        if generation is not None:
            body["generation"] = generation
        return json_request("POST", _offsets_path(group), GroupOffsets, body, field="offsets")

    @operation
    def reset_offsets(  # noqa: PLR0913 - independent options, given by name
        self,
        group: str,
        topic: str,
        to: str,
        *,
        partitions: Iterable[int] | None = None,
        offset: int | None = None,
        time: Moment | None = None,
        shift: int | None = None,
        dry_run: bool = False,
        operation: int | None = None,
    ) -> ApiRequest[OffsetsReset]:
        """Move a group to "earliest", "latest", an "offset", a "time", or by a "shift". `undo` takes `operation`."""
        options = {
            "partitions": None if partitions is None else list(partitions),
            "offset": offset,
            "time": None if time is None else to_text(time),
            "shift": shift,
            "dry_run": dry_run,
            "operation": operation,
        }
        body = {"topic": topic, "to": to} | given(options)
        return json_request("POST", f"{_offsets_path(group)}/reset", OffsetsReset, body, idempotent=to != "shift")


class BrokerAdmin:
    """The broker itself."""

    @operation
    def version(self) -> ApiRequest[JsonObject]:
        """Return the versions of the broker and of its Python."""
        return json_request("GET", "/version", JsonObject)

    @operation
    def health(self) -> ApiRequest[JsonObject]:
        """Return whether the broker answers, and for how long it has run."""
        return json_request("GET", "/healthz", JsonObject)

    @operation
    def readiness(self) -> ApiRequest[JsonObject]:
        """Return whether the broker takes messages, with each check; "not ready" is not an error here."""
        return ApiRequest("GET", "/readyz?verbose=true", _readiness, headers=JSON)

    @operation
    def stats(self) -> ApiRequest[BrokerStats]:
        """Return numbers of all topics, rates, and the use of process and disk."""
        return json_request("GET", "/stats", BrokerStats)

    @operation
    def history(self, seconds: int = 300, step: int | None = None, group: str | None = None) -> ApiRequest[JsonObject]:
        """Return numbers over time, oldest first; None is a gap. A `group` has the series `lag` and `rate`.

        `step` is the seconds of one number: 1, or a multiple of 10.
        """
        return json_request("GET", with_query("/stats/history", seconds=seconds, step=step, group=group), JsonObject)

    @operation
    def reliability(self) -> ApiRequest[JsonObject]:
        """Return the delivery results since the broker started, and what is in flight."""
        return json_request("GET", "/reliability/stats", JsonObject)

    @operation
    def doctor(self) -> ApiRequest[Diagnosis]:
        """Return the broker's own diagnosis: `checks`, and `findings` with what to do."""
        return json_request("GET", "/doctor", Diagnosis)

    @operation
    def logs(
        self, level: str = "info", limit: int = 100, after: int = 0, *, requests: bool = True
    ) -> ApiRequest[JsonObject]:
        """Return the last `lines` of the broker's log, of "debug", "info", "warning" or "error" and above.

        `after` is `last` of the previous answer, for only the lines since then. Without `requests`, those of requests
        that did not fail are left out.
        """
        path = with_query("/logs", level=level, limit=limit, after=after, requests=None if requests else "false")
        return json_request("GET", path, JsonObject)


def given(options: Mapping[str, Any]) -> JsonObject:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def filter_texts(filters: Iterable[str] | str) -> list[str]:
    return [filters] if isinstance(filters, str) else list(filters)


def _offsets_path(group: str) -> str:
    return f"/groups/{quote(group)}/offsets"


def _readiness(answer: ApiResponse) -> JsonObject:
    """Decode the answer of a broker that is not ready, too: it has status 503."""
    if answer.status == 503:
        try:
            said = msgspec.json.decode(answer.body, type=JsonObject)
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise error_of_response(answer) from None
        if "status" in said:
            return said
    return decode_json(answer, JsonObject)
