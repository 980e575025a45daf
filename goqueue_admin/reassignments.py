"""`goqueue-admin reassign`: replicas of partitions on other nodes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import Consent, WatchOptions
from goqueue.console.formatting import format_ago, format_names, format_size_rate
from goqueue.console.rows import Column, Row, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags
from goqueue.console.watch import show_rows
from goqueue.quantities import format_count, format_duration, format_size, parse_size
from goqueue_admin.plan_files import read_plan, write_plan, write_undo

if TYPE_CHECKING:
    from goqueue.client import Client, ClusterPartitionInfo, PlannedMove, ReassignmentInfo

_LOOK_SECONDS = 0.5
_Number = Annotated[int, typer.Argument(metavar="ID", min=1, help="Number of a reassignment.")]
_ThrottleFlag = Annotated[
    str | None,
    typer.Option("--throttle", metavar="SIZE", help="Bytes of a second that each node sends, such as 50MiB; 0: all."),
]
_WaitFlag = Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")]


def _left(seconds: float) -> str:
    return format_duration(round(seconds))


def _limit(rate: int) -> str:
    return format_size_rate(rate) if rate else "none"


_PLAN = (
    Column("PARTITION", "name"),
    Column("BEFORE", "before", format_names),
    Column("REPLICAS", "replicas", format_names),
    Column("COPIED", "bytes", format_size),
)
_COLUMNS = (
    Column("ID", "name"),
    Column("STATE", "state"),
    Column("DONE", "done", format_count),
    Column("MOVES", "moves", format_count),
    Column("LEFT", "bytes_left", format_size),
    Column("RATE", "rate", format_size_rate),
    Column("TIME-LEFT", "seconds_left", _left),
    Column("STARTED", "started_at", format_ago),
    Column("THROTTLE", "throttle", _limit, wide=True),
    Column("AT-ONCE", "at_once", format_count, wide=True),
    Column("VERIFIED", "verified", wide=True),
)
_MOVES = (
    Column("PARTITION", "name"),
    Column("STAGE", "stage"),
    Column("BEFORE", "before", format_names),
    Column("REPLICAS", "replicas", format_names),
    Column("ISR", "isr", format_names),
    Column("LEFT", "bytes_left", format_size),
    Column("RATE", "rate", format_size_rate),
    Column("WAITS-FOR", "waits_for"),
    Column("SIZE", "bytes", format_size, wide=True),
    Column("VERIFIED", "verified", wide=True),
)


def _plan_rows(moves: "Sequence[PlannedMove]") -> list[Row]:
    return [{"name": f"{one.topic}/{one.partition}", **struct_to_row(one)} for one in moves]


def _row(found: "ReassignmentInfo") -> Row:
    return {"name": str(found.id), **struct_to_row(found)}


def _move_rows(found: "ReassignmentInfo") -> list[Row]:
    return [{"name": f"{one.topic or '(deleted)'}/{one.partition}", **struct_to_row(one)} for one in found.partitions]


@session_flags
def plan(
    balance: Annotated[bool, typer.Option("--balance", help="Even out leaders, bytes and racks.")] = False,
    drain: Annotated[str | None, typer.Option("--drain", metavar="NODE", help="Empty this node.")] = None,
    add: Annotated[str | None, typer.Option("--add", metavar="NODE", help="Give this node its share.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic; repeated: these.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="PATH", help="Also write the plan, as YAML or as .json.")
    ] = None,
    *,
    session: Session,
) -> None:
    """Plan moves of replicas with the fewest copies. Nothing is moved.

    \b
      goqueue-admin reassign plan --add n4 --file plan.yaml
      goqueue-admin reassign plan --drain n1
      goqueue-admin reassign plan --balance --topic orders

    COPIED is what new replicas fetch. `reassign apply` carries a plan out, also one that was written by hand.
    """
    wanted = {"balance": balance, "drain": drain is not None, "add": add is not None}
    if sum(wanted.values()) != 1:
        raise UsageInvalid("a plan is one of --balance, --drain NODE and --add NODE")
    kind = next(one for one, is_wanted in wanted.items() if is_wanted)
    with doing("plan moves"), session.client() as client:
        moves = client.plan_reassignment(kind, node=drain or add, topics=topic)
    session.write(_plan_rows(moves), _PLAN)
    copied = format_size(sum(one.bytes for one in moves))
    session.note(f"{format_count(len(moves), 'move')}, {copied} to be copied" if moves else "there is nothing to move")
    if file is not None:
        write_plan(file, moves)
        session.note(f"the plan is in {file}: `goqueue-admin reassign apply {file}`")


@session_flags
def apply(
    file: Annotated[Path, typer.Argument(metavar="PLAN", help="File with a plan, YAML or JSON; - reads stdin.")],
    throttle: _ThrottleFlag = None,
    at_once: Annotated[
        int | None, typer.Option("--at-once", metavar="N", min=1, help="Partitions that move at a time. Default: 4.")
    ] = None,
    wait: _WaitFlag = False,
    undo_file: Annotated[
        Path | None, typer.Option("--undo-file", metavar="PATH", help="Default: PLAN.undo.yaml, unless from stdin.")
    ] = None,
    *,
    consent: Consent,
    session: Session,
) -> None:
    """Move replicas as a plan says, while the partitions are used.

    \b
      goqueue-admin reassign apply plan.yaml --dry-run
      goqueue-admin reassign apply plan.yaml --throttle 50MiB --yes
      goqueue-admin reassign apply plan.yaml --wait --yes

    A plan has a topic, a partition and its replicas for each move, the preferred leader first. Applying the undo file
    moves everything back. It is written when the moves have been accepted, next to an older one.
    """
    moves, rate = read_plan(file), _throttle(throttle) or 0
    with doing("move replicas"), session.client() as client:
        known = {(one.topic, one.partition): one for one in client.cluster_partitions()}
        before = [
            type(one)(topic=one.topic, partition=one.partition, replicas=[replica.node for replica in was.replicas])
            for one in moves
            if (was := known.get((one.topic, one.partition))) is not None
        ]
        for sentence in _too_few(moves, known):
            terminal.say(sentence)
        if consent.dry_run:
            former = {(one.topic, one.partition): one.replicas for one in before}
            rows = [{**row, "before": former.get((row["topic"], row["partition"]), [])} for row in _plan_rows(moves)]
            session.write(rows, _PLAN[:-1])
            return
        require_confirmation(session, f"move {format_count(len(moves), 'partition')}", name=str(file), consent=consent)
        path = undo_file or (None if str(file) == "-" else Path(f"{file}.undo.yaml"))
        found = client.start_reassignment(moves, throttle=rate, at_once=at_once)
        if path is not None:
            _keep_way_back(session, path, before, found)
        if wait:
            found = follow(client, found)
    session.write([_row(found)], _COLUMNS)


def _too_few(moves: "Sequence[PlannedMove]", known: "Mapping[tuple[str, int], ClusterPartitionInfo]") -> Iterator[str]:
    """Yield which partitions get fewer replicas than have to be in sync today."""
    for one in moves:
        was = known.get((one.topic, one.partition))
        if was is not None and len(one.replicas) < was.min_isr:
            yield (
                f"{one.topic}/{one.partition} gets {format_count(len(one.replicas), 'replica')}, fewer than its min_isr"
                f" {was.min_isr}: that becomes {len(one.replicas)}"
            )


def _keep_way_back(session: Session, path: Path, before: "Sequence[PlannedMove]", found: "ReassignmentInfo") -> None:
    try:
        path = write_undo(path, before)
    except OSError as error:
        terminal.say_error(
            f"reassignment {found.id} has begun, and its undo file cannot be written to {path}",
            cause=error.strerror or str(error),
            hint=f"`goqueue-admin reassign describe {found.id}` shows the replicas before",
        )
    else:
        session.note(f"`goqueue-admin reassign apply {path}` moves everything back")


def _throttle(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageInvalid(f"--throttle: {error}") from None


def follow(client: "Client", found: "ReassignmentInfo") -> "ReassignmentInfo":
    """Show the progress until it has ended."""
    try:
        while found.ended_at is None:
            rest = "" if found.seconds_left is None else f", {_left(found.seconds_left)}"
            terminal.show_status(
                f"{found.state}: {found.done} of {found.moves} moved, {format_size(found.bytes_left)} left{rest}"
            )
            time.sleep(_LOOK_SECONDS)
            found = client.reassignment(found.id)
    finally:
        terminal.show_status("")
    return found


@session_flags
def list_reassignments(*, options: WatchOptions, session: Session) -> None:
    """List the reassignments under way and the latest that have ended.

    \b
      goqueue-admin reassign list
      goqueue-admin reassign list --watch

    LEFT is what is still to be copied, as far as the leaders could be asked; TIME-LEFT counts on the RATE of late.
    """
    show_rows(
        session,
        "list reassignments",
        lambda client: [_row(one) for one in client.reassignments()],
        _COLUMNS,
        options,
        volatile=("bytes_left", "rate", "seconds_left"),
    )


@session_flags
def describe(number: _Number, *, options: WatchOptions, session: Session) -> None:
    """Show the progress of each partition of a reassignment.

    \b
      goqueue-admin reassign describe 3
      goqueue-admin reassign describe 3 --watch

    Stages: waiting, moving, done; kept if it was cancelled before, gone if it was deleted or moved elsewhere later.
    """
    show_rows(
        session,
        f"describe reassignment {number}",
        lambda client: _move_rows(client.reassignment(number)),
        _MOVES,
        options,
        volatile=("bytes_left", "rate"),
    )


@session_flags
def pause(number: _Number, *, session: Session) -> None:
    """Pause a reassignment: nothing is copied for it, and no further move begins.

    \b
      goqueue-admin reassign pause 3
    """
    _change(session, number, "pause", paused=True)


@session_flags
def resume(number: _Number, throttle: _ThrottleFlag = None, *, session: Session) -> None:
    """Resume a paused reassignment, or change the throttle of one that runs.

    \b
      goqueue-admin reassign resume 3
      goqueue-admin reassign resume 3 --throttle 100MiB
    """
    _change(session, number, "resume", paused=False, throttle=_throttle(throttle))


def _change(session: Session, number: int, verb: str, **changes: Any) -> None:
    with doing(f"{verb} reassignment {number}"), session.client() as client:
        found = client.change_reassignment(number, **changes)
    session.write([_row(found)], _COLUMNS)


@session_flags
def cancel(number: _Number, *, consent: Consent, session: Session) -> None:
    """Cancel a reassignment: what is on its way goes back, what has moved stays.

    \b
      goqueue-admin reassign cancel 3 --yes

    It is refused while too few of the former replicas are in sync.
    """
    if consent.dry_run:
        with doing(f"look at reassignment {number}"), session.client() as client:
            moving = [row for row in _move_rows(client.reassignment(number)) if row["stage"] in ("waiting", "moving")]
        session.write(moving, _MOVES)
        return
    require_confirmation(session, f"cancel reassignment {number}", name=str(number), consent=consent)
    with doing(f"cancel reassignment {number}"), session.client() as client:
        found = client.cancel_reassignment(number)
    session.write([_row(found)], _COLUMNS)


@session_flags
def verify(number: _Number, *, session: Session) -> None:
    """Verify that all partitions have the replicas of a reassignment, and that these are in sync.

    \b
      goqueue-admin reassign verify 3

    The exit code is 1 if any has not.
    """
    with doing(f"verify reassignment {number}"), session.client() as client:
        found = client.reassignment(number)
    wrong = [row for row in _move_rows(found) if not row["verified"]]
    session.write(wrong, _MOVES)
    if wrong:
        terminal.say_error(
            f"reassignment {number}: {format_count(len(wrong), 'partition')} of {len(found.partitions)} not as planned",
            cause=f"it is {found.state}",
        )
        raise typer.Exit(exit_codes.FAILED)
    session.note(f"all {format_count(len(found.partitions), 'partition')} are as planned, with all replicas in sync")
