"""Every log of a broker that has lived a random life is cut back anywhere, and is then one that never had more.

A leader with another history may ask any log for it. What follows from the log, live and in caches beside it, is
compared with what a log says that has the same messages and no caches.
"""

from typing import Any

import pytest

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.truncation import truncate_partition
from goqueue.broker.core.work import run_work
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.broker.delay.schedule import ScheduledMessage
from goqueue.broker.delay.scheduler import DelayScheduler
from goqueue.storage import frame
from goqueue.storage.compaction_progress import lower_progress
from goqueue.storage.store import Store
from goqueue.testing.disk import FaultyDisk
from tests.broker.cuts import derived, find_unfinished, frames_of, segments_below, with_segments
from tests.simulation.lives import MIXES
from tests.simulation.world import World
from tests.storage.stores import open_store

SEED = 5_000


class Shorter:
    """A disk with one log of a world as far as an offset, and without its caches."""

    def __init__(self, world: World, partition: Partition, end: int) -> None:
        log = partition.log
        disk = FaultyDisk()
        open_store(disk, world.clock).create(log.name)
        self.disk = with_segments(disk, log.directory, segments_below(partition, end))
        progress = f"{log.directory}/compacted"  # which is no cache: what it says of gaps is nowhere else
        if world.disk.kind(progress) == "file":
            self.disk.open(progress, "create").write(0, [world.disk.read_file(progress)])
            lower_progress(self.disk, log.directory, end)
        self.store = open_store(self.disk, world.clock)
        self.partition = Partition(
            partition.topic, partition.number, self.store.logs[log.name], is_delayed=partition.is_delayed
        )


def logs_of(world: World) -> list[Partition]:
    """Return all logs of a world, delayed ones included, that take appends and are at rest."""
    found = [partition for _, partition in world.broker.partitions()]
    found += [delivery.delays.delayed_log for delivery in world.broker.delay_scheduler.deliveries()]
    return [one for one in found if one.log.obstacle is None and one.log.job is None and one.log.is_settled]


def records_of(journal: Journal[Any]) -> list[bytes]:
    return sorted(journal._encode(record) for record in journal.durable.records())


def batches_of(producers: list[tuple[int, list[list[Any]]]]) -> set[tuple[Any, ...]]:
    return {(producer, *batch) for producer, batches in producers for batch in batches}


def pending_in(delays: DelayedMessages, store: Store) -> list[ScheduledMessage]:
    """Return what is still to be delivered; a cleanup removes the rest."""
    run_work(delays.catch_up_fully(), store.flush)
    first, end = delays.delayed_log.earliest, delays.delayed_log.log_end
    found = (delays.schedule.find(offset) for offset in range(first, end))
    return [one for one in found if one is not None and one.is_pending]


def cut(world: World, partition: Partition, end: int) -> None:
    """Cut a log back, and compare it with one that never had more."""
    twin = Shorter(world, partition, end)
    run_work(truncate_partition(partition, world.disk, end))
    find_unfinished(twin.partition, twin.disk)
    found, expected = derived(partition, world.disk), derived(twin.partition, twin.disk)
    # A live partition also knows batches that retention or compaction has removed.
    known, left = (batches_of(each.pop("producers")) for each in (found, expected))
    torn = {offset for *_, offset, _, is_torn in known if is_torn}  # which the log alone does not show
    assert {batch for batch in left if batch[4] not in torn} <= known, partition
    assert all(offset < end for _, _, _, _, offset, *_ in known - left), partition
    assert found == expected, partition
    for state in partition.derived:
        if isinstance(state, Journal):
            machine = type(state._machine)()
            journal: Journal[Any] = Journal(twin.partition, twin.disk, machine, state._encode, state._decode)
            journal.open()
            assert records_of(state) == records_of(journal), partition
        if isinstance(state, DelayedMessages) and state.partition.log.obstacle is None:
            delivery = DelayScheduler(world.clock).open(
                state.partition, twin.store.logs[partition.log.name], twin.disk, lambda: None
            )
            assert pending_in(state, world.store) == pending_in(delivery.delays, twin.store), partition


@pytest.mark.parametrize("mix", MIXES)
def test_every_log_of_a_life_is_after_a_cut_what_a_shorter_one_is(mix: str, request: pytest.FixtureRequest) -> None:
    for seed in range(SEED, SEED + max(1, request.config.getoption("--seeds") // 6)):
        world = World(seed, MIXES[mix])
        world.live_on()
        for partition in logs_of(world):
            frames = frames_of(partition.read_uncommitted, partition.earliest)
            # Behind a message: of offsets without one before the end, a log without caches does not know.
            end = world.random.choice([partition.earliest, *(frame.offset_at(one) + 1 for one in frames)])
            world.tell("cut", partition, "at", end)
            with world.with_story():
                cut(world, partition, end)
