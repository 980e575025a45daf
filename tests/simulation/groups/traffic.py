"""Members that join groups, process and settle messages, fail and vanish; and the operators of groups."""

import errno
from collections.abc import Sequence
from typing import Any

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.offsets import ResetOffset, ResetOptions, ResetTarget
from goqueue.broker.groups.poll import PollOptions
from goqueue.broker.groups.retries import DEAD_LETTER_SUFFIX
from goqueue.broker.groups.settle_commands import SettleAction, SettleCommand
from goqueue.broker.groups.shards import GroupShards
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError, GroupNotEmpty, GroupNotFound
from tests.simulation.groups.checks import check_cursors, check_groups
from tests.simulation.groups.hands import Asked, Hand
from tests.simulation.groups.members import Client
from tests.simulation.groups.model import Groups, Key, Progress
from tests.simulation.groups.rest import come_to_rest
from tests.simulation.groups.transactions import Transactions
from tests.simulation.publishing.model import Model
from tests.simulation.publishing.traffic import NAMES, PublishingTraffic
from tests.simulation.traffic import Actions, Traffic
from tests.simulation.world import World

STYLES: dict[str, dict[str, Any]] = {
    "plain": {"protocol": "cooperative"},
    "confirming": {"protocol": "cooperative", "confirms": True},
    "eager": {"protocol": "eager"},
    "keyed": {"protocol": "cooperative", "order": "key", "delivery": {"max_retries": 2, "retry_delay": 0.5}},
}
CLIENTS = 4
VERBS: tuple[SettleAction, ...] = (*("ack",) * 4, *("nack",) * 4, "reject", "reject", "release", "extend")
TARGETS: tuple[ResetTarget, ...] = ("earliest", "latest", "offset", "time", "shift")
GROUP_LOGS = "*__consumer_offsets*"


class GroupTraffic(Traffic):
    """Two groups of clients that read the topics of the publishing traffic."""

    topics = frozenset(f"{name}{DEAD_LETTER_SUFFIX}" for name in NAMES)
    expected_codes = ("broker_stopping", "log_closed")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.groups = Groups()
        self.transactions = Transactions(self)
        names = self.random.sample(sorted(STYLES), 2)
        self.clients = [self._client(group, number) for group in names for number in range(CLIENTS)]
        self.drainers: dict[str, Client] = {}
        """The members that take what is left at the end, by group."""
        self.styles = STYLES

    def retries_of(self, group: str) -> int:
        """Return how often the messages of a group are retried: as its members say, or the broker."""
        named: int | None = STYLES[group].get("delivery", {}).get("max_retries")
        configured = self.world.group_settings.policy.retries_max
        assert configured is not None
        return configured if named is None else named

    def _client(self, group: str, number: int) -> Client:
        in_flight_max = self.random.choice((1, 5, 20, 1000))
        return Client(self, group, STYLES[group], f"c{number}", in_flight_max)

    def actions(self) -> Actions:
        return {
            self.join: 14,
            self.heartbeat: 12,
            self.poll: 40,
            self.settle: 40,
            self.settle_receipts: 6,
            self.commit_offsets: 3,
            self.transaction_ack: 20,
            self.ack_receipts_in_transaction: 3,
            self.commit_offsets_in_transaction: 4,
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
            self.rewrite_log: 3,
            self.refuse_groups: 2,
        }

    @property
    def publishing(self) -> PublishingTraffic:
        return next(one for one in self.world.traffic if isinstance(one, PublishingTraffic))

    @property
    def model(self) -> Model:
        return self.publishing.model

    @property
    def shards(self) -> GroupShards:
        return self.broker.groups

    # --- lives ---

    def begin(self) -> None:
        publishing, world = self.publishing, self.world
        for action in (publishing.create_topic, publishing.offer, world.commit, world.flush, self.join) * 2:
            action()
            world.pass_time()

    def recovered(self) -> None:
        self.groups.recovered(self._floor)
        self.transactions.recovered()
        self.see()
        check_groups(self)

    def _floor(self, key: Key) -> int:
        cursor = self.shards.cursor(key.group, key.place)
        return cursor.floor if cursor is not None else 0

    def before_step(self) -> None:
        self.clock.advance(self.random.choice((0.000_1, 0.002, 0.02)))

    def observe(self) -> None:
        self.see()

    def time_passed(self) -> None:
        if self.random.random() < 0.8:
            self.call_due()

    def check(self) -> None:
        check_groups(self)

    def died(self, *, may_lose_answers: bool) -> None:
        del may_lose_answers
        for client in (*self.clients, *self.drainers.values()):
            client.died()

    def rest(self) -> None:
        come_to_rest(self)

    def see(self) -> None:
        """Take note of places that groups have opened, and hold all of them against what must always be so."""
        for group in self.shards.groups():
            for place, cursor in self.shards.cursors(group.group).items():
                key = Key(group.group, *place, cursor.topic_ns)
                progress = self.groups.progress.get(key)
                if progress is None:
                    self.groups.progress[key] = self._progress(key, cursor.floor)
                elif progress.is_closed and key.group not in self.groups.is_unsure:
                    progress.is_closed = False
                    progress.begin = max(progress.begin, cursor.floor if key.group in self.groups.begin_late else 0)
        for key, progress in self.groups.progress.items():
            standing = self.shards.cursor(key.group, key.place)
            progress.is_closed |= standing is None or standing.topic_ns != key.created_ns
        check_cursors(self)

    def _progress(self, key: Key, floor: int) -> Progress:
        topic, known = self.broker.topics.get(key.topic), self.publishing.model.topics.get(key.topic)
        is_known = known is not None and topic is not None and topic.created_ns == key.created_ns
        owed = known.partitions[key.partition] if is_known and known is not None else None
        unsure = self.groups.resetting[key.group, key.topic]
        return Progress(owed, floor if key.group in self.groups.begin_late else 0, unsure=unsure)

    # --- members ---

    def _member(self) -> Client | None:
        members = [client for client in self.clients if client.member is not None]
        return self.random.choice(members) if members else None

    def _topics(self) -> list[str]:
        here = sorted(topic.name for topic in self.publishing.model.here() if topic.name in self.broker.topics)
        if self.random.random() < 0.1:
            here += [name for name in self.broker.topics if name.endswith(DEAD_LETTER_SUFFIX)]
        return here

    def join(self) -> None:
        outside = [client for client in self.clients if client.member is None]
        client = self.random.choice(outside if outside and self.random.random() < 0.8 else self.clients)
        topics = self._topics()
        if client.is_joining or not topics:
            return
        chosen = topics if self.random.random() < 0.7 else self.random.sample(topics, 1)
        group = self.shards.group(client.group)
        client.options = dict(STYLES[client.group])
        if group is None or not group.members:
            client.options["strategy"] = self.random.choice((None, "range", "round_robin", "sticky"))
            client.options["start"] = self.random.choice((None, None, None, "latest"))
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
            options = PollOptions(draw((1, 3, 10, 100)), draw((1, 3000, 1 << 20)), visibility_ns)
            client.poll(options, stale=self.random.random() < 0.1)

    def hang_up(self) -> None:
        if (client := self._member()) is not None:
            for poll in list(client.polls):
                poll.close()
            client.polls.clear()

    # --- what they say of messages ---

    def _hand(self) -> tuple[Client, Hand] | None:
        """Choose a lease that a client knows, mostly one that has not ended."""
        found = [(client, hand) for client in self.clients for hand in client.hands]
        alive = [one for one in found if self._is_alive(one[1])]
        if alive and self.random.random() < 0.8:
            return self.random.choice(alive)
        return self.random.choice(found) if found else None

    def _is_alive(self, hand: Hand) -> bool:
        cursor = self.shards.cursor(hand.key.group, hand.key.place)
        return cursor is not None and hand.grant.id in cursor.leases

    def settle(self) -> None:
        if (chosen := self._hand()) is None:
            return
        client, draw = chosen[0], self.random.choice
        others = [hand for hand in client.hands if hand is not chosen[1]]
        hands = [chosen[1], *self.random.sample(others, min(len(others), draw((0, 1, 4))))]
        client.settle([self._asked(hand, draw(VERBS), self._ranges(hand)) for hand in hands])
        client.hands = [hand for hand in client.hands if hand.left or self.random.random() < 0.8]

    def _ranges(self, hand: Hand) -> tuple[tuple[int, int], ...]:
        """Choose ranges of a lease: all of it, each message that is left, or just one."""
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

    def _asked(self, hand: Hand, verb: SettleAction, ranges: tuple[tuple[int, int], ...]) -> Asked:
        delay_ns = self.random.choice((None, 0, 0, NANOSECONDS, 40 * NANOSECONDS))
        timeout_ns = self.random.choice((NANOSECONDS, 60 * NANOSECONDS))
        statement = SettleCommand(
            verb, *hand.key.place, hand.grant.id, ranges, delay_ns, None, timeout_ns if verb == "extend" else 0
        )
        return Asked(statement, hand)

    def settle_receipts(self) -> None:
        asked = self._single(("ack", "ack", "nack", "reject"))
        if asked is not None:
            asked[0].settle_receipts(asked[1])

    def _single(self, verbs: Sequence[SettleAction]) -> tuple[Client, list[Asked]] | None:
        """Choose one or two messages of a lease, each by itself."""
        if (chosen := self._hand()) is None or not chosen[1].left:
            return None
        client, hand = chosen
        offsets = self.random.sample(sorted(hand.left), min(len(hand.left), 2))
        statement = self._asked(hand, self.random.choice(verbs), ()).statement
        delay_ns = statement.delay_ns
        asked = [
            Asked(
                SettleCommand(statement.action, *hand.key.place, hand.grant.id, ((offset, offset + 1),), delay_ns),
                hand,
            )
            for offset in offsets
        ]
        return client, asked

    def commit_offsets(self) -> None:
        """Commit offsets of owned and of revoked partitions, sometimes of a deleted topic."""
        client = self._member()
        if client is None:
            return
        places, offsets = [*client.places, *client.partitions_to_revoke], {}
        for key in self.groups.of(client.group):
            if key.place in places and (end := self._end(key)) is not None:
                cursor = self.shards.cursor(client.group, key.place)
                offsets[key] = self.random.randint(min(cursor.floor if cursor is not None else 0, end), end)
        client.commit(offsets)

    def _end(self, key: Key) -> int | None:
        """Up to where a place can be committed; None where another topic has its name now."""
        topic = self.broker.topics.get(key.topic)
        if topic is None:
            return 1
        return topic.partitions[key.partition].high_watermark if topic.created_ns == key.created_ns else None

    # --- what they say in transactions ---

    def transaction_ack(self) -> None:
        if (chosen := self._hand()) is None:
            return
        client = chosen[0]
        hands = self.random.sample(client.hands, min(len(client.hands), self.random.choice((1, 2, 5))))
        self.transactions.acks(client, [self._asked(hand, "ack", self._ranges(hand)) for hand in hands])
        client.hands = [hand for hand in client.hands if hand.left or self.random.random() < 0.8]

    def ack_receipts_in_transaction(self) -> None:
        asked = self._single(("ack",))
        if asked is not None:
            self.transactions.receipts(*asked)

    def commit_offsets_in_transaction(self) -> None:
        """As a member, or as a client who knows the group by its name alone."""
        client, draw = self.random.choice(self.clients), self.random.random
        is_member = client.member is not None and draw() < 0.7
        places = [*client.places, *client.partitions_to_revoke] if is_member else []
        if not is_member:
            places = [PartitionRef(one.topic, one.number) for _, one in self.broker.partitions() if one.topic in NAMES]
        offsets = {}
        for place in self.random.sample(places, min(len(places), 2)):
            topic = self.broker.topics.get(place[0])
            cursor = self.shards.cursor(client.group, place)
            is_there = topic is not None and place[1] < len(topic.partitions)
            end = topic.partitions[place[1]].high_watermark if topic is not None and is_there else 1
            offsets[place] = self.random.randint(min(cursor.floor if cursor is not None else 0, end), end)
        if offsets:
            self.transactions.offsets(client, offsets, is_member=is_member)

    def end_transaction(self) -> None:
        transactions = self.transactions
        if transactions.open:
            is_commit, failed = self.random.random() < 0.5, self.random.random() < 0.5
            transactions.end(self.random.choice(transactions.open), is_commit=is_commit, failed=failed)

    def redeem(self) -> None:
        self.transactions.redeem()

    # --- what operators do ---

    def reset(self) -> None:
        here = [topic for topic in self.publishing.model.here() if not topic.may_go]
        group = self.random.choice(self.clients).group
        if not here or self.random.random() < 0.5:
            return
        name, to = self.random.choice(here).name, self.random.choice(TARGETS)
        created_ns = self.broker.topics[name].created_ns
        value = {
            "offset": self.random.randrange(20),
            "time": self.clock.now_ns(),
            "shift": self.random.choice((-3, 2)),
        }
        self.groups.begin_late.add(group)
        self.groups.resetting[group, name] += 1
        for key, progress in self.groups.of(group).items():
            if (key.topic, key.created_ns) == (name, created_ns):
                progress.set_back()
                progress.unsure += 1

        def done(resets: list[ResetOffset]) -> None:
            self.tell("  ", group, name, "was reset", resets)
            self.groups.resetting[group, name] -= 1
            for key, progress in self.groups.of(group).items():
                if (key.topic, key.created_ns) == (name, created_ns):
                    progress.unsure = max(0, progress.unsure - 1)
                    progress.set_back()
                    progress.begin = max(progress.begin, *(reset.after for reset in resets))

        def refused(error: GoQueueError) -> None:
            self.tell("  ", "the reset was refused:", error)

        options = ResetOptions(name, to, value.get(to, 0))
        self.world.begin("reset", self.shards.of(group).offsets.reset(group, options), done, refused)

    def delete_group(self) -> None:
        group = self.random.choice(self.clients).group
        life = self.lives

        def told(error: GoQueueError | None) -> None:
            assert self.lives == life, "who asked one process is not told by another"
            if error is None:
                self.groups.is_unsure.discard(group)
                self.groups.forget(group)
            else:
                self.refused(f"the deletion of {group}", error)

        try:
            self.shards.of(group).membership.delete(group, told)
        except (GroupNotFound, GroupNotEmpty):
            return
        self.groups.is_unsure.add(group)
        self.groups.forget(group)

    # --- what the broker does by itself ---

    def call_due(self) -> None:
        for coordinator in self.shards:
            coordinator.deadlines.call_due(coordinator.clock.now_ns())

    def carry(self) -> None:
        for number, coordinator in enumerate(self.shards):
            if not coordinator.dead_letter_mover.is_idle:
                self.world.once(f"carry {number}", coordinator.dead_letter_mover.move_all)

    def rewrite_log(self) -> None:
        self.world.once("rewrite", self.shards.rewrite_logs)

    def refuse_groups(self) -> None:
        """Let only the logs of groups fail, so that everything else goes on."""
        draw = self.random.choice
        operation = draw(("write", "write", "sync", "create", "remove"))
        self.world.fail(operation, draw((errno.ENOSPC, errno.EIO)), GROUP_LOGS, times=1)
