"""Where everything about groups is recorded: some logs that all groups are spread over by their names.

The records of a log tell changes, so keeping the latest of each key would not do. Instead what still holds is told
again, whole, when a log has grown; then its beginning is not needed any more and goes.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec.structs import replace

from goqueue.broker.delivery.changes import Opened, Place, Stands
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.delivery.lease import Lease
from goqueue.broker.delivery.parts import in_parts
from goqueue.broker.groups.group import Group, GroupDeleted
from goqueue.broker.groups.state import Groups, Record, Unit, decode_record, encode_record
from goqueue.broker.journal import Journal
from goqueue.broker.view import Isolation
from goqueue.broker.work import Promise, Work
from goqueue.errors import GoQueueError
from goqueue.limits import GROUP_LOG_BYTES
from goqueue.partitioner import hash_named, partition_of
from goqueue.storage.chunk import Acknowledge
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log
from goqueue.storage.retention import plan_expiry

_hash = hash_named("murmur3")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_OF_LANES = "ghijk"  # no digits of what is drawn: so it can be seen in an id whether it tells a lane
_TOLD_AT_ONCE = 200  # of what stands, in one turn; more would keep the loop for longer than some milliseconds
_RANGES_AT_ONCE = 10_000  # of those told in one turn, for the same reason; one that has more is a turn of its own
_GROWTH = 3  # times what stands: a log is told again when it is that long, so each record is told again once or twice


class Shelf:
    """One of the logs, and the groups in it."""

    def __init__(self, log: Log, disk: Disk, bytes_max: int) -> None:
        self.state = Groups()
        self.log = log
        self._disk = disk
        self._bytes_max = bytes_max
        self._told: dict[Unit, int] = {}
        """Where in the log each was told wholly, or where that began."""
        self._begun: dict[Unit, int] = {}
        """Where the first part is of what is told in parts, of which the last has not come yet."""
        self._told_bytes = 0
        self.hit: list[str] = []
        """Groups of which the start has lost something."""
        self.journal: Journal[Record] = Journal(
            log, disk, self.state, encode_record, decode_record, snapshots=False, on_durable=self._note
        )

    def open(self) -> None:
        """Make the state from the log; where that cannot be read, its groups are refused with the reason."""
        self.journal.open()
        if self.journal.losses:
            self._mend()

    def _mend(self) -> None:
        """Tell all of what may have changed in lost records, so that the records that follow have something to change.

        Members have to join again, with a generation that no lost record can have given out. What is opened from now
        on begins with the earliest message: it may be that a lost record had opened it.
        """
        durable = self.journal.durable
        assert isinstance(durable, Groups)
        self.hit = durable.hit
        records: list[Record] = []
        for group in self.state.groups.values():
            if group.group in durable.doubtful:
                records.append(group.without_members(durable.lost, self.log.last_time))
            elif group.start != "earliest":
                records.append(replace(group, start="earliest"))
        for unit in sorted(durable.doubtful, key=str):
            if (cursor := self._cursor(unit)) is not None:
                records += in_parts(cursor.stands())
        self.journal.add(records, self.journal.fence_where_refused)
        self.journal.commit()

    def _note(self, record: Record, offset: int) -> None:
        if isinstance(record, Group):
            self._told[record.group] = offset
        elif isinstance(record, Opened):
            self._told[record.group, record.place] = offset
        elif isinstance(record, Stands):
            self._note_part(record, offset)
        elif isinstance(record, GroupDeleted):
            self._told.pop(record.group, None)

    def _note_part(self, record: Stands, offset: int) -> None:
        unit = (record.group, record.place)
        begun = offset if record.part == 0 else self._begun.pop(unit, None)
        if begun is not None:
            noted = self._begun if record.more else self._told
            noted[unit] = begun

    # --- telling again ---

    def tell_again(self) -> Work[None]:
        """When the log has become long: tell what still holds, and remove what was said before."""
        log = self.log
        if log.fence is not None or log.is_closed or log.size < max(self._bytes_max, _GROWTH * self._told_bytes):
            return
        if len(log.sealed()) == 0:
            log.roll()
        base, size = log.active.base_offset, log.size
        units = deque(unit for unit in self._units() if self._told.get(unit, -1) < base)
        while units:
            records = self._turn(units)
            if records:
                durable: Promise[None] = Promise()
                self.journal.add(records, durable)
                self.journal.commit()
                yield durable
        self._told_bytes = log.size - size
        yield from self._drop_before(base)

    def _units(self) -> Iterator[Unit]:
        yield from self.state.groups
        for group, cursors in self.state.cursors.items():
            for place in cursors:
                yield group, place

    def _turn(self, units: deque[Unit]) -> list[Record]:
        """The next of them as they stand, as many as the loop may be kept for; what is told in parts is not torn."""
        records: list[Record] = []
        ranges = 0
        while units and len(records) < _TOLD_AT_ONCE:
            cursor = self._cursor(units[0])
            ranges += cursor.run_count if cursor is not None else 0
            if records and ranges > _RANGES_AT_ONCE:
                break
            unit = units.popleft()
            if cursor is not None:
                records += in_parts(cursor.stands())
            elif isinstance(unit, str) and (group := self.state.groups.get(unit)) is not None:
                records.append(group)
        return records

    def _cursor(self, unit: Unit) -> Cursor | None:
        return None if isinstance(unit, str) else self.state.cursors.get(unit[0], {}).get(unit[1])

    def _drop_before(self, offset: int) -> Work[None]:
        log = self.log
        if log.job is not None or log.is_closed or log.fence is not None:
            return
        unneeded = [
            one
            for one, following in zip(log.sealed(), log.segments[1:], strict=False)
            if following.base_offset <= offset
        ]
        self._forget_units_gone()
        if unneeded:
            job = plan_expiry(log, self._disk, bytes_kept=log.size - sum(one.size for one in unneeded))
            try:
                yield job.run
            finally:
                job.apply()

    def _forget_units_gone(self) -> None:
        standing = set(self._units())
        self._told = {unit: offset for unit, offset in self._told.items() if unit in standing}
        self._begun = {unit: offset for unit, offset in self._begun.items() if unit in standing}


class Ledger:
    """All groups."""

    def __init__(
        self, logs: Sequence[Log], disk: Disk, chance: Callable[[int], int], bytes_max: int = GROUP_LOG_BYTES
    ) -> None:
        """`chance` gives a number of so many bits that nobody can guess. A log of `bytes_max` is told again."""
        self.shelves = [Shelf(log, disk, bytes_max) for log in logs]
        self._chance = chance
        self.on_gathered: Callable[[], object] = lambda: None
        """Called when something waits for `commit`."""
        self.on_refused: Callable[[str], None] = lambda _: None
        """Called when something of a group was taken back, before whoever recorded it hears of that."""
        self._to_commit: list[Journal[Record]] = []

    def open(self) -> None:
        for shelf in self.shelves:
            shelf.open()

    def close(self) -> None:
        """Write the snapshots that make the next start quick."""
        for shelf in self.shelves:
            shelf.journal.snapshot()

    # --- look up ---

    def shelf(self, group: str) -> Shelf:
        return self.shelves[self.number(group)]

    def number(self, group: str) -> int:
        return partition_of(group.encode(), len(self.shelves), _hash)

    def group(self, name: str) -> Group | None:
        return self.shelf(name).state.groups.get(name)

    def durable_group(self, name: str) -> Group | None:
        """As the disk has it: what was decided since may yet be taken back, so nobody is told of it."""
        durable = self.shelf(name).journal.durable
        assert isinstance(durable, Groups)
        return durable.groups.get(name)

    def durable_cursors(self, name: str) -> dict[Place, Cursor]:
        """As the disk has them."""
        durable = self.shelf(name).journal.durable
        assert isinstance(durable, Groups)
        return durable.cursors.get(name, {})

    def ordered(self, name: str) -> bool:
        """Whether messages of one key wait for each other there."""
        group = self.group(name)
        return group is not None and group.order == "key"

    def isolation(self, name: str) -> Isolation:
        """What it is handed of transactions."""
        group = self.group(name)
        return group.isolation if group is not None else "read_committed"

    def groups(self) -> Iterator[Group]:
        for shelf in self.shelves:
            yield from list(shelf.state.groups.values())

    def refuse_unless_readable(self, name: str) -> None:
        """Refuse where it is not known whether there is such a group, since its log could not be read."""
        log = self.shelf(name).log
        if log.fence is not None and not self.shelf(name).state.groups:
            raise log.fence

    @property
    def group_count(self) -> int:
        return sum(len(shelf.state.groups) for shelf in self.shelves)

    def cursor(self, group: str, place: Place) -> Cursor | None:
        return self.shelf(group).state.cursors.get(group, {}).get(place)

    def cursors(self, group: str) -> dict[Place, Cursor]:
        return self.shelf(group).state.cursors.get(group, {})

    def lease(self, lease_id: str) -> tuple[Cursor, Lease] | None:
        """A lease by its id, whose first character says in which log to look."""
        try:
            number = int(lease_id[:1], 36)
        except ValueError:
            return None
        if number >= len(self.shelves) or (cursor := self.shelves[number].state.by_lease.get(lease_id)) is None:
            return None
        return cursor, cursor.leases[lease_id]

    def new_lease_id(self, group: str, lane: int | None = None) -> str:
        """With the lane of one that has messages of other lanes between its own, for when it is gone."""
        if lane is None:
            return f"{_DIGITS[self.number(group)]}{self._chance(128):032x}"
        return f"{_DIGITS[self.number(group)]}{_OF_LANES[lane]}{self._chance(124):031x}"

    def lane_of(self, lease_id: str) -> int | None:
        """Where the id of a lease tells it."""
        found = _OF_LANES.find(lease_id[1:2]) if lease_id else -1
        return found if found >= 0 else None

    # --- record ---

    def record(self, group: str, records: Sequence[Record], done: Acknowledge = lambda _: None) -> None:
        """They hold from now on; `done` hears when they are durable, or that they were taken back."""
        shelf = self.shelf(group)
        shelf.log.refuse_unless_open()

        def settled(error: GoQueueError | None) -> None:
            if error is not None:
                self.on_refused(group)
            done(error)

        if shelf.journal.add(records, settled):
            self._to_commit.append(shelf.journal)
            self.on_gathered()

    def when_durable(self, groups: Collection[str], done: Acknowledge) -> None:
        """Hear when all that was recorded of these groups is durable, or that something was taken back."""
        left = len(groups)
        failure: GoQueueError | None = None

        def durable(error: GoQueueError | None) -> None:
            nonlocal left, failure
            left, failure = left - 1, failure or error
            if not left:
                done(failure)

        if not groups:
            done(None)
        for group in groups:
            self.record(group, [], durable)

    def commit(self) -> None:
        journals, self._to_commit = self._to_commit, []
        for journal in journals:
            journal.commit()

    def tell_again(self) -> Work[None]:
        """One that cannot be told again keeps no other from it; the first failure is raised in the end."""
        failure: GoQueueError | None = None
        for shelf in self.shelves:
            try:
                yield from shelf.tell_again()
            except GoQueueError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def __repr__(self) -> str:
        return f"<Ledger {self.group_count} groups>"
