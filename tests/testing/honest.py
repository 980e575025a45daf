"""A broker that keeps its promises about transactions, and clients that write down what they see of it.

Three producers consume one input in a group, and transform it into two topics. Numbers choose what comes to whom, and
what becomes of an answer: nothing that has none is known to whoever asked.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from goqueue.testing.history import (
    Aborted,
    Acked,
    Acking,
    Begun,
    Committed,
    Committing,
    End,
    Event,
    Isolation,
    Joined,
    Nacked,
    Published,
    Publishing,
    Received,
    Seen,
    Settled,
    Stored,
)

Place = tuple[str, int]
Steps = list[tuple[str, int]]

OUTPUTS: tuple[Place, ...] = (("t", 0), ("t", 1), ("u", 0))
INPUT: Place = ("in", 0)
MEMBERS = ("a", "b", "c")


@dataclass(eq=False)
class Deal:
    """A transaction, as the broker knows it."""

    name: str
    state: str = "open"
    delayed: list[tuple[Place, str]] = field(default_factory=list)
    pledged: set[int] = field(default_factory=set)
    is_whole: bool = True
    """What its producer knows: everything in it was answered."""


@dataclass(eq=False)
class Member:
    """A producer, which is a member of the group while it owns the input."""

    name: str
    deal: Deal | None = None
    held: list[tuple[int, int]] = field(default_factory=list)
    """Offsets that it received, each with the attempt."""


@dataclass(eq=False)
class Way:
    """A plain reader."""

    name: str
    isolation: Isolation
    positions: dict[Place, int] = field(default_factory=lambda: dict.fromkeys((*OUTPUTS, INPUT), 0))


class Broker:
    """The steps are its methods that take a number."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._logs: dict[Place, list[tuple[str, Deal | None]]] = {place: [] for place in (*OUTPUTS, INPUT)}
        self._deals: list[Deal] = []
        self._late: list[Deal] = []
        """Those whose commit is on its way still."""
        self._due: list[tuple[Place, str]] = []
        self._members = [Member(name) for name in MEMBERS]
        self._owner = self._members[0]
        self._generation = 1
        self._leases: dict[int, tuple[Member, int]] = {}
        self._attempts: dict[int, int] = {}
        self._done: set[int] = set()
        self._polls: list[tuple[Member, list[Received]]] = []
        self._readers = [
            Way("committed", "read_committed"),
            Way("uncommitted", "read_uncommitted"),
            Way("another", "read_committed"),
        ]
        self._count = 0
        self._note(Joined("g", "a", 1, (INPUT,)))

    # --- what is written down ---

    def _note(self, event: Event) -> None:
        self.events.append(replace(event, at_ns=self._now()))

    def _now(self) -> int:
        return 10 * (len(self.events) + 1)

    def _value(self) -> str:
        self._count += 1
        return f"v{self._count}"

    # --- outside of transactions ---

    def feed(self, number: int) -> None:
        """Into the input, or now and then between the outputs."""
        place, value = INPUT if number % 4 else OUTPUTS[number % 3], self._value()
        self._note(Publishing("feeder", place[0], "k", value))
        if number % 7:
            self._append(place, value, None, is_answered=number % 7 > 1)

    def _append(self, place: Place, value: str, deal: Deal | None, *, is_answered: bool) -> None:
        self._logs[place].append((value, deal))
        if is_answered:
            self._note(Published(value, *place, len(self._logs[place]) - 1))

    def look(self, number: int) -> None:
        """A reader goes on, by a few messages or to the end."""
        reader, place = self._readers[number % 3], (*OUTPUTS, INPUT)[number % 4]
        log, first = self._logs[place], reader.positions[place]
        end = len(log) if reader.isolation == "read_uncommitted" else self._stable(place)
        end = min(end, first + number // 12 % 6) if number % 5 else end
        for offset in range(first, end):
            value, deal = log[offset]
            if reader.isolation == "read_uncommitted" or _is_committed(deal):
                self._note(Seen(reader.name, *place, offset, value, reader.isolation))
        reader.positions[place] = max(first, end)

    def _stable(self, place: Place) -> int:
        """Where the oldest open transaction begins, or the end."""
        log = self._logs[place]
        return next((offset for offset, (_, deal) in enumerate(log) if deal and deal.state == "open"), len(log))

    # --- the group ---

    def poll(self, number: int) -> None:
        log = self._logs[INPUT]
        taken = self._leases.keys() | self._done | {offset for deal in self._open() for offset in deal.pledged}
        free = [
            offset for offset in range(self._stable(INPUT)) if offset not in taken and _is_committed(log[offset][1])
        ]
        brought = []
        for offset in free[: number % 3 + 1]:
            attempt = self._attempts[offset] = self._attempts.get(offset, 0) + 1
            self._leases[offset] = self._owner, attempt
            place = (*INPUT, offset, attempt, log[offset][0], self._now() - 1)
            brought.append(Received("g", self._owner.name, self._generation, *place))
        if brought and not any(member is self._owner for member, _ in self._polls):
            self._polls.append((self._owner, brought))

    def take(self, number: int) -> None:
        """An answer to a poll arrives, maybe long after it was decided; or it is lost."""
        if self._polls:
            member, brought = self._polls.pop(number % len(self._polls))
            for event in brought if number % 7 else ():
                self._note(event)
                member.held.append((event.offset, event.attempt))

    def ack(self, number: int) -> None:
        """Without a transaction."""
        self._settle(self._members[number % 3], None, number)

    def pledge(self, number: int) -> None:
        """In one."""
        member = self._members[number % 3]
        if member.deal is not None:
            self._settle(member, member.deal, number)

    def _settle(self, member: Member, deal: Deal | None, number: int) -> None:
        if not member.held:
            return
        offset, attempt = member.held.pop(0)
        fields = "g", member.name, *INPUT, offset, offset + 1, deal.name if deal else ""
        self._note(Acking(*fields))
        is_lease = self._leases.get(offset) == (member, attempt)
        if is_lease and (deal is None or deal.state == "open") and number % 5:
            del self._leases[offset]
            (self._done if deal is None else deal.pledged).add(offset)
            if number % 5 > 1:
                self._note(Acked(*fields))
                return
        if deal is not None:
            deal.is_whole = False

    def nack(self, number: int) -> None:
        member = self._members[number % 3]
        if member.held:
            offset, attempt = member.held.pop()
            if self._leases.get(offset) == (member, attempt):
                del self._leases[offset]
                self._note(Nacked("g", member.name, *INPUT, offset, offset + 1))

    def lapse(self, number: int) -> None:
        """Leases are over, and whoever has one does not know."""
        self._leases = {offset: lease for offset, lease in self._leases.items() if (offset + number) % 3}

    def move(self, number: int) -> None:
        """The input gets another owner, and what it had in hand is handed out again."""
        self._owner, self._generation = self._members[number % 3], self._generation + 1
        self._leases.clear()
        self._polls = [(member, brought) for member, brought in self._polls if member is not self._owner]
        self._note(Joined("g", self._owner.name, self._generation, (INPUT,)))

    # --- transactions ---

    def begin(self, number: int) -> None:
        """With it a producer gives up what it has open; whether the broker is told of that depends."""
        member = self._members[number % 3]
        if member.deal is None or number % 4 == 0:
            if member.deal is not None and number % 8:
                self._undo(member.deal)
            member.deal = Deal(f"T{len(self._deals) + 1}")
            self._deals.append(member.deal)
            self._note(Begun(member.deal.name, member.name))

    def send(self, number: int) -> None:
        member = self._members[number % 3]
        if (deal := member.deal) is None:
            return
        place, value, is_delayed = OUTPUTS[number // 3 % 3], self._value(), number % 7 == 0
        for _ in range(1 + (number % 11 == 0)):  # which is sent again, and known again
            self._note(Publishing(member.name, place[0], "k", value, deal.name))
        if deal.state != "open" or number % 10 == 1:
            deal.is_whole = False
        elif is_delayed:
            deal.delayed.append((place, value))
        else:
            self._append(place, value, deal, is_answered=number % 10 > 1)
            deal.is_whole = deal.is_whole and number % 10 > 1

    def commit(self, number: int) -> None:
        """Whoever knows that something is missing does not ask for it."""
        member = self._members[number % 3]
        deal, member.deal = member.deal, None
        if deal is None:
            return
        if not deal.is_whole:
            self._give_up(deal, number // 3)
            return
        self._note(Committing(deal.name))
        fate = number // 3 % 6
        if fate == 0:
            self._late.append(deal)
        elif fate > 1:
            self._do(deal)
            if fate > 2:
                self._note(Committed(deal.name) if deal.state == "committed" else Aborted(deal.name))

    def abort(self, number: int) -> None:
        member = self._members[number % 3]
        deal, member.deal = member.deal, None
        if deal is not None:
            self._give_up(deal, number // 3)

    def _give_up(self, deal: Deal, number: int) -> None:
        if number % 3:
            self._undo(deal)
            if number % 3 > 1:
                self._note(Aborted(deal.name))

    def die(self, number: int) -> None:
        """A producer, which comes again and knows nothing."""
        member = self._members[number % 3]
        member.deal = None
        member.held.clear()

    def expire(self, number: int) -> None:
        """Nobody is told."""
        if left := self._open():
            self._undo(left[number % len(left)])

    def arrive(self, number: int) -> None:
        """A commit that was on its way, too late or not."""
        if self._late:
            self._do(self._late.pop(number % len(self._late)))

    def deliver(self, number: int) -> None:
        """Delayed messages are due, each on its own."""
        if self._due:
            place, value = self._due.pop(number % len(self._due))
            self._logs[place].append((value, None))

    def restart(self, number: int) -> None:
        """What was open is aborted; the answers to polls are lost."""
        for deal in self._open():
            self._undo(deal)
        self._polls.clear()
        self.move(number)

    def _open(self) -> list[Deal]:
        return [deal for deal in self._deals if deal.state == "open"]

    def _do(self, deal: Deal) -> None:
        if deal.state == "open":
            deal.state = "committed"
            self._done |= deal.pledged
            self._due += deal.delayed

    def _undo(self, deal: Deal) -> None:
        if deal.state == "open":
            deal.state = "aborted"
            deal.pledged.clear()

    # --- the end ---

    def finish(self) -> list[Event]:
        """Everything is over: what is open is aborted, what is late too late. Then the group is drained."""
        self.restart(0)
        while self._late:
            self.arrive(0)
        while self._due:
            self.deliver(0)
        log = self._logs[INPUT]
        while len(self._done) < len(log):
            self.poll(2)
            self.take(1)
            self.ack(3)
        for place, messages in self._logs.items():
            for offset, (value, deal) in enumerate(messages):
                if _is_committed(deal):
                    self._note(Stored(*place, offset, value))
            self._note(End(*place, len(messages)))
        self._note(Settled("g", *INPUT, len(log)))
        return self.events


def _is_committed(deal: Deal | None) -> bool:
    return deal is None or deal.state == "committed"


STEPS: tuple[Callable[[Broker, int], None], ...] = (
    *(Broker.feed, Broker.poll, Broker.take, Broker.begin, Broker.send, Broker.pledge, Broker.commit, Broker.look) * 2,
    *(Broker.ack, Broker.nack, Broker.lapse, Broker.move, Broker.abort, Broker.die, Broker.expire, Broker.arrive),
    *(Broker.deliver, Broker.restart),
)


def lived(steps: Steps) -> list[Event]:
    broker = Broker()
    for name, number in steps:
        getattr(broker, name)(number)
    return broker.finish()
