"""Random lives of messages: the trace of each tells exactly what was done with it."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.work import run_work
from goqueue.broker.groups.poll import LeasedBatch
from goqueue.broker.tracing.assembly import JourneyAssembler
from goqueue.broker.tracing.journey import Journey
from goqueue.broker.tracing.recorder import TraceRecorder
from goqueue.broker.tracing.records import decode_line, encode_lines
from goqueue.broker.tracing.ring import TraceRing
from goqueue.broker.tracing.sampling import Sampling
from goqueue.broker.tracing.selection import TraceStore
from tests.broker.groups.dead_letter_setup import redrive, settle, with_orders
from tests.broker.groupwork import Team, offsets_of

RETRIES = 3
PUBLISHED = ["publish.received", "publish.partitioned", "publish.persisted"]


@dataclass
class Life:
    """A message as the model knows it."""

    events: list[str] = field(default_factory=lambda: list(PUBLISHED))
    attempts: int = 0
    failures: int = 0
    state: str = "ready"
    """ready, leased, done, or dead."""

    @property
    def status(self) -> str:
        if self.state == "dead":
            return "error"
        return "completed" if self.state == "done" or (not self.attempts and self.events == PUBLISHED) else "pending"


class World:
    """A broker with one group, and what its messages have been through."""

    def __init__(self) -> None:
        running = with_orders(1)
        self.team = Team(running, "billing")
        now_ns = running.clock.now_ns
        self.ring = TraceRing(100_000, Sampling(lambda _: 1.0), now_ns)
        TraceRecorder(running.broker, self.ring, now_ns)
        topics = running.broker.topics
        self.assembler = JourneyAssembler(running.broker, TraceStore(self.ring, lambda name: topics[name].created_ns))
        self.member = self.team.join(session=1e6)
        self.lives: dict[int, Life] = {}
        self.at: dict[int, int] = {}
        """The number of the life of each offset of `orders`."""
        self.dead: list[int] = []
        """Lives in the order of the dead-letter queue."""
        self.held: list[LeasedBatch] = []

    def publish(self, count: int) -> None:
        for _ in range(count):
            number = len(self.lives)
            self.lives[number] = Life()
            self.at[len(self.at)] = number
            self.team.publish(str(number))

    def poll(self, count: int) -> None:
        for batch in self.team.poll(self.member, count):
            self.held.append(batch)
            for offset in offsets_of(batch):
                life = self.lives[self.at[offset]]
                life.attempts += 1
                life.state = "leased"
                life.events.append(f"consume.fetched {life.attempts}")
                assert batch.grant.deliveries == life.attempts

    def leased(self, batch: LeasedBatch) -> list[int]:
        return [offset for offset in offsets_of(batch) if self.lives[self.at[offset]].state == "leased"]

    def settle(self, action: str, which: int, part: int) -> None:
        if not self.held:
            return
        batch = self.held[which % len(self.held)]
        left = self.leased(batch)
        if not left:
            self.held.remove(batch)
            return
        chosen = left if action == "extend" else left[: 1 + part % len(left)]
        ranges = [(offset, offset + 1) for offset in chosen]
        self.team.settle(action, batch, *ranges, delay=0.0, reason="bad", timeout=30.0)  # type: ignore[arg-type]
        for offset in chosen:
            life = self.lives[self.at[offset]]
            name = {"extend": "visibility.extended", "nack": "consume.nacked"}.get(action, f"consume.{action}ed")
            name = {"consume.releaseed": "consume.released"}.get(name, name)
            life.events.append(f"{name} {life.attempts}")
            if action == "ack":
                life.state = "done"
            elif action == "reject":
                self.give_up(life, offset)
            elif action == "nack":
                self.fail(life, offset)
            elif action == "release":
                life.state = "ready"
        settle(self.team.running)

    def fail(self, life: Life, offset: int) -> None:
        life.failures += 1
        life.state = "ready"
        if life.failures > RETRIES:
            self.give_up(life, offset)

    def give_up(self, life: Life, offset: int) -> None:
        life.state = "dead"
        life.events += ["dlq.routed", "publish.persisted"]
        self.dead.append(self.at[offset])

    def time_out(self) -> None:
        """Let all leases expire, lease by lease in the order of their deadlines."""
        for batch in self.held:
            for offset in self.leased(batch):
                life = self.lives[self.at[offset]]
                life.events.append(f"visibility.timeout {life.attempts}")
                self.fail(life, offset)
        self.held.clear()
        self.team.due(40.0)
        settle(self.team.running)

    def redrive(self) -> None:
        waiting = [number for number in self.dead if self.lives[number].state == "dead"]
        if not waiting:
            return
        assert redrive(self.team.running).moved == len(waiting)
        for number in waiting:
            life = self.lives[number]
            self.at[len(self.at)] = number
            life.events += ["dlq.redriven", "publish.persisted"]
            life.attempts = life.failures = 0
            life.state = "ready"

    def journey(self, offset: int) -> Journey:
        ref = LogRef("orders", 0)
        found = run_work(self.assembler.of_message(ref, offset, lambda _: True))
        assert found is not None
        return found


def told(journey: Journey) -> list[str]:
    return [
        f"{one.event} {attempt}" if (attempt := _attempt(one.details, one.event)) else one.event
        for one in journey.events
    ]


def _attempt(details: dict[str, object], event: str) -> object:
    return details.get("attempt") if not event.startswith("dlq.") else None


_STEPS = st.tuples(
    st.sampled_from(
        [
            "publish",
            "poll",
            "poll",
            "poll",
            "ack",
            "nack",
            "nack",
            "nack",
            "reject",
            "release",
            "extend",
            "wait",
            "redrive",
        ]
    ),
    st.integers(0, 5),
    st.integers(0, 5),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(_STEPS, max_size=40))
def test_trace_tells_exactly_what_was_done_with_a_message(steps: list[tuple[str, int, int]]) -> None:
    world = World()
    world.publish(3)
    for name, which, part in steps:
        world.team.due(0.001)
        if name == "publish":
            world.publish(1 + which % 3)
        elif name == "poll":
            world.poll(1 + which)
        elif name == "wait":
            world.time_out()
        elif name == "redrive":
            world.redrive()
        else:
            world.settle(name, which, part)
    for offset, number in world.at.items():
        life, journey = world.lives[number], world.journey(offset)
        assert told(journey) == life.events
        redriven = life.state == "ready" and life.events[-1] == "publish.persisted" and not life.attempts
        assert journey.status == ("completed" if redriven else life.status)
        assert journey.trace_id == world.journey(min(at for at, one in world.at.items() if one == number)).trace_id
    for record in world.ring.newest():
        assert decode_line(encode_lines([record])) == record
