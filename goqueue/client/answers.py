"""Answers of the broker to methods of the client, with typed attributes.

Each is the dict that the broker sent, so that fields of a newer broker are kept, and `answer["lag"]` is the same as
`answer.lag`.
"""

from typing import Any, get_args, get_origin, get_type_hints


class Answer(dict[str, Any]):
    """A dict whose known fields are attributes as well. What a broker does not send is empty, or None."""

    def __init_subclass__(cls) -> None:
        for name in vars(cls).get("__annotations__", ()):
            setattr(cls, name, _Field(cls, name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({super().__repr__()})"


class _Field:
    """An attribute of an answer. Objects in it are made answers when it is first read."""

    def __init__(self, owner: type, name: str) -> None:
        self._owner = owner
        self._name = name
        self._default = vars(owner).get(name)
        self._kind: Any = None

    def __get__(self, answer: Answer | None, owner: type) -> Any:
        if answer is None:
            return self
        if self._kind is None:
            self._kind = get_type_hints(self._owner)[self._name]
        if self._name not in answer:
            return _empty(self._kind) if self._default is None else self._default
        found = answer[self._name] = _shaped(self._kind, answer[self._name])
        return found


def _empty(kind: Any) -> Any:
    origin = get_origin(kind)
    return origin() if origin in (list, dict) else None if origin else kind()


def _shaped(kind: Any, found: Any) -> Any:
    """Return a decoded value with the answers that its type names."""
    origin, inner = get_origin(kind), get_args(kind)
    if found is None:
        return None
    if origin is list:
        return [_shaped(inner[0], item) for item in found]
    if origin is dict:
        return {name: _shaped(inner[1], item) for name, item in found.items()}
    if origin is not None:
        return _shaped(inner[0], found)  # the other one is None
    return read_answer(kind, found) if issubclass(kind, Answer) else found


def read_answer(kind: type, found: Any) -> Any:
    """Return what was decoded from JSON as an answer; msgspec calls this."""
    if isinstance(found, kind):
        return found
    if not isinstance(found, dict):
        raise TypeError(f"expected `object`, got `{type(found).__name__}`")
    return kind(found)


class MemberInfo(Answer):
    """A member of a group."""

    member_id: str
    client_id: str
    topics: list[str]
    assigned_partitions: list[str]
    last_heartbeat: str
    joined_at: str
    session_timeout: float
    max_in_flight: int
    in_flight: int


class PartitionLag(Answer):
    """The lag of a group in a partition."""

    member_id: str | None
    committed: int
    end: int
    messages: int
    seconds: float
    """The age of the oldest message that is not settled."""
    in_flight: int
    waiting: int
    """Messages that wait for a retry."""
    pledged: int
    lost: int
    """Messages that retention removed before the group received them."""
    rate: float
    incoming: float
    drain_seconds: float | None
    waits_for: "WaitsFor | None"
    """Set for an added partition that waits for older messages of its keys."""


class WaitsFor(Answer):
    """The partition in which a group must commit the split offset before it gets messages of an added one."""

    partition: int
    split_offset: int | None
    """None: it is not recorded yet."""


class ScaledTopic(Answer):
    """The answer to adding partitions to a topic."""

    topic_name: str
    old_partition_count: int
    new_partition_count: int
    partitions_added: int
    dry_run: bool
    operation: int | None


class WaitingGroup(Answer):
    """A group that does not get messages of an added partition yet."""

    group_id: str
    waits_for: int
    """The partition in which it must reach the split offset."""
    split_offset: int | None
    committed: int | None
    remaining: int | None


class AddedPartition(Answer):
    """A partition that was added to a topic."""

    partition: int
    parent: int | None
    """Where its keys were before; None if they may have come from any partition."""
    split_offset: int | None
    """Older messages of its keys are below this offset of the parent."""
    groups_waiting: list[WaitingGroup]
    groups_reading: int


class ScalingStatus(Answer):
    """The added partitions of a topic. `state` is unscaled, recording, catching_up or complete."""

    topic_name: str
    partition_count: int
    state: str
    added: list[AddedPartition]


class OwnDelivery(Answer):
    """The delivery settings that a group sets itself; None leaves one to its topics and to the broker."""

    max_retries: int | str | None
    retry_delay: float | None
    max_retry_delay: float | None
    visibility_timeout: float | None
    dead_letter_topic: str | None


class GroupDelivery(Answer):
    """The leases, retries and dead letters of a group in one topic; delays are in seconds."""

    max_retries: int | str
    """A number, or "unlimited"."""
    retry_delay: float
    max_retry_delay: float
    visibility_timeout: float
    dead_letter_topic: str | None
    """Equal to "none" if messages are dropped; None in a dead-letter topic whose messages are retried without limit."""
    origins: dict[str, str]
    """Whose setting each is: "group", "topic" or "broker"."""


class GroupInfo(Answer):
    """A group with its members and its lag."""

    group_id: str
    state: str
    condition: str
    generation: int
    protocol: str
    assignment_strategy: str
    order: str
    isolation: str
    rebalance_state: str
    members: list[MemberInfo]
    lag: dict[str, dict[str, PartitionLag]]
    """By topic, and by partition as text."""
    total_lag: int
    lag_seconds: float
    drain_seconds: float | None
    settings: OwnDelivery
    delivery: dict[str, GroupDelivery]
    """By topic."""
    operation: int | None
    """The id of the change, in the answer of `alter_group`."""


class PartitionInfo(Answer):
    """Positions, size and fault of a partition."""

    partition: int
    earliest: int
    latest: int
    log_end: int
    durable_end: int
    high_watermark: int
    last_stable: int
    size_bytes: int
    segments: int
    fault: str | None
    """Why it accepts no messages, if it does not."""


class PartitionReset(Answer):
    """The committed offset of a partition before and after a reset."""

    partition: int
    before: int | None
    after: int


class OffsetsReset(Answer):
    """The result of a reset, or its plan."""

    topic: str
    dry_run: bool
    generation: int
    partitions: list[PartitionReset]
    created: bool
    """True if the group is new."""
    operation: int | None
    """What `client.undo` takes; None for a plan."""


class DeadLetter(Answer):
    """A dead letter: the message, and why it failed."""

    partition: int
    offset: int
    timestamp: str
    key: str | None
    value: str | None
    priority: int
    headers: dict[str, Any]
    encoding: str | None
    key_encoding: str | None
    """None for text, or "base64"."""
    origin_topic: str | None
    origin_partition: int | None
    origin_offset: int | None
    group: str | None
    error: str
    attempts: int | None
    first_time: str | None
    last_time: str | None


class DeadLetters(Answer):
    """Some dead letters of a topic; `next` is the `start` of the next call, until this is `complete`."""

    messages: list[DeadLetter]
    next: dict[str, int]
    complete: bool = True


class DeadLetterErrors(Answer):
    """The reasons of dead letters with their numbers, the most frequent first."""

    errors: dict[str, int]
    next: dict[str, int]
    complete: bool = True


class RedriveResult(Answer):
    """One dead letter of a redrive; `error` is its refusal."""

    partition: int
    offset: int
    key: str | None
    key_encoding: str | None
    reason: str
    target_topic: str
    target_partition: int
    error: dict[str, Any] | None


class Redrive(Answer):
    """The result of a redrive, or its plan; `next` is the `start` of the next call, until this is `complete`."""

    moved: int
    matched: int
    scanned: int
    remaining: int
    complete: bool = True
    dry_run: bool
    next: dict[str, int]
    results: list[RedriveResult]
    operation: int | None
    """The `operation` of the next call: all calls together are one."""


class DelayedMessage(Answer):
    """A delayed message. In lists it has neither `value` nor `headers`."""

    topic: str
    partition: int
    offset: int
    """The offset in the delayed log."""
    deliver_at: str
    state: str
    scheduled_at: str | None
    key: str | None
    key_encoding: str | None
    priority: int
    size: int
    value: str | None
    encoding: str | None
    headers: dict[str, Any]


class DelayedMessages(Answer):
    """Some delayed messages in the order of their due times, and the `total` pending."""

    messages: list[DelayedMessage]
    count: int
    total: int
    complete: bool = True


class DelayedChanges(Answer):
    """The counts of a change of many delayed messages."""

    matched: int
    scanned: int
    changed: int
    complete: bool = True
    operation: int | None
    """What `client.undo` takes to undo a reschedule; None if nothing was changed."""


class TransactionPartition(Answer):
    """A partition that a transaction has written to."""

    topic: str
    partition: int
    delayed: bool
    first_offset: int | None
    messages: int
    held_back: int


class EndedTransaction(Answer):
    """A transaction that has ended."""

    transaction_id: str
    state: str
    began_at: str
    ended_at: str
    reason: str
    note: str


class TransactionInfo(Answer):
    """The transaction of a transactional id."""

    transaction_id: str
    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    started_at: str | None
    partitions: list[TransactionPartition]
    groups: list[str]
    members: list[int]
    age_seconds: float
    idle_seconds: float
    timeout_seconds: float
    expires_in_seconds: float | None
    messages: int
    held_back: int
    pledged: dict[str, int] | None
    reason: str
    obstacle: str | None
    last: EndedTransaction | None


class Check(Answer):
    """One check of the broker's diagnosis."""

    name: str
    status: str
    message: str


class Finding(Answer):
    """Something that the broker has found, and what to do."""

    code: str
    severity: str
    subject: str
    sentence: str
    hint: str
    details: dict[str, Any]


class Diagnosis(Answer):
    """The broker's own diagnosis; its findings have the worst first."""

    status: str
    checked_at: str
    checks: list[Check]
    findings: list[Finding]
    groups: dict[str, int]
    """The number of groups by condition."""


class Rates(Answer):
    """The rates of all topics together, over the last seconds."""

    published_per_second: float
    published_bytes_per_second: float
    read_per_second: float
    read_bytes_per_second: float
    settled_per_second: float
    requests_per_second: float


class BrokerStats(Answer):
    """The numbers of a broker."""

    node_id: str
    uptime: float
    topics: int
    partitions: int
    groups: int
    total_size_bytes: int
    rates: Rates
    disk: dict[str, Any] | None
    connections: int
    memory_bytes: int
    loop_lag_ms: float
    topic_stats: dict[str, dict[str, int]]
