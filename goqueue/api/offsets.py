"""Committed offsets: by members, and set by operators."""

from functools import partial
from typing import Annotated

import msgspec

from goqueue.api.call import Call
from goqueue.api.groups import END, TopicName
from goqueue.api.members import Generation, MemberId
from goqueue.api.scalars import Time
from goqueue.broker.delivery.changes import Place
from goqueue.broker.groups.offsets import ResetWish, Target
from goqueue.errors import RequestInvalid
from goqueue.limits import OFFSET_MAX, PARTITIONS_MAX

_Offset = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
PartitionNumber = Annotated[
    str, msgspec.Meta(pattern=f"^(0|[1-9][0-9]{{0,8}}){END}", description="The number of a partition.")
]


class OffsetsQuery(msgspec.Struct, forbid_unknown_fields=True):
    topic: str | None = None


class CommittedOffsets(msgspec.Struct):
    offsets: dict[str, dict[str, int]]


class CommitRequest(msgspec.Struct, forbid_unknown_fields=True):
    member_id: MemberId
    offsets: Annotated[
        dict[TopicName, dict[PartitionNumber, _Offset]],
        msgspec.Meta(description="By topic and partition: everything below is done with."),
    ]
    generation: Generation | None = None


class CommitAnswer(msgspec.Struct):
    committed: bool
    offsets: Annotated[dict[str, dict[str, int]], msgspec.Meta(description="As they stand now.")]


class ResetRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    topic: str
    to: Target
    partitions: (
        Annotated[list[Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX - 1)]], msgspec.Meta(min_length=1)] | None
    ) = None
    offset: _Offset | None = None
    time: Time | None = None
    shift: Annotated[int, msgspec.Meta(ge=-OFFSET_MAX, le=OFFSET_MAX, description="Back with a minus.")] | None = None
    dry_run: bool = False


class PartitionReset(msgspec.Struct):
    partition: int
    before: int | None
    after: int


class ResetAnswer(msgspec.Struct):
    topic: str
    dry_run: bool
    generation: int
    partitions: list[PartitionReset]
    created: Annotated[bool, msgspec.Meta(description="Whether there was no such group before.")]


async def committed(call: Call) -> CommittedOffsets:
    found = call.runtime.broker.coordinator.offsets.committed(call.parameters["group"], call.query.topic)
    return CommittedOffsets(_shown(found))


def _shown(found: dict[str, dict[int, int]]) -> dict[str, dict[str, int]]:
    return {topic: {str(number): offset for number, offset in numbers.items()} for topic, numbers in found.items()}


async def commit(call: Call) -> CommitAnswer:
    body: CommitRequest = call.body
    offsets, name = call.runtime.broker.coordinator.offsets, call.parameters["group"]
    wanted: dict[Place, int] = {
        (topic, int(number)): offset for topic, numbers in body.offsets.items() for number, offset in numbers.items()
    }
    await call.runtime.ask(partial(offsets.commit, name, body.member_id, body.generation, wanted))
    now = offsets.committed(name)
    return CommitAnswer(True, _shown({topic: now.get(topic, {}) for topic in body.offsets}))


async def reset(call: Call) -> ResetAnswer:
    body: ResetRequest = call.body
    call.runtime.refuse_while_stopping()
    name, coordinator = call.parameters["group"], call.runtime.broker.coordinator
    chosen = None if body.partitions is None else tuple(dict.fromkeys(body.partitions))
    wish = ResetWish(body.topic, body.to, _value(body), chosen, body.dry_run)
    is_new = coordinator.ledger.group(name) is None
    resets = await call.runtime.perform(coordinator.offsets.reset(name, wish))
    group = coordinator.ledger.group(name)
    return ResetAnswer(
        body.topic,
        body.dry_run,
        0 if group is None else group.generation,
        [PartitionReset(one.partition, one.before, one.after) for one in resets],
        is_new and not body.dry_run,
    )


def _value(body: ResetRequest) -> int:
    """What `to` needs, and nothing else."""
    given = {name: value for name in ("offset", "time", "shift") if (value := getattr(body, name)) is not None}
    needed = body.to if body.to in ("offset", "time", "shift") else None
    wrong = [name for name in given if name != needed]
    if needed is not None and needed not in given:
        problem = {"place": needed, "problem": "is missing"}
        raise RequestInvalid(f"{needed} is missing, to is {needed}", problems=[problem])
    if wrong:
        problem = {"place": wrong[0], "problem": f"means nothing when to is {body.to}"}
        raise RequestInvalid(
            f"{wrong[0]} {problem['problem']}", hint=f"leave it out, or say to: {wrong[0]}", problems=[problem]
        )
    return int(given[needed]) if needed is not None else 0
