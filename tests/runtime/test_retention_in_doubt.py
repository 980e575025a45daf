"""Retention after a clock jump: at most a share of a topic until an hour has passed."""

import asyncio
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.core.work import run_work
from goqueue.clock import NANOSECONDS
from goqueue.limits import CLOCK_JUMP_HOLD_SECONDS, CLOCK_JUMP_SECONDS, TRANSACTION_RETENTION_SECONDS
from goqueue.storage import frame
from goqueue.testing.disk import FaultyDisk
from tests.broker.brokers import SEGMENT_BYTES, Running, frames_of, messages
from tests.broker.delay.delaywork import Scene
from tests.runtime.test_upkeep_runner import upkeep_of
from tests.storage.stores import DATA

DAY = 24 * 3600.0
HOUR = 3600.0


def look(running: Running) -> None:
    """One round of upkeep."""
    asyncio.run(upkeep_of(running)._look_at_all())
    running.flush()


def stocked(segments: int = 20, partitions: int = 1, retention_hours: float = 168.0) -> Running:
    """A topic of so many segments, that keeps its messages for a week unless told otherwise."""
    running = Running()
    running.create(partitions=partitions, retention_hours=retention_hours)
    for number in range(segments):
        for one in range(partitions):
            told: list[object] = []
            running.partition(number=one).publish(bytearray(frames_of([b"%d" % number * 1800])), 1 << 20, told.append)
        running.flush()
    look(running)
    return running


def sizes(running: Running) -> int:
    return running.broker.topics["orders"].size


def test_clock_jump_removes_a_share_and_the_rest_an_hour_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    running = stocked(partitions=2)
    size = sizes(running)
    running.clock.jump(400 * DAY)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            look(running)
            running.clock.advance(600)
    assert 0.9 * size <= sizes(running) < size
    assert running.broker.retention.held_back() == ["orders"]
    assert "400d ahead" in caplog.text
    running.clock.advance(CLOCK_JUMP_HOLD_SECONDS)
    look(running)
    look(running)
    assert sizes(running) == 0


def test_corrected_clock_jump_removes_at_most_the_share() -> None:
    running = stocked()
    size = sizes(running)
    running.clock.jump(400 * DAY)
    look(running)
    running.clock.jump(-400 * DAY)
    running.clock.advance(2 * CLOCK_JUMP_HOLD_SECONDS)
    look(running)
    assert sizes(running) >= 0.9 * size


def test_messages_expired_before_the_jump_are_removed() -> None:
    running = stocked(retention_hours=1.0)
    running.clock.advance(2 * HOUR)
    running.clock.jump(DAY)
    look(running)
    look(running)
    assert sizes(running) == 0


def test_size_retention_is_independent_of_the_clock() -> None:
    running = stocked()
    running.clock.jump(DAY)
    topic = running.broker.topics["orders"]
    topic.adopt(TopicSettings(retention_bytes=9000))
    look(running)
    assert sizes(running) < 9000 + SEGMENT_BYTES


@pytest.mark.parametrize("was_clean", [True, False])
def test_long_downtime_counts_as_a_jump(was_clean: bool) -> None:
    running = stocked()
    size, disk, clock = sizes(running), running.disk, running.clock
    if was_clean:
        running.broker.close()
        running.store.close()
    clock.advance(30 * DAY)
    again = Running(disk.crash("everything"), clock)
    for _ in range(3):
        look(again)
    assert 0.9 * size <= sizes(again) < size
    clock.advance(CLOCK_JUMP_HOLD_SECONDS)
    look(again)
    look(again)
    assert sizes(again) == 0


def test_short_downtime_is_believed() -> None:
    running = stocked()
    running.clock.advance(30 * DAY)
    after = running.restart()
    assert after.broker.retention.ahead_ns == 0


def test_restart_within_the_hour_removes_no_second_share() -> None:
    running = stocked()
    size = sizes(running)
    running.clock.jump(400 * DAY)
    look(running)
    for _ in range(4):
        running.publish(frames_of([b"in the future"]))
        running = running.crash("everything")
        running.clock.advance(60)
        look(running)
    assert sizes(running) >= 0.9 * size
    assert f"{DATA}/clock" in running.disk.paths()
    running.clock.advance(CLOCK_JUMP_HOLD_SECONDS)
    look(running)
    assert messages(running.partition())[0].value == b"in the future"
    assert f"{DATA}/clock" not in running.disk.paths()


def test_garbage_clock_checkpoint_is_ignored() -> None:
    running = stocked()
    disk: FaultyDisk = running.disk.crash("everything")
    disk.write_file(f"{DATA}/clock", b"garbage")
    assert Running(disk, running.clock).broker.retention.ahead_ns == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("jump"), st.floats(CLOCK_JUMP_SECONDS + 1, 400 * DAY)),
        st.tuples(st.just("jump"), st.floats(-400 * DAY, -1)),
        st.tuples(st.just("pass"), st.floats(1, 400)),
        st.tuples(st.sampled_from(["look", "crash", "restart"]), st.just(0.0)),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=20, deadline=None)
@given(steps=STEPS)
def test_random_clock_jumps_remove_at_most_the_share(steps: list[tuple[str, float]]) -> None:
    running = stocked(segments=12)
    size = sizes(running)
    for step, seconds in steps:
        if step == "jump":
            running.clock.jump(seconds)
        elif step == "pass":
            running.clock.advance(seconds)
        elif step != "look":
            running = running.crash() if step == "crash" else running.restart()
        look(running)
    assert sizes(running) >= 0.9 * size


def test_tombstone_outlives_a_jump_until_the_hour_is_over() -> None:
    running = Running()
    running.create(cleanup="compact")
    running.publish(frame.encode(b"", b"gone", flags=frame.TOMBSTONE))

    def compact_again() -> bool:
        for key in (b"a", b"b", b"c"):
            running.publish(frames_of([b"x" * 1800], key=key))
        look(running)
        return any(message.is_tombstone for message in messages(running.partition()))

    assert compact_again()
    running.clock.jump(30 * DAY)
    assert compact_again()
    running.clock.advance(CLOCK_JUMP_HOLD_SECONDS)
    assert not compact_again()


def test_clock_jump_does_not_expire_delayed_messages() -> None:
    scene = Scene(delay_expiry_seconds=60.0)
    scene.schedule((b"a", 10))
    scene.running.clock.jump(30 * DAY)
    scene.deliver(1)
    assert scene.delivered == [b"a"]


def test_clock_jump_at_start_does_not_remove_transactional_ids() -> None:
    running = Running()
    coordinator = running.broker.transactions.of("app")
    run_work(coordinator.init("app", 60 * NANOSECONDS), running.flush)
    running.clock.jump(TRANSACTION_RETENTION_SECONDS + DAY)
    again = running.crash()
    look(again)
    assert set(again.broker.transactions.by_producer.values()) == {"app"}
    again.clock.advance(CLOCK_JUMP_HOLD_SECONDS)
    look(again)
    assert set(again.broker.transactions.by_producer.values()) == set()
