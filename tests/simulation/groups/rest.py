"""The end of a life: on a disk that is sound again one patient member of each group drains everything."""

from typing import TYPE_CHECKING

from goqueue.broker.core.work import run_work
from goqueue.broker.groups.lag import GroupLag
from goqueue.broker.groups.poll import PollOptions
from goqueue.broker.groups.retries import DEAD_LETTER_SUFFIX
from goqueue.broker.groups.settle_commands import SettleCommand
from goqueue.clock import NANOSECONDS
from tests.simulation.groups.checks import check_groups, dead_letters, is_there
from tests.simulation.groups.hands import Asked
from tests.simulation.groups.members import Client
from tests.simulation.publishing.checks import check, is_readable

if TYPE_CHECKING:
    from tests.simulation.groups.traffic import GroupTraffic

ROUNDS = 40
_OPTIONS = PollOptions(1000, 1 << 20, 30 * NANOSECONDS)


def come_to_rest(world: "GroupTraffic") -> None:
    """Let one patient member of each group drain everything: each message was delivered or is done."""
    for client in world.clients:
        client.vanish()
    names = [group.group for group in world.shards.groups()]
    world.drainers = {name: Client(world, name, world.styles[name], "drainer", 1000) for name in names}
    drainers = world.drainers.values()
    settle(world)
    for client in drainers:
        _idle(world, client)
    world.world.crash()
    for number in range(ROUNDS):
        world.world.tick += 1
        world.clock.advance(71 if number < ROUNDS / 2 else 1700)  # the wall clock may have been set back by hours
        settle(world)
        for client in drainers:
            _drain(world, client)
        if not any(_left(world, name) for name in names):
            break
    else:
        raise AssertionError(f"no message is stuck: {[lag for name in names for lag in _left(world, name)]}")
    check(world.broker, world.model)
    check_groups(world)
    _check_seen(world)
    for client in drainers:
        client.vanish()


def settle(world: "GroupTraffic") -> None:
    """Let the broker do all that it has to do by now."""
    for _ in range(3):
        world.transactions.redeem()
        world.call_due()
        _flush(world)
        world.clock.advance(0.03)
        for coordinator in world.shards:
            run_work(coordinator.dead_letter_mover.move_all(), lambda: _flush(world))
    run_work(world.shards.rewrite_logs(), lambda: _flush(world))
    world.see()


def _flush(world: "GroupTraffic") -> None:
    world.world.commit()
    world.store.flush()


def _join(world: "GroupTraffic", client: Client) -> None:
    topics = {place[0] for place in world.shards.cursors(client.group)} & world.broker.topics.keys()
    if client.member is None and not client.is_joining and topics:
        client.join(sorted(topics), 1800)
        settle(world)
    client.heartbeat()


def _poll(world: "GroupTraffic", client: Client) -> None:
    world.world.tick += 1
    client.poll(_OPTIONS)
    for poll in list(client.polls):
        while not poll.is_over:
            if not poll.is_ready:
                _flush(world)
            poll.step()


def _idle(world: "GroupTraffic", client: Client) -> None:
    """Take something, and do nothing about it."""
    _join(world, client)
    if client.member is not None:
        _poll(world, client)
        client.hands.clear()


def _drain(world: "GroupTraffic", client: Client) -> None:
    """All that is there for it now."""
    _join(world, client)
    while client.member is not None:
        _poll(world, client)
        if not client.hands:
            return
        client.settle(
            [Asked(SettleCommand("ack", *hand.key.place, hand.grant.id, (hand.whole,)), hand) for hand in client.hands]
        )
        client.hands.clear()
        _flush(world)
        world.see()


def _left(world: "GroupTraffic", name: str) -> list[tuple[str, GroupLag]]:
    """Where a group has not done all that there is."""
    lags = run_work(world.shards.of(name).lags.of_group(name), lambda: _flush(world))
    done = (0, 0, 0, 0, 0)
    return [
        (name, lag)
        for lag in lags
        if (lag.messages, lag.in_flight, lag.waiting, lag.moving, lag.transactional) != done or lag.floor != lag.end
    ]


def _check_seen(world: "GroupTraffic") -> None:
    copies = dead_letters(world)
    for key, progress in world.groups.progress.items():
        topic = world.broker.topics.get(key.topic)
        if progress.owed is None or topic is None or topic.created_ns != key.created_ns:
            continue
        cursor = world.shards.cursor(key.group, key.place)
        if cursor is None or cursor.topic_ns != key.created_ns:  # a client that opened it was refused
            continue
        partition = topic.partitions[key.partition]
        assert is_readable(partition, is_faulty=False)
        assert not key.topic.endswith(DEAD_LETTER_SUFFIX)
        for offset, content in progress.owed.history.items():
            found = copies[key.group, content]
            if offset < progress.begin or not is_there(partition, offset):
                continue
            assert found or offset not in progress.again - progress.maybe, (
                f"what was part of an aborted transaction comes again: {key} offset {offset}"
            )
            if offset in progress.dead:
                assert found, f"in the source or in the dead letters: {key} offset {offset}"
            assert found or offset in progress.handed or offset in progress.maybe, (
                f"everything is handed out: {key} offset {offset}"
            )
