"""What may happen to groups next, beside everything that may happen to topics anyway."""

import errno
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from goqueue.broker.delivery.claims import Statement, Verb
from goqueue.broker.delivery.rules import DEAD_LETTER_SUFFIX
from goqueue.broker.delivery.taking import PollWish
from goqueue.broker.groups.offsets import Reset, ResetWish, Target
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError, GroupNotEmpty, GroupNotFound
from tests.simulation.groups.checks import check_groups
from tests.simulation.groups.hands import Asked, Hand
from tests.simulation.groups.members import Client
from tests.simulation.groups.model import Key
from tests.simulation.groups.world import TOPICS, Doing, GroupWorld
from tests.simulation.steps import Steps

STYLES: dict[str, dict[str, Any]] = {
    "plain": {"protocol": "cooperative"},
    "confirming": {"protocol": "cooperative", "confirms": True},
    "eager": {"protocol": "eager"},
    "keyed": {"protocol": "cooperative", "order": "key"},
}
CLIENTS = 4
VERBS: tuple[Verb, ...] = (*("ack",) * 4, *("nack",) * 4, "reject", "reject", "release", "extend")
TARGETS: tuple[Target, ...] = ("earliest", "latest", "offset", "time", "shift")
SECONDS = (*(0.03, 0.2, 1, 2, 5, 12) * 4, 31, 70, 3600, 20_000)
GROUP_LOGS = "*__consumer_offsets*"


class GroupSteps(Steps):
    """Draws what happens, to topics and to groups."""

    world: GroupWorld

    def __init__(self, world: GroupWorld) -> None:
        super().__init__(world)
        self.world = world
        names = self.random.sample(sorted(STYLES), 2)
        self.clients = [self._client(group, number) for group in names for number in range(CLIENTS)]
        world.on_death += [client.died for client in self.clients]
        for gone in (self.new_stream, self.send, self.retry, self.misbehave, self.take_over, self.read, self.read_time):
            del self._actions[gone]
        self._actions |= {
            self.create_topic: 6,
            self.offer: 20,
            self.commit: 10,
            self.flush: 40,
            self.begin_upkeep: 8,
            self.go_on_with_upkeep: 12,
            self.join: 14,
            self.heartbeat: 12,
            self.poll: 40,
            self.go_on: 60,
            self.settle: 40,
            self.settle_receipts: 6,
            self.commit_offsets: 3,
            self.pledge: 20,
            self.pledge_receipts: 3,
            self.pledge_offsets: 4,
            self.end_transaction: 6,
            self.redeem: 8,
            self.revoke: 6,
            self.leave: 2,
            self.vanish: 2,
            self.hang_up: 2,
            self.reset: 1,
            self.delete_group: 1,
            self.call_due: 14,
            self.carry: 12,
            self.tell_again: 3,
            self.pass_time: 16,
            self.refuse_groups: 2,
        }

    def _client(self, group: str, number: int) -> Client:
        in_flight_max = self.random.choice((1, 5, 20, 1000))
        return Client(self.world, group, STYLES[group], f"c{number}", in_flight_max)

    def begin(self) -> None:
        """So that there is something to do."""
        for action in (self.create_topic, self.offer, self.commit, self.flush, self.join, self.pass_time) * 2:
            action()

    def take(self) -> None:
        self.world.clock.advance(self.random.choice((0.000_1, 0.002, 0.02)))
        self.world.groups.tick += 1
        super().take()
        self.world.see()

    # --- members ---

    def _member(self) -> Client | None:
        members = [client for client in self.clients if client.member is not None]
        return self.random.choice(members) if members else None

    def _topics(self) -> list[str]:
        here = sorted(topic.name for topic in self.world.model.here() if topic.name in self.world.broker.topics)
        if self.random.random() < 0.1:
            here += [name for name in self.world.broker.topics if name.endswith(DEAD_LETTER_SUFFIX)]
        return here

    def join(self) -> None:
        outside = [client for client in self.clients if client.member is None]
        client = self.random.choice(outside if outside and self.random.random() < 0.8 else self.clients)
        topics = self._topics()
        if client.is_joining or not topics:
            return
        chosen = topics if self.random.random() < 0.7 else self.random.sample(topics, 1)
        group = self.world.coordinator.ledger.group(client.group)
        client.wish = dict(STYLES[client.group])
        if group is None or not group.members:
            client.wish["strategy"] = self.random.choice((None, "range", "round_robin", "sticky"))
            client.wish["start"] = self.random.choice((None, None, None, "latest"))
        client.join(chosen, self.random.choice((5, 30, 600, 7200)))

    def heartbeat(self) -> None:
        for client in self.clients:
            if client.member is not None and self.random.random() < 0.8:
                client.heartbeat()

    def revoke(self) -> None:
        for client in self.clients:
            client.revoke()

    def leave(self) -> None:
        if (client := self._member()) is not None:
            client.leave()

    def vanish(self) -> None:
        if (client := self._member()) is not None:
            client.vanish()

    # --- polls ---

    def poll(self) -> None:
        client, draw = self._member(), self.random.choice
        if client is not None and (not client.polls or self.random.random() < 0.1):
            visibility_ns = round(draw((0.1, 5, 30, 100, 3600)) * NANOSECONDS)
            wish = PollWish(draw((1, 3, 10, 100)), draw((1, 3000, 1 << 20)), visibility_ns)
            client.poll(wish, stale=self.random.random() < 0.1)

    def go_on(self) -> None:
        """With one of those that are under way, some jobs or all that can be done now."""
        ready = [doing for doing in self.world.works if doing.is_ready]
        if ready:
            doing = self.random.choice(ready)
            for _ in range(self.random.choice((1, 1, 2, 100))):
                if doing.is_ready:
                    doing.step()

    def hang_up(self) -> None:
        if (client := self._member()) is not None:
            for poll in list(client.polls):
                poll.close()
            client.polls.clear()

    # --- what they say of messages ---

    def _hand(self) -> tuple[Client, Hand] | None:
        found = [(client, hand) for client in self.clients for hand in client.hands]
        return self.random.choice(found) if found else None

    def settle(self) -> None:
        if (chosen := self._hand()) is None:
            return
        client, draw = chosen[0], self.random.choice
        hands = self.random.sample(client.hands, min(len(client.hands), draw((1, 2, 5))))
        client.settle([self._asked(hand, draw(VERBS), self._ranges(hand)) for hand in hands])
        client.hands = [hand for hand in client.hands if hand.left or self.random.random() < 0.8]

    def _ranges(self, hand: Hand) -> tuple[tuple[int, int], ...]:
        """Of a lease: all of it, what is left message by message, or just one."""
        first, end = hand.whole
        kind = self.random.choice(("whole", "whole", "left", "piece", "one"))
        if kind == "left" and hand.left:
            return tuple((offset, offset + 1) for offset in sorted(hand.left))
        if kind == "piece":
            start = self.random.randrange(first, end)
            return ((start, self.random.randint(start + 1, end)),)
        if kind == "one":
            offset = self.random.choice(sorted(hand.left) or [first])
            return ((offset, offset + 1),)
        return (hand.whole,)

    def _asked(self, hand: Hand, verb: Verb, ranges: tuple[tuple[int, int], ...]) -> Asked:
        delay_ns = self.random.choice((None, 0, 0, NANOSECONDS, 40 * NANOSECONDS))
        timeout_ns = self.random.choice((NANOSECONDS, 60 * NANOSECONDS))
        statement = Statement(
            verb, *hand.key.place, hand.grant.id, ranges, delay_ns, None, timeout_ns if verb == "extend" else 0
        )
        return Asked(statement, hand)

    def settle_receipts(self) -> None:
        asked = self._single(("ack", "ack", "nack", "reject"))
        if asked is not None:
            asked[0].settle_receipts(asked[1])

    def _single(self, verbs: Sequence[Verb]) -> tuple[Client, list[Asked]] | None:
        """Of a lease one or two messages, each by itself."""
        if (chosen := self._hand()) is None or not chosen[1].left:
            return None
        client, hand = chosen
        offsets = self.random.sample(sorted(hand.left), min(len(hand.left), 2))
        statement = self._asked(hand, self.random.choice(verbs), ()).statement
        delay_ns = statement.delay_ns
        asked = [
            Asked(
                Statement(statement.verb, *hand.key.place, hand.grant.id, ((offset, offset + 1),), delay_ns),
                hand,
            )
            for offset in offsets
        ]
        return client, asked

    def commit_offsets(self) -> None:
        """Of what it has, and of what it is to give up; once in a while of something that is not there any more."""
        client = self._member()
        if client is None:
            return
        places, offsets = [*client.places, *client.to_give_up], {}
        for key in self.world.groups.of(client.group):
            if key.place in places and (end := self._end(key)) is not None:
                cursor = self.world.coordinator.ledger.cursor(client.group, key.place)
                offsets[key] = self.random.randint(min(cursor.floor if cursor is not None else 0, end), end)
        client.commit(offsets)

    def _end(self, key: Key) -> int | None:
        """Up to where a place can be committed; None where another topic has its name now."""
        topic = self.world.broker.topics.get(key.topic)
        if topic is None:
            return 1
        return topic.partitions[key.partition].high_watermark if topic.created_ns == key.created_ns else None

    # --- what they say in transactions ---

    def pledge(self) -> None:
        if (chosen := self._hand()) is None:
            return
        client = chosen[0]
        hands = self.random.sample(client.hands, min(len(client.hands), self.random.choice((1, 2, 5))))
        self.world.transactions.acks(client, [self._asked(hand, "ack", self._ranges(hand)) for hand in hands])
        client.hands = [hand for hand in client.hands if hand.left or self.random.random() < 0.8]

    def pledge_receipts(self) -> None:
        asked = self._single(("ack",))
        if asked is not None:
            self.world.transactions.receipts(*asked)

    def pledge_offsets(self) -> None:
        """As a member, or as somebody who knows the group by its name alone."""
        client, draw = self.random.choice(self.clients), self.random.random
        is_member = client.member is not None and draw() < 0.7
        places = [*client.places, *client.to_give_up] if is_member else []
        if not is_member:
            places = [(one.topic, one.number) for _, one in self.world.broker.partitions() if one.topic in TOPICS]
        offsets = {}
        for place in self.random.sample(places, min(len(places), 2)):
            topic = self.world.broker.topics.get(place[0])
            cursor = self.world.coordinator.ledger.cursor(client.group, place)
            is_there = topic is not None and place[1] < len(topic.partitions)
            end = topic.partitions[place[1]].high_watermark if topic is not None and is_there else 1
            offsets[place] = self.random.randint(min(cursor.floor if cursor is not None else 0, end), end)
        if offsets:
            self.world.transactions.offsets(client, offsets, is_member=is_member)

    def end_transaction(self) -> None:
        transactions = self.world.transactions
        if transactions.open:
            is_commit, failed = self.random.random() < 0.5, self.random.random() < 0.5
            transactions.end(self.random.choice(transactions.open), is_commit=is_commit, failed=failed)

    def redeem(self) -> None:
        self.world.transactions.redeem()

    # --- what operators do ---

    def reset(self) -> None:
        here, world = [topic for topic in self.world.model.here() if not topic.may_go], self.world
        group = self.random.choice(self.clients).group
        if not here or self.random.random() < 0.5:
            return
        name, to = self.random.choice(here).name, self.random.choice(TARGETS)
        created_ns = world.broker.topics[name].created_ns
        value = {
            "offset": self.random.randrange(20),
            "time": world.clock.now_ns(),
            "shift": self.random.choice((-3, 2)),
        }
        world.groups.begin_late.add(group)
        world.groups.resetting[group, name] += 1
        for key, progress in world.groups.of(group).items():
            if (key.topic, key.created_ns) == (name, created_ns):
                progress.set_back()
                progress.unsure += 1

        def done(resets: list[Reset]) -> None:
            world.tell("  ", group, name, "was reset", resets)
            world.groups.resetting[group, name] -= 1
            for key, progress in world.groups.of(group).items():
                if (key.topic, key.created_ns) == (name, created_ns):
                    progress.unsure = max(0, progress.unsure - 1)
                    progress.set_back()
                    progress.begin = max(progress.begin, *(reset.after for reset in resets))

        def refused(error: GoQueueError) -> None:
            world.tell("  ", "the reset was refused:", error)

        wish = ResetWish(name, to, value.get(to, 0))
        Doing(world, "reset", world.coordinator.offsets.reset(group, wish), done, refused).step()

    def delete_group(self) -> None:
        group, world = self.random.choice(self.clients).group, self.world
        life = world.lives

        def told(error: GoQueueError | None) -> None:
            assert world.lives == life, "who asked one process is not told by another"
            if error is None:
                world.groups.is_unsure.discard(group)
                world.groups.forget(group)
            else:
                world.refused(f"the deletion of {group}", error)

        try:
            world.coordinator.membership.delete(group, told)
        except (GroupNotFound, GroupNotEmpty):
            return
        world.groups.is_unsure.add(group)
        world.groups.forget(group)

    # --- what the broker does by itself ---

    def call_due(self) -> None:
        self.world.coordinator.deadlines.call_due(self.world.coordinator.clock.now_ns())

    def flush(self) -> None:
        """The shell commits soon; so most of the time it has."""
        if self.random.random() < 0.8:
            self.world.commit()
        super().flush()

    def _begin(self, name: str, work: Callable[[], Any]) -> None:
        """One of a name at a time."""
        if all(doing.name != name for doing in self.world.works):
            refused = partial(self.world.refused, name)
            Doing(self.world, name, work(), lambda _: None, refused).step()

    def carry(self) -> None:
        if not self.world.coordinator.undertaker.is_idle:
            self._begin("carry", self.world.coordinator.undertaker.carry)

    def tell_again(self) -> None:
        self._begin("tell again", self.world.coordinator.ledger.tell_again)

    def begin_upkeep(self) -> None:
        """Dead letters are left alone: how many there are is counted."""
        places = [place for place in self.world.broker.partitions() if place[0].name in TOPICS]
        if places:
            self.world.begin_upkeep(*self.random.choice(places))

    def pass_time(self) -> None:
        self.world.clock.advance(self.random.choice(SECONDS))
        if self.random.random() < 0.8:
            self.call_due()

    def jump(self) -> None:
        self.world.clock.jump(self.random.choice((-3600, 3600)))

    def check(self) -> None:
        super().check()
        self.world.attempt("a look at all groups", lambda: check_groups(self.world))

    def refuse_groups(self) -> None:
        """The logs of groups alone, so that the others go on."""
        draw = self.random.choice
        operation, error = draw(("write", "write", "sync", "create", "remove")), draw((errno.ENOSPC, errno.EIO))
        self.world.tell("  ", operation, errno.errorcode[error])
        self.world.is_faulty = True
        self.world.disk.fail(operation, error, path=GROUP_LOGS, skip=draw((0, 0, 1, 4)), after_bytes=draw((0, 100)))
