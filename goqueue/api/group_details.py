"""The list of groups, and with `details` a row for each.

Lags may need the disk. They are found out place by place, and everybody else is served in between.
"""

from typing import Annotated

import msgspec

from goqueue.api.call import Call
from goqueue.api.groups import RebalanceState, State, longest, rebalance_state_of, state_of
from goqueue.broker.delivery.changes import Place
from goqueue.broker.groups.lag import Lag
from goqueue.broker.name import is_internal
from goqueue.limits import GROUP_ROWS, GROUPS_MAX, TOPIC_NAME_CHARACTERS_MAX
from goqueue.runtime.slices import Slices


class GroupsQuery(msgspec.Struct, forbid_unknown_fields=True):
    details: Annotated[bool, msgspec.Meta(description="With a row of numbers for each.")] = False
    limit: (
        Annotated[
            int,
            msgspec.Meta(
                ge=1, le=GROUPS_MAX, description=f"The most in an answer; else all, and with details {GROUP_ROWS:,}."
            ),
        ]
        | None
    ) = None
    after: Annotated[
        str,
        msgspec.Meta(
            max_length=TOPIC_NAME_CHARACTERS_MAX, description="Only those behind this name: the last of a list before."
        ),
    ] = ""


class GroupRow(msgspec.Struct, kw_only=True):
    group_id: str
    state: State
    generation: int
    rebalance_state: RebalanceState
    members: Annotated[int, msgspec.Meta(description="How many.")]
    topics: list[str]
    total_lag: int
    lag_seconds: float
    rate: Annotated[float, msgspec.Meta(description="Messages done with in a second, over the last minute.")]
    incoming: Annotated[float, msgspec.Meta(description="Messages published in a second, over the last minute.")]
    drain_seconds: Annotated[
        float | None, msgspec.Meta(description="Until nothing is left, if all goes on so; null: never.")
    ]
    in_flight: int
    lost: Annotated[int, msgspec.Meta(description="Removed by retention before the group had them.")]


class GroupNames(msgspec.Struct, omit_defaults=True):
    groups: list[str]
    details: Annotated[list[GroupRow] | None, msgspec.Meta(description="Where they were asked for.")] = None


async def list_groups(call: Call) -> GroupNames:
    query = call.query
    names = sorted(group.group for group in call.runtime.broker.coordinator.ledger.groups())
    names = [name for name in names if name > query.after and not is_internal(name)]
    most = query.limit or (GROUP_ROWS if query.details else len(names))
    if not query.details:
        return GroupNames(names[:most])
    slices, incoming = Slices(), dict[Place, float]()
    rows = [await _row(call, name, slices, incoming) for name in names[:most]]
    return GroupNames(names[:most], [row for row in rows if row is not None])


async def _row(call: Call, name: str, slices: Slices, incoming: dict[Place, float]) -> GroupRow | None:
    lags = await _lags(call, name, slices, incoming)
    group = call.runtime.broker.coordinator.ledger.group(name)
    if group is None:  # it went since the names were taken
        return None
    return GroupRow(
        group_id=name,
        state=state_of(call, group),
        generation=group.generation,
        rebalance_state=rebalance_state_of(call, group),
        members=len(group.members),
        topics=sorted(group.topics() | {lag.place[0] for lag in lags}),
        total_lag=sum(lag.messages for lag in lags),
        lag_seconds=round(max((lag.seconds for lag in lags), default=0.0), 3),
        rate=round(sum(lag.rate for lag in lags), 3),
        incoming=round(sum(lag.incoming for lag in lags), 3),
        drain_seconds=longest([lag.drain_seconds for lag in lags]),
        in_flight=sum(lag.leased for lag in lags),
        lost=sum(lag.lost for lag in lags),
    )


async def _lags(call: Call, name: str, slices: Slices, incoming: dict[Place, float]) -> list[Lag]:
    """Of every place of a group, as `Lags.of`; everybody else is served in between."""
    coordinator = call.runtime.broker.coordinator
    group = coordinator.ledger.group(name)
    owners = group.owners() if group is not None else {}
    found: list[Lag] = []
    for place in sorted(coordinator.ledger.cursors(name)):
        await slices.rest()
        lag: Lag | None = await call.runtime.perform(coordinator.lags.at(name, place, owners.get(place), incoming))
        if lag is not None:
            found.append(lag)
    return found
