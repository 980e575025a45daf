"""Quotas that are checked when something is created or sent: counts of topics and groups, sizes, and times."""

from typing import Any

from msgspec import UNSET

from goqueue.api.endpoint import ApiCall
from goqueue.api.message_json import run_on_thread
from goqueue.api.outgoing_message import OutgoingMessage
from goqueue.broker.core.delay_headers import longest_delay_ns
from goqueue.broker.tenants import quotas as kinds
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.naming import prefix_of
from goqueue.clock import NANOSECONDS
from goqueue.limits import MIB
from goqueue.storage import scan
from goqueue.storage.scan import Frames
from goqueue.wire.sections import DELAYED, SECTION

_HOUR_NS = 3600 * NANOSECONDS
_WALKED_AT_ONCE = 2 * MIB  # of frames: some milliseconds


# --- topics ---


def admit_topic(call: ApiCall, meter: TenantMeter) -> None:
    """Check the topic that a request creates."""
    body = call.body
    admit_new_topic(call, meter, body.num_partitions or call.app.default_partitions)
    if body.retention_hours is UNSET:
        body.retention_hours = _retention_within(call, meter).get("retention_hours", UNSET)
    admit_retention(call, meter)


def admitted_settings(call: ApiCall) -> dict[str, Any]:
    """Check a topic that a publish creates, and return settings that differ from the broker's."""
    meter = call.meter
    if meter is None:
        return {}
    meter.charge(kinds.METADATA_RATE)
    admit_new_topic(call, meter, call.app.default_partitions)
    return _retention_within(call, meter)


def _retention_within(call: ApiCall, meter: TenantMeter) -> dict[str, Any]:
    """Return the retention of a topic that names none, if the broker's default is beyond the quota."""
    limit = meter.quotas.limit(kinds.RETENTION_HOURS)
    is_beyond = limit is not None and call.app.default_settings["retention_hours"] > limit
    return {"retention_hours": limit} if is_beyond else {}


def admit_new_topic(call: ApiCall, meter: TenantMeter, partitions: int) -> None:
    """Check one more topic with so many partitions."""
    prefix = prefix_of(meter.tenant)
    owned = [topic for name, topic in call.runtime.broker.topics.items() if name.startswith(prefix)]
    meter.admit(kinds.TOPICS, len(owned))
    meter.admit(kinds.PARTITIONS_PER_TOPIC, 0, partitions)
    meter.admit(kinds.TOTAL_PARTITIONS, sum(len(topic.partitions) for topic in owned), partitions)


def admit_partitions(call: ApiCall, meter: TenantMeter) -> None:
    """Check partitions that are added to a topic."""
    prefix, topics = prefix_of(meter.tenant), call.runtime.broker.topics
    topic = topics.get(call.parameters["topic"])
    if topic is None:
        return
    used = sum(len(one.partitions) for name, one in topics.items() if name.startswith(prefix))
    meter.admit(kinds.PARTITIONS_PER_TOPIC, 0, call.body.count)
    meter.admit(kinds.TOTAL_PARTITIONS, used, max(0, call.body.count - len(topic.partitions)))


def admit_retention(call: ApiCall, meter: TenantMeter) -> None:
    """Check the retention of a topic that is created or changed. None keeps messages for ever."""
    hours = call.body.retention_hours
    if hours is not UNSET:
        meter.admit(kinds.RETENTION_HOURS, 0, kinds.VALUE_MAX if hours is None else hours)


# --- groups and transactions ---


def admit_group(call: ApiCall, meter: TenantMeter) -> None:
    """Check the group that a request creates, and the member that joins."""
    name = call.parameters.get("group") or call.body.group
    groups = call.runtime.broker.groups
    group = groups.group(name)
    if group is None:
        meter.charge(kinds.METADATA_RATE)
        if meter.has_limit(kinds.GROUPS):
            prefix = prefix_of(meter.tenant)
            meter.admit(kinds.GROUPS, sum(one.group.startswith(prefix) for one in groups.groups()))
    if call.request.path.rpartition("/")[2] not in ("join", "cooperative"):
        return
    members = {} if group is None else group.members
    if call.body.member_id not in members:
        meter.admit(kinds.CONSUMERS_PER_GROUP, 0, len(members) + 1)


def admit_transaction(call: ApiCall, meter: TenantMeter) -> None:
    """Check one more open transaction."""
    if meter.has_limit(kinds.OPEN_TRANSACTIONS):
        prefix = prefix_of(meter.tenant)
        meter.admit_transaction(sum(one.id.startswith(prefix) for one in call.runtime.broker.transactions.open_ones()))


# --- messages ---


def check_messages(call: ApiCall, meter: TenantMeter) -> None:
    """Check sizes and delays of messages to publish. Only what may be too much is looked at closely."""
    if call.request.size > meter.message_bytes_unchecked:
        meter.admit(kinds.MESSAGE_BYTES, 0, _largest(call))
    if meter.bounds_delays:
        longest_ns = _longest_delay_ns(call)
        if longest_ns:
            meter.admit(kinds.DELAY_HOURS, 0, -(-longest_ns // _HOUR_NS))


def admit_delay(call: ApiCall, meter: TenantMeter) -> None:
    """Check another delivery time of a delayed message. One that is put off by a while is checked as a delay."""
    if meter.has_limit(kinds.DELAY_HOURS):
        shift = getattr(call.body, "shift", None)
        longest_ns = _delay_ns(call, call.body) if shift is None else round(shift * NANOSECONDS)
        meter.admit(kinds.DELAY_HOURS, 0, max(0, -(-longest_ns // _HOUR_NS)))


async def walk_frames(call: ApiCall) -> None:
    """Find the messages in a request with frames. They are not looked for again."""
    if len(call.request.body) > _WALKED_AT_ONCE:
        call.walked = await run_on_thread(_walk, call.request.body)
    else:
        call.walked = _walk(call.request.body)


def count_frames(call: ApiCall) -> int:
    """Count the messages of a request with frames, as far as they were looked for."""
    return sum([len(one.positions) for one in (call.walked or {}).values()])


def _messages(call: ApiCall) -> list[OutgoingMessage]:
    return call.body.messages if hasattr(call.body, "messages") else [call.body]


def _largest(call: ApiCall) -> int:
    """Return the size of the largest message as it is stored, without its frame."""
    if call.body is None:
        return max((int(one.lengths.max()) for one in (call.walked or {}).values() if len(one)), default=0)
    return max(_length(one.value) + _length(one.key) for one in _messages(call))


def _length(text: str | bytes | None) -> int:
    """Return the bytes of a text; a large body, or another protocol, has brought bytes."""
    return len(text.encode() if isinstance(text, str) else text or b"")


def _longest_delay_ns(call: ApiCall) -> int:
    now_ns = call.runtime.clock.now_ns()
    if call.body is None:
        delayed = (frames for number, frames in (call.walked or {}).items() if number & DELAYED)
        return max((longest_delay_ns(frames, now_ns) for frames in delayed), default=0)
    return max(_delay_ns(call, one) for one in _messages(call))


def _delay_ns(call: ApiCall, message: Any) -> int:
    if message.delay is not None:
        return round(float(message.delay) * NANOSECONDS)
    times = [one for one in (message.deliver_at, getattr(message, "deliverAt", None)) if one is not None]
    return max((int(one) - call.runtime.clock.now_ns() for one in times), default=0)


def _walk(content: bytearray) -> dict[int, Frames]:
    """Return the frames of each section. Malformed ones are left to the checks of the handler."""
    body, position, found = memoryview(content), 0, dict[int, Frames]()
    while position + SECTION.size <= len(body):
        number, length = SECTION.unpack_from(content, position)
        position += SECTION.size
        if length:
            found[number] = scan.walk(body[position : position + length])
        position += length
    return found
